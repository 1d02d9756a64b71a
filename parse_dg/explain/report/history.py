"""The course of a training, read from a run's metrics.jsonl."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from parse_dg.errors import InputError
from parse_dg.explain.report.data import Curve, CurvePoint
from parse_dg.runs.folder import Result


def read_curve(folder: Path, result: Result) -> Curve:
    """Every check; steps go on counting where a second stage begins."""
    path = folder / "metrics.jsonl"
    try:
        lines = path.read_text().splitlines()
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path.name}: {getattr(error, 'strerror', None) or error}") from error
    try:
        points = tuple(_points(lines))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path.name} is not what a run writes: {type(error).__name__} {error}") from error
    if not points:
        raise InputError(f"{path.name} has no check")
    return Curve(points=points, chosen=_chosen(points, result), images=str(result["validation_part"]))


def _points(lines: list[str]) -> Iterator[CurvePoint]:
    stage, before, last = 1, 0, 0
    for line in lines:
        check: dict[str, Any] = json.loads(line)
        if check.get("stage", 1) != stage:
            stage, before = check["stage"], last
        last = before + int(check["step"])
        loss, mean = check["training_loss"].get("total"), check["validation_mean_accuracy"]
        yield CurvePoint(
            step=last,
            loss=float(loss) if loss is not None and math.isfinite(loss) else None,
            validation={name: float(value["accuracy"]) for name, value in check["validation"].items()},
            mean=None if mean is None else float(mean),
        )


def _chosen(points: tuple[CurvePoint, ...], result: Result) -> int:
    """The chosen step; of a second stage it is the last of all."""
    return points[-1].step if result.get("stages") else int(result["selected_step"])
