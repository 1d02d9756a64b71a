"""The class weights of a model in use are found once, and anew when Λ is another."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from parse_dg.model.composition import ActiveWeights, Composition, CompositionConfig
from parse_dg.model.vocabulary import Vocabulary, VocabularyConfig
from tests.model.reference import sparsemax_by_sorting
from tests.parts import seeded

VOCABULARY = Vocabulary(5, VocabularyConfig())
NORMAL = CompositionConfig(start="normal", start_std=0.1)


def composition_of(seed: int = 0) -> Composition:
    composition = Composition(3, VOCABULARY, NORMAL, seeded(seed)).double().eval()
    composition.penalised = True
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
    composition = composition_of()
    assert composition.find_support() is not None
    first = composition.active()
    assert is_right(first, composition.weight)
    assert composition.active() is first
    assert composition.find_support() is None  # known: nothing to look for
    assert composition.active(composition.find_support()) is first
    assert not first.weights.requires_grad


def test_training_and_gradients_ask_anew() -> None:
    composition = composition_of()
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


def halve(composition: Composition) -> None:
    composition.weight.mul_(0.5)


def load_another(composition: Composition) -> None:
    composition.load_state_dict(composition_of(1).state_dict())


def assign_another(composition: Composition) -> None:
    composition.load_state_dict(composition_of(1).state_dict(), assign=True)


def to_single(composition: Composition) -> None:
    composition.float()


def plain_adam(composition: Composition) -> None:
    composition.weight.grad = composition_of(1).weight.detach()
    torch.optim.Adam([composition.weight], lr=0.3).step()


def fused_adam(composition: Composition) -> None:
    composition.weight.grad = composition_of(1).weight.detach()
    torch.optim.Adam([composition.weight], lr=0.3, fused=True).step()


CHANGES: list[Callable[[Composition], None]] = [halve, load_another, assign_another, to_single, plain_adam]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__.replace("_", " "))
@torch.no_grad()
def test_another_lambda_is_noticed(change: Callable[[Composition], None]) -> None:
    composition = composition_of()
    first = composition.active()
    change(composition)
    assert not is_right(first, composition.weight) or composition.weight.dtype != torch.float64
    second = composition.active()
    assert second is not first
    assert is_right(second, composition.weight)
    assert second.weights.dtype == composition.weight.dtype
    assert composition.active() is second


def test_training_in_evaluation_mode_is_noticed() -> None:
    composition = composition_of()
    with torch.no_grad():
        first = composition.active()
    composition.active().weights.square().sum().backward()  # fused Adam alone would not count as a change of Λ
    with torch.no_grad():
        fused_adam(composition)
        assert not is_right(first, composition.weight)
        assert is_right(composition.active(), composition.weight)
