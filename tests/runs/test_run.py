"""A run: a folder that says what it holds, and what each number in it is."""

import json
import random
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from parse_dg.config import to_dict
from parse_dg.data.benchmarks import open_benchmark
from parse_dg.data.splits import leave_one_out
from parse_dg.deploy.model_file import load_model
from parse_dg.errors import InputError
from parse_dg.runs.config import RunConfig
from parse_dg.runs.folder import read_config, read_result
from parse_dg.runs.run import count_steps, execute, prepare
from parse_dg.training.accuracy import accuracy
from parse_dg.training.averaging import ValleyReport
from parse_dg.training.trainer import Trainer
from tests.conftest import FinishedRun, Tiny, slow_but
from tests.parts import refusal
from tests.runs.helpers import CPU, REPEATED, checks, hashes, noisy_target, quiet, read, repeated

FOR_ALL = slow_but("parse", "erm", "gvrt", "erm_plus_plus")


@pytest.mark.parametrize("algorithm", FOR_ALL)
def test_a_finished_run_is_five_files(algorithm: str, finished_run: FinishedRun, tiny: Tiny) -> None:
    folder = finished_run(algorithm)
    found = {path.name for path in folder.iterdir()} - {"faces.json"}  # which whoever looks at it keeps there
    assert found == {*REPEATED, "environment.json"}
    commit = re.fullmatch(r"[0-9a-f]{40}(\+changes)?", read(folder / "environment.json").get("commit", ""))
    assert (commit is not None) == (Path(__file__).parents[2] / ".git").exists()
    result = read(folder / "result.json")
    assert sorted([*result["files"], "result.json"]) == sorted(REPEATED)  # every other has a digest
    assert len({path.stat().st_mode for path in folder.iterdir()}) == 1
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


def assert_of_its_file(config: RunConfig, folder: Path, rel: float = 1e-5) -> None:
    """The numbers of the result are those of the weights in the model's file."""
    result, model = read(folder / "result.json"), load_model(folder).algorithm
    split = leave_one_out(open_benchmark(config.data), "sketch", 0)
    parts = {"sketch": split.target} | {subset.domain.name: subset for subset in split.validation}
    for name, found in {"sketch": result["target"], **result["validation"]}.items():
        expected = accuracy(model, parts.pop(name), CPU)
        numbers = (expected.correct, expected.images, expected.accuracy)
        assert (found["correct"], found["images"], found["accuracy"]) == numbers
        assert found["loss"] == pytest.approx(expected.loss, rel)
    assert not parts


@pytest.mark.parametrize("algorithm", [each for each in FOR_ALL if each != "erm_plus_plus"])  # test_two_stage.py
def test_the_result_says_what_each_number_is_of_the_best_check(
    algorithm: str, finished_run: FinishedRun, tiny: Tiny
) -> None:
    folder, config = finished_run(algorithm), tiny(algorithm)
    result, lines = read(folder / "result.json"), checks(folder)
    assert (result["algorithm"], result["seed"], result["steps"]) == (algorithm, 0, 4)
    assert result["benchmark"] == {"name": "blueprints", "fingerprint": open_benchmark(config.data).fingerprint}
    assert (result["target"]["domain"], result["target"]["images"]) == ("sketch", 40)
    images = {name: value["images"] for name, value in result["validation"].items()}
    assert images == {"photo": 8, "cartoon": 8, "paint": 8}
    assert result["selection"].startswith("training-domain validation")
    assert_of_its_file(config, folder)

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


# Runs of averaged weights: what their folder says, and that it is what the model's file holds


KINDS: dict[str, dict[str, Any]] = {
    "ema": {"averaging__decay": 0.5},
    "sma": {"averaging__start": 2},
    "swad": {"averaging__statistics_batches": 3, "training__check_every": 1},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_of_averaged_weights_scores_them_and_is_repeated_to_the_byte(
    kind: str, tiny: Tiny, tmp_path: Path
) -> None:
    config = tiny("erm", averaging__kind=kind, **KINDS[kind])
    for name in ("one", "again"):
        torch.manual_seed(len(name))
        result = execute(config, tmp_path / name, quiet)
    assert repeated(tmp_path / "one") == repeated(tmp_path / "again")
    assert read_result(tmp_path / "one") == result
    averaged = result.averaging
    assert averaged is not None
    assert averaged.kind == kind
    assert {line["weights"] for line in checks(tmp_path / "one")} == {averaged.checks_score}
    assert_of_its_file(config, tmp_path / "one", 1e-4)
    if isinstance(averaged, ValleyReport):
        start, end = averaged.start_step, averaged.end_step
        assert result.selection.startswith(f"SWAD: the mean of the weights of steps {start} to {end}, ")
        assert result.protocol.rules[-1] == f"{result.selection}."
        assert result.selected_step == end
        assert sum(averaged.segment_multiplicity) == averaged.segments
        assert len(averaged.segment_multiplicity) == len(checks(tmp_path / "one"))


# A run where it must not be, or cannot: refused before anything is trained, written or lost


def test_a_finished_run_is_returned_without_training(
    erm_run: Path, tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Trainer, "fit", lambda *arguments: pytest.fail("trained"))
    before = {path.name: path.stat().st_mtime_ns for path in erm_run.iterdir()}
    assert execute(tiny("erm"), erm_run, quiet) == read_result(erm_run)
    assert {path.name: path.stat().st_mtime_ns for path in erm_run.iterdir()} == before


@pytest.mark.parametrize("settings", [{"seed": 1}, {"algorithm__dropout": 0.5}])
@pytest.mark.parametrize("finished", [True, False])
def test_a_run_of_another_configuration_is_refused(
    settings: dict[str, Any], finished: bool, erm_run: Path, tiny: Tiny, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(erm_run, tmp_path / "run"))
    if not finished:
        (folder / "result.json").unlink()
    before = hashes(folder)
    with pytest.raises(InputError, match=f"{folder} holds a run of another configuration .*now.*--overwrite"):
        execute(tiny("erm", **settings), folder, quiet)
    assert hashes(folder) == before


def test_a_folder_that_is_not_a_run_is_refused(tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match=f"{tmp_path} exists and is not a run: choose another folder with --out"):
        execute(tiny("erm"), tmp_path, quiet)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_an_unknown_target_is_refused_before_anything_is_drawn_or_written(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny("erm", data__target="skech")
    monkeypatch.setenv("PARSE_DG_CACHE", str(tmp_path / "run"))
    assert "valid are photo, cartoon, sketch, paint" in refusal(execute, config, tmp_path / "run", quiet)
    assert not (tmp_path / "run").exists()


LEAVE_ONE = {"protocol__selection": "leave-one-domain-out"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"split__holdout": 0.02}, "holdout"),  # int(0.02 · 40) = 0 images of every source domain
        ({"training__device": "abacus"}, r"device 'abacus' cannot be used .*: valid here are auto, cpu"),
        ({**LEAVE_ONE, "split__validation_domain": "sketch"}, "valid are photo, cartoon, paint"),  # the target
        ({**LEAVE_ONE, "split__validation_domain": "sktch"}, "valid are photo, cartoon, paint"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_written(
    settings: dict[str, Any], message: str, tiny: Tiny, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        execute(tiny("erm", **settings), tmp_path / "run", quiet)
    assert not (tmp_path / "run").exists()


def test_a_damaged_configuration_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"seed": ')
    assert "is not valid JSON" in refusal(read_config, tmp_path)
    (tmp_path / "config.json").write_text('{"seeed": 1}')
    assert "unknown configuration field 'seeed': did you mean seed?" in refusal(read_config, tmp_path)


# A run repeated is the same bytes again: only its configuration counts, and the target has no part in it


def other_randomness() -> None:
    """Whatever the global generators hold must not matter."""
    seed = random.randrange(2**32)
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


@pytest.mark.parametrize("algorithm", slow_but("parse", "erm_plus_plus"))
def test_a_repeated_run_is_the_same_to_the_byte(
    algorithm: str, finished_run: FinishedRun, tiny: Tiny, tmp_path: Path
) -> None:
    other_randomness()
    execute(tiny(algorithm), tmp_path / "again", quiet)
    assert set(repeated(tmp_path / "again")) == set(REPEATED)
    assert repeated(tmp_path / "again") == repeated(finished_run(algorithm))


def test_every_draw_comes_from_the_seed(tiny: Tiny, tmp_path: Path) -> None:
    settings = {
        "mixstyle__stages": (1, 2),
        "mixstyle__probability": 1.0,
        "augment__randaugment_ops": 2,
        "algorithm__dropout": 0.5,
        "training__label_smoothing": 0.1,
    }
    for name in ("one", "again"):
        other_randomness()
        execute(tiny("erm", **settings), tmp_path / name, quiet)
    assert repeated(tmp_path / "one") == repeated(tmp_path / "again")


def test_a_seed_changes_the_start_the_order_and_the_draws(tiny: Tiny, tmp_path: Path) -> None:
    """With no step of any size the weights are the start's alone."""
    still = {"optimizer__backbone_rate": 0, "optimizer__head_rate": 0, "training__steps": 1}
    states = []
    for seed in (0, 1):
        execute(tiny("erm", seed=seed, **still), tmp_path / str(seed), quiet)
        states.append(load_file(tmp_path / str(seed) / "model.safetensors"))
    assert not torch.equal(states[0]["classifier.weight"], states[1]["classifier.weight"])
    running = next(name for name in states[0] if name.endswith("running_mean"))
    assert not torch.equal(states[0][running], states[1][running])


@pytest.mark.parametrize("algorithm", ["erm", "parse"])
def test_the_target_has_no_part_in_training_or_selection(
    algorithm: str, finished_run: FinishedRun, tiny: Tiny, tmp_path: Path
) -> None:
    """With noise of other classes in its place, everything but its own score stays the same to the byte."""
    config = tiny(algorithm)
    execute(config, tmp_path / "noise", quiet, noisy_target(open_benchmark(config.data)))
    one, found = repeated(finished_run(algorithm)), repeated(tmp_path / "noise")
    assert found["metrics.jsonl"] == one["metrics.jsonl"]
    assert found["model.safetensors"] == one["model.safetensors"]
    result, before = (read(folder / "result.json") for folder in (tmp_path / "noise", finished_run(algorithm)))
    assert (result.pop("leakage")["of"], before.pop("leakage")["of"]) == (24, 40)
    assert result.pop("target")["images"] == 24
    assert before.pop("target")["images"] == 40
    assert result == before
