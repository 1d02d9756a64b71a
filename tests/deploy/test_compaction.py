"""Compaction: nothing changes at threshold 0, what is kept is what some class uses, and the paper's arithmetic."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from parse_dg.algorithms import build_algorithm
from parse_dg.algorithms.parse import ParseConfig
from parse_dg.data.benchmarks import Benchmark, open_benchmark
from parse_dg.data.splits import whole
from parse_dg.deploy.compaction import compact
from parse_dg.deploy.model_file import COLUMNS, Model, ModelSpec, load_model, save_model
from parse_dg.errors import InputError
from parse_dg.evaluation.accuracy import predict
from parse_dg.experiments.evaluate import compact_run
from parse_dg.model.backbone import BackboneConfig, build_backbone
from parse_dg.model.composition import Composition, CompositionConfig
from parse_dg.model.mixstyle import MixStyleConfig
from parse_dg.model.primitives import PrimitivesConfig
from parse_dg.model.vocabulary import Vocabulary, VocabularyConfig
from tests.conftest import Tiny
from tests.model.reference import shake, sparsemax_by_sorting

STARTS = {
    "simplex": CompositionConfig(),
    "simplex, own": CompositionConfig(start_own=3, logit_scale="fixed"),
    "normal": CompositionConfig(start="normal", start_std=0.1),
    "normal, narrow": CompositionConfig(start="normal", start_std=1e-3, logit_scale="none"),
    "zeros": CompositionConfig(start="zeros"),
}
PUBLISHED = {345: "44.91M", 200: "26.04M", 65: "8.46M", 10: "1.30M", 7: "0.91M", 5: "0.65M"}
"""Classes → structural parameters before compaction, from the paper's table: 130,176 × C."""


@pytest.fixture(scope="module")
def benchmark(tiny: Tiny) -> Benchmark:
    return open_benchmark(tiny().data)


def untrained(config: ParseConfig, classes: tuple[str, ...]) -> Model:
    """A model before its first step; its predicates have parameters of their own."""
    draw = torch.Generator().manual_seed(5)
    spec = ModelSpec(backbone=BackboneConfig(), algorithm=config, classes=classes, image_size=64)
    backbone = build_backbone(spec.backbone, MixStyleConfig(stages=()), draw)
    model = Model(spec, build_algorithm(backbone, len(classes), config, generator=draw).eval())
    shake(model.parse().network.structure.predicates, seed=9)
    return model


def small_config(start: str = "simplex", **vocabulary: object) -> ParseConfig:
    return ParseConfig(
        primitives=PrimitivesConfig(count=6),
        vocabulary=VocabularyConfig(**vocabulary),  # type: ignore[arg-type]
        composition=STARTS[start],
    )


def composition_of(model: Model) -> Composition:
    return model.parse().network.structure.composition


def dense_weights(model: Model) -> Tensor:
    """sparsemax(Λ) on every column, by the textbook, in float64."""
    return sparsemax_by_sorting(composition_of(model).weight.detach().double())


def height_above_threshold(model: Model) -> Tensor:
    """Λ - τ of every class and column, by the textbook, in float64: positive inside the support."""
    exact = composition_of(model).weight.detach().double()
    highest = exact.argmax(1, keepdim=True)
    return exact - exact.gather(1, highest) + dense_weights(model).gather(1, highest)


def all_logits(model: Model, benchmark: Benchmark) -> Tensor:
    parts = [predict(model.algorithm, whole(d), torch.device("cpu")).logits for d in benchmark.domains]
    return torch.cat(parts)


def assert_lossless(full: Model, benchmark: Benchmark) -> Model:
    small, report = compact(full)
    before, after = all_logits(full, benchmark), all_logits(small, benchmark)
    assert len(before) == sum(len(domain.labels) for domain in benchmark.domains) == 160
    assert before.std() > 0
    assert torch.equal(before.argmax(1), after.argmax(1))
    torch.testing.assert_close(after, before, rtol=0, atol=1e-6)
    assert torch.equal(after, before)  # the same numbers in the same order
    assert_keeps_the_union_of_supports(full, small)
    active = composition_of(full).active().weights
    assert report.applications_after == active.shape[1]
    assert report.active_per_class == tuple((active > 0).sum(1).tolist())
    return small


def assert_keeps_the_union_of_supports(full: Model, small: Model, rounding: float = 1e-7) -> None:
    height = height_above_threshold(full).amax(0)
    kept = torch.zeros(len(height), dtype=torch.bool)
    kept[composition_of(small).columns] = True
    assert composition_of(small).columns.diff().gt(0).all()
    assert kept[height > rounding].all()
    assert not kept[height < -rounding].any()
    undecided = int((height.abs() <= rounding).sum())
    assert undecided < 0.01 * len(height)


# --- lossless at threshold 0 ----------------------------------------------------------------------


@pytest.mark.parametrize("enumeration", ["distinct", "paper"])
@pytest.mark.parametrize("start", STARTS)
def test_an_untrained_model_predicts_the_same(start: str, enumeration: str, benchmark: Benchmark) -> None:
    full = untrained(small_config(start, enumeration=enumeration), benchmark.classes)
    small = assert_lossless(full, benchmark)
    dropped = composition_of(full).weight.shape[1] - composition_of(small).weight.shape[1]
    assert dropped == 0 if start == "zeros" else dropped >= 0
    assert dropped > 0 or start in ("zeros", "normal, narrow")  # the rest starts sparse


def test_a_trained_model_predicts_the_same(parse_run: Path, benchmark: Benchmark) -> None:
    full = load_model(parse_run)
    small = assert_lossless(full, benchmark)
    assert composition_of(small).weight.shape[1] < 0.1 * composition_of(full).weight.shape[1]


def test_wide_supports_predict_the_same(parse_run: Path, benchmark: Benchmark) -> None:
    full = load_model(parse_run)
    with torch.no_grad():  # supports of more than a thousand, so that Λ is read in several goes
        draw = torch.Generator().manual_seed(2)
        composition_of(full).weight.copy_(1e-3 * torch.randn(composition_of(full).weight.shape, generator=draw))
    assert min((dense_weights(full) > 0).sum(1).tolist()) > 1000
    assert_lossless(full, benchmark)


def test_classes_that_use_one_application_each(benchmark: Benchmark) -> None:
    full = untrained(small_config(), benchmark.classes)
    with torch.no_grad():
        weight = composition_of(full).weight
        weight.zero_()
        weight[torch.arange(8), torch.arange(8) * 7] = 2.0
    small = assert_lossless(full, benchmark)
    assert composition_of(small).columns.tolist() == [0, 7, 14, 21, 28, 35, 42, 49]


def test_the_full_model_is_left_alone(parse_run: Path) -> None:
    full = load_model(parse_run)
    before = {name: value.clone() for name, value in full.algorithm.state_dict().items()}
    small, _ = compact(full)
    with torch.no_grad():
        for parameter in small.algorithm.parameters():
            parameter.zero_()
    after = full.algorithm.state_dict()
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert not full.compact
    assert small.compact


def test_compacting_twice_changes_nothing(parse_run: Path) -> None:
    small, first = compact(load_model(parse_run))
    again, second = compact(small)
    assert second.applications_before == second.applications_after == first.applications_after
    assert second.reduction == 0
    assert second.active_per_class == first.active_per_class
    before, after = small.algorithm.state_dict(), again.algorithm.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(after[name], value) for name, value in before.items())


def test_a_compact_model_still_says_which_applications_it_has(parse_run: Path) -> None:
    full = load_model(parse_run)
    small, _ = compact(full)
    vocabulary = full.parse().network.structure.vocabulary
    used = composition_of(full).active().columns
    assert vocabulary.names(composition_of(small).columns) == vocabulary.names(used)


# --- above threshold 0 ----------------------------------------------------------------------------


def test_a_threshold_keeps_what_weighs_more_and_gives_it_all_the_weight(benchmark: Benchmark) -> None:
    full = untrained(small_config("normal"), benchmark.classes)
    weights = dense_weights(full)
    sizes = []
    for threshold in (0.001, 0.02, 0.1, float(0.99 * weights.max())):
        small, report = compact(full, threshold)
        kept = (weights > threshold).any(0).nonzero().squeeze(1)
        assert composition_of(small).columns.tolist() == kept.tolist()
        active = composition_of(small).active()
        expected = sparsemax_by_sorting(composition_of(full).weight.detach().double()[:, kept])
        found = torch.zeros_like(expected)
        found[:, active.columns] = active.weights.detach().double()
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
        assert active.weights.sum(1).tolist() == pytest.approx([1.0] * 8, abs=1e-5)
        assert report.threshold == threshold
        assert report.active_per_class == tuple((active.weights > 0).sum(1).tolist())
        sizes.append(report.applications_after)
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == len(sizes)
    assert sizes[0] < int((weights > 0).any(0).sum())
    assert sizes[-1] == 1


def test_a_threshold_above_every_weight_is_refused(parse_run: Path) -> None:
    full = load_model(parse_run)
    largest = composition_of(full).active().weights.max().item()
    for threshold in (largest, 1.01 * largest, 0.99):
        with pytest.raises(InputError, match="threshold must be below the largest weight"):
            compact(full, threshold)


@pytest.mark.parametrize("threshold", [-0.1, 1.0, 3.0, float("nan"), float("inf")])
def test_a_threshold_that_is_no_weight_is_refused(threshold: float, parse_run: Path) -> None:
    with pytest.raises(InputError, match="threshold must be at least 0 and below 1"):
        compact(load_model(parse_run), threshold)


def test_only_parse_can_be_compacted(erm_run: Path) -> None:
    with pytest.raises(InputError, match="needs a model of parse, found one of erm"):
        compact(load_model(erm_run))


# --- what is reported and written -----------------------------------------------------------------


def test_the_report_counts_classes_times_applications(parse_run: Path) -> None:
    full = load_model(parse_run)
    small, report = compact(full)
    before, after = (composition_of(model).weight for model in (full, small))
    assert (report.applications_before, report.applications_after) == (before.shape[1], after.shape[1])
    assert (report.parameters_before, report.parameters_after) == (before.numel(), after.numel())
    assert report.parameters_before == 8 * report.applications_before
    assert report.reduction == pytest.approx(1 - after.numel() / before.numel())


def test_the_file_shrinks_by_what_was_dropped(parse_run: Path, tmp_path: Path) -> None:
    outcome = compact_run(parse_run, tmp_path / "compact.safetensors", 0.0)
    report = outcome.compaction
    assert outcome.size_before == (parse_run / "model.safetensors").stat().st_size
    assert outcome.size_after == (tmp_path / "compact.safetensors").stat().st_size
    assert outcome.size_after < 0.4 * outcome.size_before
    floats = 4 * (report.parameters_before - report.parameters_after)
    columns = 8 * report.applications_after
    assert outcome.size_before - outcome.size_after == pytest.approx(floats - columns, abs=512)  # the header
    assert list(tmp_path.iterdir()) == [outcome.path]


def test_a_run_is_compared_on_every_image(parse_run: Path, tmp_path: Path, benchmark: Benchmark) -> None:
    outcome = compact_run(parse_run, tmp_path / "compact.safetensors", 0.0)
    assert outcome.images == outcome.same_prediction == 160
    assert outcome.largest_difference == 0
    assert outcome.target == "sketch"
    assert outcome.target_before == outcome.target_after
    assert outcome.target_before.images == 40
    full, small = load_model(parse_run), load_model(outcome.path)
    assert small.compact
    assert torch.equal(all_logits(full, benchmark), all_logits(small, benchmark))


def test_a_lossy_compaction_says_how_much_it_changed(parse_run: Path, tmp_path: Path, benchmark: Benchmark) -> None:
    full = load_model(parse_run)
    threshold = 0.99 * composition_of(full).active().weights.max().item()
    outcome = compact_run(parse_run, tmp_path / "compact.safetensors", threshold)
    before, after = all_logits(full, benchmark), all_logits(load_model(outcome.path), benchmark)
    assert outcome.same_prediction == int((before.argmax(1) == after.argmax(1)).sum()) < 160
    assert outcome.largest_difference == float((before - after).abs().max()) > 0


# --- the paper's table ----------------------------------------------------------------------------


def test_the_arithmetic_of_the_papers_table() -> None:
    size = Vocabulary(16, VocabularyConfig(enumeration="paper")).size
    assert size == 130_176
    assert {classes: f"{classes * size / 1e6:.2f}M" for classes in PUBLISHED} == PUBLISHED


@pytest.mark.parametrize("classes", [5, 7, 10])
def test_the_report_of_a_model_of_the_papers_size(classes: int) -> None:
    config = replace(small_config(enumeration="paper"), primitives=PrimitivesConfig(count=16))
    model = untrained(config, tuple(f"class {i}" for i in range(classes)))
    small, report = compact(model)
    assert report.applications_before == 130_176
    assert f"{report.parameters_before / 1e6:.2f}M" == PUBLISHED[classes]
    assert report.reduction > 0.99
    assert len(report.active_per_class) == classes
    assert max(report.active_per_class) <= report.applications_after
    assert COLUMNS in small.algorithm.state_dict()


def test_a_compact_file_is_read_by_the_ordinary_reader(benchmark: Benchmark, tmp_path: Path) -> None:
    full = untrained(small_config("normal"), benchmark.classes)
    small, _ = compact(full, 0.01)
    save_model(tmp_path / "m.safetensors", small.spec, dict(small.algorithm.state_dict()))
    again = load_model(tmp_path / "m.safetensors")
    assert again.compact
    assert torch.equal(all_logits(again, benchmark), all_logits(small, benchmark))
