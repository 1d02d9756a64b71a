"""DANN, domain-adversarial training: features from which the source domain cannot be told.

Ganin et al. 2016, arXiv:1505.07818; the form with alternating updates is that of Gulrajani & Lopez-Paz 2021,
arXiv:2007.01434.
"""

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor, nn

from parse_dg.algorithms.adversarial import Adversarial, AdversarialConfig
from parse_dg.algorithms.base import BuildContext


@dataclass(frozen=True, kw_only=True)
class DannConfig(AdversarialConfig):
    """Settings of DANN."""

    name = "dann"
    summary = "features from which a discriminator cannot tell the source domain"
    reference = "Ganin et al. 2016, arXiv:1505.07818"

    def build(self, context: BuildContext) -> "Dann":
        return Dann(self, context)


class Dann(Adversarial):
    """The discriminator sees the features; every image counts the same."""

    def judged(self, features: Float[Tensor, "B D"], labels: Int[Tensor, "B"]) -> Float[Tensor, "B D"]:
        return features

    def averaged(self, each: Float[Tensor, "B"], labels: Int[Tensor, "B"]) -> Float[Tensor, ""]:
        return each.mean()

    def adversary(self) -> tuple[nn.Parameter, ...]:
        return tuple(self.discriminator.parameters())
