"""`parse-dg config`: every field can be found, and docs/configuration.md is what the code says."""

import json
from pathlib import Path

import pytest

from parse_dg.algorithms import ALGORITHMS
from parse_dg.config import field_paths, lookup
from parse_dg.runs.recipes import build_config
from tests.cli.conftest import Run, assert_refused

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def fields(run: Run, *arguments: str) -> dict[str, dict[str, str]]:
    said = run("config", *arguments, "--format", "json")
    assert said.code == 0
    return {field["path"]: field for field in json.loads(said.out)}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_field_is_there_with_its_meaning(algorithm: str, run: Run) -> None:
    config = build_config("pretrained", algorithm)
    found = fields(run, "--algorithm", algorithm, "--recipe", "pretrained")
    paths = list(field_paths(config))
    leaves = {path for path in paths if not any(other.startswith(f"{path}.") for other in paths)}
    assert set(found) == leaves
    for path, field in found.items():
        assert field["meaning"], path
        assert field["type"], path
        assert lookup(config, path) is not None or field["value"] == "none"


def test_a_section_with_the_values_of_a_recipe(run: Run) -> None:
    found = fields(run, "algorithm.predicates", "--recipe", "paper")
    assert {path.rpartition(".")[0] for path in found} == {"algorithm.predicates"}
    assert found["algorithm.predicates.near_tolerance"] == {
        "path": "algorithm.predicates.near_tolerance",
        "meaning": "ρ.",
        "type": "number",
        "valid": "positive",
        "value": "0.2",
        "default": "0.3",
    }
    (steps,) = fields(run, "training.steps", "--data", "pacs", "--protocol", "domainbed").values()
    assert (steps["value"], steps["default"]) == ("5001", "600")


def test_text_can_be_read_on_80_columns(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("config", "mixstyle").out.splitlines()
    assert lines[:2] == [
        "mixstyle  Where and how strongly styles are mixed; the defaults are the authors'",
        "advice for one fixed setting.",
    ]
    assert "  mixstyle.stages = () (default 1,2)" in lines
    assert "      list of whole numbers: different stages out of 1 to 4" in lines
    assert "      one of random, crossdomain" in lines
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("section", "meant"),
    [("trainin", "training"), ("primitives", "algorithm.primitives"), ("steps", "training.steps")],
)
def test_an_unknown_section_is_answered_with_what_was_meant(section: str, meant: str, run: Run) -> None:
    assert_refused(run("config", section), f"unknown configuration field {section!r}: did you mean {meant}?")


def test_a_method_of_a_plug_in_has_its_fields_too(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for table in ("_things", "_origins"):
        monkeypatch.setattr(ALGORITHMS, table, dict(getattr(ALGORITHMS, table)))
    monkeypatch.setattr("parse_dg.plugins._loaded", {})
    (tmp_path / "config_plugin.py").write_text(
        "from dataclasses import dataclass\n"
        "from parse_dg.algorithms import register_algorithm\n"
        "from parse_dg.algorithms.erm import ErmConfig\n"
        "from parse_dg.config import NotNegative\n\n\n"
        "@register_algorithm\n"
        "@dataclass(frozen=True, kw_only=True)\n"
        "class Penalised(ErmConfig):\n"
        '    name = "penalised"\n'
        "    penalty: NotNegative = 2.0\n"
        '    """On the variance of the losses."""\n'
    )
    found = fields(run, "algorithm", "--algorithm", "penalised", "--plugin", "config_plugin")
    assert list(found) == ["algorithm.dropout", "algorithm.penalty"]
    assert found["algorithm.penalty"]["meaning"] == "On the variance of the losses."
    assert found["algorithm.penalty"]["valid"] == "0 or more"


def test_the_page_is_what_the_code_says(run: Run) -> None:
    assert run("config", "--format", "markdown").out == PAGE.read_text(), (
        "run `parse-dg config --format markdown > docs/configuration.md`"
    )
