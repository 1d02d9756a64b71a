"""ERM++'s two stages: training length and learning rates are found by validation; then all images train.

Stage 1 trains on the training part of every source domain. At each check after the head's own phase, rates fall to
a tenth if the validation loss of the averaged weights has stopped falling; where they would fall for the third time
it ends. Stage 2 trains a new model on all images of the source domains, held-out ones included, at the same rates
and up to the check before that: 2,101 steps where stage 1 had 2,401 and a check every 300. With nothing held out
there is nothing to choose by, and the last averaged weights are its result (Teterwak et al. 2025, arXiv:2304.01973,
as in the program they gave to DomainBed).
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from parse_dg.data.splits import LeaveOneOut, Subset
from parse_dg.runs.result import StageReport
from parse_dg.training.check import Check, check_from_data, check_to_data
from parse_dg.training.trainer import Trainer

FACTOR = 0.1
"""What rates are multiplied with where they fall."""
PATIENCE = 1
"""How many checks in a row may be no better before they do."""
MARGIN = 1e-4
"""By what fraction of the lowest loss a loss must be lower to be better."""
FALLS = 3
"""Stage 1 ends where rates would fall for the third time."""

SELECTION = (
    "two stages: the last weights of a second training, on all images of the source domains, at the rates and for "
    "the number of steps that validation on held-out images found in the first"
)
"""How the weights of the result are chosen, in words."""


def all_of_sources(split: LeaveOneOut) -> LeaveOneOut:
    """The split of stage 2: training and held-out images of every source domain together, in the domain's order."""
    pairs = zip(split.training, split.validation, strict=True)
    training = (Subset(kept.domain, np.sort(np.concatenate((kept.indices, held.indices)))) for kept, held in pairs)
    return replace(split, training=tuple(training), validation=())


def name_whole(scored: Mapping[str, Subset], sources: Collection[str]) -> dict[str, Subset]:
    """What checks of stage 2 score: of a source domain DOMAIN/all, as nothing is held out any more."""
    return {f"{s.domain.name}/all" if s.domain.name in sources else name: s for name, s in scored.items()}


class Steering:
    """What finds the schedule in stage 1 and repeats it in stage 2; it can be saved between any two steps."""

    def __init__(self, head_steps: int):
        self.head_steps, self.stage = head_steps, 1
        self.lowest, self.worse = math.inf, 0
        """The lowest loss of a check, and how many in a row were no better."""
        self.falls: list[int] = []
        """After which steps rates fell; the third time is where stage 1 ended."""
        self.last: Check | None = None
        """Of stage 1's averaged weights: the one that stage 2 ends at."""

    @property
    def first(self) -> Check:
        """The same, once there is one."""
        assert self.last is not None
        return self.last

    def steer(self, trainer: Trainer, step: int, check: Check | None) -> None:
        """To be told of every step of the trainer of this stage."""
        if self.stage == 1 and check:
            if step > self.head_steps and self._stands_still(check.mean_loss):
                self.falls.append(step)
                if len(self.falls) == FALLS:
                    trainer.stop()
                    return
                trainer.lower_rates(FACTOR)
            self.last = check
        elif self.stage == 2:
            if step in self.falls:
                trainer.lower_rates(FACTOR)
            if step == self.first.step:
                trainer.stop()

    def _stands_still(self, loss: float) -> bool:
        """Whether this is one check more than `PATIENCE` without a new lowest; counting then starts again."""
        if loss < self.lowest * (1 - MARGIN):
            self.lowest, self.worse = loss, 0
        else:
            self.worse += 1
        if self.worse <= PATIENCE:
            return False
        self.worse = 0
        return True

    def state(self) -> dict[str, Any]:
        """All it takes to go on, as plain data."""
        last = self.last and check_to_data(self.last)
        plateau = [self.lowest, self.worse]
        return {"stage": self.stage, "falls": list(self.falls), "plateau": plateau, "last": last}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.stage, self.falls = state["stage"], list(state["falls"])
        self.lowest, self.worse = state["plateau"]
        self.last = check_from_data(state["last"]) if state["last"] else None

    def reports(self) -> tuple[StageReport, ...]:
        falls, length = tuple(self.falls), self.first.step
        ended, steps, until = "the limit of steps", length, "as long as stage 1"
        if len(falls) == FALLS:
            falls, steps = falls[:-1], falls[-1]
            ended, until = "rates would have fallen a third time", "up to the last check of stage 1 but one"
        both = (
            ("the training part of the source domains", steps, ended),
            ("all images of the source domains", length, until),
        )
        return tuple(
            StageReport(stage=number, trained_on=images, steps=count, rates_fall_after=falls, ended_by=end)
            for number, (images, count, end) in enumerate(both, start=1)
        )
