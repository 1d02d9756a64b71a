"""parse-dg train: a run is written and its result said; a run that ends early keeps what it has."""

import io
import json
import math
import re
from pathlib import Path

import pytest
import torch

from parse_dg.algorithms.erm import Erm
from parse_dg.config import to_dict
from parse_dg.deploy.model_file import load_model
from parse_dg.runs.folder import hold, read_config
from tests.cli.conftest import SMALL, Run, assert_refused, fail_at, interrupt, result_of, shown, snapshot, table
from tests.conftest import Tiny, slow_but
from tests.data.intake.test_library import DOMAINS, plant

AS_TINY = (*SMALL, "--set", "algorithm.vocabulary.families=all")
"""What leads to the small run of PARSE that tests share."""


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
    said = run("train", *AS_TINY, "--out", parse_copy)
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
    other = ("train", *AS_TINY, "--set", "training.steps=3", "--out", parse_copy)
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


# parse-dg train --config: a run from a whole configuration, in a file or from standard input


def test_a_run_is_repeated_from_its_configuration(run: Run, erm_run: Path, tmp_path: Path) -> None:
    said = run("train", "--config", erm_run / "config.json", "--out", "again")
    assert said.code == 0
    assert "written to again" in said.out
    for name in ("config.json", "result.json", "model.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (erm_run / name).read_bytes()


def test_a_configuration_from_standard_input(
    run: Run, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny("coral", seed=3, data__target="paint", averaging__kind="ema")
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(to_dict(config))))
    assert run("train", "--config", "-", "--out", "here").code == 0
    assert read_config(tmp_path / "here") == config


def test_fields_of_a_configuration_can_be_changed(run: Run, erm_run: Path, tmp_path: Path) -> None:
    said = run("train", "--config", erm_run / "config.json", "--out", "here", "--set", "training.steps=2")
    assert said.code == 0
    assert read_config(tmp_path / "here").training.steps == 2


def test_the_names_in_a_configuration_are_taken_as_they_are(
    run: Run, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pacs").mkdir()  # a folder here is not what was meant elsewhere
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(to_dict(tiny("erm", data__benchmark="pacs")))))
    seen: list[str] = []
    monkeypatch.setattr(
        "parse_dg.cli.show.display.run_with_display",
        lambda config, *rest, **more: seen.append(config.data.benchmark),
    )
    monkeypatch.setattr("parse_dg.cli.show.display.print_result", lambda *rest, **more: None)
    assert run("train", "--config", "-", "--out", "here").code == 0
    assert seen == ["pacs"]


@pytest.mark.parametrize("option", [["--algorithm", "erm"], ["--seed", "1"]])
def test_a_configuration_comes_alone(option: list[str], run: Run, erm_run: Path, tmp_path: Path) -> None:
    said = run("train", "--config", erm_run / "config.json", "--out", "here", *option)
    assert_refused(said, f"--config is a whole configuration: give --set instead of {option[0]}")
    assert snapshot(tmp_path) == {}


def test_a_configuration_needs_a_folder(run: Run, erm_run: Path, tmp_path: Path) -> None:
    assert_refused(run("train", "--config", erm_run / "config.json"), "--config needs --out FOLDER")
    assert snapshot(tmp_path) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "config.json is not valid JSON"),
        ("[]", "config.json: the configuration must be a section, found []"),
        (
            '{"training": {"step": 1}}',
            "config.json: unknown configuration field 'training.step': did you mean training.steps?",
        ),
        ('{"training": {"steps": 0}}', "config.json: training.steps must be at least 1, found 0"),
        ('{"selected_step": 2}', "config.json is the result of a run, not its configuration: give the config.json"),
        ('{"algorithm": {"name": "emr"}}', "config.json: unknown algorithm 'emr': valid are erm"),
    ],
)
def test_a_configuration_that_is_none(text: str, message: str, run: Run, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text)
    assert_refused(run("train", "--config", "config.json", "--out", "here"), message)
    assert not (tmp_path / "here").exists()


def test_a_configuration_that_is_not_there(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_refused(run("train", "--config", "no.json", "--out", "here"), "cannot read no.json: No such file")
    assert_refused(run("train", "--config", tmp_path, "--out", "here"), "Is a directory")
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert_refused(run("train", "--config", "-", "--out", "here"), "standard input is not valid JSON")


def test_a_path_given_by_set_is_made_absolute(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir()
    said = run("train", "--algorithm", "erm", *SMALL, "--set", "data.benchmark=mine", "--out", "here")
    assert_refused(said, str(tmp_path / "mine"))


# parse-dg train --dry-run: what would be done is what is done then, and nothing is written


ERM = ["train", "--algorithm", "erm", *SMALL]


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Data folder and cache are there to be looked for."""
    monkeypatch.setenv("PARSE_DG_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("PARSE_DG_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_the_images_steps_and_settings_are_those_of_the_run(run: Run, places: Path) -> None:
    said = run(*ERM, "--dry-run", "--set", "seed=3")
    assert (said.code, said.err) == (0, "")
    assert snapshot(places) == {}
    assert "* training.steps = 4 (default 600)\n" in said.out
    assert "\n  split.holdout = 0.2\n" in said.out
    assert (
        "8 classes; 4 steps with batches of 12 images (0.5 epochs), 2 checks; images squashed to 64 × 64"
        in said.out
    )
    assert "expected cost: nothing is known yet" in said.out
    rows = {(domain, purpose): int(images) for domain, purpose, images in table(said.out)[1:]}

    assert run(*ERM, "--set", "seed=3").code == 0
    folder = Path("runs/blueprints/erm/sketch/seed3")
    split, config = (json.loads((folder / name).read_text()) for name in ("split.json", "config.json"))
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == 2
    for domain, images in split["training_images"].items():
        assert rows[domain, "source: trains"] == images
        assert rows[domain, "source: validates, held-out images"] == len(split["validation"][domain])
    assert rows["sketch", "target: the result, all images"] == 40
    assert len(rows) == 7
    printed = dict(re.findall(r"^[* ] ([a-z_.]+) = (\S*)", said.out, re.MULTILINE))
    assert float(printed["optimizer.head_rate"]) == config["optimizer"]["head_rate"]

    before = snapshot(places)
    again = run(*ERM, "--set", "seed=3", "--dry-run")
    assert f"the run is there already, and finished: {folder}" in again.out
    other = run(*ERM, "--set", "seed=4", "--dry-run")
    assert re.search(r"expected cost: .* on one CPU, from 1 finished run of the same kind", other.out)
    assert snapshot(places) == before


def test_a_protocol_shows_in_the_parts(run: Run) -> None:
    said = run(*ERM, "--protocol", "domainbed", "--dry-run")
    rows = {(domain, purpose): images for domain, purpose, images in table(said.out)[1:]}
    assert rows["sketch", "target: the result, 80% of the images"] == "32"
    assert rows["sketch", "target: held out, for the oracle"] == "8"
    assert rows["photo", "source: validates, held-out images, augmented"] == "8"
    assert "Checks score the target too, for the record" in said.out


def test_own_images_are_counted_as_listed_until_they_were_opened(
    run: Run, places: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = plant(places / "own", images=10, side=(12, 9))
    before = snapshot(places)
    said = run("train", "--data", own, "--target", DOMAINS[0], "--dry-run")
    assert said.code == 0
    assert [row[2] for row in table(said.out)[1:]] == ["16", "16", "4", "4", "20"]
    assert "counted as listed" in caplog.text
    assert snapshot(places) == before


def test_what_training_refuses_is_refused(run: Run, tmp_path: Path) -> None:
    assert_refused(run(*ERM, "--dry-run", "--target", "sketchy"), "'sketchy': valid are photo, cartoon, sketch")
    assert_refused(run(*ERM, "--dry-run", "--set", "training.step=3"), "did you mean training.steps?")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "cat.txt").write_text("a cat")
    assert_refused(run(*ERM, "--dry-run", "--out", "notes"), "exists and is not a run")
