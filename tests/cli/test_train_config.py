"""parse-dg train --config: a run from a whole configuration, in a file or from standard input."""

import io
import json
from pathlib import Path

import pytest

from parse_dg.config import to_dict
from parse_dg.runs.folder import read_config
from tests.cli.conftest import SMALL, Run, assert_refused, snapshot
from tests.conftest import Tiny


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
