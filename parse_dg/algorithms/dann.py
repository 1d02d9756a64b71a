"""DANN, domain-adversarial training: features from which the source domain cannot be told.

A discriminator guesses the source domain, and the network learns to mislead it; the two take turns step by step.
The discriminator minimises its loss L_D; backbone and classifier minimise the cross-entropy of the classes minus
λ·L_D (Ganin et al. 2016, arXiv:1505.07818, played as alternating updates of two Adams instead of one with reversed
gradients: Gulrajani & Lopez-Paz 2021, arXiv:2007.01434).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from parse_dg.algorithms.base import BuildContext, Group, GroupSettings, LossTerms, Minibatch, Turn, Width, linear
from parse_dg.algorithms.pooled import Counted, PooledConfig, drop
from parse_dg.config import Count, Fraction, NotNegative, at_least, at_most


class Dann(Counted):
    """The network of the baselines, and a discriminator that plays against it."""

    config: "DannConfig"
    apart: ClassVar[tuple[tuple[Group, str], ...]] = (("adversary", "discriminator."),)

    def __init__(self, config: "DannConfig", context: BuildContext):
        super().__init__(config, context)
        sizes = [context.backbone.channels, *[config.width] * (config.depth - 1), context.domains]
        layers: list[nn.Module] = []
        for size, following in pairwise(sizes):
            layers += [linear(size, following, context.generator), nn.ReLU()]
        self.discriminator = nn.Sequential(*layers[:-1])

    def judged(self, features: Float[Tensor, "B D"], labels: Int[Tensor, "B"]) -> Float[Tensor, "B D"]:
        """What the discriminator sees of the features of images of these classes."""
        return features

    def averaged(self, each: Float[Tensor, "B"], labels: Int[Tensor, "B"]) -> Float[Tensor, ""]:
        """The discriminator's loss on a batch, of its cross-entropy on each image."""
        return each.mean()

    def losses(self, example: Minibatch, generator: torch.Generator) -> LossTerms:
        """What backbone and classifier minimise when it is their turn."""
        features = self.features(example.images, generator)
        cross_entropy = self.cross_entropy(self.classifier(features), example.labels)
        deceived = torch.stack(list(self.discrimination(features, example, generator).values())).sum()
        return {"cross_entropy": cross_entropy, "adversary": -self.config.weight * deceived}

    def discrimination(
        self, features: Float[Tensor, "B D"], example: Minibatch, generator: torch.Generator
    ) -> LossTerms:
        """L_D: what the discriminator minimises, and what the features are to make large; in float32 at least, as
        its gradient may be differentiated once more.
        """
        with torch.autocast(features.device.type, enabled=False):
            wide = features.to(torch.promote_types(features.dtype, torch.float32))
            guess = seen = self.judged(wide, example.labels)
            for layer in self.discriminator:
                guess = layer(guess)
                if isinstance(layer, nn.ReLU):
                    guess = drop(guess, self.config.discriminator_dropout, generator)
            each = F.cross_entropy(guess, example.domains, reduction="none")
            terms = {"discriminator": self.averaged(each, example.labels)}
            if self.config.gradient_penalty:
                (gradient,) = torch.autograd.grad(each.sum(), seen, create_graph=True)
                terms["gradient_penalty"] = self.config.gradient_penalty * gradient.square().sum(1).mean()
        return terms

    def turns(self, example: Minibatch, generator: torch.Generator) -> Iterator[Turn]:
        """One turn a step: the discriminator's or the network's.

        Steps are counted from 1; with one step of the discriminator for each of the network, the network begins.
        """
        steps = self.config.discriminator_steps
        if self.count_step() % (1 + steps) < steps:
            features = self.features(example.images, generator).detach()  # the backbone waits
            features.requires_grad_(self.config.gradient_penalty > 0)
            yield Turn(self.discrimination(features, example, generator), ("adversary",))
        else:
            yield Turn(self.losses(example, generator), ("backbone", "head"))

    def settings(self) -> dict[Group, GroupSettings]:
        betas = (self.config.beta1, 0.9)
        theirs = GroupSettings(self.config.discriminator_rate, betas, self.config.discriminator_decay)
        return {"backbone": GroupSettings(betas=betas), "head": GroupSettings(betas=betas), "adversary": theirs}


@dataclass(frozen=True, kw_only=True)
class DannConfig(PooledConfig):
    """Settings of DANN."""

    name = "dann"
    method: ClassVar[type[Counted]] = Dann
    needs_domains = True
    summary = "features from which a discriminator cannot tell the source domain"
    reference = "Ganin et al. 2016, arXiv:1505.07818"
    weight: NotNegative = 1.0
    """λ: how much misleading the discriminator counts beside the classes. 1 often ends in features that say nothing
    of the classes; 0.1 is milder."""
    discriminator_steps: Count = 1
    """Steps of the discriminator for each step of the network; the batches are shared out between them."""
    gradient_penalty: NotNegative = 0.0
    """On the squared gradient of the discriminator's summed cross-entropy by its input, the mean over images."""
    beta1: Fraction = 0.5
    """Adam's first β, of all parameters; the second is 0.9."""
    width: Width = 256
    """Of the discriminator's hidden layers."""
    depth: Annotated[int, at_least(2), at_most(64)] = 3
    """The discriminator's linear layers, the last included; ReLU between them."""
    discriminator_dropout: Fraction = 0.0
    """Dropout after each of these layers but the last, whoever's turn it is."""
    discriminator_rate: NotNegative = 1.0
    """The discriminator's learning rate, times that of the head."""
    discriminator_decay: NotNegative = 0.0
    """Its weight decay, instead of the run's."""

    def least_parameters(self, classes: int) -> Mapping[str, int]:
        return {"width": self.width**2 * (self.depth - 2)}
