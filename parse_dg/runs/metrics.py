"""metrics.jsonl: a line for every check of a run."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from parse_dg.errors import about
from parse_dg.files import attempting, parse_json
from parse_dg.jsonable import Jsonable
from parse_dg.training.accuracy import Accuracy
from parse_dg.training.averaging import SCORED
from parse_dg.training.check import Best, Check
from parse_dg.training.trainer import Trainer


@dataclass(frozen=True, kw_only=True)
class CheckedWeights(Jsonable):
    """What a check found of the weights it looked at."""

    validation: Mapping[str, Accuracy]
    """By source domain, on held-out images."""
    validation_mean_accuracy: float | None
    """None where no images are held out."""
    best_so_far: bool
    scores: Mapping[str, Accuracy] = field(default_factory=dict)
    """Of other images, named DOMAIN/PART: recorded and not used."""


@dataclass(frozen=True, kw_only=True)
class CheckLine(CheckedWeights):
    """A check as a line of metrics.jsonl."""

    FIRST: ClassVar = ("stage", "step", "weights", "training_loss", "rates")

    stage: int | None = None
    """Of a run that has several; each counts its steps from 1."""
    step: int
    weights: str | None = None
    """Whose weights they are, where weights are averaged."""
    training_loss: Mapping[str, float]
    """The terms of the loss and their `total`: means since the check before."""
    rates: Mapping[str, float]
    """The learning rate of each group of parameters."""
    plain: CheckedWeights | None = None
    """The same of the weights of the step, beside averaged ones."""


def check_line(trainer: Trainer, check: Check, stage: int | None = None) -> CheckLine:
    """The check that a trainer has just made."""
    kind, plain = trainer.averaging.config.kind, trainer.plain
    return CheckLine(
        stage=stage,
        step=check.step,
        weights=SCORED[kind] if kind != "none" else None,
        training_loss=check.losses,
        rates=check.rates,
        **vars(_checked(check, trainer.best)),
        plain=_checked(plain, trainer.best_plain) if plain else None,
    )


def _checked(check: Check, best: Best | None) -> CheckedWeights:
    return CheckedWeights(
        validation=check.validation,
        validation_mean_accuracy=check.mean_accuracy if check.validation else None,
        best_so_far=best is not None and best.check is check,
        scores=check.scores,
    )


def read_checks(folder: Path) -> tuple[CheckLine, ...]:
    """Every check of the run in `folder`."""
    with attempting("read metrics.jsonl", also=UnicodeDecodeError):
        lines = (folder / "metrics.jsonl").read_text().splitlines()
    with about("metrics.jsonl is not what a run writes"):
        return tuple(map(read_line, lines))


def read_line(line: str) -> CheckLine:
    """A line of metrics.jsonl."""
    return CheckLine.from_dict(parse_json(line, "a line"))


class StepCounter:
    """Counts the steps of a whole run, of which each stage counts its own from 1."""

    def __init__(self, earlier: Iterable[CheckLine] = ()) -> None:
        self.stage, self.before, self.last = 1, 0, 0
        for line in earlier:
            self.of(line)

    def of(self, line: CheckLine) -> int:
        """The steps of the run up to this check, which comes after those that were asked for before."""
        stage = line.stage or 1
        if stage != self.stage:
            self.stage, self.before = stage, self.last
        self.last = self.before + line.step
        return self.last
