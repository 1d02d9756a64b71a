"""What README.md promises: its example runs, its commands are understood, what it points at is there."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import parse_dg
from parse_dg.cli import build_parser
from parse_dg.cli.train import configure
from parse_dg.jsonable import flat
from parse_dg.runs.folder import read_config
from parse_dg.sweeps.presets import PRESETS
from tests.conftest import TINY

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
SCALING = ROOT / "docs" / "scaling.md"

pytestmark = pytest.mark.skipif(not README.exists(), reason="there is no README.md here")


def text() -> str:
    return README.read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The code blocks of a language; "" for those that name none."""
    return [
        code
        for name, code in re.findall(r"^```(\w*)\n(.*?)^```", text(), re.MULTILINE | re.DOTALL)
        if name == language
    ]


def commands() -> list[str]:
    """Every line of a code block that calls parse-dg, without its comment."""
    lines = [line.split("#")[0].strip() for code in (*blocks(""), *blocks("bash")) for line in code.splitlines()]
    return [line for line in lines if line.startswith("parse-dg ")]


def test_the_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = blocks("python")
    assert len(example.strip().splitlines()) <= 10
    quick, replaced = re.subn(r'\{"training.steps": \d+\}', repr(TINY), example)
    assert replaced == 1
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(quick, str(README), "exec"), names)
    printed = capsys.readouterr().out.splitlines()
    result = json.loads((tmp_path / "runs" / "readme" / "result.json").read_text())
    assert printed[0] == f"sketch {result['target']['accuracy']} by {result['selection']}"
    explanation = parse_dg.explain(names["model"], names["image"])
    assert printed[1] == explanation.predicted
    assert len(printed) == 7
    for line, relation in zip(printed[2:], explanation.relations, strict=False):
        assert line == f"{relation.words} {relation.contribution}"


def test_every_command_is_understood() -> None:
    assert {shlex.split(line)[1] for line in commands()} >= {"train", "evaluate", "compact", "info"}
    for line in commands():
        options = build_parser().parse_args(shlex.split(line.partition(" > ")[0])[1:])
        if options.command.__name__ == "train":
            configure(options)  # every name and every field exists


def test_every_command_of_scaling_is_understood() -> None:
    lines = re.findall(
        r"^(?:torchrun .*-m parse_dg|srun .* parse-dg|parse-dg) (.*)$", SCALING.read_text(), re.MULTILINE
    )
    assert len(lines) > 15
    for line in lines:
        words = shlex.split(line.partition(" > ")[0].replace(" ...", ""), comments=True)
        build_parser().parse_args(words)


def test_every_table_and_figure_of_the_paper_has_a_command() -> None:
    page = (ROOT / "docs" / "paper_map.md").read_text()
    section = page.partition("## Every table and figure")[2].partition("\n## ")[0]
    lines = re.findall(r"`parse-dg ([^`]*)`", section)
    asked = [build_parser().parse_args(shlex.split(line)) for line in lines]
    assert {each.preset for each in asked if each.command.__name__ == "sweep"} == set(PRESETS)
    assert {line.split()[1] for line in lines if line.startswith("figure")} == {
        "pipeline",
        "errors",
        "primitives",
        "k",
    }
    assert {each.view for each in asked if each.command.__name__ == "table"} == {"compaction"}


def test_every_make_target_is_there() -> None:
    makefile = (ROOT / "Makefile").read_text()
    promised = re.findall(r"^make (\w+)", text(), re.MULTILINE)
    assert {"demo", "test"} <= set(promised)
    for target in promised:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_everything_it_points_at_is_there() -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", text())
    missing = [link for link in links if not link.startswith(("http", "mailto")) and not (ROOT / link).exists()]
    assert missing == []


def test_nothing_is_left_to_be_filled_in() -> None:
    assert re.findall(r"^(?:[A-Z_]{4,}|.*\b(?:TODO|FIXME|XXX)\b.*)$", text(), re.MULTILINE) == []


@pytest.mark.parametrize("run", ["parse_run", "erm_run"])
def test_every_field_of_a_configuration_can_be_set(run: str, request: pytest.FixtureRequest) -> None:
    """With its own value, as one would type it: nothing changes, and nothing is refused."""
    folder: Path = request.getfixturevalue(run)
    data = json.loads((folder / "config.json").read_text())
    fields = flat(data)
    assert len(fields) > 25
    arguments = ["train", "--algorithm", fields.pop("algorithm.name")]
    for path, value in fields.items():
        typed = ",".join(str(item) for item in value) if isinstance(value, list) else str(value)
        arguments += ["--set", f"{path}={typed}"]
    assert configure(build_parser().parse_args(arguments)) == read_config(folder)
