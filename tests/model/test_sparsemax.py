"""Sparsemax against its definition, on rows of one block and of many."""

from itertools import combinations

import pytest
import torch
from torch import Tensor

from parse_dg.model.sparsemax import find_limited_support, find_support, sparsemax
from tests.model.reference import sparsemax_by_bisection, sparsemax_exact


def rows(*values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


ADVERSARIAL: dict[str, list[float]] = {
    "one column": [3.7],
    "one column far below": [-1e30],
    "constant": [0.3] * 11,
    "constant and huge": [1e30] * 4,
    "zeros": [0.0] * 7,
    "two ties on top": [2.0, 1.0, 2.0, -5.0],
    "ties at the threshold": [1.0, 0.0, 0.0, 0.0],
    "ties just inside": [1.0, 0.1, 0.1, 0.1],
    "one winner": [5.0, 0.0, -5.0],
    "exactly one apart": [1.0, 0.0],
    "±1e30": [1e30, -1e30, 0.0, 1e30],
    "all far below": [-1e30, -1e30, -1e30],
    "far below but one": [-1e30, 0.5, -1e30],
    "tiny differences": [1.0 + 1e-12 * k for k in range(6)],
    "tiny differences on a large number": [1e6 + 1e-9 * k for k in range(6)],
    "denormal": [0.0, 5e-324, 1e-310],
    "already on the simplex": [0.25, 0.0, 0.75, 0.0],
    "on the simplex with a margin below": [0.5, 0.5, -0.02, -0.02, -0.02],
    "ascending": [0.1 * k for k in range(20)],
}


def test_the_example_by_hand() -> None:
    assert sparsemax(rows([-2.0, 0.0, 0.5])).tolist() == [[0.0, 0.25, 0.75]]


@pytest.mark.parametrize("name", ADVERSARIAL)
def test_adversarial_rows_equal_the_exact_definition(name: str) -> None:
    z = ADVERSARIAL[name]
    expected = sparsemax_exact(z)
    assert expected == pytest.approx(sparsemax_by_bisection(z), abs=1e-14)
    assert sparsemax(rows(z))[0].tolist() == pytest.approx(expected, abs=1e-14)


def away_from_kinks(z: Tensor) -> bool:
    tau = find_support(z).threshold
    return bool((z - tau.highest - tau.depth).abs().min() > 1e-3)


@pytest.mark.parametrize(("length", "scale"), [(2, 1.0), (6, 0.2), (6, 1.0), (15, 0.05), (15, 0.5)])
def test_gradcheck_away_from_kinks(length: int, scale: float) -> None:
    candidates = (scale * randn(3, length, seed=seed) for seed in range(200))
    z = next(candidate for candidate in candidates if away_from_kinks(candidate)).requires_grad_()
    assert torch.autograd.gradcheck(sparsemax, (z,))
    assert torch.autograd.gradgradcheck(sparsemax, (z,))


@pytest.mark.parametrize("name", ADVERSARIAL)
def test_gradients_at_kinks_and_extremes_are_finite_and_sum_to_zero(name: str) -> None:
    z = rows(ADVERSARIAL[name]).requires_grad_()
    (gradient,) = torch.autograd.grad(sparsemax(z), z, randn(1, len(ADVERSARIAL[name]), seed=17))
    assert gradient.isfinite().all()
    assert gradient.sum().abs() < 1e-13


@pytest.mark.parametrize("limit", [1, 3, 12])
def test_limited_to_the_largest_entries(limit: int) -> None:
    """The nearest of all vectors of the simplex with at most so many entries: every choice of entries is tried."""
    z = torch.randn(6, 8, generator=torch.Generator().manual_seed(3), dtype=torch.float64) * 0.3
    support = find_limited_support(z, limit)
    found = torch.zeros_like(z)
    found[:, support.used] = support.weights(z[:, support.used])
    assert bool(((found > 0).sum(1) <= limit).all())
    for row, weights in zip(z, found, strict=True):
        nearest = torch.inf
        for chosen in combinations(range(8), min(limit, 8)):
            candidate = torch.zeros(8, dtype=torch.float64)
            candidate[list(chosen)] = sparsemax(row[list(chosen)])
            nearest = min(nearest, float((candidate - row).square().sum()))
        assert float((weights - row).square().sum()) == pytest.approx(nearest, abs=1e-12)


def test_a_limit_holds_where_entries_are_equal() -> None:
    z = torch.zeros(3, 50)
    support = find_limited_support(z, 4)
    weights = support.weights(z[:, support.used])
    assert (weights > 0).sum(1).tolist() == [4, 4, 4]
    torch.testing.assert_close(weights.sum(1), torch.ones(3))
