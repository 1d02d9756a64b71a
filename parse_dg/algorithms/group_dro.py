"""GroupDRO, distributionally robust optimisation over groups: the domain with the highest loss counts most.

Sagawa et al. 2020, arXiv:1911.08731; the form without a regulariser of its own is that of Gulrajani & Lopez-Paz
2021, arXiv:2007.01434.

Letters: S source domains.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from parse_dg.algorithms.base import BuildContext, LossTerms, Minibatch, Turn
from parse_dg.algorithms.pooled import Pooled, PooledConfig
from parse_dg.config import NotNegative


@dataclass(frozen=True, kw_only=True)
class GroupDroConfig(PooledConfig):
    """Settings of GroupDRO."""

    name = "group_dro"
    summary = "cross-entropy in which the domain that does worst counts most"
    reference = "Sagawa et al. 2020, arXiv:1911.08731"
    needs_domains = True
    compares_domains = True
    eta: NotNegative = 0.01
    """η: how fast the weight of a domain grows with its loss."""
    divide: bool = False
    """Whether the loss is divided by the number of domains once more, as the first published code did. Adam hardly
    notices; weight decay weighs more."""

    def build(self, context: BuildContext) -> "GroupDro":
        return GroupDro(self, context)


class GroupDro(Pooled):
    """Σ q_s · cross-entropy of domain s, with q_s ← q_s · exp(η · cross-entropy of s) / Σ at every step.

    All domains go through the network together: with frozen BatchNorm statistics that is the same as one pass for
    each.
    """

    config: GroupDroConfig

    q: Tensor

    def __init__(self, config: GroupDroConfig, context: BuildContext):
        super().__init__(config, context)
        self.register_buffer("q", torch.ones(context.domains))

    def losses(self, example: Minibatch, generator: torch.Generator) -> LossTerms:
        """The terms of the next step; `turns` also keeps the weights that they were computed with."""
        each = self.of_domains(example, generator)
        return self._weighed(each, self.raised(each))

    def turns(self, example: Minibatch, generator: torch.Generator) -> Iterator[Turn]:
        each = self.of_domains(example, generator)
        self.q = self.raised(each)
        yield Turn(self._weighed(each, self.q))

    def of_domains(self, example: Minibatch, generator: torch.Generator) -> Float[Tensor, "S"]:
        """The cross-entropy of each domain."""
        logits: Tensor = self.classifier(self.features(example.images, generator))
        labels = example.labels.chunk(self.domains)
        parts = zip(logits.chunk(self.domains), labels, strict=True)
        return torch.stack([self.cross_entropy(*part) for part in parts])

    def raised(self, each: Float[Tensor, "S"]) -> Float[Tensor, "S"]:
        """The weights of the domains after these losses; they sum to 1."""
        q = self.q * (self.config.eta * each.detach()).exp()
        return q / q.sum()

    def _weighed(self, each: Float[Tensor, "S"], q: Float[Tensor, "S"]) -> LossTerms:
        total = (q * each).sum()  # no dot product, which mixed precision would round
        return {"cross_entropy": total / self.domains if self.config.divide else total}
