"""parse-dg measure: the same numbers in every form, and one line for what cannot be measured."""

import csv
import io
import json
from pathlib import Path

import pytest

from parse_dg.explain.measures.measure import RunMeasures, measure_run
from parse_dg.runs.afterwards.opened import open_run
from tests.cli.conftest import Run, assert_refused, snapshot, table


@pytest.fixture(scope="module")
def found(parse_run: Path) -> RunMeasures:
    return measure_run(open_run(parse_run, device="cpu"))


def test_the_tables(run: Run, parse_run: Path, found: RunMeasures) -> None:
    before = snapshot(parse_run)
    said = run("measure", parse_run, "--device", "cpu")
    assert (said.code, said.err) == (0, "")
    rows = {tuple(row[:2]): row for row in table(said.out)[:5]}
    use = found.domains[3].structure
    assert rows["sketch", "target: all images"][3] == f"{100 * use.whole:.1f}%"
    for title in ("What accuracy rests on", "Collapse", "Consistency of primitives", "Localisation"):
        assert f"{title}" in said.out
    assert snapshot(parse_run) == before


def test_csv(run: Run, parse_run: Path, found: RunMeasures) -> None:
    said = run("measure", parse_run, "--device", "cpu", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(said.out)))
    (value,) = [
        r["value"] for r in rows if (r["measure"], r["where"], r["what"]) == ("structure", "photo", "whole")
    ]
    assert float(value) == found.domains[0].structure.whole


def test_settings_are_passed_on(run: Run, parse_run: Path) -> None:
    said = run("measure", parse_run, "--device", "cpu", "--format", "json", "--within", "2", "--swaps", "3")
    data = json.loads(said.out)["domains"][0]
    assert data["collapse"]["within"] == 2
    assert data["structure"]["swaps"] == 3


def test_what_cannot_be_measured(run: Run, parse_run: Path, erm_run: Path, tmp_path: Path) -> None:
    assert_refused(run("measure", erm_run), "needs a model of parse, found one of erm")
    assert_refused(run("measure", tmp_path), "is not a run: expected a folder with config.json")
    assert_refused(run("measure", parse_run, "--model", tmp_path / "no.safetensors"), "no model at")
    assert_refused(run("measure", parse_run, "--device", "tpu"), "device 'tpu' cannot be used")
    assert_refused(
        run("measure", parse_run, "--within", "-1"), "--within must be a positive number of cells, found -1.0"
    )
    assert_refused(run("measure", parse_run, "--swaps", "0"), "--swaps must be at least 1, found 0")
