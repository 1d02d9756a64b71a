"""The training curve, read from a run's metrics.jsonl."""

import math

from parse_dg.errors import InputError
from parse_dg.explain.report.data import Curve, CurvePoint
from parse_dg.runs.metrics import CheckLine, StepCounter
from parse_dg.runs.opened import OpenedRun


def training_curve(run: OpenedRun) -> Curve:
    """Every check; steps go on counting where a second stage begins."""
    counter, result = StepCounter(), run.result
    points = tuple(_point(counter.of(line), line) for line in run.checks)
    if not points:
        raise InputError("metrics.jsonl has no check")
    chosen = points[-1].step if result.stages else result.selected_step  # of a second stage the last of all
    return Curve(points=points, chosen=chosen, images=result.validation_part)


def _point(step: int, line: CheckLine) -> CurvePoint:
    loss = line.training_loss.get("total")
    return CurvePoint(
        step=step,
        loss=loss if loss is not None and math.isfinite(loss) else None,
        validation={name: value.accuracy for name, value in line.validation.items()},
        mean=line.validation_mean_accuracy,
    )
