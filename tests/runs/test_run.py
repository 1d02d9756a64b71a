"""A run: a folder that says what it holds, and what each number in it is."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from parse_dg.algorithms import ALGORITHMS
from parse_dg.config import to_dict
from parse_dg.data.benchmarks import open_benchmark
from parse_dg.data.splits import leave_one_out
from parse_dg.deploy.model_file import load_model
from parse_dg.runs.config import RunConfig
from parse_dg.runs.folder import read_config
from parse_dg.runs.run import count_steps, execute, prepare
from parse_dg.training.accuracy import Accuracy, accuracy
from tests.conftest import FinishedRun, Tiny
from tests.runs.helpers import CPU, REPEATED, checks, quiet, read

ONCE = [name for name in ALGORITHMS if name != "erm_plus_plus"]
"""Methods that are trained once; the others are in test_two_stage.py."""


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_finished_run_is_five_files(algorithm: str, finished_run: FinishedRun, tiny: Tiny) -> None:
    folder = finished_run(algorithm)
    assert sorted(path.name for path in folder.iterdir()) == sorted([*REPEATED, "environment.json"])
    commit = re.fullmatch(r"[0-9a-f]{40}(\+changes)?", read(folder / "environment.json").get("commit", ""))
    assert (commit is not None) == (Path(__file__).parents[2] / ".git").exists()
    assert read_config(folder) == tiny(algorithm)
    assert read(folder / "config.json") == json.loads(json.dumps(to_dict(tiny(algorithm))))


def test_metrics_have_a_line_for_every_check(parse_run: Path) -> None:
    lines = checks(parse_run)
    assert [line["step"] for line in lines] == [2, 4]
    assert lines[0]["best_so_far"] is True
    for line in lines:
        assert list(line["validation"]) == ["photo", "cartoon", "paint"]
        assert list(line["rates"]) == ["backbone", "head", "composition"]
        *terms, total = line["training_loss"].items()
        assert total == ("total", pytest.approx(sum(value for _, value in terms), 1e-5))
        fractions = [value["accuracy"] for value in line["validation"].values()]
        assert line["validation_mean_accuracy"] == pytest.approx(sum(fractions) / 3)


@pytest.mark.parametrize("algorithm", ONCE)
def test_the_result_says_what_each_number_is(algorithm: str, finished_run: FinishedRun, tiny: Tiny) -> None:
    folder, config = finished_run(algorithm), tiny(algorithm)
    result = read(folder / "result.json")
    assert result["algorithm"] == algorithm
    assert result["seed"] == 0
    assert result["steps"] == 4
    assert result["benchmark"] == {"name": "blueprints", "fingerprint": open_benchmark(config.data).fingerprint}
    assert result["target"]["domain"] == "sketch"
    assert result["target"]["images"] == 40
    assert {name: value["images"] for name, value in result["validation"].items()} == {
        "photo": 8,
        "cartoon": 8,
        "paint": 8,
    }
    assert result["selection"].startswith("training-domain validation")
    for value in (result["target"], *result["validation"].values()):
        assert value["accuracy"] == value["correct"] / value["images"]


@pytest.mark.parametrize("algorithm", ONCE)
def test_the_result_is_what_the_models_file_scores(algorithm: str, finished_run: FinishedRun, tiny: Tiny) -> None:
    folder, config = finished_run(algorithm), tiny(algorithm)
    result = read(folder / "result.json")
    model = load_model(folder).algorithm
    split = leave_one_out(open_benchmark(config.data), "sketch", 0)

    def same(found: dict[str, Any], expected: Accuracy) -> bool:
        numbers = (found["correct"], found["images"], found["accuracy"])
        assert found["loss"] == pytest.approx(expected.loss, 1e-5)
        return numbers == (expected.correct, expected.images, expected.accuracy)

    assert same(result["target"], accuracy(model, split.target, CPU))
    for subset in split.validation:
        assert same(result["validation"][subset.domain.name], accuracy(model, subset, CPU))


@pytest.mark.parametrize("algorithm", ONCE)
def test_the_step_selected_is_the_best_of_the_metrics(algorithm: str, finished_run: FinishedRun) -> None:
    folder = finished_run(algorithm)
    result, lines = read(folder / "result.json"), checks(folder)

    def worth(line: dict[str, Any]) -> tuple[float, float]:
        losses = [value["loss"] for value in line["validation"].values()]
        return line["validation_mean_accuracy"], -sum(losses) / len(losses)

    best = max(lines, key=worth)
    assert result["selected_step"] == best["step"]
    assert result["validation"] == best["validation"]
    assert result["validation_mean_accuracy"] == best["validation_mean_accuracy"]
    for n, line in enumerate(lines):
        assert line["best_so_far"] == all(worth(line) > worth(before) for before in lines[:n])


def test_the_result_of_parse_counts_the_applications_in_use(parse_run: Path, erm_run: Path) -> None:
    result = read(parse_run / "result.json")
    composition = load_model(parse_run).parse_network().structure.composition
    weights = composition.active().weights.detach()
    assert result["active_applications"] == int((weights > 0).any(0).sum())
    assert result["active_applications_per_class"] == [int((row > 0).sum()) for row in weights]
    assert "active_applications" not in read(erm_run / "result.json")


def test_epochs_are_of_the_training_images(tiny: Tiny, tmp_path: Path) -> None:
    config: RunConfig = tiny("erm", training__epochs=0.5)
    _, split = prepare(config)
    assert sum(len(part.indices) for part in split.training) == 3 * 32
    assert count_steps(config, split) == 4  # half of 96 images, 12 a step
    assert execute(config, tmp_path / "run", quiet).steps == 4
