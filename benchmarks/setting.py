"""What is measured, on what: the sizes, the device, and Λ as it is after training."""

from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from benchmarks.report import Goal
from benchmarks.timing import Budget
from parse_dg.model.structure import StructuralLayer, StructureConfig

Enumeration = Literal["distinct", "paper"]
ENUMERATIONS: tuple[Enumeration, ...] = ("distinct", "paper")
INITIAL, TRAINED = "at initialisation", "at trained sparsity"


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The paper's sizes."""

    backbone: str = "resnet50"
    pixels: int = 224
    images: int = 96
    """A batch: 32 of each of three source domains."""
    primitives: int = 16
    many_primitives: int = 64
    """Of a vocabulary with a budget."""
    growth: tuple[int, ...] = (8, 16, 24, 32)
    classes: tuple[int, ...] = (7, 65, 200, 345)
    layer_classes: int = 200
    """Of the structural layer alone, and of the growth with K."""
    inference_images: tuple[int, ...] = (1, 64)
    union: dict[int, int] = field(default_factory=lambda: {7: 295, 65: 1197, 200: 956, 345: 888})
    """How many applications all classes together use after training, by the number of classes (the paper's)."""
    per_class: int = 42
    """How many a class uses, about."""


QUICK = Sizes(
    backbone="small",
    pixels=32,
    images=6,
    primitives=5,
    many_primitives=8,
    growth=(4, 5, 6),
    classes=(3, 4),
    layer_classes=4,
    inference_images=(1, 2),
    union={3: 20, 4: 30},
    per_class=8,
)
"""Everything once, in seconds, for the tests. The ratios mean nothing."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Where and at which sizes to measure."""

    device: torch.device
    sizes: Sizes

    @property
    def on_gpu(self) -> bool:
        return self.device.type == "cuda"

    def budget(self, *, rounds: int = 15, seconds: float = 1.0) -> Budget:
        """Rounds enough for a median, in so many seconds for each side; two, whatever they take, if quick."""
        if self.sizes is QUICK:
            return Budget(rounds=2, least=2, seconds=0, lap=0)
        return Budget(rounds=rounds, seconds=seconds)

    def goal(self, sense: Literal["at most", "at least"], limit: float) -> Goal | None:
        """Goals are set for the paper's sizes only."""
        return None if self.sizes is QUICK else Goal(sense, limit)


def trained_lambda(
    classes: int, columns: int, union: int, per_class: int, generator: torch.Generator
) -> Float[Tensor, "C M"]:
    """Λ as sparse as after training: `union` columns are in use, all of them, and `per_class` by every class.

    What a class uses lies on the simplex; all else lies below zero by the margin of a fresh Λ and a little more, so
    that a row's support is where it is positive. Where `per_class` is too few to use the whole union, a class gets
    more. The columns are drawn from the whole vocabulary alike.
    """
    per_class = max(per_class, -(-union // classes))
    pool = torch.randperm(columns, generator=generator)[:union]
    preference = torch.rand(classes, union, generator=generator)
    preference[torch.arange(union) % classes, torch.arange(union)] += 1  # every column has a class that wants it
    chosen = pool[preference.topk(per_class).indices]  # (C, per_class)
    weights = torch.rand(classes, per_class, generator=generator) + 0.1
    below = torch.rand(classes, columns, generator=generator).mul_(0.1).add_(1)
    below *= -StructureConfig().composition.start_margin
    return below.scatter_(1, chosen, weights / weights.sum(1, keepdim=True))


def make_trained(layer: StructuralLayer, sizes: Sizes) -> None:
    """Give the layer a Λ of trained sparsity."""
    classes, columns = layer.composition.weight.shape
    generator = torch.Generator().manual_seed(0)
    weight = trained_lambda(classes, columns, sizes.union[classes], sizes.per_class, generator)
    layer.composition.load_state_dict({"weight": weight}, strict=False)
