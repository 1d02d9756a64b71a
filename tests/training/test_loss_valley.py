"""The loss valley: against what the authors' program does with the same losses, and case by case."""

from typing import Any

import numpy as np
import pytest

from parse_dg.training.loss_valley import LossValley
from tests.algorithms.golden import records

RECORDS: list[dict[str, Any]] = records("SWAD")


def run(losses: list[float], *settings: Any, every: int = 100, first: int = 0) -> tuple[LossValley, int | None]:
    """The valley at the end of a run, and at which check it was left; the authors count steps from 0."""
    valley = LossValley(*settings, first_step=first)
    left = None
    for number, loss in enumerate(losses):
        valley.observe(first + number * every, loss)
        if valley.left and left is None:
            left = number
    valley.finish()
    return valley, left


@pytest.mark.golden
@pytest.mark.parametrize("record", RECORDS, ids=range(len(RECORDS)))
def test_the_decisions_are_those_of_the_authors(record: dict[str, Any]) -> None:
    settings = (record[name] for name in ("n_converge", "n_tolerance", "tolerance_ratio"))
    valley, left = run(record["losses"], *settings, every=record["freq"])
    assert left == record["dead_eval"]
    assert valley.threshold == (record["threshold"] and pytest.approx(record["threshold"], 1e-9))
    for name in ("converge_step", "start_step", "end_step"):
        assert getattr(valley, name) == record[name], name
    assert len(valley.entered) == record["n_averaged"]
    found = valley.multiplicity + [0] * (len(record["losses"]) - valley.observed)
    assert found == pytest.approx(record["segment_multiplicity"], abs=1e-3)


def test_what_is_said_step_by_step_adds_up_to_what_entered() -> None:
    for record in RECORDS:
        valley = LossValley(record["n_converge"], record["n_tolerance"], record["tolerance_ratio"])
        said: list[int] = []
        for number, loss in enumerate(record["losses"]):
            entering = valley.observe(1 + 100 * number, loss)
            assert all(number - valley.memory < old <= number for old in entering)
            said += entering
        last = valley.observed
        entering = valley.finish()
        assert all(last - valley.memory <= old < last for old in entering)
        assert said + entering == valley.entered


@pytest.mark.parametrize(("converge", "tolerance"), [(4, 2), (3, 3), (2, 5)])
def test_the_valley_is_left_once_every_recent_loss_is_above_the_threshold(converge: int, tolerance: int) -> None:
    losses = [1.0, *np.linspace(0.5, 0.55, 10).tolist(), *np.linspace(2, 3, 10).tolist()]
    valley, left = run(losses, converge, tolerance, 0.3)
    assert valley.converge_step == 100
    assert valley.threshold == pytest.approx(1.3 * np.mean(losses[1 : 1 + converge]))
    assert left == 10 + tolerance  # the last low loss, and as many high ones as are looked at
    assert valley.end_step == 1000
    assert valley.observe(5000, 0.1) == []
