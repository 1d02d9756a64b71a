"""What every training method is to the trainer: a network, the loss that trains it, and its parameters by group."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

Group = Literal["backbone", "head", "composition", "adversary", "encoders"]
"""Parameters that share a learning rate; `composition` is Λ, `adversary` what plays against the network, `encoders`
those of a regulariser."""

LossTerms = dict[str, Tensor]
"""The named terms whose sum is minimised, each with its weight applied."""


class Minibatch(NamedTuple):
    """A training batch as an algorithm sees it: augmented and normalised."""

    images: Float[Tensor, "B 3 H W"]
    labels: Int[Tensor, "B"]
    domains: Int[Tensor, "B"]
    captions: Int[Tensor, "B T"] | None = None
    """A sentence about each image, as the numbers of its words, where the method reads sentences."""

    def by_domain(self, domains: int) -> list["Minibatch"]:
        """The batch of each of `domains` source domains by itself; a batch has as many images of each, in order."""
        parts = (part.chunk(domains) for part in self if part is not None)
        return [Minibatch(*of_one) for of_one in zip(*parts, strict=True)]


class Turn(NamedTuple):
    """One update of a step: the terms whose sum is minimised, and whose parameters move."""

    terms: LossTerms
    groups: tuple[Group, ...] | None = None
    """None: all of them."""
    afresh: bool = False
    """Whether the optimiser first forgets what it has gathered about these groups."""


class GroupSettings(NamedTuple):
    """What a method asks of the optimiser for one group of its parameters."""

    rate_factor: float = 1.0
    """Times the rate of the head; for `encoders`, times that of the backbone."""
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float | None = None
    """None: that of the run."""
    momentum: float | None = None
    """Given: this group descends by SGD along the running mean of its gradients, which keeps them in proportion;
    None: by Adam."""


class Algorithm(nn.Module, ABC):
    """A trainable classifier. A subclass is final: it is one method, in one file."""

    summary: ClassVar[str]
    """One line: what the method does."""
    reference: ClassVar[str]
    """Where it was published: authors, year, arXiv number or venue."""

    def __init__(self, label_smoothing: float = 0.0):
        super().__init__()
        self.label_smoothing = label_smoothing

    @abstractmethod
    def forward(self, images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B C"]:
        """Normalised images → logits."""

    @abstractmethod
    def losses(self, example: Minibatch, generator: torch.Generator) -> LossTerms:
        """The terms of the loss on a batch; `generator` (on the CPU) supplies every random draw."""

    def advance(self, step: int, steps: int) -> None:
        """Told before every step of training that it is number `step` of `steps`, from 1: for what changes over a
        run. It must follow from the two numbers alone, so that a run that is resumed is where it was.
        """

    def turns(self, example: Minibatch, generator: torch.Generator) -> Iterator[Turn]:
        """The updates of one step, one after the other: what comes next is computed after the last has been made.

        Most methods have one, of all parameters; those that play a game have several, or take turns step by step.
        """
        yield Turn(self.losses(example, generator))

    def settings(self) -> dict[Group, GroupSettings]:
        """What the method asks of the optimiser, for the groups that are not to be treated like all others."""
        return {}

    @abstractmethod
    def groups(self) -> dict[Group, list[nn.Parameter]]:
        """Every trainable parameter, once, by group."""

    def cross_entropy(self, logits: Float[Tensor, "B C"], labels: Int[Tensor, "B"]) -> Float[Tensor, ""]:
        """The mean cross-entropy, with the run's label smoothing, in float32 or wider."""
        return F.cross_entropy(
            logits if logits.dtype == torch.float64 else logits.float(),
            labels,
            label_smoothing=self.label_smoothing,
        )

    def guided(
        self, guide: nn.Linear | None, weight: float, features: Float[Tensor, "B D H W"], labels: Int[Tensor, "B"]
    ) -> LossTerms:
        """The weighted cross-entropy of a linear classifier on the pooled features; nothing without one."""
        if guide is None:
            return {}
        return {"guidance": weight * self.cross_entropy(guide(features.mean((2, 3))), labels)}


def grouped(module: nn.Module, **apart: tuple[nn.Parameter, ...]) -> dict[Group, list[nn.Parameter]]:
    """The parameters of `module`: of its `backbone`, those set `apart` by group name, and the rest as head."""
    groups: dict[Group, list[nn.Parameter]] = {"backbone": [], "head": [], "composition": []}
    special = {id(parameter): name for name, parameters in apart.items() for parameter in parameters}
    for name, parameter in module.named_parameters():
        fallback = "backbone" if name.startswith(("backbone.", "network.backbone.")) else "head"
        groups.setdefault(special.get(id(parameter), fallback), []).append(parameter)  # type: ignore[arg-type]
    return groups
