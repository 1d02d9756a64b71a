"""The training curve, read from a run's metrics.jsonl."""

import math
from pathlib import Path

from parse_dg.errors import InputError
from parse_dg.explain.report.data import Curve, CurvePoint
from parse_dg.runs.metrics import CheckLine, StepCounter, read_checks
from parse_dg.runs.result import RunResult


def read_curve(folder: Path, result: RunResult) -> Curve:
    """Every check; steps go on counting where a second stage begins."""
    counter = StepCounter()
    points = tuple(_point(counter.of(line), line) for line in read_checks(folder))
    if not points:
        raise InputError("metrics.jsonl has no check")
    chosen = points[-1].step if result.stages else result.selected_step  # of a second stage the last of all
    return Curve(points=points, chosen=chosen, images=result.validation_part)


def _point(step: int, line: CheckLine) -> CurvePoint:
    loss = line.training_loss.get("total")
    return CurvePoint(
        step=step,
        loss=loss if loss is not None and math.isfinite(loss) else None,
        validation={name: value.fraction for name, value in line.validation.items()},
        mean=line.validation_mean_accuracy,
    )
