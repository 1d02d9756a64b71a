"""Compaction of runs: compared on every image, the promise at threshold 0 kept or nothing written, the report."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from parse_dg.cli.show.display import print_compaction
from parse_dg.data.benchmarks import open_benchmark
from parse_dg.data.domain import Benchmark
from parse_dg.data.splits import whole
from parse_dg.deploy.compaction import Compaction, compact
from parse_dg.deploy.model_file import Model, load_model
from parse_dg.errors import InputError
from parse_dg.runs.afterwards import compact as module
from parse_dg.runs.afterwards.compact import (
    CompactionOutcome,
    NotLosslessError,
    compact_run,
    compact_runs,
    compare,
    is_lossless,
)
from parse_dg.runs.afterwards.opened import applications_at_start, open_run
from parse_dg.runs.folder import read_config
from parse_dg.runs.run import execute
from parse_dg.training.accuracy import Predictions, predict
from tests.conftest import Tiny
from tests.parts import refusal
from tests.runs.helpers import CPU, hashes, quiet, read, without_digests

LOSSY = 0.005


@pytest.fixture(scope="module")
def benchmark(tiny: Tiny) -> Benchmark:
    return open_benchmark(tiny().data)


@pytest.fixture
def folder(parse_copy: Path) -> Path:
    """A finished run of PARSE that may be changed."""
    return parse_copy


@pytest.fixture(scope="module")
def lossy(parse_run: Path, tmp_path_factory: pytest.TempPathFactory) -> CompactionOutcome:
    """What a threshold above 0 does to it."""
    out = tmp_path_factory.mktemp("lossy") / "small.safetensors"
    return compact_run(open_run(parse_run, device="cpu"), out, LOSSY)


def retarget(folder: Path, target: str) -> Path:
    """The same run, said to be of another target."""
    config = read(folder / "config.json")
    config["data"]["target"] = target
    (folder / "config.json").write_text(json.dumps(config))
    return without_digests(folder)


def logits(model: Model, benchmark: Benchmark, domain: str) -> Predictions:
    return predict(model.algorithm, whole(benchmark.domain(domain)), CPU)


def changed_by(change: Any) -> Any:
    """`compact`, with something done to the small model before it is returned."""

    def compact_and_change(model: Model, threshold: float) -> tuple[Model, Compaction]:
        small, report = compact(model, threshold)
        with torch.no_grad():
            change(small.parse_network().structure.composition)
        return small, report

    return compact_and_change


def test_two_predictions_compared_by_hand() -> None:
    labels = torch.tensor([0, 1, 2])
    before = Predictions(torch.tensor([[2.0, 0.0, 1.0], [0.0, 1.0, 0.5], [1.0, 3.0, 0.0]]), labels)
    after = Predictions(torch.tensor([[2.0, 0.0, 1.0], [0.0, 0.25, 0.5], [1.0, 3.0, 0.5]]), labels)
    found = compare("source", before, after)
    assert (found.correct.before, found.correct.after, found.images) == (2, 1, 3)
    assert (found.same_prediction, found.largest_logit_difference) == (2, 0.75)
    assert not is_lossless(before, after)


@pytest.mark.parametrize(
    ("logit", "moved", "lossless"),
    [
        (0.5, 0.9e-6, True),
        (0.5, 1.1e-6, False),
        (14.0, 1.2e-5, True),
        (14.0, 1.6e-5, False),
        (3.0, float("nan"), False),
        (float("nan"), 0.0, False),
    ],
)
def test_a_logit_may_move_by_a_millionth(logit: float, moved: float, lossless: bool) -> None:
    before, after = (
        Predictions(torch.tensor([[20.0, value]]), torch.tensor([0])) for value in (logit, logit + moved)
    )
    assert is_lossless(before, after) is lossless


def test_a_run_is_compared_on_every_image(folder: Path, benchmark: Benchmark) -> None:
    outcome = compact_run(open_run(folder, device="cpu"), None, 0.0)
    report = outcome.report
    assert list(report.domains) == ["sketch", "photo", "cartoon", "paint"]
    assert report.target == "sketch"
    assert report.images == report.same_prediction == 160
    assert report.largest_logit_difference == 0
    for each in report.domains.values():
        assert each.correct.before == each.correct.after
        assert each.images == each.same_prediction == 40
    assert report.domains["sketch"].correct.before == read(folder / "result.json")["target"]["correct"]
    full, small = load_model(folder), load_model(outcome.path)
    assert small.compact
    for domain in benchmark.domains:
        one, other = (logits(model, benchmark, domain.name).logits for model in (full, small))
        assert torch.equal(one, other)
    first = hashes(folder)
    assert {"compact.safetensors", "compact.json"} <= first.keys()
    compact_run(open_run(folder, device="cpu"), None, 0.0)
    assert hashes(folder) == first  # the same bytes


def test_a_lossy_compaction_says_what_it_changed_on_every_domain(
    lossy: CompactionOutcome, parse_run: Path, benchmark: Benchmark
) -> None:
    full, small = load_model(parse_run), load_model(lossy.path)
    found = lossy.report.domains
    for name, each in found.items():
        before, after = (logits(model, benchmark, name) for model in (full, small))
        assert each.same_prediction == int((before.logits.argmax(1) == after.logits.argmax(1)).sum())
        assert each.largest_logit_difference == float((before.logits - after.logits).abs().max())
        assert each.correct.before == int((before.logits.argmax(1) == before.labels).sum())
        assert each.correct.after == int((after.logits.argmax(1) == after.labels).sum())
    assert lossy.report.same_prediction == sum(each.same_prediction for each in found.values()) < 160
    largest = lossy.report.largest_logit_difference
    assert largest == max(each.largest_logit_difference for each in found.values()) > 0.1


def test_the_report_says_all_of_it(lossy: CompactionOutcome, parse_run: Path) -> None:
    found, full = read(lossy.report_path), load_model(parse_run)
    _, report = compact(full, LOSSY)
    assert " ".join(found) == (
        "benchmark target seed threshold applications active_applications_per_class lambda_parameters reduction "
        "model_parameters gflops file_bytes images same_prediction largest_logit_difference domains"
    )
    result = read(parse_run / "result.json")
    assert found["benchmark"] == result["benchmark"]
    assert (found["target"], found["seed"], found["threshold"]) == ("sketch", 0, LOSSY)
    one, other = (model.parse_network().structure.composition.weight for model in (full, load_model(lossy.path)))
    at_start = applications_at_start(read_config(parse_run), full)
    assert found["applications"] == {"before": one.shape[1], "at_start": at_start, "after": other.shape[1]}
    assert found["lambda_parameters"] == {"before": one.numel(), "after": other.numel()}
    assert found["reduction"] == report.reduction
    assert found["model_parameters"]["before"] - found["model_parameters"]["after"] == one.numel() - other.numel()
    assert found["gflops"] == {"before": report.cost_before.gflops, "after": report.cost_after.gflops}
    assert tuple(found["active_applications_per_class"].values()) == report.active_per_class
    assert tuple(found["active_applications_per_class"]) == full.spec.classes
    before, after = (path.stat().st_size for path in (parse_run / "model.safetensors", lossy.path))
    assert found["file_bytes"] == {"before": before, "after": after}
    dropped = 4 * (one.numel() - other.numel()) - 8 * other.shape[1]  # floats, but for the columns' numbers
    assert before - after == pytest.approx(dropped, abs=512)  # the header
    assert after < 0.4 * before
    assert (found["images"], found["same_prediction"]) == (160, lossy.report.same_prediction)
    roles = {name: each["role"] for name, each in found["domains"].items()}
    assert roles == {"sketch": "target", "photo": "source", "cartoon": "source", "paint": "source"}
    sketch = found["domains"]["sketch"]
    assert sketch["images"] == 40
    assert sketch["accuracy"]["before"] == result["target"]["accuracy"]
    assert sketch["accuracy"]["after"] == sketch["correct"]["after"] / 40
    assert {path.name for path in lossy.path.parent.iterdir()} == {"small.json", "small.safetensors"}


def move_one_entry(composition: Any) -> None:
    composition.weight[0, 0] += 5.0


def move_every_logit(composition: Any) -> None:
    composition.log_scale += 1e-4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (move_one_entry, r"on photo \d+ of 40 predictions changed and a logit moved by \d"),
        (move_every_logit, r"on photo 0 of 40 predictions changed and a logit moved by 0.00\d+"),
    ],
)
def test_what_is_not_lossless_is_not_written(
    change: Any, message: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = hashes(folder)
    monkeypatch.setattr(module, "compact", changed_by(change))
    with pytest.raises(NotLosslessError, match=message) as failed:
        compact_run(open_run(folder, device="cpu"), None, 0.0)
    assert str(failed.value).startswith(f"{folder}: compaction at threshold 0 must change nothing")
    assert str(failed.value).endswith("nothing is written")
    assert hashes(folder) == before


@pytest.mark.parametrize("threshold", [0.0, LOSSY])
def test_logits_that_are_no_numbers(threshold: float, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(model: Any, subset: Any, device: Any, seen: Any) -> Predictions:
        return Predictions(torch.full((40, 8), float("inf")), torch.zeros(40, dtype=torch.long))

    before = hashes(folder)
    monkeypatch.setattr(module, "predict", broken)
    with pytest.raises(InputError, match="the model's logits on photo are not finite"):
        compact_run(open_run(folder, device="cpu"), None, threshold)
    assert hashes(folder) == before


def test_several_runs_each_get_their_files(folder: Path, tmp_path: Path) -> None:
    other = retarget(Path(shutil.copytree(folder, tmp_path / "other")), "paint")
    first, second = compact_runs([folder, other], None, 0.0, "cpu")
    assert (first.report.target, second.report.target) == ("sketch", "paint")
    assert (first.path, second.path) == (folder / "compact.safetensors", other / "compact.safetensors")
    for outcome in (first, second):
        assert load_model(outcome.path).compact
        assert read(outcome.report_path)["target"] == outcome.report.target


def test_a_mistake_in_one_run_is_said_before_any_is_begun(
    folder: Path, parse_run: Path, erm_run: Path, tmp_path: Path
) -> None:
    before = hashes(folder)
    empty = Path(shutil.copytree(parse_run, tmp_path / "empty"))
    (empty / "model.safetensors").unlink()
    for wrong, message in (
        (tmp_path / "nowhere", "nowhere is not a run"),
        (erm_run, "needs a model of parse, found one of erm"),
        (empty, "no model at"),
        (folder / ".", "every run must be given once"),
    ):
        with pytest.raises(InputError, match=message):
            compact_runs([folder, wrong], None, 0.0, "cpu")
    with pytest.raises(InputError, match="--out names one file, found 2 runs"):
        compact_runs([folder, parse_run], tmp_path / "x.safetensors", 0.0, "cpu")
    assert hashes(folder) == before


@pytest.mark.parametrize("name", ["small", "result.safetensors", "model.safetensors"])
def test_a_name_that_a_compact_model_cannot_have_in_a_run(name: str, folder: Path) -> None:
    before = hashes(folder)
    with pytest.raises(InputError, match=f"cannot write the compact model to {folder / name}: "):
        compact_run(open_run(folder, device="cpu"), folder / name, 0.0)
    assert hashes(folder) == before


def test_a_place_that_cannot_be_written(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "notes").write_text("not a folder")
    (tmp_path / "taken.json").mkdir()
    for place in ("nowhere/x.safetensors", "notes/x.safetensors", "taken.safetensors"):
        with pytest.raises(InputError, match=r"cannot write the compact model.* to"):
            compact_run(open_run(folder, device="cpu"), tmp_path / place, 0.0)
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(InputError, match=r"cannot write the compact model.* to"):
        compact_run(open_run(folder, device="cpu"), tmp_path / "x.safetensors", 0.0)


# What was in use before training, said beside what compaction leaves


@pytest.mark.parametrize("at_most", [None, 2])
def test_what_was_in_use_before_training(tiny: Tiny, tmp_path: Path, at_most: int | None) -> None:
    """A start on the presence of all K primitives uses K applications, of a vocabulary of many more; a limit counts
    from where training comes down to it.
    """
    start = {"algorithm__composition__start": "presence", "algorithm__composition__relations_per_class": at_most}
    execute(tiny(training__steps=1, algorithm__primitives__count=5, **start), tmp_path / "run", quiet)
    outcome = compact_run(open_run(tmp_path / "run", device="cpu"), None, 0.0)
    assert outcome.report.applications.at_start == 5 < outcome.report.applications.before
    assert read(outcome.report_path)["applications"]["at_start"] == 5


def test_the_start_of_a_model_from_elsewhere_is_not_known(parse_run: Path, tiny: Tiny, tmp_path: Path) -> None:
    """A file alone says nothing of it; one in a run's folder only if it is of the run's vocabulary, and whole."""
    folder = without_digests(Path(shutil.copytree(parse_run, tmp_path / "run")))
    assert compact_run(open_run(folder, device="cpu"), None, 0.0).report.applications.at_start
    assert "is not a run" in refusal(compact_run, open_run(folder / "model.safetensors", device="cpu"), None, 0.0)
    execute(tiny(training__steps=1, algorithm__primitives__count=5), tmp_path / "other", quiet)
    for file in (folder / "compact.safetensors", tmp_path / "other" / "model.safetensors"):
        shutil.copy(file, folder / "model.safetensors")
        outcome = compact_run(open_run(folder, device="cpu"), tmp_path / "small.safetensors", 0.0)
        assert outcome.report.applications.at_start is None
        assert read(outcome.report_path)["applications"]["at_start"] is None
        printed = Console(record=True, width=200)
        print_compaction(printed, outcome)
        assert "at the start" not in printed.export_text()
