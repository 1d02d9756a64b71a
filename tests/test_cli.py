"""The command line: every command does its work, and every mistake gets one line, exit code 2 and nothing else."""

import argparse
import json
import math
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from parse_dg import demo
from parse_dg._version import __version__
from parse_dg.algorithms import ALGORITHMS
from parse_dg.algorithms.erm import Erm
from parse_dg.cli import build_parser, main
from parse_dg.config import change
from parse_dg.data.benchmarks import BENCHMARKS
from parse_dg.deploy.model_file import load_model
from parse_dg.evaluation.accuracy import Predictions
from parse_dg.experiments.config import RunConfig
from parse_dg.experiments.recipes import RECIPES, build_config
from tests.conftest import TINY

COMMANDS = ("train", "evaluate", "compact", "demo", "info")
SMALL = [word for field, value in TINY.items() for word in ("--set", f"{field}={value}")]


class Said(NamedTuple):
    """What a command left behind in the terminal."""

    code: int
    out: str
    err: str


Run = Callable[..., Said]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """run("train", "--seed", "1"), in a folder of its own, wide enough that no table is wrapped."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "240")
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: object) -> Said:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        said = Said(code, *capsys.readouterr())
        for text in (said.out, said.err):
            assert "\x1b" not in text  # not a terminal: no colours,
            assert "\r" not in text  # and nothing is drawn over
        return said

    return call


@pytest.fixture
def parse_copy(parse_run: Path, tmp_path: Path) -> Path:
    """A finished run of PARSE that may be changed."""
    return Path(shutil.copytree(parse_run, tmp_path / "parse_copy"))


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file below a folder; folders are listed too."""
    found = sorted(folder.rglob("*"))
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"" for path in found}


def table(text: str) -> list[list[str]]:
    """The rows of the tables in a text, cell by cell."""
    rows = [
        line.strip("│┃ ").replace("┃", "│").split("│") for line in text.splitlines() if line[:1] in "│┃" and line
    ]
    return [[cell.strip() for cell in row] for row in rows]


def shown(value: dict[str, Any]) -> list[str]:
    """An accuracy of result.json as tables show it."""
    return [f"{100 * value['correct'] / value['images']:.1f}%", f"{value['correct']}/{value['images']}"]


def result_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "result.json").read_text())


# --- train ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_train_writes_a_run_and_says_its_result(algorithm: str, run: Run, tmp_path: Path) -> None:
    said = run("train", "--algorithm", algorithm, "--target", "paint", "--seed", "3", *SMALL)
    assert said.code == 0
    assert said.err == ""
    folder = tmp_path / "runs" / "blueprints" / algorithm / "paint" / "seed3"
    assert {path.name for path in folder.iterdir()} == {
        "config.json",
        "environment.json",
        "metrics.jsonl",
        "model.safetensors",
        "result.json",
    }
    result = result_of(folder)
    assert result["algorithm"] == algorithm
    assert result["target"]["domain"] == "paint"
    rows = {row[0]: row[1:] for row in table(said.out)}
    assert rows["paint, all images (target: the result)"] == shown(result["target"])
    for domain in ("photo", "cartoon", "sketch"):
        assert rows[f"{domain}, held-out 20% (source)"] == shown(result["validation"][domain])
    assert rows["mean of the source domains"][0] == f"{100 * result['validation_mean_accuracy']:.1f}%"
    assert f"weights of step {result['selected_step']} of 4" in said.out
    assert str(folder.relative_to(tmp_path)) in said.out
    assert load_model(folder).spec.algorithm.name == algorithm


def test_options_and_settings_reach_the_configuration(run: Run, tmp_path: Path) -> None:
    more = ["--set", "optimizer.head_rate=0.25", "--set", "training.steps=2", "--set", "optimizer.clip_norm=1"]
    assert run("train", "--algorithm", "erm", "--seed", "7", *SMALL, *more, "--out", "here").code == 0
    config = json.loads((tmp_path / "here" / "config.json").read_text())
    assert config["algorithm"]["name"] == "erm"
    assert config["seed"] == 7
    assert config["data"]["target"] == "sketch"
    assert config["training"]["steps"] == 2  # the last one given counts
    assert config["optimizer"]["head_rate"] == 0.25
    assert config["optimizer"]["clip_norm"] == 1.0
    assert config["optimizer"]["schedule"] == "cosine"  # the recipe's


def test_the_table_says_how_much_was_held_out(run: Run) -> None:
    said = run("train", "--algorithm", "erm", *SMALL, "--set", "data.holdout=0.5", "--out", "here")
    assert "/20" in said.out  # half of 40 images
    assert "held-out 20%" not in said.out


def test_a_long_path_stays_on_one_line(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    folder = tmp_path / ("a-long-name-" * 5) / ("another-name-" * 5)
    said = run("train", "--algorithm", "erm", *SMALL, "--out", folder)
    assert f"written to {folder}\n" in said.out


def test_the_recipe_is_chosen_by_name(run: Run, tmp_path: Path) -> None:
    small = [*SMALL, "--set", "training.epochs=none", "--set", "training.steps=1"]
    assert run("train", "--algorithm", "erm", "--recipe", "paper", *small, "--out", "here").code == 0
    config = json.loads((tmp_path / "here" / "config.json").read_text())
    assert config["training"]["label_smoothing"] == 0.1


def test_a_finished_run_is_not_trained_again(run: Run, parse_copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parse_dg.experiments.run.build_trainer", None)  # whoever trains, fails
    before = snapshot(parse_copy)
    said = run("train", *SMALL, "--out", parse_copy)
    assert said.code == 0
    assert f"finished: nothing to do, this run is already in {parse_copy}\n" in said.out
    assert shown(result_of(parse_copy)["target"])[1] in said.out
    assert snapshot(parse_copy) == before


def test_an_unfinished_run_is_started_again(run: Run, parse_copy: Path) -> None:
    before = snapshot(parse_copy)
    (parse_copy / "result.json").unlink()
    (parse_copy / "metrics.jsonl").write_text("half a li")
    assert run("train", *SMALL, "--out", parse_copy).code == 0
    after = snapshot(parse_copy)
    del before["environment.json"], after["environment.json"]
    assert after == before


def test_a_run_of_another_configuration_is_left_alone(run: Run, parse_copy: Path) -> None:
    before = snapshot(parse_copy)
    said = run("train", *SMALL, "--seed", "1", "--out", parse_copy)
    assert_refused(said, "holds a run of another configuration")
    assert snapshot(parse_copy) == before


def fail_at(step: int, failure: Callable[[], dict[str, torch.Tensor]]) -> Callable[..., Any]:
    """The losses of ERM until `step`, then something else."""
    plain, calls = Erm.losses, []

    def losses(self: Erm, example: Any, generator: torch.Generator) -> dict[str, torch.Tensor]:
        calls.append(1)
        return failure() if len(calls) == step else plain(self, example, generator)

    return losses


def not_a_number() -> dict[str, torch.Tensor]:
    return {"cross_entropy": torch.tensor(math.nan), "other": torch.tensor(1.0)}


def interrupt() -> dict[str, torch.Tensor]:
    raise KeyboardInterrupt


def test_a_loss_that_is_no_number_ends_the_run(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Erm, "losses", fail_at(3, not_a_number))
    said = run("train", "--algorithm", "erm", *SMALL, "--out", "here")
    assert said.code == 1
    assert said.err.count("\n") == 1
    assert said.err.startswith("parse-dg: the loss is not finite at step 3 (cross_entropy nan, other 1, total nan)")
    assert "the weights of step 2 are kept" in said.err
    assert not (tmp_path / "here" / "result.json").exists()
    assert len((tmp_path / "here" / "metrics.jsonl").read_text().splitlines()) == 1
    assert load_model(tmp_path / "here").spec.algorithm.name == "erm"
    assert run("evaluate", "here").code == 0
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert run("train", "--algorithm", "erm", *SMALL, "--out", "here").code == 0  # it can be tried again


def test_a_loss_that_never_was_a_number_keeps_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Erm, "losses", fail_at(1, not_a_number))
    said = run("train", "--algorithm", "erm", *SMALL, "--out", "here")
    assert said.code == 1
    assert said.err.count("\n") == 1
    assert "nothing is kept" in said.err
    assert not (tmp_path / "here" / "model.safetensors").exists()


def test_an_interrupted_run_keeps_its_best_weights(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Erm, "losses", fail_at(3, interrupt))
    said = run("train", "--algorithm", "erm", *SMALL, "--out", "here")
    assert said.code == 130
    assert said.err == "parse-dg: interrupted; what was written so far is kept\n"
    assert load_model(tmp_path / "here").spec.algorithm.name == "erm"
    assert not (tmp_path / "here" / "result.json").exists()


# --- evaluate -------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["erm", "parse"])
def test_evaluate_says_what_the_result_says(algorithm: str, run: Run, finished_run: Any) -> None:
    folder = finished_run(algorithm)
    before = snapshot(folder)
    said = run("evaluate", folder, "--device", "cpu")
    assert said.code == 0
    assert said.err == ""
    result = result_of(folder)
    rows = {row[0]: row[1:] for row in table(said.out)[1:]}
    assert rows.keys() == {"sketch", "photo", "cartoon", "paint"}
    assert rows["sketch"] == ["target: all images, never seen in training", *shown(result["target"])]
    for domain, value in result["validation"].items():
        assert rows[domain] == ["source: held-out images", *shown(value)]
    assert snapshot(folder) == before


@pytest.mark.parametrize(
    ("domain", "role"),
    [
        ("sketch", "target: all images, never seen in training"),
        ("photo", "source: all images, most of them trained on"),
    ],
)
def test_evaluate_of_one_domain_is_of_all_its_images(domain: str, role: str, run: Run, parse_run: Path) -> None:
    said = run("evaluate", parse_run, "--domain", domain)
    ((name, images, accuracy, correct),) = table(said.out)[1:]
    assert (name, images) == (domain, role)
    right, total = correct.split("/")
    assert total == "40"
    assert accuracy == f"{100 * int(right) / 40:.1f}%"


# --- compact --------------------------------------------------------------------------------------


def test_compact_writes_a_small_model_and_says_that_nothing_changed(run: Run, parse_copy: Path) -> None:
    before = snapshot(parse_copy)
    said = run("compact", parse_copy)
    assert said.code == 0
    assert said.err == ""
    after = snapshot(parse_copy)
    assert after.pop("compact.safetensors")
    assert after == before
    model, small = load_model(parse_copy), load_model(parse_copy / "compact.safetensors")
    shapes = [m.parse().network.structure.composition.weight.shape for m in (model, small)]
    rows = {row[0]: row[1:] for row in table(said.out)}
    assert rows["predicate applications"] == [f"{shape[1]:,}" for shape in shapes]
    assert rows["parameters (classes × applications)"] == [f"{8 * shape[1]:,}" for shape in shapes]
    sizes = [(parse_copy / name).stat().st_size for name in ("model.safetensors", "compact.safetensors")]
    assert rows["model file, bytes"] == [f"{size:,}" for size in sizes]
    accuracy = shown(result_of(parse_copy)["target"])[0]
    assert rows["accuracy on sketch (target)"] == [accuracy, accuracy]
    assert f"{100 * (1 - shapes[1][1] / shapes[0][1]):.1f}% of the structural parameters are gone" in said.out
    assert "the same on 160 of all 160 images, the largest difference of a logit is 0" in said.out


def test_compact_elsewhere_and_with_a_threshold(run: Run, parse_run: Path, tmp_path: Path) -> None:
    before = snapshot(parse_run)
    said = run("compact", parse_run, "--threshold", "0.005", "--out", "small.safetensors")
    assert said.code == 0
    assert "small.safetensors" in said.out
    assert snapshot(parse_run) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["small.safetensors"]
    assert load_model(tmp_path / "small.safetensors").compact


# --- info and help --------------------------------------------------------------------------------


def test_info_names_everything_there_is(run: Run, cache: Path) -> None:
    said = run("info")
    assert said.code == 0
    for name in (__version__, torch.__version__, "cpu", str(cache), *ALGORITHMS, *BENCHMARKS, *RECIPES):
        assert name in said.out


def subparsers() -> dict[str, argparse.ArgumentParser]:
    (found,) = (a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction))
    return dict(found.choices)


def test_the_commands_are_those_tested_here() -> None:
    assert tuple(subparsers()) == COMMANDS


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--help"])
    assert left.value.code == 0
    text = capsys.readouterr().out
    for command in COMMANDS:
        assert re.search(rf"^ +{command} +\w+", text, re.MULTILINE), command
    assert "parse-dg demo" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_help_explains_every_option(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([command, "--help"])
    assert left.value.code == 0
    text = capsys.readouterr().out
    assert f"parse-dg {command}" in text
    parser = subparsers()[command]
    for action in parser._actions:
        assert action.help, action
        for option in action.option_strings:
            assert option in text
        if action.metavar == "DOMAIN" and action.default:
            assert str(action.default) in (action.help or "")


def test_help_of_train_names_what_can_be_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    text = capsys.readouterr().out
    for name in (*ALGORITHMS, *BENCHMARKS, *RECIPES, "config.json", "result.json"):
        assert name in text


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nothing"],
        ["train", "--nothing"],
        ["train", "--seed", "x"],
        ["evaluate"],
        ["compact", "a", "--threshold", "b"],
    ],
    ids=" ".join,
)
def test_what_is_no_command_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "usage: parse-dg" in captured.err


def test_the_installed_command_says_its_version() -> None:
    command = Path(sys.executable).with_name("parse-dg")
    done = subprocess.run([command, "--version"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"parse-dg {__version__}\n", "")


# --- mistakes -------------------------------------------------------------------------------------


def assert_refused(said: Said, *fragments: str) -> None:
    """Exit code 2 and one line."""
    assert said.code == 2
    assert said.err.startswith("parse-dg: ")
    assert said.err.endswith("\n")
    assert said.err.count("\n") == 1
    assert "Traceback" not in said.err
    for fragment in fragments:
        assert fragment in said.err


TRAINING_MISTAKES = {
    "an unknown algorithm": (["--algorithm", "emr"], "unknown algorithm 'emr': valid are erm, no_relations, parse"),
    "an unknown recipe": (["--recipe", "soup"], "unknown recipe 'soup': valid are blueprints, paper"),
    "an unknown benchmark": (["--data", "PACS"], "unknown benchmark 'PACS': valid are blueprints"),
    "an unknown domain": (["--target", "sketchy"], "'sketchy': valid are photo, cartoon, sketch, paint"),
    "an unknown field": (["--set", "training.step=3"], "unknown configuration field 'training.step': valid are"),
    "an unknown section": (["--set", "trainer.steps=3"], "'trainer.steps': valid are data, augment,"),
    "a section": (["--set", "training=3"], "training is a section, not a field: its fields are training.steps,"),
    "a field of a field": (["--set", "training.steps.first=3"], "training.steps is a single value"),
    "no value": (["--set", "training.steps"], "--set takes section.field=value"),
    "no field": (["--set", "=3"], "--set takes section.field=value"),
    "text for a number": (["--set", "training.steps=many"], "training.steps must be a whole number, found 'many'"),
    "a fraction of a step": (["--set", "training.steps=1.5"], "training.steps must be a whole number, found '1.5'"),
    "a choice that is none": (["--set", "optimizer.schedule=linear"], "'linear': valid are constant, cosine"),
    "a value out of range": (["--set", "training.steps=0"], "training.steps must be at least 1, found 0"),
    "no number": (["--set", "optimizer.head_rate=nan"], "optimizer.head_rate must be a number, found 'nan'"),
    "another method's field": (["--algorithm", "erm", "--set", "algorithm.sparsity=1"], "'algorithm.sparsity'"),
    "a negative seed": (["--seed", "-1"], "seed must be 0 or more, found -1"),
    "an unknown device": (["--set", "training.device=gpu"], "device 'gpu' cannot be used"),
    "an unknown backbone": (["--set", "backbone.name=big"], "unknown backbone 'big': valid are small,"),
    "weights that are not there": (["--set", "backbone.weights=no.pth"], "no.pth does not exist"),
}


def test_no_image_to_validate_on(run: Run, tmp_path: Path) -> None:
    assert_refused(run("train", *SMALL, "--out", "here", "--set", "data.holdout=0.001"), "photo")
    assert snapshot(tmp_path) == {}


@pytest.mark.parametrize("case", TRAINING_MISTAKES)
def test_a_mistake_in_training_is_said_in_one_line(case: str, run: Run, tmp_path: Path) -> None:
    arguments, message = TRAINING_MISTAKES[case]
    said = run("train", *SMALL, "--out", "here", *arguments)
    assert_refused(said, message)
    assert said.out == ""
    assert snapshot(tmp_path) == {}


def a_folder_of_something_else(folder: Path) -> Path:
    (folder / "photos").mkdir()
    (folder / "photos" / "cat.jpg").write_bytes(b"a cat")
    return folder / "photos"


def below_a_file(folder: Path) -> Path:
    (folder / "notes.txt").write_text("not a folder")
    return folder / "notes.txt" / "run"


def a_file(folder: Path) -> Path:
    (folder / "notes.txt").write_text("not a folder")
    return folder / "notes.txt"


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (a_folder_of_something_else, "exists and is not a run: choose another folder with --out"),
        (below_a_file, "cannot write to"),
        (a_file, "exists and is not a run: choose another folder with --out"),
    ],
)
def test_a_place_that_a_run_cannot_have(place: Any, message: str, run: Run, tmp_path: Path) -> None:
    folder = place(tmp_path)
    before = snapshot(tmp_path)
    said = run("train", "--algorithm", "erm", *SMALL, "--out", folder)
    assert_refused(said, message, str(folder))
    assert said.out == ""
    assert snapshot(tmp_path) == before


def test_a_folder_without_permission(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Path.mkdir

    def mkdir(self: Path, *arguments: Any, **options: Any) -> None:
        if self.name == "locked":
            raise PermissionError(13, "Permission denied", str(self))
        plain(self, *arguments, **options)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    assert_refused(
        run("train", "--algorithm", "erm", *SMALL, "--out", "locked"), "cannot write to locked: Permission denied"
    )
    assert snapshot(tmp_path) == {}


def test_an_empty_folder_can_become_a_run(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert run("train", "--algorithm", "erm", *SMALL, "--out", "empty").code == 0
    assert result_of(tmp_path / "empty")["algorithm"] == "erm"


@pytest.mark.parametrize("name", ["a [red]run", "[/bold]"])
def test_a_folder_may_have_brackets_in_its_name(name: str, run: Run, tmp_path: Path) -> None:
    said = run("train", "--algorithm", "erm", *SMALL, "--out", tmp_path / name)
    assert said.code == 0
    assert f"written to {tmp_path / name}" in said.out


@pytest.mark.parametrize("command", ["evaluate", "compact"])
def test_a_run_that_is_not_there(command: str, run: Run, tmp_path: Path) -> None:
    assert_refused(run(command, "nowhere"), "nowhere is not a run: expected a folder with config.json")
    folder = a_folder_of_something_else(tmp_path)
    before = snapshot(tmp_path)
    assert_refused(run(command, folder), f"{folder} is not a run: expected a folder with config.json")
    assert_refused(run(command, folder / "cat.jpg"), "is not a run")
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("content", [b"", b"{", b"not json"])
@pytest.mark.parametrize("command", ["evaluate", "compact"])
def test_a_configuration_that_is_no_json(command: str, content: bytes, run: Run, parse_copy: Path) -> None:
    (parse_copy / "config.json").write_bytes(content)
    assert_refused(run(command, parse_copy), f"{parse_copy / 'config.json'} is not valid JSON")


def test_a_configuration_that_is_no_text(run: Run, parse_copy: Path) -> None:
    (parse_copy / "config.json").write_bytes(b"\xff\xfe\x00")
    assert_refused(run("evaluate", parse_copy), "config.json")


@pytest.mark.parametrize("content", ["[1]", '{"colour": "red"}', '{"seed": "x"}', '{"algorithm": {"name": "emr"}}'])
def test_a_configuration_of_something_else(content: str, run: Run, parse_copy: Path) -> None:
    (parse_copy / "config.json").write_text(content)
    assert_refused(run("evaluate", parse_copy), "config.json")


@pytest.mark.parametrize("command", ["evaluate", "compact"])
def test_a_run_without_its_model(command: str, run: Run, parse_copy: Path) -> None:
    (parse_copy / "model.safetensors").unlink()
    assert_refused(run(command, parse_copy), f"no model at {parse_copy / 'model.safetensors'}")


def test_a_finished_run_with_a_damaged_result(run: Run, parse_copy: Path) -> None:
    (parse_copy / "result.json").write_text("{")
    assert_refused(run("train", *SMALL, "--out", parse_copy), "result.json")


def test_mistakes_in_evaluation(run: Run, parse_run: Path, tmp_path: Path) -> None:
    before = snapshot(parse_run)
    assert_refused(run("evaluate", parse_run, "--domain", "sketchy"), "valid are photo, cartoon, sketch, paint")
    assert_refused(run("evaluate", parse_run, "--model", "no.safetensors"), "no model at no.safetensors")
    assert_refused(run("evaluate", parse_run, "--model", parse_run / "config.json"), "not a readable .safetensors")
    assert_refused(run("evaluate", parse_run, "--device", "gpu"), "device 'gpu' cannot be used")
    assert snapshot(parse_run) == before
    assert snapshot(tmp_path) == {}


def test_a_device_without_numbers_is_refused(run: Run, parse_run: Path) -> None:
    assert_refused(run("evaluate", parse_run, "--device", "meta"), "device 'meta' cannot be used")


def test_only_parse_can_be_compacted(run: Run, erm_run: Path) -> None:
    before = snapshot(erm_run)
    assert_refused(run("compact", erm_run), "this needs a model of parse, found one of erm")
    assert snapshot(erm_run) == before


@pytest.mark.parametrize("threshold", ["-1", "1", "nan", "0.9"])
def test_a_threshold_that_cannot_be(threshold: str, run: Run, parse_run: Path, tmp_path: Path) -> None:
    assert_refused(run("compact", parse_run, "--threshold", threshold, "--out", "x"), "threshold must be")
    assert snapshot(tmp_path) == {}


@pytest.mark.parametrize("place", ["missing/small.safetensors", "folder"])
def test_a_place_that_a_compact_model_cannot_have(place: str, run: Run, parse_run: Path, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert_refused(run("compact", parse_run, "--out", tmp_path / place), str(tmp_path / place))
    assert snapshot(tmp_path) == {"folder": b""}


def test_a_compact_model_does_not_replace_the_model(run: Run, parse_copy: Path) -> None:
    before = snapshot(parse_copy)
    assert_refused(run("compact", parse_copy, "--out", parse_copy / "model.safetensors"), "model.safetensors")
    assert snapshot(parse_copy) == before


def test_a_cache_that_cannot_be_written(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARSE_DG_CACHE", str(below_a_file(tmp_path)))
    before = snapshot(tmp_path)
    assert_refused(run("train", "--algorithm", "erm", *SMALL, "--out", "here"), "PARSE_DG_CACHE")
    assert snapshot(tmp_path) == before


# --- the demonstration ----------------------------------------------------------------------------


def small_recipe(recipe: str, algorithm: str) -> RunConfig:
    """The recipe of the demonstration, made small."""
    primitives = {} if algorithm == "erm" else {"algorithm.primitives.count": 6}
    return change(build_config(recipe, algorithm), {**TINY, **primitives})


@pytest.fixture
def small_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "build_config", small_recipe)
    monkeypatch.setattr(demo, "IMAGES_PER_DOMAIN", 1)


@pytest.fixture(scope="module")
def demo_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where one demonstration is made and others find it finished."""
    return tmp_path_factory.mktemp("demo") / "demo"


@pytest.fixture
def finished_demo(small_demo: None, run: Run, demo_folder: Path) -> tuple[Path, Said]:
    said = run("demo", "--steps", "3", "--target", "cartoon", "--out", demo_folder)
    return demo_folder, said


def test_the_demonstration_compares_compacts_and_draws(finished_demo: tuple[Path, Said]) -> None:
    folder, said = finished_demo
    assert said.code == 0
    assert said.err == ""
    results = {name: result_of(folder / name) for name in ALGORITHMS}
    assert all(result["steps"] == 3 and result["target"]["domain"] == "cartoon" for result in results.values())
    rows = {row[0]: row[1:] for row in table(said.out)}
    assert rows["method"] == ["source validation accuracy", "accuracy on cartoon (never seen)"]
    for name, result in results.items():
        means = (result["validation_mean_accuracy"], result["target"]["accuracy"])
        assert rows[name] == [f"{100 * value:.1f}%" for value in means]
    assert "all 40 images" in said.out
    assert "the same on 160 of all 160 images" in said.out
    assert load_model(folder / "parse" / "compact.safetensors").compact
    for picture in ("primitives.png", "explanation.png"):
        assert (folder / picture).read_bytes().startswith(b"\x89PNG")
    assert len(re.findall(r"= weight \d\.\d+ × satisfaction \d\.\d+", said.out)) == 6


def test_a_second_demonstration_trains_nothing(finished_demo: tuple[Path, Said], run: Run) -> None:
    folder, _ = finished_demo
    models = {name: (folder / name / "model.safetensors").read_bytes() for name in ALGORITHMS}
    said = run("demo", "--steps", "3", "--target", "cartoon", "--out", folder)
    assert said.code == 0
    assert said.out.count("finished: nothing to do") == 3
    assert models == {name: (folder / name / "model.safetensors").read_bytes() for name in ALGORITHMS}


def test_a_demonstration_in_which_nothing_is_right_does_not_say_that_it_is(
    finished_demo: tuple[Path, Said], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = finished_demo

    def always_wrong(model: Any, subset: Any, device: torch.device) -> Predictions:
        labels = torch.from_numpy(subset.domain.labels[subset.indices])
        return Predictions(torch.nn.functional.one_hot((labels + 1) % 8, 8).float(), labels)

    monkeypatch.setattr(demo, "predict", always_wrong)
    said = run("demo", "--steps", "3", "--target", "cartoon", "--out", folder)
    assert said.code == 0
    assert "classified right" not in " ".join(said.out.split())


def test_mistakes_in_the_demonstration(small_demo: None, run: Run, tmp_path: Path) -> None:
    assert_refused(run("demo", "--steps", "0"), "training.steps must be at least 1, found 0")
    assert_refused(run("demo", "--target", "sketchy"), "'sketchy': valid are photo, cartoon, sketch, paint")
    assert_refused(run("demo", "--seed", "-2"), "seed must be 0 or more")
    assert snapshot(tmp_path) == {}


def test_a_demonstration_without_matplotlib_says_so_before_it_trains(
    small_demo: None, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert_refused(run("demo", "--steps", "1"), "install parse-dg[pictures]")
    assert snapshot(tmp_path) == {}


def test_a_demonstration_can_be_interrupted(
    small_demo: None, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Erm, "losses", fail_at(3, interrupt))
    said = run("demo", "--steps", "4")
    assert said.code == 130
    assert said.err.count("\n") == 1
    assert sorted(path.name for path in (tmp_path / "demo").iterdir()) == ["erm"]
