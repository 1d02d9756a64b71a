"""Λ: where it starts, how the restricted sparsemax follows the dense one, and how scores become logits."""

import math
from collections import Counter
from collections.abc import Callable
from typing import Literal

import pytest
import torch
from torch import Tensor

from parse_dg.model.composition import ActiveWeights, Composition, CompositionConfig, initial_lambda
from parse_dg.model.vocabulary import SWITCHES, Vocabulary, VocabularyConfig
from tests.model.reference import Application, mean_l1, read_name, scatter, sparsemax_by_sorting, sparsemax_exact
from tests.parts import seeded

SHARES = {"presence": 0.3, "binary": 0.3, "ternary": 0.2, "quaternary": 0.2}


def vocabulary_of(K: int = 6, families: str = "all", enumeration: str = "distinct") -> Vocabulary:
    return Vocabulary(K, VocabularyConfig(families=families, enumeration=enumeration))  # type: ignore[arg-type]


def applications(vocabulary: Vocabulary) -> list[Application]:
    return [read_name(name) for name in vocabulary.names(torch.arange(vocabulary.size))]


def by_family(vocabulary: Vocabulary, row: Tensor) -> dict[str, float]:
    """The positive mass of a row on every family."""
    mass: dict[str, float] = {}
    for application, weight in zip(applications(vocabulary), row.clamp_min(0).tolist(), strict=True):
        mass[application.family] = mass.get(application.family, 0) + weight
    return mass


@pytest.mark.parametrize("families", SWITCHES)
@pytest.mark.parametrize("enumeration", ["distinct", "paper"])
def test_simplex_rows_are_their_own_sparsemax_with_the_shares_of_their_families(
    families: str, enumeration: str
) -> None:
    vocabulary = vocabulary_of(4, families, enumeration)
    start = initial_lambda(2, vocabulary, CompositionConfig(), seeded())
    total = sum(SHARES[family] for family in SWITCHES[families])
    expected = {family: SHARES[family] / total for family in SWITCHES[families]}
    for row in start.double():
        assert row.clamp_min(0).sum().item() == pytest.approx(1, abs=1e-6)
        assert row[row <= 0].tolist() == pytest.approx([-0.02] * int((row <= 0).sum()))
        assert sparsemax_exact(row.tolist()) == pytest.approx(row.clamp_min(0).tolist(), abs=1e-7)
        assert by_family(vocabulary, row) == pytest.approx(expected, abs=1e-6)


def test_simplex_rows_hold_all_presences_and_a_few_equal_applications_of_each_predicate() -> None:
    vocabulary = vocabulary_of(6)
    start = initial_lambda(4, vocabulary, CompositionConfig(start_entries=5), seeded())
    found = applications(vocabulary)
    for row in start:
        inside = [found[m] for m in (row > 0).nonzero().squeeze(1).tolist()]
        counts = Counter(application.predicate for application in inside)
        assert counts.pop("has") == 6
        assert set(counts.values()) == {5}
        assert len(counts) == 10
        for predicate in (*counts, "has"):
            values = {row[m].item() for m, a in enumerate(found) if a.predicate == predicate and row[m] > 0}
            assert len(values) == 1, predicate


STARTS = {
    "simplex": CompositionConfig(),
    "simplex, few": CompositionConfig(start_entries=2),
    "zeros": CompositionConfig(start="zeros"),
    "scattered": CompositionConfig(),
    "scattered, narrow": CompositionConfig(),
}
SCATTERED = {"scattered": 0.1, "scattered, narrow": 1e-4}
"""Where Λ is not what a start makes of it: its standard deviation."""


def composition_of(start: str, enumeration: str = "distinct", K: int = 6) -> Composition:
    composition = Composition(3, vocabulary_of(K, enumeration=enumeration), STARTS[start], seeded()).double()
    composition.penalised = True
    if start in SCATTERED:
        scatter(composition, SCATTERED[start])
    return composition


@pytest.mark.parametrize("enumeration", ["distinct", "paper"])
@pytest.mark.parametrize("start", STARTS)
def test_active_weights_are_the_dense_sparsemax_and_hold_all_of_it(start: str, enumeration: str) -> None:
    composition = composition_of(start, enumeration)
    dense = sparsemax_by_sorting(composition.weight.detach())
    active = composition.active()
    full = torch.zeros_like(dense).index_copy(1, active.columns, active.weights.detach())
    torch.testing.assert_close(full, dense, rtol=0, atol=1e-14)
    assert (active.columns.diff() > 0).all()
    assert (active.weights > 0).any(0).all()
    torch.testing.assert_close(active.weights.sum(1), torch.ones(3, dtype=torch.float64))


@pytest.mark.parametrize("start", STARTS)
def test_gradient_of_active_weights_is_that_of_the_dense_sparsemax(start: str) -> None:
    composition = composition_of(start)
    upstream = torch.randn(composition.weight.shape, generator=seeded(1), dtype=torch.float64)
    active = composition.active()
    (found,) = torch.autograd.grad(active.weights, composition.weight, upstream[:, active.columns])
    slow = composition.weight.detach().clone().requires_grad_()
    (expected,) = torch.autograd.grad(sparsemax_by_sorting(slow), slow, upstream)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def with_zeros(composition: Composition) -> Composition:
    """A third of Λ is exactly zero, of either sign."""
    with torch.no_grad():
        composition.weight[:, ::3] = 0.0
        composition.weight[:, ::6] *= -1.0
    return composition


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("start", STARTS)
def test_l1_is_the_mean_of_appendix_b(start: str, dtype: torch.dtype) -> None:
    composition = with_zeros(composition_of(start)).to(dtype)
    l1 = composition.active().l1
    assert l1 is not None
    assert l1.shape == ()
    assert l1.dtype == dtype
    tolerance = {torch.float32: 1e-6, torch.float64: 1e-13}[dtype]
    assert l1.item() == pytest.approx(mean_l1(composition.weight.tolist()), rel=tolerance)


@pytest.mark.parametrize("start", STARTS)
def test_gradient_of_l1_is_the_sign_over_the_count_and_zero_at_zero(start: str) -> None:
    composition = with_zeros(composition_of(start))
    (found,) = torch.autograd.grad(0.7 * composition.active().l1, composition.weight)
    weight = composition.weight.detach()
    torch.testing.assert_close(found, weight.sign() * 0.7 / weight.numel(), rtol=1e-14, atol=0)
    assert (found[:, ::3] == 0).all()
    assert weight.sign().unique().tolist() == ([0.0] if start == "zeros" else [-1.0, 0.0, 1.0])


def test_a_composition_that_is_not_penalised_has_no_l1_and_the_same_gradient() -> None:
    composition = composition_of("scattered")
    penalised = composition.active()
    composition.penalised = False
    plain = composition.active()
    assert plain.l1 is None
    assert torch.equal(plain.weights, penalised.weights)
    gradients = [
        torch.autograd.grad(w[0].square().sum(), composition.weight)[0] for w in (plain.weights, penalised.weights)
    ]
    assert torch.equal(*gradients)


SCORES = torch.tensor([[0.0, 0.25], [1.0, 0.5]])


def test_a_fixed_scale_multiplies_and_is_not_learned() -> None:
    composition = Composition(2, vocabulary_of(4), CompositionConfig(logit_scale="fixed", scale_start=9.0))
    torch.testing.assert_close(composition.logits(SCORES), 9 * SCORES)
    assert set(dict(composition.named_parameters())) == {"weight"}


def test_a_learnable_scale_multiplies_stays_positive_and_gets_a_gradient() -> None:
    config = CompositionConfig(logit_scale="learnable", scale_start=9.0)
    composition = Composition(2, vocabulary_of(4), config)
    torch.testing.assert_close(composition.logits(SCORES), 9 * SCORES)
    assert set(dict(composition.named_parameters())) == {"weight", "log_scale"}
    composition.logits(SCORES).sum().backward()
    assert composition.log_scale.grad is not None
    assert composition.log_scale.grad.item() == pytest.approx(9 * 1.75)
    with torch.no_grad():
        composition.log_scale.fill_(-3.0)
    torch.testing.assert_close(composition.logits(SCORES), math.exp(-3) * SCORES)


def test_a_limit_holds_and_what_it_keeps_is_what_would_be_largest() -> None:
    composition = Composition(3, vocabulary_of(6), CompositionConfig(relations_per_class=4)).double().eval()
    scatter(composition, 0.01)
    active = composition.active()
    for row, weights in zip(composition.weight.detach(), active.weights, strict=True):
        used = active.columns[weights > 0]
        assert sorted(used.tolist()) == sorted(row.topk(4).indices.tolist())
        expected = sparsemax_by_sorting(row[used].unsqueeze(0)).squeeze(0)
        torch.testing.assert_close(weights[weights > 0], expected)


def test_training_comes_down_from_the_whole_start_to_the_limit_half_way() -> None:
    config = CompositionConfig(start_entries=16, relations_per_class=5)
    composition = Composition(2, vocabulary_of(6), config, seeded())

    def most_used() -> int:
        return int((composition.active().weights > 0).sum(1).max())

    found = [most_used()]  # before training, too: what classes begin with
    for progress in (0.0, 0.25, 0.5, 0.75, 1.0):
        composition.advance(progress)
        found.append(most_used())
    assert found == [163, 163, 29, 5, 5, 5]
    composition.advance(0.0)
    composition.eval()
    assert most_used() == 5  # a model is scored as it will be used


def test_a_class_that_starts_with_few_has_room_to_select() -> None:
    composition = Composition(2, vocabulary_of(6), CompositionConfig(start_entries=1, relations_per_class=50))
    (part,) = composition.parts
    assert [part.limit(progress) for progress in (0.0, 0.25, 0.5, 1.0)] == [400, 141, 50, 50]


# A share of the weight that presence has


def with_share(share: float, at_most: int | None = None, K: int = 6) -> Composition:
    config = CompositionConfig(presence_share=share, relations_per_class=at_most)
    composition = Composition(3, vocabulary_of(K), config, seeded()).double()
    scatter(composition, 0.05)
    return composition


def shared_by_sorting(z: Tensor, presence: int, share: float) -> Tensor:
    """The nearest rows with a share of their weight on the first columns: r · sparsemax(z / r), part by part."""
    parts = ((z[:, :presence], share), (z[:, presence:], 1 - share))
    return torch.cat([size * sparsemax_by_sorting(part / size) for part, size in parts], 1)


@pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
def test_presence_has_its_share_and_the_weights_are_the_nearest_such(share: float) -> None:
    composition = with_share(share)
    dense = shared_by_sorting(composition.weight.detach(), 6, share)
    active = composition.active()
    full = torch.zeros_like(dense).index_copy(1, active.columns, active.weights.detach())
    torch.testing.assert_close(full, dense, rtol=0, atol=1e-14)
    torch.testing.assert_close(full[:, :6].sum(1), torch.full((3,), share, dtype=torch.float64))
    torch.testing.assert_close(full.sum(1), torch.ones(3, dtype=torch.float64))
    # nearest: no other vector of the same shares is closer (a step towards any other is uphill)
    for other in torch.rand(5, *full.shape, generator=seeded(2), dtype=torch.float64):
        other[:, :6] *= share / other[:, :6].sum(1, keepdim=True)
        other[:, 6:] *= (1 - share) / other[:, 6:].sum(1, keepdim=True)
        assert bool((((full - composition.weight) * (other - full)).sum(1) > -1e-12).all())


@pytest.mark.parametrize("penalised", [False, True])
def test_gradient_with_a_share_is_that_of_the_dense_form(penalised: bool) -> None:
    composition = with_share(0.4)
    composition.penalised = penalised
    upstream = torch.randn(composition.weight.shape, generator=seeded(1), dtype=torch.float64)
    active = composition.active()
    (found,) = torch.autograd.grad(active.weights, composition.weight, upstream[:, active.columns])
    slow = composition.weight.detach().clone().requires_grad_()
    (expected,) = torch.autograd.grad(shared_by_sorting(slow, 6, 0.4), slow, upstream)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    assert found[:, :6].abs().max() > 0
    torch.testing.assert_close(found[:, :6].sum(1), torch.zeros(3, dtype=torch.float64), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("share", "at_most", "expected"), [(0.5, 12, (6, 6)), (0.25, 8, (2, 6)), (0.01, 4, (1, 3)), (0.99, 4, (3, 1))]
)
def test_a_limit_is_divided_as_the_weight_is(share: float, at_most: int, expected: tuple[int, int]) -> None:
    composition = with_share(share, at_most).eval()
    active = composition.active()
    presence = active.columns < 6
    for row, weights in zip(composition.weight.detach(), active.weights, strict=True):
        used = weights > 0
        assert int((used & presence).sum()) <= expected[0]
        assert int((used & ~presence).sum()) <= expected[1]
        largest = row[6:].topk(expected[1]).indices + 6
        assert set(active.columns[used & ~presence].tolist()) <= set(largest.tolist())
    assert [part.at_most for part in composition.parts] == list(expected)
    # all a class starts with, 6 presences and 8 applications of each of ten predicates, or eight times as many
    assert [part.limit(0.0) for part in composition.parts] == [max(8 * expected[0], 6), max(8 * expected[1], 80)]


@pytest.mark.parametrize("start", ["presence", "simplex", "zeros"])
def test_a_start_with_a_share_keeps_it_and_both_parts_have_something(start: Literal["presence", "simplex"]) -> None:
    config = CompositionConfig(start=start, presence_share=0.2, start_entries=3)
    composition = Composition(4, vocabulary_of(6), config, seeded())
    active = composition.active()
    presence = active.columns < 6
    torch.testing.assert_close(active.weights[:, presence].sum(1), torch.full((4,), 0.2))
    assert bool((active.weights[:, presence] > 0).all())
    relations = (active.weights[:, ~presence] > 0).sum(1)
    drawn = len(vocabulary_of(6).blocks) - 1
    assert relations.tolist() == [vocabulary_of(6).size - 6 if start == "zeros" else 3 * drawn] * 4
    if start != "zeros":  # Λ is its own projection, so that nothing moves before training
        inside = composition.weight.detach()[:, active.columns]
        torch.testing.assert_close(inside.clamp_min(0), active.weights.detach(), rtol=0, atol=1e-6)


def test_a_share_and_a_single_relation_are_refused() -> None:
    with pytest.raises(ValueError, match=r"relations_per_class.*2 or more"):
        CompositionConfig(presence_share=0.5, relations_per_class=1)
    for share in (0.0, 1.0, -0.5):
        with pytest.raises(ValueError, match=r"presence_share.*between 0 and 1"):
            CompositionConfig(presence_share=share)


def test_a_start_on_presence_has_every_primitive_and_no_relation() -> None:
    vocabulary = vocabulary_of(6)
    first, again = (
        initial_lambda(4, vocabulary, CompositionConfig(start="presence", start_margin=0.5), seeded())
        for _ in range(2)
    )
    assert torch.equal(first, again)
    weights = sparsemax_by_sorting(first.double())
    torch.testing.assert_close(weights[:, :6], first[:, :6].double(), rtol=0, atol=1e-6)
    assert bool((weights[:, :6] > 0.05).all())
    assert not weights[:, 6:].any()
    assert bool((first[:, 6:] == -0.5).all())
    assert not torch.equal(first[0], first[1])  # equal classes would give primitives no gradient


# The class weights of a model in use are found once, and anew when Λ is another


VOCABULARY = Vocabulary(5, VocabularyConfig())


def in_evaluation(seed: int = 0) -> Composition:
    composition = Composition(3, VOCABULARY, CompositionConfig()).double().eval()
    composition.penalised = True
    scatter(composition, 0.1, seed)
    return composition


def is_right(active: ActiveWeights, weight: Tensor) -> bool:
    """Whether these are the active weights of Λ."""
    dense = sparsemax_by_sorting(weight.detach().double())
    if active.columns.tolist() != (dense > 0).any(0).nonzero().squeeze(1).tolist():
        return False
    full = torch.zeros_like(dense).index_copy(1, active.columns, active.weights.detach().double())
    tolerance = 1e-14 if weight.dtype == torch.float64 else 1e-6
    mean = weight.detach().double().abs().mean().item()
    return bool((full - dense).abs().max() < tolerance) and active.l1.item() == pytest.approx(mean, rel=1e-6)


@torch.no_grad()
def test_without_training_or_gradients_the_weights_are_found_once() -> None:
    composition = in_evaluation()
    assert composition.find_support() is not None
    first = composition.active()
    assert is_right(first, composition.weight)
    assert composition.active() is first
    assert composition.find_support() is None  # known: nothing to look for
    assert composition.active(composition.find_support()) is first
    assert not first.weights.requires_grad


def test_training_and_gradients_ask_anew() -> None:
    composition = in_evaluation()
    with torch.no_grad():
        first = composition.active()
    second, third = composition.active(), composition.active()
    assert second is not third
    assert second.weights.requires_grad
    assert second.l1.requires_grad
    (gradient,) = torch.autograd.grad(second.weights[0, 0] + second.l1, composition.weight)
    assert gradient.abs().max() > 0
    composition.train()
    with torch.no_grad():
        assert composition.active() is not composition.active()
        composition.eval()
        fourth = composition.active()
    assert fourth is not first
    for found in (second, third, fourth):
        assert is_right(found, composition.weight)


def with_adam(composition: Composition, fused: bool = False) -> None:
    composition.weight.grad = in_evaluation(1).weight.detach()
    torch.optim.Adam([composition.weight], lr=0.3, fused=fused).step()


CHANGES: dict[str, Callable[[Composition], object]] = {
    "halved": lambda composition: composition.weight.mul_(0.5),
    "another loaded": lambda composition: composition.load_state_dict(in_evaluation(1).state_dict()),
    "another assigned": lambda composition: composition.load_state_dict(in_evaluation(1).state_dict(), assign=True),
    "in single precision": lambda composition: composition.float(),
    "after a step": with_adam,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@torch.no_grad()
def test_another_lambda_is_noticed(change: Callable[[Composition], object]) -> None:
    composition = in_evaluation()
    first = composition.active()
    change(composition)
    assert not is_right(first, composition.weight) or composition.weight.dtype != torch.float64
    second = composition.active()
    assert second is not first
    assert is_right(second, composition.weight)
    assert second.weights.dtype == composition.weight.dtype
    assert composition.active() is second


def test_training_in_evaluation_mode_is_noticed() -> None:
    composition = in_evaluation()
    with torch.no_grad():
        first = composition.active()
    composition.active().weights.square().sum().backward()  # fused Adam alone would not count as a change of Λ
    with torch.no_grad():
        with_adam(composition, fused=True)
        assert not is_right(first, composition.weight)
        assert is_right(composition.active(), composition.weight)
