"""parse-dg train: a run is written and its result said; a run that ends early keeps what it has."""

import json
import math
from pathlib import Path

import pytest
import torch

from parse_dg.algorithms.erm import Erm
from parse_dg.deploy.model_file import load_model
from parse_dg.runs.folder import hold
from tests.cli.conftest import SMALL, Run, assert_refused, fail_at, interrupt, result_of, shown, snapshot, table
from tests.conftest import slow_but


@pytest.mark.parametrize("algorithm", slow_but("parse"))
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
        "split.json",
    }
    result = result_of(folder)
    assert result["algorithm"] == algorithm
    assert result["target"]["domain"] == "paint"
    rows = {row[0]: row[1:] for row in table(said.out)}
    assert rows["paint, all images (target: the result)"] == shown(result["target"])
    part = result["validation_part"]
    for domain in ("photo", "cartoon", "sketch"):
        assert rows[f"{domain}, {part} (source)"] == shown(result["validation"][domain])
    assert rows["mean of the source domains"][0] == f"{100 * result['validation_mean_accuracy']:.1f}%"
    assert f"weights of step {result['selected_step']} of 4" in said.out
    assert f"{algorithm}, paint held out: step 4 of 4, source validation " in said.out
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


def test_a_finished_run_is_not_trained_again(run: Run, parse_copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parse_dg.runs.run.build_trainer", None)  # whoever trains, fails
    before = snapshot(parse_copy)
    said = run("train", *SMALL, "--out", parse_copy)
    assert said.code == 0
    assert f"finished: nothing to do, this run is already in {parse_copy}\n" in said.out
    assert shown(result_of(parse_copy)["target"])[1] in said.out
    assert snapshot(parse_copy) == before


def not_a_number() -> dict[str, torch.Tensor]:
    return {"cross_entropy": torch.tensor(math.nan), "other": torch.tensor(1.0)}


def test_a_loss_that_is_no_number_ends_the_run(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Erm, "losses", fail_at(3, not_a_number))
    said = run("train", "--algorithm", "erm", *SMALL, "--out", "here")
    assert said.code == 1
    assert said.err.count("\n") == 1
    assert said.err.startswith("parse-dg: the loss is not finite at step 3 (cross_entropy nan, other 1, total nan)")
    assert "the weights of step 2 are kept" in said.err
    assert all(f"optimizer.{name}_rate" in said.err for name in ("backbone", "head", "composition"))
    assert not (tmp_path / "here" / "result.json").exists()
    assert len((tmp_path / "here" / "metrics.jsonl").read_text().splitlines()) == 1
    assert load_model(tmp_path / "here").spec.algorithm.name == "erm"
    assert run("evaluate", "here").code == 0
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert run("train", "--algorithm", "erm", *SMALL, "--out", "here").code == 0  # it can be tried again


def test_an_interrupted_run_keeps_its_best_weights(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Erm, "losses", fail_at(3, interrupt))
    said = run("train", "--algorithm", "erm", *SMALL, "--out", "here")
    assert said.code == 130
    assert said.err == "parse-dg: interrupted; the same command goes on from what was written so far\n"
    assert load_model(tmp_path / "here").spec.algorithm.name == "erm"
    assert not (tmp_path / "here" / "result.json").exists()


def test_a_run_is_tracked_beside_its_files(run: Run, erm_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "followed"
    said = run("train", "--algorithm", "erm", *SMALL, "--out", out, "--track", "tensorboard")
    assert said.code == 0
    assert list((out / "tensorboard").iterdir())
    for name in ("config.json", "metrics.jsonl", "model.safetensors", "result.json"):
        assert (out / name).read_bytes() == (erm_run / name).read_bytes()
    assert_refused(run("train", *SMALL, "--out", tmp_path / "other", "--track", "tb"), "unknown tracker 'tb'")
    assert not (tmp_path / "other").exists()


def test_a_run_that_another_process_is_at_is_left_alone(run: Run, tmp_path: Path) -> None:
    with hold(tmp_path / "held"):
        said = run("train", "--algorithm", "erm", *SMALL, "--out", tmp_path / "held")
    assert said.code == 3
    assert said.err.startswith("parse-dg: another process is at the run in ")


def test_other_settings_are_named_and_replace_a_run_when_asked_to(run: Run, parse_copy: Path) -> None:
    (parse_copy / "report.html").touch()
    (parse_copy / "notes.txt").write_text("mine")
    other = ("train", *SMALL, "--set", "training.steps=3", "--out", parse_copy)
    before = snapshot(parse_copy)
    assert_refused(run(*other), "(training.steps=4, now 3): replace it with --overwrite, or choose another folder")
    assert "would be written to" in run(*other, "--dry-run", "--overwrite").out
    assert snapshot(parse_copy) == before
    assert run(*other, "--overwrite").code == 0
    assert result_of(parse_copy)["steps"] == 3
    assert not (parse_copy / "report.html").exists()
    assert (parse_copy / "notes.txt").read_text() == "mine"
    before = snapshot(parse_copy)
    assert "finished: nothing to do" in run(*other, "--overwrite").out  # the same settings are never trained twice
    assert snapshot(parse_copy) == before
