"""Whole journeys: from a command to an explanation, through nothing but the files in between."""

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from parse_dg import compact, execute, explain, load_model, open_benchmark
from parse_dg.cli import main
from parse_dg.data.splits import Subset, whole
from parse_dg.runs.folder import read_config
from parse_dg.training.accuracy import predict
from tests.conftest import TINY, Tiny

Call = Callable[..., str]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Call:
    """A command that must work, in a folder of its own; what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "240")

    def run(*arguments: object) -> str:
        capsys.readouterr()
        assert main([str(argument) for argument in arguments]) == 0
        return capsys.readouterr().out

    return run


def counts(text: str) -> dict[str, tuple[int, int]]:
    """domain → (correct, images), from the table that `evaluate` prints."""
    rows = re.findall(r"│ (\w+) +│ (?:target|source): .*│ +(\d+)/(\d+) │", text)
    return {domain: (int(correct), int(images)) for domain, correct, images in rows}


def test_train_evaluate_compact_evaluate_explain(call: Call, tmp_path: Path) -> None:
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


def files_of(folder: Path) -> dict[str, bytes]:
    """The bytes a run leaves behind, but for the file that says when and where."""
    found = {path.name: path.read_bytes() for path in folder.iterdir()}
    del found["environment.json"]
    assert "model.safetensors" in found
    return found


@pytest.mark.parametrize("algorithm", ["erm", "no_relations", "parse"])
def test_a_run_can_be_repeated(
    algorithm: str, finished_run: Callable[[str], Path], tiny: Tiny, tmp_path: Path
) -> None:
    first = finished_run(algorithm)
    torch.manual_seed(1234)  # nobody listens to the global generator
    execute(read_config(first), tmp_path / "again", lambda step, check: None)
    assert files_of(tmp_path / "again") == files_of(first)
    assert read_config(first) == tiny(algorithm)


def test_another_seed_is_another_run(tiny: Tiny, erm_run: Path, tmp_path: Path) -> None:
    execute(tiny("erm", seed=1), tmp_path / "other", lambda step, check: None)
    one, other = (load_file(folder / "model.safetensors") for folder in (erm_run, tmp_path / "other"))
    assert not torch.equal(one["classifier.weight"], other["classifier.weight"])


def test_the_same_journey_in_python(tiny: Tiny, tmp_path: Path) -> None:
    config = tiny(
        "parse", algorithm__primitives__count=6, algorithm__vocabulary__families="binary", data__target="photo"
    )
    steps: list[int] = []
    result = execute(config, tmp_path / "run", lambda step, check: steps.append(step))
    assert steps == [1, 2, 3, 4]
    model = load_model(tmp_path / "run")
    small, report = compact(model)
    assert report.applications_after == result["active_applications"]
    target = open_benchmark(config.data).domain("photo")
    explanation = explain(small, target.images[0], of="roamer")
    assert explanation.explained == "roamer"
    assert {relation.predicate for relation in explanation.relations} <= {
        *("has", "above", "left", "h_align", "v_align", "near", "contains")
    }
    assert execute(config, tmp_path / "run", lambda step, check: pytest.fail("trained again")) == result


def test_target_images_change_nothing_before_the_end(tiny: Tiny, parse_run: Path, tmp_path: Path) -> None:
    """Training with the target's images painted over gives the same weights: they are read once, at the end."""
    config = tiny()
    benchmark = open_benchmark(config.data)
    painted = [
        replace(domain, images=255 - domain.images) if domain.name == config.data.target else domain
        for domain in benchmark.domains
    ]
    blind = replace(benchmark, domains=tuple(painted))
    result = execute(config, tmp_path / "blind", lambda step, check: None, blind)
    one, other = (load_file(folder / "model.safetensors") for folder in (parse_run, tmp_path / "blind"))
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert (tmp_path / "blind" / "metrics.jsonl").read_bytes() == (parse_run / "metrics.jsonl").read_bytes()
    known = json.loads((parse_run / "result.json").read_text())
    assert result["validation"] == known["validation"]
    assert result["target"]["loss"] != known["target"]["loss"]


def test_a_model_predicts_one_image_as_it_predicts_many(parse_run: Path, tiny: Tiny) -> None:
    model, domain = load_model(parse_run), open_benchmark(tiny().data).domain("paint")
    together = predict(model.algorithm, whole(domain), torch.device("cpu")).logits
    for position in (0, 13, 39):
        alone = Subset(domain, whole(domain).indices[position : position + 1])
        one = predict(model.algorithm, alone, torch.device("cpu")).logits
        torch.testing.assert_close(one[0], together[position], rtol=1e-4, atol=1e-4)
