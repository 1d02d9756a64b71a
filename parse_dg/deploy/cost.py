"""What a model costs: its parameters, and its operations on one image, both as the paper's tables count them.

The tables of section 4 and appendix C do not say what they count; the reading here gives their figures
(docs/paper_map.md).
"""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.utils.flop_counter import FlopCounterMode

from parse_dg.deploy.model_file import Model
from parse_dg.model.network import ParseNetwork

NORMALISATIONS = (_NormBase, nn.LayerNorm, nn.GroupNorm)


@dataclass(frozen=True, kw_only=True)
class ModelCost:
    """Operations on one image of the model's size."""

    features: int
    """Backbone and projection: one for every multiply-add of a convolution or matrix product, two for every
    value that a normalisation puts out. Pooling, activations and sums of branches are free."""
    structure: int
    """2·C·M, the dense product of Λ with the activations as the paper writes it; predicates and sparsemax are free.
    (This library evaluates what some class uses and no more: a full model is as fast as a compact one.)"""

    @property
    def gflops(self) -> float:
        """All of them, in thousands of millions."""
        return (self.features + self.structure) / 1e9


def cost(model: Model) -> ModelCost:
    """The cost of a model of PARSE, full or compact."""
    network = model.parse_network()
    return ModelCost(
        features=feature_operations(network, model.spec.image_size),
        structure=2 * network.structure.composition.weight.numel(),
    )


@torch.no_grad()
def feature_operations(network: ParseNetwork, image_size: int) -> int:
    """Operations from the image to the K heat maps, counted on one black image."""
    normalised: list[int] = []
    layers = [module for module in network.backbone.modules() if isinstance(module, NORMALISATIONS)]
    hooks = [layer.register_forward_hook(lambda *given: normalised.append(given[2].numel())) for layer in layers]
    image = torch.zeros(1, 3, image_size, image_size, device=network.structure.composition.weight.device)
    training = network.training
    network.eval()  # a black image must not enter the statistics of batch normalisation
    try:
        with FlopCounterMode(display=False) as counter:
            network.bottleneck.projection(network.backbone(image))
    finally:
        network.train(training)
        for hook in hooks:
            hook.remove()
    multiply_adds = int(counter.get_total_flops()) // 2
    return multiply_adds + 2 * sum(normalised)


def count_parameters(model: Model) -> int:
    """Every number that was learnt: the parameters, and the running statistics of batch normalisation."""
    return sum(value.numel() for value in model.algorithm.state_dict().values() if value.is_floating_point())
