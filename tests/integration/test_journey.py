"""Whole journeys: from a command to an explanation, through nothing but the files in between."""

import json
import math
import re
from pathlib import Path

import pytest

from parse_dg import explain, load_model, open_benchmark
from parse_dg.runs.folder import read_config
from tests.conftest import TINY
from tests.integration.conftest import Call

pytestmark = pytest.mark.slow


def counts(text: str) -> dict[str, tuple[int, int]]:
    """domain → (correct, images), from the table that `evaluate` prints."""
    rows = re.findall(r"│ (\w+) +│ (?:target|source): .*│ +(\d+)/(\d+) │", text)
    return {domain: (int(correct), int(images)) for domain, correct, images in rows}


def test_train_evaluate_compact_evaluate_explain(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "240")
    small = [word for field, value in TINY.items() for word in ("--set", f"{field}={value}")]
    call("train", "--target", "cartoon", "--seed", "2", *small)
    folder = Path("runs/blueprints/parse/cartoon/seed2")
    result = json.loads((folder / "result.json").read_text())

    full = counts(call("evaluate", folder))
    assert full.keys() == {"cartoon", "photo", "sketch", "paint"}
    assert full["cartoon"] == (result["target"]["correct"], result["target"]["images"]) == (full["cartoon"][0], 40)
    for domain, value in result["validation"].items():
        assert full[domain] == (value["correct"], value["images"])

    assert "the same on 160 of all 160 images" in call("compact", folder)
    assert counts(call("evaluate", folder, "--model", folder / "compact.safetensors")) == full

    config = read_config(folder)
    benchmark = open_benchmark(config.data)
    model, small_model = load_model(folder), load_model(folder / "compact.safetensors")
    assert small_model.compact
    assert model.spec.classes == benchmark.classes
    applications = small_model.parse_network().structure.composition.weight.shape[1]
    assert applications == result["active_applications"] < 10_000

    right = 0
    target = benchmark.domain("cartoon")
    for image, label in zip(target.images, target.labels, strict=True):
        explanation = explain(small_model, image)
        total = math.fsum(relation.contribution for relation in explanation.relations)
        assert total == pytest.approx(explanation.scores[explanation.predicted], abs=1e-6)
        number = benchmark.classes.index(explanation.predicted)
        assert len(explanation.relations) == result["active_applications_per_class"][number]
        right += number == label
    assert right == result["target"]["correct"]  # image by image, the same answers

    (tmp_path / folder / "model.safetensors").unlink()  # the small model needs nothing but its file
    assert explain(load_model(folder / "compact.safetensors"), target.images[-1]) is not None
