"""A run: a folder that says what it holds, the same bytes again, and never a half result."""

import hashlib
import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from parse_dg.algorithms import ALGORITHMS, Erm
from parse_dg.algorithms.base import LossTerms
from parse_dg.config import to_dict
from parse_dg.data.benchmarks import Benchmark, Domain, open_benchmark
from parse_dg.data.splits import leave_one_out
from parse_dg.deploy.model_file import load_model, save_model
from parse_dg.errors import InputError
from parse_dg.evaluation.accuracy import Accuracy, accuracy
from parse_dg.experiments.config import RunConfig
from parse_dg.experiments.run import count_steps, execute, prepare, read_config, read_finished, write_json
from parse_dg.training.trainer import Check, NonFiniteLossError, Trainer
from tests.conftest import FinishedRun, Tiny

REPEATED = ["config.json", "metrics.jsonl", "model.safetensors", "result.json"]
"""The files that are the same when a run is repeated."""
CPU = torch.device("cpu")


def quiet(step: int, check: Check | None) -> None:
    pass


def hashes(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def repeated(folder: Path) -> dict[str, str]:
    return {name: digest for name, digest in hashes(folder).items() if name in REPEATED}


def read(path: Path) -> Any:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    return json.loads(path.read_text(), parse_constant=refuse)


def checks(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


# the folder


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_finished_run_is_five_files(algorithm: str, finished_run: FinishedRun, tiny: Tiny) -> None:
    folder = finished_run(algorithm)
    assert sorted(path.name for path in folder.iterdir()) == sorted([*REPEATED, "environment.json"])
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


@pytest.mark.parametrize("algorithm", ALGORITHMS)
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


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_result_is_what_the_models_file_scores(algorithm: str, finished_run: FinishedRun, tiny: Tiny) -> None:
    folder, config = finished_run(algorithm), tiny(algorithm)
    result = read(folder / "result.json")
    model = load_model(folder).algorithm
    split = leave_one_out(open_benchmark(config.data), "sketch", 0)

    def same(found: dict[str, Any], expected: Accuracy) -> bool:
        numbers = (found["correct"], found["images"], found["accuracy"])
        assert found["loss"] == pytest.approx(expected.loss, 1e-5)
        return numbers == (expected.correct, expected.images, expected.fraction)

    assert same(result["target"], accuracy(model, split.target, CPU))
    for subset in split.validation:
        assert same(result["validation"][subset.domain.name], accuracy(model, subset, CPU))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
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
    composition = load_model(parse_run).parse().network.structure.composition
    weights = composition.active().weights.detach()
    assert result["active_applications"] == int((weights > 0).any(0).sum())
    assert result["active_applications_per_class"] == [int((row > 0).sum()) for row in weights]
    assert "active_applications" not in read(erm_run / "result.json")


def test_the_environment_is_kept_apart(erm_run: Path) -> None:
    found = read(erm_run / "environment.json")
    assert found["torch"] == torch.__version__
    assert found["device"].startswith("cpu")
    assert found["seconds"] >= 0


def test_execute_returns_what_it_writes(tiny: Tiny, tmp_path: Path) -> None:
    seen: list[tuple[int, bool]] = []
    folder = tmp_path / "deep" / "down"
    result = execute(tiny("erm", training__steps=3), folder, lambda step, check: seen.append((step, bool(check))))
    assert read(folder / "result.json") == json.loads(json.dumps(result))
    assert seen == [(1, False), (2, True), (3, True)]


# the same again


def other_randomness() -> None:
    """Whatever the global generators hold must not matter."""
    seed = random.randrange(2**32)
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_repeated_run_is_the_same_to_the_byte(
    algorithm: str, finished_run: FinishedRun, tiny: Tiny, tmp_path: Path
) -> None:
    other_randomness()
    execute(tiny(algorithm), tmp_path / "again", quiet)
    assert set(repeated(tmp_path / "again")) == set(REPEATED)
    assert repeated(tmp_path / "again") == repeated(finished_run(algorithm))


def test_the_models_file_is_the_same_to_the_byte_however_often_it_is_written(erm_run: Path, tmp_path: Path) -> None:
    model = load_model(erm_run)
    written = set()
    for _ in range(12):
        save_model(tmp_path / "model.safetensors", model.spec, dict(model.algorithm.state_dict()))
        written.add((tmp_path / "model.safetensors").read_bytes())
    assert written == {(erm_run / "model.safetensors").read_bytes()}


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


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_another_seed_is_another_run(algorithm: str, finished_run: FinishedRun, tiny: Tiny, tmp_path: Path) -> None:
    execute(tiny(algorithm, seed=1), tmp_path / "other", quiet)
    one, other = repeated(finished_run(algorithm)), repeated(tmp_path / "other")
    assert all(one[name] != other[name] for name in REPEATED)
    assert read(tmp_path / "other" / "result.json")["seed"] == 1


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


# the target


def with_target(benchmark: Benchmark, images: np.ndarray, labels: np.ndarray) -> Benchmark:
    domains = tuple(Domain(d.name, images, labels) if d.name == "sketch" else d for d in benchmark.domains)
    return replace(benchmark, domains=domains)


@pytest.mark.parametrize("algorithm", ["erm", "parse"])
def test_the_target_has_no_part_in_training_or_selection(
    algorithm: str, finished_run: FinishedRun, tiny: Tiny, tmp_path: Path
) -> None:
    """With noise of other classes in its place, everything but its own score stays the same to the byte."""
    config = tiny(algorithm)
    benchmark = open_benchmark(config.data)
    noise = np.random.default_rng(0).integers(0, 256, (24, 64, 64, 3)).astype(np.uint8)
    other = with_target(benchmark, noise, np.full(24, 3))
    execute(config, tmp_path / "noise", quiet, other)
    one, found = repeated(finished_run(algorithm)), repeated(tmp_path / "noise")
    assert found["metrics.jsonl"] == one["metrics.jsonl"]
    assert found["model.safetensors"] == one["model.safetensors"]
    result, before = (read(folder / "result.json") for folder in (tmp_path / "noise", finished_run(algorithm)))
    assert result.pop("target")["images"] == 24
    assert before.pop("target")["images"] == 40
    assert result == before


# a folder that is not empty


def no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    def fit(*arguments: Any) -> None:
        pytest.fail("trained")

    monkeypatch.setattr(Trainer, "fit", fit)


def test_a_finished_run_is_returned_without_training(
    erm_run: Path, tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_training(monkeypatch)
    before = {path.name: path.stat().st_mtime_ns for path in erm_run.iterdir()}
    assert execute(tiny("erm"), erm_run, quiet) == read(erm_run / "result.json")
    assert {path.name: path.stat().st_mtime_ns for path in erm_run.iterdir()} == before


@pytest.mark.parametrize(
    "settings", [{"seed": 1}, {"training__steps": 5}, {"data__target": "photo"}, {"algorithm__dropout": 0.5}]
)
@pytest.mark.parametrize("finished", [True, False])
def test_a_run_of_another_configuration_is_refused(
    settings: dict[str, Any],
    finished: bool,
    erm_run: Path,
    tiny: Tiny,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    no_training(monkeypatch)
    folder = tmp_path / "run"
    shutil.copytree(erm_run, folder)
    if not finished:
        (folder / "result.json").unlink()
    before = hashes(folder)
    with pytest.raises(InputError, match=f"{folder} holds a run of another configuration: choose another folder"):
        execute(tiny("erm", **settings), folder, quiet)
    assert hashes(folder) == before


def test_a_run_of_another_method_is_refused(erm_run: Path, tiny: Tiny) -> None:
    with pytest.raises(InputError, match="holds a run of another configuration"):
        execute(tiny("parse"), erm_run, quiet)


def test_a_folder_that_is_not_a_run_is_refused(tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match=f"{tmp_path} exists and is not a run: choose another folder with --out"):
        execute(tiny("erm"), tmp_path, quiet)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_file_in_place_of_the_folder_is_refused(tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "run").write_text("not a folder")
    with pytest.raises(InputError, match="exists and is not a run"):
        execute(tiny("erm"), tmp_path / "run", quiet)
    with pytest.raises(InputError, match=f"cannot write to {tmp_path}/run/inside: "):
        execute(tiny("erm"), tmp_path / "run" / "inside", quiet)
    assert (tmp_path / "run").read_text() == "not a folder"


def test_an_empty_folder_is_as_good_as_none(tiny: Tiny, tmp_path: Path) -> None:
    assert read_finished(tiny("erm"), tmp_path) is None
    assert read_finished(tiny("erm"), tmp_path / "nowhere") is None
    assert not (tmp_path / "nowhere").exists()


def test_an_unknown_target_is_refused_before_anything_is_written(tiny: Tiny, tmp_path: Path) -> None:
    config = tiny("erm", data__target="skech")
    with pytest.raises(InputError, match="valid are photo, cartoon, sketch, paint"):
        execute(config, tmp_path / "run", quiet)
    assert not (tmp_path / "run").exists()


def test_nothing_to_validate_on_is_refused_before_anything_is_written(tiny: Tiny, tmp_path: Path) -> None:
    """int(0.02 · 40) = 0 images of every source domain would be held out."""
    with pytest.raises(InputError, match="holdout"):
        execute(tiny("erm", data__holdout=0.02), tmp_path / "run", quiet)
    assert not (tmp_path / "run").exists()


def test_an_unusable_device_is_refused_before_anything_is_written(tiny: Tiny, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"device 'abacus' cannot be used .*: valid are auto, cpu, cuda"):
        execute(tiny("erm", training__device="abacus"), tmp_path / "run", quiet)
    assert not (tmp_path / "run").exists()


def test_a_folder_without_a_configuration_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"{tmp_path} is not a run: expected a folder with config.json"):
        read_config(tmp_path)


def test_a_damaged_configuration_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"seed": ')
    with pytest.raises(InputError, match="is not valid JSON"):
        read_config(tmp_path)
    (tmp_path / "config.json").write_text('{"seeed": 1}')
    with pytest.raises(InputError, match=r"unknown configuration field 'seeed': valid are .*seed"):
        read_config(tmp_path)


# a run that breaks off


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
    assert sorted(hashes(folder)) == ["config.json", "metrics.jsonl", "model.safetensors"]
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
    assert sorted(hashes(tmp_path / "run")) == ["config.json", "metrics.jsonl"]
    assert checks(tmp_path / "run") == []


@pytest.mark.parametrize("steps", [1, 3])
def test_weights_that_are_no_numbers_are_no_result(steps: int, tiny: Tiny, tmp_path: Path) -> None:
    """The first step's loss is finite, its update is not: the check after it can tell."""
    rates = {"optimizer__head_rate": 1e30, "optimizer__backbone_rate": 1e20}
    with pytest.raises(NonFiniteLossError):
        execute(tiny("erm", training__steps=steps, training__check_every=1, **rates), tmp_path / "run", quiet)
    assert sorted(hashes(tmp_path / "run")) == ["config.json", "metrics.jsonl"]


def test_a_file_is_whole_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_json(path, {"accuracy": 0.5, "class": "ä"})
    with pytest.raises(TypeError):
        write_json(path, {"accuracy": object()})
    assert read(path) == {"accuracy": 0.5, "class": "ä"}
    assert [found.name for found in tmp_path.iterdir()] == ["result.json"]


# how long


def test_epochs_are_of_the_training_images(tiny: Tiny, tmp_path: Path) -> None:
    config: RunConfig = tiny("erm", training__epochs=0.5)
    _, split = prepare(config)
    assert sum(len(part.indices) for part in split.training) == 3 * 32
    assert count_steps(config, split) == 4  # half of 96 images, 12 a step
    assert execute(config, tmp_path / "run", quiet)["steps"] == 4
