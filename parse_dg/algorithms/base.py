"""What every training method is to the trainer: a network, the loss that trains it, and its parameters by group."""

from abc import ABC, abstractmethod
from typing import ClassVar, Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

Group = Literal["backbone", "head", "composition"]
"""Parameters that share a learning rate; `composition` is Λ."""

LossTerms = dict[str, Tensor]
"""The named terms whose sum is minimised, each with its weight applied."""


class Example(NamedTuple):
    """A training batch as an algorithm sees it: augmented and normalised."""

    images: Float[Tensor, "B 3 H W"]
    labels: Int[Tensor, "B"]
    domains: Int[Tensor, "B"]


class Algorithm(nn.Module, ABC):
    """A trainable classifier. A subclass is final: it is one method, in one file."""

    summary: ClassVar[str]
    """One line: what the method does."""

    def __init__(self, label_smoothing: float = 0.0):
        super().__init__()
        self.label_smoothing = label_smoothing

    @abstractmethod
    def forward(self, images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B C"]:
        """Normalised images → logits."""

    @abstractmethod
    def losses(self, example: Example, generator: torch.Generator) -> LossTerms:
        """The terms of the loss on a batch; `generator` (on the CPU) supplies every random draw."""

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


def grouped(module: nn.Module, **apart: tuple[nn.Parameter, ...]) -> dict[Group, list[nn.Parameter]]:
    """The parameters of `module`: of its `backbone`, those set `apart` by group name, and the rest as head."""
    groups: dict[Group, list[nn.Parameter]] = {"backbone": [], "head": [], "composition": []}
    special = {id(parameter): name for name, parameters in apart.items() for parameter in parameters}
    for name, parameter in module.named_parameters():
        fallback = "backbone" if name.startswith(("backbone.", "network.backbone.")) else "head"
        groups[special.get(id(parameter), fallback)].append(parameter)  # type: ignore[index]
    return groups
