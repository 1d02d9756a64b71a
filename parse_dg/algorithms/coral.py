"""CORAL, correlation alignment: features whose mean and covariance are the same in every source domain.

Sun & Saenko 2016; the means are aligned too and the norms are means over entries, as in Gulrajani & Lopez-Paz 2021,
arXiv:2007.01434.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from parse_dg.algorithms.base import LossTerms, Minibatch, widened
from parse_dg.algorithms.pooled import Pooled, PooledConfig
from parse_dg.config import NotNegative
from parse_dg.errors import InputError


class Coral(Pooled):
    """Cross-entropy on everything (domains are of one size), and the distance of the domains."""

    config: "CoralConfig"

    def losses(self, example: Minibatch, generator: torch.Generator) -> LossTerms:
        features = self.features(example.images, generator)
        terms = {"cross_entropy": self.cross_entropy(self.classifier(features), example.labels)}
        if self.config.gamma and self.domains > 1:
            of_domains = features.reshape(self.domains, -1, features.shape[1])
            terms["alignment"] = self.config.gamma * distance(of_domains)
        return terms


@dataclass(frozen=True, kw_only=True)
class CoralConfig(PooledConfig):
    """Settings of CORAL."""

    name = "coral"
    method = Coral
    summary = "features of the same mean and covariance in every source domain"
    reference = "Sun & Saenko 2016, arXiv:1607.01719"
    needs_domains = True
    compares_domains = True
    gamma: NotNegative = 1.0
    """γ, on the distance of the domains."""


def distance(features: Float[Tensor, "S N D"]) -> Float[Tensor, ""]:
    """The mean over pairs of domains of mean (μ_i - μ_j)² + mean (C_i - C_j)², in float32 at least.

    The mean square difference of pairs is twice the unbiased variance, so that no pair needs to be formed.
    """
    if features.shape[1] < 2:
        raise InputError("coral needs 2 images of each domain or more, found training.batch_per_domain=1")
    wide = widened(features)
    mean = wide.mean(1, keepdim=True)  # (S, 1, D)
    centred = wide - mean
    with torch.autocast(features.device.type, enabled=False):
        covariance = centred.mT @ centred / (features.shape[1] - 1)  # (S, D, D)
    return 2 * (mean.var(0).mean() + covariance.var(0).mean())
