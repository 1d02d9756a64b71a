"""parse-dg evaluate, info and help: every command does its work and says what it did."""

import argparse
import io
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from parse_dg._version import __version__
from parse_dg.algorithms import ALGORITHMS
from parse_dg.cli import build_parser, main
from parse_dg.cli.options import SELECTION_NAMES
from parse_dg.cli.trained import export as cli_export, figure
from parse_dg.data.public.catalogue import DATA_SETS
from parse_dg.deploy import export, predictor
from parse_dg.explain.figures import page
from parse_dg.explain.measures import collapse, structure_use
from parse_dg.explain.report import gather
from parse_dg.runs import keeper
from parse_dg.runs.protocols import PROTOCOLS
from parse_dg.runs.recipes import RECIPES
from parse_dg.training import protocol
from tests.cli.conftest import Run, result_of, shown, snapshot, table

COMMANDS = (
    *("train", "config", "evaluate", "compact", "demo", "info", "algorithms", "sweep", "data", "weights"),
    *("table", "describe", "predict", "explain", "name", "figure", "measure", "report", "serve", "export"),
)


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


def test_info_names_everything_there_is(run: Run, cache: Path) -> None:
    said = run("info")
    assert said.code == 0
    always = (__version__, torch.__version__, "cpu", str(cache), "blueprints")
    for name in (*always, *ALGORITHMS, *DATA_SETS, *RECIPES, *PROTOCOLS):
        assert name in said.out
    assert "the paper has its figures from there." in " ".join(said.out.split()), "a sentence is said to its end"


def test_algorithms_are_those_of_the_table(run: Run) -> None:
    said = run("algorithms")
    assert (said.code, said.err) == (0, "")
    header, *rows = table(said.out)
    assert header == ["algorithm", "what it does", "published"]
    assert rows == [[name, method.summary, method.reference] for name, method in ALGORITHMS.items()]


def subparsers() -> dict[str, argparse.ArgumentParser]:
    (found,) = (a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction))
    return dict(found.choices)


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert tuple(subparsers()) == COMMANDS
    with pytest.raises(SystemExit) as left:
        main(["--help"])
    assert left.value.code == 0
    text = capsys.readouterr().out
    for command in COMMANDS:
        assert re.search(rf"^ +{command}\s+\w+", text, re.MULTILINE), command  # a long one has a line to itself
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
    for name in (*ALGORITHMS, "blueprints", *RECIPES, *PROTOCOLS, "config.json", "result.json"):
        assert name in text


def test_the_defaults_that_help_says_are_those_of_the_code() -> None:
    """Commands do not import what has them, as `--help` would wait for PyTorch."""
    read = build_parser().parse_args
    predict, measure = read(["predict", "RUN", "IMAGE"]), read(["measure", "RUN"])
    assert (predict.top, predict.batch) == (predictor.TOP, predictor.BATCH)
    assert (measure.within, measure.swaps) == (collapse.WITHIN, structure_use.SWAPS)
    assert read(["report", "RUN"]).images == gather.IMAGES
    assert read(["train"]).checkpoint_every == keeper.EVERY
    assert SELECTION_NAMES.split(", ") == list(protocol.SELECTION_NAMES)
    assert figure.WIDTHS == page.WIDTHS
    assert cli_export.FORMATS == export.FORMATS
    assert f"{export.TOLERANCE:g}" in str(cli_export.export.__doc__)


@pytest.mark.parametrize(
    "words",
    [
        "",
        "nothing",
        "train --nothing",
        "train --seed x",
        "evaluate",
        "compact a --threshold b",
        "compact a --format html",
    ],
)
def test_what_is_no_command_line(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(words.split())
    assert left.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "usage: parse-dg" in captured.err


def test_the_installed_command_says_its_version() -> None:
    command = Path(sys.executable).with_name("parse-dg")
    done = subprocess.run([command, "--version"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"parse-dg {__version__}\n", "")


def test_no_mark_that_turns_the_direction_of_text_reaches_a_terminal(
    erm_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(erm_run, tmp_path / "a\u202egpj.exe")
    shown = io.BytesIO()
    terminal = io.TextIOWrapper(shown, encoding="utf-8", write_through=True)
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdout", terminal)
    assert main(["train", "--config", str(folder / "config.json"), "--out", str(folder)]) == 0
    assert "a\\u202egpj.exe" in shown.getvalue().decode()
    assert "\u202e" not in shown.getvalue().decode()
