"""The command line: every mistake gets one line, exit code 2 and nothing else."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import SMALL, Run, assert_refused, snapshot

TRAINING_MISTAKES = {
    "an unknown algorithm": (["--algorithm", "emr"], "unknown algorithm 'emr': valid are erm, dann, cdann,"),
    "an unknown recipe": (
        ["--recipe", "soup"],
        "unknown recipe 'soup': valid are blueprints, pretrained, fine_grained, domainbed, paper",
    ),
    "an unknown benchmark": (["--data", "PACS"], "no data set 'PACS': here are blueprints; pacs, vlcs,"),
    "a benchmark that is not here": (["--data", "pacs"], "`parse-dg data add pacs PATH`"),
    "an unknown protocol": (
        ["--protocol", "imagenet"],
        "unknown protocol 'imagenet': valid are parse, domainbed, swad",
    ),
    "no domain to validate on": (
        ["--set", "protocol.selection=leave-one-domain-out"],
        "split.validation_domain must be a domain with protocol.selection=leave-one-domain-out",
    ),
    "an unknown domain": (["--target", "sketchy"], "'sketchy': valid are photo, cartoon, sketch, paint"),
    "an unknown field": (
        ["--set", "training.step=3"],
        "unknown configuration field 'training.step': did you mean training.steps?",
    ),
    "no value": (["--set", "training.steps"], "--set takes section.field=value"),
    "another method's field": (["--algorithm", "erm", "--set", "algorithm.sparsity=1"], "'algorithm.sparsity'"),
    "a negative seed": (["--seed", "-1"], "seed must be 0 or more, found -1"),
    "an unknown device": (["--set", "training.device=gpu"], "device 'gpu' cannot be used"),
    "an unknown backbone": (["--set", "backbone.name=big"], "unknown backbone 'big': valid are small,"),
    "weights that are not there": (["--set", "backbone.weights=no.pth"], "no.pth does not exist"),
}


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


@pytest.mark.parametrize("command", ["evaluate", "compact"])
def test_a_run_that_is_not_there(command: str, run: Run, tmp_path: Path) -> None:
    assert_refused(run(command, "nowhere"), "nowhere is not a run: expected a folder with config.json")
    folder = a_folder_of_something_else(tmp_path)
    before = snapshot(tmp_path)
    assert_refused(run(command, folder), f"{folder} is not a run: expected a folder with config.json")
    assert_refused(run(command, folder / "cat.jpg"), "is not a run")
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe\x00"])
@pytest.mark.parametrize("command", ["evaluate", "compact"])
def test_a_configuration_that_is_no_json(command: str, content: bytes, run: Run, parse_copy: Path) -> None:
    (parse_copy / "config.json").write_bytes(content)
    assert_refused(run(command, parse_copy), f"{parse_copy / 'config.json'} is not valid JSON")


@pytest.mark.parametrize("content", ["[1]", '{"colour": "red"}'])
def test_a_configuration_of_something_else(content: str, run: Run, parse_copy: Path) -> None:
    (parse_copy / "config.json").write_text(content)
    assert_refused(run("evaluate", parse_copy), "config.json")


@pytest.mark.parametrize("command", ["evaluate", "compact"])
def test_a_run_without_its_model(command: str, run: Run, parse_copy: Path) -> None:
    (parse_copy / "model.safetensors").unlink()
    assert_refused(run(command, parse_copy), f"no model at {parse_copy / 'model.safetensors'}")


def test_mistakes_in_evaluation(run: Run, parse_run: Path, tmp_path: Path) -> None:
    before = snapshot(parse_run)
    assert_refused(run("evaluate", parse_run, "--domain", "sketchy"), "valid are photo, cartoon, sketch, paint")
    assert_refused(run("evaluate", parse_run, "--model", "no.safetensors"), "no model at no.safetensors")
    assert_refused(run("evaluate", parse_run, "--model", parse_run / "config.json"), "not a readable .safetensors")
    assert_refused(run("evaluate", parse_run, "--device", "gpu"), "device 'gpu' cannot be used")
    assert snapshot(parse_run) == before
    assert snapshot(tmp_path) == {}


def test_a_cache_that_cannot_be_written(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARSE_DG_CACHE", str(below_a_file(tmp_path)))
    before = snapshot(tmp_path)
    assert_refused(run("train", "--algorithm", "erm", *SMALL, "--out", "here"), "PARSE_DG_CACHE")
    assert snapshot(tmp_path) == before
