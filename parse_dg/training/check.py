"""Validation during training: accuracy on held-out source images, the best check, and its observers."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from typing import Any, NamedTuple

import torch

from parse_dg.errors import FailedError
from parse_dg.training.accuracy import Accuracy
from parse_dg.training.checkpoint import require_numbers

StateDict = dict[str, torch.Tensor]
SCORES = ("validation", "scores")
"""What of a check is accuracies by name."""


@dataclass(frozen=True)
class Check:
    """Validation at one step: loss terms, and accuracy on the held-out images of each source domain."""

    step: int
    losses: dict[str, float]
    """The training loss's terms, and their `total`: means over the steps since the last check that had them."""
    validation: dict[str, Accuracy]
    """By source domain."""
    rates: dict[str, float]
    """The learning rate of each group at this step."""
    scores: dict[str, Accuracy] = field(default_factory=dict)
    """Of other named images, recorded and not used."""

    @property
    def mean_accuracy(self) -> float:
        """The mean over source domains of the accuracy on their held-out images; nan without such images."""
        return _mean([value.accuracy for value in self.validation.values()])

    @property
    def mean_loss(self) -> float:
        """The mean over source domains of the cross-entropy on their held-out images; nan without such images."""
        return _mean([value.loss for value in self.validation.values()])

    def better_than(self, other: "Check | None") -> bool:
        """Higher mean accuracy, or the same with a lower mean loss."""
        if other is None:
            return True
        return (self.mean_accuracy, -self.mean_loss) > (other.mean_accuracy, -other.mean_loss)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def check_to_data(check: Check) -> dict[str, Any]:
    """A check as a checkpoint keeps it."""
    scored = {part: {name: astuple(a) for name, a in getattr(check, part).items()} for part in SCORES}
    return asdict(check) | scored


def check_from_data(data: Mapping[str, Any]) -> Check:
    """The check that `check_to_data` was given."""
    scored = {part: {name: Accuracy(*value) for name, value in data[part].items()} for part in SCORES}
    found = [accuracy for part in scored.values() for accuracy in part.values()]
    counts = (count for each in found for count in (each.correct, each.images))
    losses = (each.loss for each in found)
    require_numbers(
        "a check", [data["step"], *counts], [*data["losses"].values(), *data["rates"].values(), *losses]
    )
    return Check(**{**data, **scored})


class Best(NamedTuple):
    """The check with the best validation accuracy, and its weights."""

    check: Check
    state: StateDict


class CheckInterruptedError(KeyboardInterrupt):
    """A check was given up, after a step that is whole: it can be saved, and the check made later."""


class NonFiniteLossError(FailedError):
    """The loss stopped being a number. Carries the best weights so far, if there was a check before."""

    def __init__(self, step: int, losses: dict[str, float], best: Best | None):
        terms = ", ".join(f"{name} {value:g}" for name, value in losses.items())
        kept = f"the weights of step {best.check.step} are" if best else "no check had been made, nothing is"
        rates = "optimizer.backbone_rate, optimizer.head_rate, optimizer.composition_rate"
        advice = f"Lower rates ({rates}) or optimizer.clip_norm=1 may help"
        super().__init__(f"the loss is not finite at step {step} ({terms}); {kept} kept. {advice}")
        self.best = best


Observer = Callable[[int, Check | None], None]
"""Called after every step with its number, and with the check where one was made."""
