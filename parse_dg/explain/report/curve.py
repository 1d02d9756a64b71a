"""The course of a training, read from a run's metrics.jsonl, and as charts in the coordinates of an SVG."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10, nan
from typing import Any

from parse_dg.errors import InputError
from parse_dg.runs.afterwards.opened import OpenedRun
from parse_dg.runs.metrics import StepCounter

WIDTH, HEIGHT = 480, 260
LEFT, RIGHT, TOP, BOTTOM = 52, 466, 14, 224
FRAME = {"box": f"0 0 {WIDTH} {HEIGHT}", "left": LEFT, "right": RIGHT, "top": TOP, "bottom": BOTTOM}
DASHES = ("7 4", "2 4", "9 3 2 3", "1 6", "12 4")
"""Lines differ by more than their colour; the last, which stands out, has none."""

CurveLine = Sequence[tuple[int, float]]
"""Steps and values."""


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """A check of the training."""

    step: int
    """Of the whole training, both stages where there are two."""
    loss: float | None
    """The mean training loss since the check before."""
    validation: Mapping[str, float]
    """Accuracy on the held-out images of each source domain."""
    mean: float | None
    """Of those."""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The training curve, check by check."""

    points: tuple[CurvePoint, ...]
    chosen: int
    """The step whose weights are the model."""
    images: str
    """What the accuracies are of, in words."""


def training_curve(run: OpenedRun) -> Curve:
    """Every check; steps go on counting where a second stage begins."""
    counter, result = StepCounter(), run.result
    points = tuple(
        CurvePoint(
            step=counter.of(line),
            loss=loss if isfinite(loss := line.training_loss.get("total", nan)) else None,
            validation={name: value.accuracy for name, value in line.validation.items()},
            mean=line.validation_mean_accuracy,
        )
        for line in run.checks
    )
    if not points:
        raise InputError("metrics.jsonl has no check")
    chosen = points[-1].step if result.stages else result.selected_step  # of a second stage the last of all
    return Curve(points=points, chosen=chosen, images=result.validation_part)


@dataclass(frozen=True)
class Axis:
    """Values along a side of the chart, where they are, and how they are said."""

    low: float
    high: float
    start: float
    end: float
    spoken: str
    """A format: `{:.0%}`."""

    def at(self, value: float) -> str:
        """Where a value is drawn."""
        return f"{self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start):.1f}"

    def ticks(self) -> list[tuple[str, str]]:
        """Where the axis is labelled, and how: at round numbers, about five of them."""
        least = (self.high - self.low) / 5
        power = 10.0 ** floor(log10(least))
        step = next(power * round_ for round_ in (1, 2, 2.5, 5, 10) if power * round_ >= least * (1 - 1e-9))
        first, last = ceil(self.low / step - 1e-9), floor(self.high / step + 1e-9)
        return [(self.at(step * n), self.spoken.format(step * n)) for n in range(first, last + 1)]


def charts(curve: Curve) -> list[dict[str, Any]]:
    """Accuracy and loss, where they are known, as the page draws them."""
    names = list(dict.fromkeys(name for point in curve.points for name in point.validation))
    accuracies = {
        name: [(p.step, p.validation[name]) for p in curve.points if name in p.validation] for name in names
    }
    if len(names) > 1:
        accuracies["mean of the source domains"] = [(p.step, p.mean) for p in curve.points if p.mean is not None]
    losses = [(p.step, p.loss) for p in curve.points if p.loss is not None]
    found = []
    if any(accuracies.values()):
        axis = Axis(0, 1, BOTTOM, TOP, "{:.0%}")
        found.append(_chart(f"Accuracy on {curve.images}", accuracies, axis, curve))
    if losses:
        values = [0.0, *(value for _, value in losses)]
        axis = Axis(min(values), max(values) or 1.0, BOTTOM, TOP, "{:.2f}")
        found.append(_chart("Training loss, mean since the check before", {"loss": losses}, axis, curve))
    return found


def _chart(title: str, lines: Mapping[str, CurveLine], values: Axis, curve: Curve) -> dict[str, Any]:
    steps = Axis(0, max(point.step for point in curve.points) or 1, LEFT, RIGHT, "{:,.0f}")
    ends = "; ".join(f"{name} ends at {values.spoken.format(line[-1][1])}" for name, line in lines.items() if line)
    drawn = []
    for number, (name, line) in enumerate(lines.items()):
        points = " ".join(f"{steps.at(step)},{values.at(value)}" for step, value in line)
        looks = {"kind": f"line line{number % 5}", "dash": DASHES[number % len(DASHES)]}
        if number == len(lines) - 1:  # the last of several is their mean, and stands out
            looks = {"kind": "line mean", "dash": ""}
        drawn.append({"name": name, "points": points, **looks})
    return {
        "title": title,
        "spoken": f"{title}: {ends}. The weights of step {curve.chosen:,} are the model.",
        "rows": values.ticks(),
        "columns": steps.ticks(),
        "chosen": steps.at(curve.chosen),
        "lines": drawn,
        **FRAME,
    }
