"""Compaction: nothing changes at threshold 0, what is kept is what some class uses, what it does above 0."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from parse_dg.algorithms.parse import ParseConfig
from parse_dg.data.benchmarks import open_benchmark
from parse_dg.data.domain import Benchmark
from parse_dg.data.splits import whole
from parse_dg.deploy.compaction import compact
from parse_dg.deploy.model_file import Model, load_model, save_model
from parse_dg.errors import InputError
from parse_dg.model.composition import Composition, CompositionConfig
from parse_dg.model.primitives import PrimitivesConfig
from parse_dg.model.vocabulary import VocabularyConfig
from parse_dg.training.accuracy import predict
from tests.conftest import Tiny
from tests.model import test_structure as structure
from tests.model.reference import scatter, shake, sparsemax_by_sorting
from tests.parts import model_of, refusal

STARTS = {
    **structure.STARTS,
    "presence": CompositionConfig(start="presence"),
    "at most 3": CompositionConfig(relations_per_class=3),
}
SCATTERED = {**structure.SCATTERED, "at most 3": 0.01}


@pytest.fixture(scope="module")
def benchmark(tiny: Tiny) -> Benchmark:
    return open_benchmark(tiny().data)


def untrained(config: ParseConfig, classes: tuple[str, ...]) -> Model:
    """A model before its first step; its predicates have parameters of their own."""
    model = model_of(config, classes, seed=5)
    shake(model.parse_network().structure.predicates, seed=9)
    return model


def untrained_from(start: str, classes: tuple[str, ...], **vocabulary: object) -> Model:
    """The same, wherever Λ starts."""
    model = untrained(small_config(start, **vocabulary), classes)
    if start in SCATTERED:
        scatter(composition_of(model), SCATTERED[start])
    return model


def small_config(start: str = "simplex", **vocabulary: object) -> ParseConfig:
    return ParseConfig(
        primitives=PrimitivesConfig(count=6),
        vocabulary=VocabularyConfig(**vocabulary),  # type: ignore[arg-type]
        composition=STARTS[start],
    )


def composition_of(model: Model) -> Composition:
    return model.parse_network().structure.composition


def exact_lambda(model: Model) -> Tensor:
    """Λ in float64; where a class is limited, with what is not among its largest far below."""
    composition = composition_of(model)
    exact = composition.weight.detach().double()
    limit = composition.config.relations_per_class
    if limit is None:
        return exact
    largest = exact.topk(limit, 1).indices
    return (exact - 10).scatter(1, largest, exact.gather(1, largest))


def dense_weights(model: Model) -> Tensor:
    """sparsemax(Λ) on every column, by the textbook, in float64."""
    return sparsemax_by_sorting(exact_lambda(model))


def height_above_threshold(model: Model) -> Tensor:
    """Λ - τ of every class and column, by the textbook, in float64: positive inside the support."""
    exact = exact_lambda(model)
    highest = exact.argmax(1, keepdim=True)
    return exact - exact.gather(1, highest) + dense_weights(model).gather(1, highest)


def all_logits(model: Model, benchmark: Benchmark) -> Tensor:
    """Of the images of the first domain."""
    return predict(model.algorithm, whole(benchmark.domains[0]), torch.device("cpu")).logits


def assert_lossless(full: Model, benchmark: Benchmark) -> Model:
    small, report = compact(full)
    before, after = all_logits(full, benchmark), all_logits(small, benchmark)
    assert len(before) == 40
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


@pytest.mark.parametrize("enumeration", ["distinct", pytest.param("paper", marks=pytest.mark.slow)])
@pytest.mark.parametrize("start", STARTS)
def test_an_untrained_model_predicts_the_same(start: str, enumeration: str, benchmark: Benchmark) -> None:
    full = untrained_from(start, benchmark.classes, enumeration=enumeration)
    small = assert_lossless(full, benchmark)
    dropped = composition_of(full).weight.shape[1] - composition_of(small).weight.shape[1]
    assert dropped == 0 if start == "zeros" else dropped >= 0
    assert dropped > 0 or start in ("zeros", "scattered, narrow")  # the rest starts sparse


def test_a_trained_model_predicts_the_same(parse_run: Path, benchmark: Benchmark) -> None:
    full = load_model(parse_run)
    small = assert_lossless(full, benchmark)
    assert composition_of(small).weight.shape[1] < 0.1 * composition_of(full).weight.shape[1]


def test_wide_supports_predict_the_same(parse_run: Path, benchmark: Benchmark) -> None:
    full = load_model(parse_run)
    scatter(composition_of(full), 1e-3, seed=2)  # supports of more than a thousand: Λ is read in several goes
    assert min((dense_weights(full) > 0).sum(1).tolist()) > 1000
    assert_lossless(full, benchmark)


@pytest.mark.parametrize("limit", [None, 5])
def test_presence_keeps_its_share_and_the_model_predicts_the_same(limit: int | None, benchmark: Benchmark) -> None:
    shared = CompositionConfig(presence_share=0.5, relations_per_class=limit)
    full = untrained(replace(small_config(), composition=shared), benchmark.classes)
    scatter(composition_of(full), 0.01)
    small, report = compact(full)
    assert torch.equal(all_logits(small, benchmark), all_logits(full, benchmark))
    active = composition_of(small).active()
    assert active.applications.tolist() == composition_of(full).active().applications.tolist()
    assert report.applications_after == len(active.columns) < report.applications_before
    presence = active.weights[:, active.applications < 6].sum(1)
    torch.testing.assert_close(presence, torch.full_like(presence, 0.5))


def test_a_class_must_keep_presence_and_relations_where_both_have_a_share() -> None:
    config = replace(small_config(families="binary"), primitives=PrimitivesConfig(count=3))
    config = replace(config, composition=CompositionConfig(presence_share=0.5))
    full = untrained(config, ("first", "second"))
    with torch.no_grad():
        composition_of(full).weight.fill_(-1)
        composition_of(full).weight[:, [0, 1, 4]] = torch.tensor([[0.3, 0.2, 0.5], [0.2, 0.3, 0.5]])
    assert compact(full, 0.25)[1].active_per_class == (3, 3)  # of both presences, as each class keeps its own
    with pytest.raises(InputError, match=r"threshold must be below 0\.\d+, so that class 'first' keeps"):
        compact(full, 0.4)  # relations would be left, presence not


def largest_usable(weights: Tensor) -> float:
    """The smallest, over classes, of the largest weight in any class among what the class uses."""
    strength = weights.amax(0)
    return min(float(strength[row > 0].max()) for row in weights)


def test_a_threshold_keeps_what_weighs_more_and_gives_it_all_the_weight(benchmark: Benchmark) -> None:
    full = untrained_from("scattered", benchmark.classes)
    weights = dense_weights(full)
    sizes = []
    for threshold in (0.001, 0.02, 0.05, 0.99 * largest_usable(weights)):
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


def two_classes(*rows: dict[int, float]) -> Model:
    """Three primitives, 30 applications; each class has the given entries of Λ, and -1 everywhere else."""
    config = replace(small_config(families="binary"), primitives=PrimitivesConfig(count=3))
    model = untrained(config, ("first", "second"))
    with torch.no_grad():
        weight = composition_of(model).weight.fill_(-1)
        for row, entries in zip(weight, rows, strict=True):
            row[list(entries)] = torch.tensor(list(entries.values()))
    return model


def weights_of(model: Model) -> dict[int, list[float]]:
    """Application of the vocabulary → its weight in every class, as `compact` left it."""
    composition = composition_of(model)
    active = composition.active()
    return dict(zip(composition.columns[active.columns].tolist(), active.weights.T.tolist(), strict=True))


def test_a_lossy_compaction_by_hand() -> None:
    # each row of Λ sums to one above its other entries: it is its own sparsemax
    full = two_classes({0: 0.625, 4: 0.25, 9: 0.125}, {4: 0.05, 12: 0.95})
    small, report = compact(full, 0.2)  # application 9 goes: 0.125 in one class, 0 in the other
    assert composition_of(small).columns.tolist() == [0, 4, 12]
    assert (report.applications_before, report.applications_after) == (30, 3)
    assert (report.parameters_before, report.parameters_after) == (60, 6)
    assert report.reduction == pytest.approx(0.9)
    assert report.active_per_class == (2, 2)
    # 0.625 + 0.25 = 0.875: the missing 0.125 is shared out equally; the other class has lost nothing
    expected = {0: [0.6875, 0.0], 4: [0.3125, 0.05], 12: [0.0, 0.95]}
    assert weights_of(small) == {column: pytest.approx(found, abs=1e-6) for column, found in expected.items()}

    images = torch.randn(5, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        network = full.parse_network()
        output = network(images)
        a = dict(
            zip((0, 4, 12), network.structure.evaluate(output.descriptors, torch.tensor([0, 4, 12])).T, strict=True)
        )
        scale = composition_of(full).log_scale.exp()
        by_hand = torch.stack((0.6875 * a[0] + 0.3125 * a[4], 0.05 * a[4] + 0.95 * a[12]), 1) * scale
        torch.testing.assert_close(small.algorithm(images), by_hand, rtol=1e-5, atol=1e-5)
        assert not torch.allclose(small.algorithm(images)[:, 0], output.logits[:, 0], atol=1e-3)


def test_a_class_must_keep_an_application_of_its_own() -> None:
    full = two_classes({0: 0.625, 4: 0.25, 9: 0.125}, {4: 0.0625, 12: 0.9375})
    assert compact(full, 0.62)[1].active_per_class == (1, 1)
    message = r"threshold must be below 0\.62\d*, so that class 'first' keeps an application of its own, found"
    for threshold in (0.625, 0.7, 0.93):  # the second class could go on, up to 0.9375
        with pytest.raises(InputError, match=message):
            compact(full, threshold)


def test_the_largest_threshold_that_is_named_is_one_that_can_be_used(parse_run: Path) -> None:
    full = load_model(parse_run)
    largest = largest_usable(composition_of(full).active().weights.detach())
    for threshold in (largest, 1.01 * largest, 0.99):
        message = refusal(compact, full, threshold)
        assert "threshold must be below" in message
    named = float(message.split("below ")[1].split(",")[0])
    assert 0.999 * largest < named <= largest
    small, _ = compact(full, 0.9999 * named)
    before, after = composition_of(full).active(), composition_of(small)
    kept = torch.isin(before.columns, after.columns)
    assert ((before.weights > 0) & kept).any(1).all()


@pytest.mark.parametrize("threshold", [-0.1, 1.0, 3.0, float("nan"), float("inf")])
def test_a_threshold_that_is_no_weight_is_refused(threshold: float, parse_run: Path) -> None:
    assert "threshold must be at least 0 and below 1" in refusal(compact, load_model(parse_run), threshold)


def test_only_parse_can_be_compacted(erm_run: Path) -> None:
    assert "needs a model of parse, found one of erm" in refusal(compact, load_model(erm_run))


def test_a_compact_file_is_read_by_the_ordinary_reader(benchmark: Benchmark, tmp_path: Path) -> None:
    full = untrained_from("scattered", benchmark.classes)
    small, _ = compact(full, 0.01)
    save_model(tmp_path / "m.safetensors", small.spec, dict(small.algorithm.state_dict()))
    again = load_model(tmp_path / "m.safetensors")
    assert again.compact
    assert torch.equal(all_logits(again, benchmark), all_logits(small, benchmark))
