"""The network of every baseline: backbone, global average pooling, dropout, a linear layer."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from parse_dg.algorithms.base import (
    Algorithm,
    AlgorithmConfig,
    BuildContext,
    LogitParts,
    LossTerms,
    Minibatch,
    linear,
)
from parse_dg.config import Fraction


@dataclass(frozen=True, kw_only=True)
class PooledConfig(AlgorithmConfig):
    """The settings that all baselines share."""

    dropout: Fraction = 0.0
    """Dropout after pooling."""


class Pooled(Algorithm):
    """Backbone → mean over the map → linear, trained by cross-entropy unless a method says otherwise.

    Methods that compare domains send all of them through the network together: with frozen BatchNorm statistics
    that is the same as one pass for each, as in the published code.
    """

    config: PooledConfig

    def __init__(self, config: PooledConfig, context: BuildContext):
        super().__init__(config, context)
        self.backbone = context.backbone
        self.classifier = linear(context.backbone.channels, context.classes, context.generator)

    def forward(self, images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B C"]:
        logits: Tensor = self.classifier(self.backbone(images).mean((2, 3)))
        return logits

    def logit_parts(self, images: Float[Tensor, "B 3 H W"]) -> LogitParts | None:
        """Class activation maps (Zhou et al. 2016, arXiv:1512.04150). The mean and the linear layer can change
        places, so they are exact; a method with a `forward` of its own has none.
        """
        if type(self).forward is not Pooled.forward:
            return None
        features = self.backbone(images)
        maps = torch.einsum("bdhw,cd->bchw", features, self.classifier.weight)
        logits: Tensor = self.classifier(features.mean((2, 3)))
        return LogitParts(logits, maps / maps[0, 0].numel(), self.classifier.bias)

    def losses(self, example: Minibatch, generator: torch.Generator) -> LossTerms:
        logits = self.classifier(self.features(example.images, generator))
        return {"cross_entropy": self.cross_entropy(logits, example.labels)}

    def features(self, images: Float[Tensor, "B 3 H W"], generator: torch.Generator) -> Float[Tensor, "B D"]:
        """Pooled features in training: style mixing and dropout draw from `generator`."""
        features: Tensor = self.backbone(images, generator).mean((2, 3))
        return drop(features, self.config.dropout, generator)


class Counted(Pooled):
    """Counts its steps: whose turn it is follows from their number, also once weights were loaded."""

    update_count: Tensor

    def __init__(self, config: PooledConfig, context: BuildContext):
        super().__init__(config, context)
        self.register_buffer("update_count", torch.zeros(1, dtype=torch.long))
        self.count = 0  # the buffer's value, known without waiting for the device
        self.register_load_state_dict_post_hook(_recount)  # type: ignore[no-untyped-call]

    def count_step(self) -> int:
        """The number of this step, from 1."""
        self.count += 1
        self.update_count += 1
        return self.count


def _recount(module: nn.Module, _: Any) -> None:
    assert isinstance(module, Counted)
    module.count = int(module.update_count)


def drop(values: Float[Tensor, "B D"], share: float, generator: torch.Generator) -> Float[Tensor, "B D"]:
    """Dropout by draws from a generator on the CPU; none are made where nothing is dropped."""
    if not share:
        return values
    keep = torch.rand(values.shape, generator=generator) >= share
    return values * keep.to(values.device) / (1 - share)
