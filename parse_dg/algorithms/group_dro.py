"""GroupDRO, distributionally robust optimisation over groups: the domain with the highest loss counts most.

Sagawa et al. 2020, without a regulariser of its own, as in Gulrajani & Lopez-Paz 2021, arXiv:2007.01434.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from parse_dg.algorithms.base import BuildContext, LossTerms, Minibatch, Turn
from parse_dg.algorithms.pooled import Pooled, PooledConfig
from parse_dg.config import NotNegative


class GroupDro(Pooled):
    """Σ q_s · cross-entropy of domain s, with q_s ← q_s · exp(η · cross-entropy of s) / Σ at every step."""

    config: "GroupDroConfig"

    q: Tensor

    def __init__(self, config: "GroupDroConfig", context: BuildContext):
        super().__init__(config, context)
        self.register_buffer("q", torch.ones(context.domains))

    def losses(self, example: Minibatch, generator: torch.Generator) -> LossTerms:
        """The terms of the next step; `turns` also keeps the weights that they were computed with."""
        return self._weigh(example, generator)[0]

    def turns(self, example: Minibatch, generator: torch.Generator) -> Iterator[Turn]:
        terms, self.q = self._weigh(example, generator)
        yield Turn(terms)

    def _weigh(self, example: Minibatch, generator: torch.Generator) -> tuple[LossTerms, Float[Tensor, "S"]]:
        """The loss, and the weights of the domains, which sum to 1."""
        logits: Tensor = self.classifier(self.features(example.images, generator))
        parts = zip(logits.chunk(self.domains), example.labels.chunk(self.domains), strict=True)
        each = torch.stack([self.cross_entropy(*part) for part in parts])  # (S,)
        q = self.q * (self.config.eta * each.detach()).exp()
        q = q / q.sum()
        total = (q * each).sum()  # no dot product, which mixed precision would round
        return {"cross_entropy": total / self.domains if self.config.divide else total}, q


@dataclass(frozen=True, kw_only=True)
class GroupDroConfig(PooledConfig):
    """Settings of GroupDRO."""

    name = "group_dro"
    method = GroupDro
    summary = "cross-entropy in which the domain that does worst counts most"
    reference = "Sagawa et al. 2020, arXiv:1911.08731"
    needs_domains = True
    compares_domains = True
    eta: NotNegative = 0.01
    """η: how fast the weight of a domain grows with its loss."""
    divide: bool = False
    """Whether the loss is divided by the number of domains once more, as the first published code did. Adam hardly
    notices; weight decay weighs more."""
