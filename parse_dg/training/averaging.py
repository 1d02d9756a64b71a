"""Weight averaging for any method: EMA, a simple mean, SWAD.

`ema` and `sma` keep a second network beside the one that trains, and it is the second that is scored and kept; it
only follows, so that the first is what it would be without it (`also_plain`).
`swad` averages densely within the loss valley (loss_valley.py); the average is made once, at the end.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from parse_dg.algorithms.base import Algorithm
from parse_dg.config import Config, Count, Fraction, NotNegative
from parse_dg.jsonable import Jsonable
from parse_dg.training.checkpoint import Checkpoint
from parse_dg.training.loss_valley import LossValley

R = TypeVar("R", bound="AveragingReport")
AveragingKind = Literal["none", "ema", "sma", "swad"]

SCORED: dict[str, str] = {
    "none": "those of the step",
    "ema": "exponential moving average up to the step",
    "sma": "simple moving average up to the step",
    "swad": "those of the step: what they lose decides which steps the result averages",
}
"""Whose weights a check is of."""
SCHEDULED = "bottleneck.focus"
"""How the name ends of what is no weight but set by the share of training done: averages take it over as it is."""


@dataclass(frozen=True, kw_only=True)
class AveragingConfig(Config):
    """What is averaged; every setting but `kind` belongs to one kind."""

    kind: AveragingKind = "none"
    """`ema`: exponential moving average. `sma`: simple mean, as in ERM++. `swad`: dense mean of a loss valley."""
    decay: Fraction = 0.99
    """`ema`: how much of the average a step leaves as it was."""
    start: Count = 600
    """`sma`: the first step that is averaged; before it, the average is a copy (ERM++: 600)."""
    n_converge: Count = 3
    """`swad`: the loss has stopped falling when the oldest of this many checks has the lowest."""
    n_tolerance: Count = 6
    """`swad`: the valley is left when the loss of this many checks is above the threshold."""
    tolerance_ratio: NotNegative = 0.3
    """`swad`: how far above the mean loss at its beginning the threshold lies; SWAD's authors take 0.2 on VLCS."""
    statistics_batches: Count = 500
    """`swad`: over how many batches BatchNorm statistics that are not frozen are estimated for the average."""
    also_plain: bool = False
    """`ema`, `sma`: checks also score the weights of the step themselves, and the best of them by their own
    validation are kept beside the averaged ones: the result of the same run without averaging, at no further
    training."""

    def check(self) -> None:
        fits = not self.also_plain or self.kind in ("ema", "sma")
        hint = f"false with averaging.kind={self.kind}: only ema and sma leave training as it is without them"
        self.require(fits, "also_plain", hint)


@dataclass(frozen=True, kw_only=True)
class AveragingReport(Jsonable):
    """What was averaged."""

    kind: str
    checks_score: str
    """Whose weights checks are of, in words."""
    decay: float | None = None
    start: int | None = None

    @classmethod
    def from_dict(cls: type[R], data: Any, where: str = "") -> R:
        """SWAD has a report of its own."""
        if cls is AveragingReport and isinstance(data, dict) and data.get("kind") == "swad":
            return ValleyReport.from_dict(data, where)  # type: ignore[return-value]
        return super().from_dict(data, where)


@dataclass(frozen=True, kw_only=True)
class ValleyReport(AveragingReport):
    """The loss valley that SWAD averaged, and which steps that are."""

    converged: bool
    converge_step: int | None
    threshold: float | None
    left: bool
    last_step: int
    start_step: int | None
    end_step: int | None
    segments: int
    segment_multiplicity: tuple[int, ...]
    """How often each segment was averaged."""


class Averaging:
    """What a trainer tells of its steps and checks; by itself it averages nothing."""

    def __init__(self, algorithm: Algorithm, config: AveragingConfig):
        self.algorithm, self.config = algorithm, config

    @property
    def scored(self) -> Algorithm:
        """The network that checks score, and whose weights are kept."""
        return self.algorithm

    def after_step(self, step: int, images: Float[Tensor, "B 3 H W"]) -> None:
        """A step, counted from 1, was made on some images."""

    def after_check(self, step: int, loss: float) -> bool:
        """A check found a mean validation loss: whether training goes on."""
        return True

    def finish(self) -> bool:
        """The run has ended: whether `algorithm` now holds weights that no check has scored."""
        return False

    def report(self) -> AveragingReport | None:
        """What was averaged; None: nothing."""
        return None

    def state(self) -> Checkpoint:
        """All it takes to go on."""
        return Checkpoint({}, {})

    def like(self, saved: Checkpoint) -> Mapping[str, Tensor]:
        """What the tensors of a state are like, in shape and type."""
        return self.state().tensors

    def restore(self, saved: Checkpoint) -> None:
        """Go on from a state."""


class MovingAverage(Averaging):
    """A network beside the one that trains, whose weights are an average that follows it.

    `ema`: decay · average + (1 - decay) · network, from the start of training on. `sma`, ERM++'s simple moving
    average: the mean of all steps from one before `start` on; BatchNorm statistics that are not frozen also see
    the batch through the averaged weights.
    """

    def __init__(self, algorithm: Algorithm, config: AveragingConfig):
        super().__init__(algorithm, config)
        self.network = deepcopy(algorithm).requires_grad_(False)
        self.moving = moving_statistics(self.network) if config.kind == "sma" else []
        self.network.eval()

    @property
    def scored(self) -> Algorithm:
        return self.network

    @torch.no_grad()
    def after_step(self, step: int, images: Float[Tensor, "B 3 H W"]) -> None:
        averages, values = [], []
        now = self.algorithm.state_dict()
        for name, average in self.network.state_dict().items():
            if average.is_floating_point() and not name.endswith(SCHEDULED):
                averages.append(average)
                values.append(now[name])
            elif not name.endswith("num_batches_tracked"):  # the averaged network counts for itself
                average.copy_(now[name])
        towards(averages, values, self._share(step))
        if self.moving:
            with only_statistics(self.network, self.moving):
                self.network(images)

    def _share(self, step: int) -> float:
        if self.config.kind == "ema":
            return 1 - self.config.decay
        return 1.0 if step < self.config.start else 1 / (step - self.config.start + 2)

    def state(self) -> Checkpoint:
        return Checkpoint(dict(self.network.state_dict()), {})

    def restore(self, saved: Checkpoint) -> None:
        self.network.load_state_dict(saved.tensors)

    def report(self) -> AveragingReport:
        if self.config.kind == "ema":
            return AveragingReport(kind="ema", checks_score=SCORED["ema"], decay=self.config.decay)
        return AveragingReport(kind="sma", checks_score=SCORED["sma"], start=self.config.start)


class ValleyAverage(Averaging):
    """SWAD: the mean of segment means over the loss valley, of parameters only; training stops when it is left."""

    def __init__(self, algorithm: Algorithm, config: AveragingConfig):
        super().__init__(algorithm, config)
        self.valley = LossValley(config.n_converge, config.n_tolerance, config.tolerance_ratio)
        self.parameters = list(algorithm.parameters())
        self.segment = [torch.empty_like(parameter, requires_grad=False) for parameter in self.parameters]
        self.steps = 0
        """In the segment so far."""
        self.kept: dict[int, list[Tensor]] = {}
        """The means of the last segments, by number, on the CPU."""
        self.average: list[Tensor] = []
        self.averaged = 0

    @torch.no_grad()
    def after_step(self, step: int, images: Float[Tensor, "B 3 H W"]) -> None:
        self.steps += 1
        towards(self.segment, self.parameters, 1 / self.steps)

    @torch.no_grad()
    def after_check(self, step: int, loss: float) -> bool:
        number, self.steps = self.valley.observed, 0
        self.kept[number] = [mean.to("cpu", copy=True) for mean in self.segment]
        self._add(self.valley.observe(step, loss))
        self.kept.pop(number - self.valley.memory, None)
        return not self.valley.left

    @torch.no_grad()
    def finish(self) -> bool:
        self._add(self.valley.finish())
        for parameter, mean in zip(self.parameters, self.average, strict=True):
            parameter.copy_(mean)
        return True

    def state(self) -> Checkpoint:
        means = {"segment": self.segment if self.steps else [], "average": self.average}
        means |= {f"kept.{number}": mean for number, mean in self.kept.items()}
        tensors = {f"{name}:{i}": value for name, values in means.items() for i, value in enumerate(values)}
        counts = {"steps": self.steps, "averaged": self.averaged, "kept": list(self.kept)}
        return Checkpoint(tensors, {**counts, "valley": self.valley.state()})

    def restore(self, saved: Checkpoint) -> None:
        data = saved.data
        self.valley.restore(data["valley"])
        self.steps, self.averaged = data["steps"], data["averaged"]
        if self.steps:
            self.segment = self._saved_mean(saved, "segment", device=None)
        self.kept = {number: self._saved_mean(saved, f"kept.{number}") for number in data["kept"]}
        self.average = self._saved_mean(saved, "average") if self.averaged else []

    def like(self, saved: Checkpoint) -> Mapping[str, Tensor]:
        data, valley = saved.data, self.valley
        LossValley(valley.n_converge, valley.n_tolerance, valley.tolerance_ratio).restore(data["valley"])
        names = [f"kept.{number}" for number in data["kept"]]
        names += ["segment"] * bool(data["steps"]) + ["average"] * bool(data["averaged"])
        return {f"{name}:{i}": parameter for name in names for i, parameter in enumerate(self.parameters)}

    def _saved_mean(self, saved: Checkpoint, name: str, device: str | None = "cpu") -> list[Tensor]:
        """A mean of every parameter, each laid out in memory like its parameter."""
        likes = (torch.empty_like(p, requires_grad=False, device=device) for p in self.parameters)
        return [like.copy_(saved.tensors[f"{name}:{i}"]) for i, like in enumerate(likes)]

    def _add(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.averaged += 1
            if not self.average:
                self.average = [mean.clone() for mean in self.kept[number]]
            towards(self.average, self.kept[number], 1 / self.averaged)

    def report(self) -> ValleyReport:
        valley = self.valley
        return ValleyReport(
            kind="swad",
            checks_score=SCORED["swad"],
            converged=valley.lowest is not None,
            converge_step=valley.converge_step,
            threshold=valley.threshold,
            left=valley.left,
            last_step=valley.next_start - 1,
            start_step=valley.start_step,
            end_step=valley.end_step,
            segments=len(valley.entered),
            segment_multiplicity=tuple(valley.multiplicity),
        )


def build_averaging(algorithm: Algorithm, config: AveragingConfig) -> Averaging:
    """What averages the weights of an algorithm that is on its device."""
    kinds = {"none": Averaging, "swad": ValleyAverage}
    return kinds.get(config.kind, MovingAverage)(algorithm, config)


def towards(averages: Sequence[Tensor], values: Sequence[Tensor], share: float) -> None:
    """Move averages in place: (1 - share) · average + share · value; what is equal stays as it is, to the bit."""
    if share == 1:  # an average may start from memory that holds no number
        torch._foreach_copy_(list(averages), list(values))
    else:
        torch._foreach_lerp_(list(averages), list(values), share)


def moving_statistics(network: Algorithm) -> list[_BatchNorm]:
    """The BatchNorm layers whose statistics training moves: those that are not frozen. Leaves it training."""
    network.train()
    return [m for m in network.modules() if isinstance(m, _BatchNorm) and m.training and m.track_running_stats]


@contextmanager
def only_statistics(network: Algorithm, moving: Iterable[_BatchNorm]) -> Iterator[None]:
    """Within, a pass moves these statistics and is otherwise that of evaluation: nothing is drawn or dropped."""
    network.eval()
    for layer in moving:
        layer.train()
    try:
        yield
    finally:
        network.eval()


@torch.no_grad()
def estimate_statistics(network: Algorithm, batches: Iterable[Float[Tensor, "_B 3 _H _W"]]) -> None:
    """Set BatchNorm statistics that are not frozen to the mean over batches; without such, no batch is taken."""
    moving = moving_statistics(network)
    momenta = [layer.momentum for layer in moving]
    for layer in moving:
        layer.reset_running_stats()
        layer.momentum = None  # the plain mean
    if moving:
        with only_statistics(network, moving):
            for images in batches:
                network(images)
    for layer, momentum in zip(moving, momenta, strict=True):
        layer.momentum = momentum
