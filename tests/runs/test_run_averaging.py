"""Runs of averaged weights: what their folder says, and that it is what the model's file holds."""

from pathlib import Path
from typing import Any

import pytest
import torch

from parse_dg.data.benchmarks import open_benchmark
from parse_dg.data.splits import leave_one_out
from parse_dg.deploy.model_file import load_model
from parse_dg.errors import InputError
from parse_dg.runs.config import RunConfig
from parse_dg.runs.folder import read_result
from parse_dg.runs.run import execute
from parse_dg.training.accuracy import accuracy
from parse_dg.training.averaging import ValleyReport
from tests.conftest import Tiny
from tests.runs.helpers import CPU, checks, quiet, read, repeated

KINDS: dict[str, dict[str, Any]] = {
    "ema": {"averaging__decay": 0.5},
    "sma": {"averaging__start": 2},
    "swad": {"averaging__statistics_batches": 3, "training__check_every": 1},
}


def configured(tiny: Tiny, algorithm: str, kind: str) -> RunConfig:
    return tiny(algorithm, averaging__kind=kind, **KINDS[kind])


def assert_of_its_file(config: RunConfig, folder: Path) -> None:
    """The numbers of the result are those of the weights in the model's file."""
    result, model = read(folder / "result.json"), load_model(folder).algorithm
    assert {line["weights"] for line in checks(folder)} == {result["averaging"]["checks_score"]}
    split = leave_one_out(open_benchmark(config.data), "sketch", 0)
    assert result["target"]["correct"] == accuracy(model, split.target, CPU).correct
    for subset in split.validation:
        found, expected = result["validation"][subset.domain.name], accuracy(model, subset, CPU)
        assert found["correct"] == expected.correct
        assert found["loss"] == pytest.approx(expected.loss, 1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_of_averaged_weights_scores_them_and_is_repeated_to_the_byte(
    kind: str, tiny: Tiny, tmp_path: Path
) -> None:
    config = configured(tiny, "erm", kind)
    for name in ("one", "again"):
        torch.manual_seed(len(name))
        execute(config, tmp_path / name, quiet)
    assert repeated(tmp_path / "one") == repeated(tmp_path / "again")
    assert read(tmp_path / "one" / "result.json")["averaging"]["kind"] == kind
    assert_of_its_file(config, tmp_path / "one")


def test_swad_says_which_steps_it_averages(tiny: Tiny, tmp_path: Path) -> None:
    result = execute(configured(tiny, "erm", "swad"), tmp_path / "run", quiet)
    averaged = result.averaging
    assert isinstance(averaged, ValleyReport)
    start, end = averaged.start_step, averaged.end_step
    assert result.selection.startswith(f"SWAD: the mean of the weights of steps {start} to {end}, ")
    assert result.protocol.rules[-1] == f"{result.selection}."
    assert result.selected_step == end
    assert sum(averaged.segment_multiplicity) == averaged.segments
    assert read_result(tmp_path / "run") == result
    assert len(averaged.segment_multiplicity) == len(checks(tmp_path / "run"))


def test_swad_cannot_be_selected_by_the_target(tiny: Tiny) -> None:
    settings = {"protocol__selection": "oracle", "split__target_images": "in", "averaging__kind": "swad"}
    message = (
        r"protocol\.selection must be training-domain or leave-one-domain-out, as averaging\.kind=swad chooses"
    )
    with pytest.raises(InputError, match=message):
        tiny("erm", **settings)
