"""Mixup between domains: images of two domains, one laid over the other, with the labels of both.

Zhang et al. 2018 and, between domains, Yan et al. 2020; the pairing is that of Gulrajani & Lopez-Paz 2021,
arXiv:2007.01434.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from parse_dg.algorithms.base import LossTerms, Minibatch
from parse_dg.algorithms.pooled import Pooled, PooledConfig
from parse_dg.config import Positive
from parse_dg.model.backbones.mixstyle import draw_beta


class Mixup(Pooled):
    """The mean over pairs of domains of λ·CE(label of the one) + (1 - λ)·CE(label of the other)."""

    config: "MixupConfig"

    def draw(self, generator: torch.Generator) -> tuple[Int[Tensor, "S"], Float[Tensor, "S"]]:
        """The domains in a circle, each to be mixed with the next, then λ: the share of the first of each pair."""
        order = torch.randperm(self.domains, generator=generator)
        return order, draw_beta(self.config.alpha, self.domains, generator)

    def losses(self, example: Minibatch, generator: torch.Generator) -> LossTerms:
        order, shares = (drawn.tolist() for drawn in self.draw(generator))
        parts = example.by_domain(self.domains)
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


@dataclass(frozen=True, kw_only=True)
class MixupConfig(PooledConfig):
    """Settings of Mixup."""

    name = "mixup"
    method = Mixup
    summary = "images of two domains mixed, with the labels of both"
    reference = "Zhang et al. 2018, arXiv:1710.09412; Yan et al. 2020, arXiv:2001.00677"
    needs_domains = True
    compares_domains = True
    alpha: Positive = 0.2
    """λ ~ Beta(alpha, alpha), one a pair of domains; a small alpha keeps λ near 0 or 1."""
