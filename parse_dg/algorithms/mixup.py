"""Mixup between domains: images of two domains, one laid over the other, with the labels of both.

Zhang et al. 2018, arXiv:1710.09412, and between domains Yan et al. 2020, arXiv:2001.00677; the pairing is that of
Gulrajani & Lopez-Paz 2021, arXiv:2007.01434.

Letters: S source domains.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from parse_dg.algorithms.base import LossTerms, Minibatch
from parse_dg.algorithms.pooled import Pooled
from parse_dg.config import Config, Fraction, Positive
from parse_dg.model.backbones.backbone import Backbone
from parse_dg.model.backbones.mixstyle import draw_beta


@dataclass(frozen=True, kw_only=True)
class MixupConfig(Config):
    """Settings of Mixup."""

    name: ClassVar[str] = "mixup"
    alpha: Positive = 0.2
    """λ ~ Beta(alpha, alpha), one a pair of domains; a small alpha keeps λ near 0 or 1."""
    dropout: Fraction = 0.0
    """Dropout after pooling."""


class Pairing(NamedTuple):
    """Which domains are mixed in a step, and how much: on the CPU."""

    order: Int[Tensor, "S"]
    """The domains in a circle: each is mixed with the next."""
    share: Float[Tensor, "S"]
    """λ: the share of the first domain of each pair."""


class Mixup(Pooled):
    """The mean over pairs of domains of λ·CE(label of the one) + (1 - λ)·CE(label of the other).

    All pairs go through the network together: with frozen BatchNorm statistics that is the same as one pass for
    each.
    """

    summary = "images of two domains mixed, with the labels of both"
    reference = "Zhang et al. 2018, arXiv:1710.09412; Yan et al. 2020, arXiv:2001.00677"

    def __init__(
        self,
        backbone: Backbone,
        classes: int,
        config: MixupConfig,
        *,
        domains: int,
        label_smoothing: float = 0.0,
        generator: torch.Generator | None = None,
    ):
        super().__init__(
            backbone, classes, dropout=config.dropout, label_smoothing=label_smoothing, generator=generator
        )
        self.config, self.domains = config, domains

    def draw(self, generator: torch.Generator) -> Pairing:
        """A circle of the domains, then λ of each pair."""
        order = torch.randperm(self.domains, generator=generator)
        return Pairing(order, draw_beta(self.config.alpha, self.domains, generator))

    def losses(self, example: Minibatch, generator: torch.Generator) -> LossTerms:
        drawn = self.draw(generator)
        parts = example.by_domain(self.domains)
        order: list[int] = drawn.order.tolist()
        shares: list[float] = drawn.share.tolist()
        pairs = [(parts[i], parts[j]) for i, j in zip(order, order[1:] + order[:1], strict=True)]
        images = [
            share * one.images + (1 - share) * other.images
            for share, (one, other) in zip(shares, pairs, strict=True)
        ]
        logits: Tensor = self.classifier(self.features(torch.cat(images), generator))
        each = [
            share * self.cross_entropy(mixed, one.labels) + (1 - share) * self.cross_entropy(mixed, other.labels)
            for share, mixed, (one, other) in zip(shares, logits.chunk(self.domains), pairs, strict=True)
        ]
        return {"cross_entropy": torch.stack(each).mean()}
