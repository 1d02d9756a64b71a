"""parse-dg compact: one run in full, several in one table, and a promise that is kept or said to be broken."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from parse_dg.deploy.model_file import load_model
from tests.cli.conftest import Run, result_of, shown, snapshot, table
from tests.runs.helpers import without_digests


@pytest.fixture
def two_runs(parse_copy: Path, tmp_path: Path) -> list[Path]:
    """Two finished runs of PARSE, said to be of different targets."""
    other = without_digests(Path(shutil.copytree(parse_copy, tmp_path / "other")))
    config = json.loads((other / "config.json").read_text())
    config["data"]["target"] = "paint"
    (other / "config.json").write_text(json.dumps(config))
    return [parse_copy, other]


def report_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "compact.json").read_text())


def test_compact_writes_a_small_model_and_says_that_nothing_changed(run: Run, parse_copy: Path) -> None:
    before = snapshot(parse_copy)
    said = run("compact", parse_copy)
    assert said.code == 0
    assert said.err == ""
    after = snapshot(parse_copy)
    assert after.pop("compact.safetensors")
    assert after.pop("compact.json")
    assert after == before
    model, small = load_model(parse_copy), load_model(parse_copy / "compact.safetensors")
    shapes = [m.parse_network().structure.composition.weight.shape for m in (model, small)]
    rows = {row[0]: row[1:] for row in table(said.out)}
    assert rows["sketch held out, seed 0, threshold 0"] == ["before", "after"]
    assert rows["predicate applications"] == [f"{shape[1]:,}" for shape in shapes]
    assert rows["parameters of Λ (classes × applications)"] == [f"{8 * shape[1]:,}" for shape in shapes]
    sizes = [(parse_copy / name).stat().st_size for name in ("model.safetensors", "compact.safetensors")]
    assert rows["model file, bytes"] == [f"{size:,}" for size in sizes]
    report = report_of(parse_copy)
    assert rows["parameters of the whole model"] == [
        f"{report['model_parameters'][k]:,}" for k in ("before", "after")
    ]
    assert rows["GFLOPs for one image"] == [f"{report['gflops'][k]:.4f}" for k in ("before", "after")]
    assert f"{100 * (1 - shapes[1][1] / shapes[0][1]):.1f}% of Λ's parameters are gone" in said.out
    assert "the same on 160 of all 160 images, the largest difference of a logit is 0" in said.out
    started, all_of_them = report["applications"]["at_start"], report["applications"]["before"]
    assert f"in use at the start, before training: {started:,} of {all_of_them:,} applications" in said.out
    assert f"so that {100 * (1 - started / all_of_them):.1f}% of Λ's parameters were not needed" in said.out
    assert f"written to {parse_copy / 'compact.safetensors'}\n" in said.out
    assert f"all figures in {parse_copy / 'compact.json'}\n" in said.out


def test_a_compact_model_is_evaluated_like_any_other(run: Run, parse_copy: Path) -> None:
    assert run("compact", parse_copy).code == 0
    full = run("evaluate", parse_copy)
    small = run("evaluate", parse_copy, "--model", parse_copy / "compact.safetensors")
    assert small.code == 0
    assert small.out == full.out
    assert "sketch" in small.out


def test_several_runs_give_one_table(run: Run, two_runs: list[Path]) -> None:
    said = run("compact", *two_runs)
    assert (said.code, said.err) == (0, "")
    head, sketch, paint, mean = table(said.out)
    assert head[:3] == ["data", "target", "seed"]
    assert [row[:3] for row in (sketch, paint, mean)] == [
        ["blueprints", "sketch", "0"],
        ["blueprints", "paint", "0"],
        ["blueprints", "mean of 2 runs", ""],
    ]
    report = report_of(two_runs[0])
    cells = dict(zip(head, sketch, strict=True))
    assert cells["applications"] == f"{report['applications']['before']:,} → {report['applications']['after']:,}"
    assert cells["in use at the start"] == f"{report['applications']['at_start']:,}"
    assert cells["reduction of Λ"] == f"{100 * report['reduction']:.1f}%"
    assert cells["same prediction"] == "160 of 160"
    accuracy = shown(result_of(two_runs[0])["target"])[0]
    assert cells["accuracy on target"] == f"{accuracy} → {accuracy}"
    assert sketch[3:10] == paint[3:10] == mean[3:10]  # the same model twice
    for folder in two_runs:
        assert f"written to {folder / 'compact.safetensors'}\n" in said.out
        assert load_model(folder / "compact.safetensors").compact
