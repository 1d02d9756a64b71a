"""A run that breaks off: its best weights are kept, and there is never a half result."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from parse_dg.algorithms.base import LossTerms
from parse_dg.algorithms.erm import Erm
from parse_dg.deploy.model_file import load_model
from parse_dg.runs.folder import read_finished
from parse_dg.runs.run import execute, prepare
from parse_dg.training.accuracy import accuracy
from parse_dg.training.check import NonFiniteLossError
from tests.conftest import Tiny
from tests.runs.helpers import CPU, checks, hashes, quiet, repeated


@pytest.fixture
def break_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Callable[[], float]], None]:
    """Let the loss of ERM at a step be what a function returns, or raises."""

    def apply(at: int, value: Callable[[], float]) -> None:
        losses, steps = Erm.losses, iter(range(1, 100))

        def broken(*arguments: Any) -> LossTerms:
            terms = losses(*arguments)
            if next(steps) == at:
                terms["cross_entropy"] = terms["cross_entropy"] * value()
            return terms

        monkeypatch.setattr(Erm, "losses", broken)

    return apply


def interrupt() -> float:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("value", "error"), [(lambda: float("nan"), NonFiniteLossError), (interrupt, KeyboardInterrupt)]
)
def test_a_run_that_breaks_off_leaves_its_best_weights_and_no_result(
    value: Callable[[], float],
    error: type[BaseException],
    break_at: Callable[[int, Callable[[], float]], None],
    erm_run: Path,
    tiny: Tiny,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "run"
    break_at(4, value)
    with pytest.raises(error) as caught:
        execute(tiny("erm"), folder, quiet)
    assert sorted(hashes(folder)) == ["config.json", "metrics.jsonl", "model.safetensors", "split.json"]
    assert [line["step"] for line in checks(folder)] == [2]
    assert checks(folder)[0] == checks(erm_run)[0]
    model = load_model(folder).algorithm
    scores = checks(folder)[0]["validation"]
    _, split = prepare(tiny("erm"))
    for subset in split.validation:
        assert accuracy(model, subset, CPU).loss == pytest.approx(scores[subset.domain.name]["loss"], 1e-5)
    if isinstance(caught.value, NonFiniteLossError):
        assert caught.value.best is not None
        state = model.state_dict()
        assert all(torch.equal(state[name], kept) for name, kept in caught.value.best.state.items())
    # started again it is finished, as if nothing had been
    monkeypatch.undo()
    assert read_finished(tiny("erm"), folder) is None
    execute(tiny("erm"), folder, quiet)
    assert repeated(folder) == repeated(erm_run)


def test_a_run_that_breaks_off_before_its_first_check_leaves_no_weights(
    break_at: Callable[[int, Callable[[], float]], None], tiny: Tiny, tmp_path: Path
) -> None:
    break_at(1, lambda: float("inf"))
    with pytest.raises(NonFiniteLossError, match="nothing is kept"):
        execute(tiny("erm"), tmp_path / "run", quiet)
    assert sorted(hashes(tmp_path / "run")) == ["config.json", "metrics.jsonl", "split.json"]
    assert checks(tmp_path / "run") == []


def test_weights_that_are_no_numbers_are_no_result(tiny: Tiny, tmp_path: Path) -> None:
    """The first step's loss is finite, its update is not: the check after it can tell."""
    rates = {"optimizer__head_rate": 1e9, "optimizer__backbone_rate": 1e9}
    with pytest.raises(NonFiniteLossError):
        execute(tiny("erm", training__steps=3, training__check_every=1, **rates), tmp_path / "run", quiet)
    assert sorted(hashes(tmp_path / "run")) == ["config.json", "metrics.jsonl", "split.json"]
