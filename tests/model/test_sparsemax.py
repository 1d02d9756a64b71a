"""Sparsemax against its definition, on rows of one block and of many."""

from itertools import combinations

import pytest
import torch
from torch import Tensor

from parse_dg.model.sparsemax import WIDTH, backward_on_support, find_limited_support, find_support, sparsemax
from tests.model.reference import sparsemax_by_bisection, sparsemax_by_sorting, sparsemax_exact


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


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 0.1, 1.0, 30.0])
@pytest.mark.parametrize("length", [1, 2, 3, 8, 40])
def test_random_rows_equal_both_definitions(length: int, scale: float) -> None:
    z = scale * randn(20, length, seed=length)
    found = sparsemax(z)
    for row, weights in zip(z.tolist(), found.tolist(), strict=True):
        assert weights == pytest.approx(sparsemax_exact(row), abs=1e-13)
        assert weights == pytest.approx(sparsemax_by_bisection(row), abs=1e-13)
    torch.testing.assert_close(found, sparsemax_by_sorting(z), rtol=0, atol=1e-13)


@pytest.mark.parametrize("scale", [0.0, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0])
@pytest.mark.parametrize("length", [WIDTH - 1, WIDTH, WIDTH + 1, 2 * WIDTH - 1, 2 * WIDTH, 5000])
def test_rows_of_more_than_one_block(length: int, scale: float) -> None:
    z = scale * randn(3, length, seed=1)
    torch.testing.assert_close(sparsemax(z), sparsemax_by_sorting(z), rtol=0, atol=1e-13)
    assert sparsemax(z)[0].tolist() == pytest.approx(sparsemax_exact(z[0].tolist()), abs=1e-13)


def test_a_uniform_row_of_5000_is_spread_over_all_of_it() -> None:
    found = sparsemax(torch.full((2, 5000), 0.7, dtype=torch.float64))
    expected = torch.full((2, 5000), 1 / 5000, dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("size", [size + more for size in (WIDTH, 4 * WIDTH, 1500) for more in (-1, 0, 1)])
def test_supports_of_many_sizes(size: int) -> None:
    z = torch.full((1, 3000), -0.01, dtype=torch.float64)
    z[0, torch.randperm(3000, generator=torch.Generator().manual_seed(2))[:size]] = 1 / size
    expected = (z > 0).double() / size
    torch.testing.assert_close(sparsemax(z), expected, rtol=0, atol=1e-15)


def test_rows_of_different_support_do_not_disturb_each_other() -> None:
    z = torch.stack([scale * randn(5000, seed=3) for scale in (1.0, 0.0, 1e-2, 1e-4, 0.1, 1e-3)])
    together = sparsemax(z)
    for row, weights in zip(z, together, strict=True):
        torch.testing.assert_close(sparsemax(row), weights, rtol=0, atol=1e-16)
        torch.testing.assert_close(weights, sparsemax_by_sorting(row.unsqueeze(0))[0], rtol=0, atol=1e-13)
    assert len({int((weights > 0).sum()) for weights in together}) == 6


@pytest.mark.parametrize("scale", [0.0, 1e-4, 1e-2])
def test_a_million_columns(scale: float) -> None:
    z = scale * randn(1, 1_000_000, seed=4)
    found = sparsemax(z)
    torch.testing.assert_close(found, sparsemax_by_sorting(z), rtol=0, atol=1e-12)
    single = sparsemax(z.float())
    assert single.double().sum().item() == pytest.approx(1, abs=1e-3)
    assert (single - found).abs().max() < 1e-6


def test_single_precision_is_close_to_exact() -> None:
    z = randn(16, 3000, seed=5).float() * 0.05
    expected = torch.tensor([sparsemax_exact(row) for row in z[:4].tolist()])
    torch.testing.assert_close(sparsemax(z)[:4], expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("value", [1e30, -1e30])
def test_huge_entries_in_long_rows(value: float, dtype: torch.dtype) -> None:
    z = torch.full((2, 2000), -abs(value), dtype=dtype)
    z[0, 7], z[0, 1500] = value, value  # alone on top, or as far below as all the others
    z[1, 3] = 1.0
    found = sparsemax(z)
    expected = torch.zeros_like(z)
    expected[0] = 1 / 2000 if value < 0 else 0
    if value > 0:
        expected[0, [7, 1500]] = 0.5
    expected[1, 3] = 1
    torch.testing.assert_close(found, expected)


# --- what defines a projection onto the simplex ---------------------------------------------------


@pytest.mark.parametrize("scale", [0.01, 1.0])
def test_weights_are_not_negative_and_sum_to_one(scale: float) -> None:
    found = sparsemax(scale * randn(50, 700, seed=6))
    assert (found >= 0).all()
    torch.testing.assert_close(found.sum(-1), torch.ones(50, dtype=torch.float64))
    assert (found == 0).any(-1).all()


@pytest.mark.parametrize("shift", [-1e4, -0.3, 2.0, 1e4])
def test_shifting_a_row_changes_nothing(shift: float) -> None:
    z = randn(10, 400, seed=7)
    torch.testing.assert_close(sparsemax(z + shift), sparsemax(z), rtol=0, atol=1e-11)


def test_permuting_a_row_permutes_its_weights() -> None:
    z = randn(4, 500, seed=8)
    order = torch.randperm(500, generator=torch.Generator().manual_seed(9))
    assert torch.equal(sparsemax(z[:, order]), sparsemax(z)[:, order])


def test_no_point_of_the_simplex_is_nearer() -> None:
    z = randn(1, 30, seed=10)
    found = sparsemax(z)
    others = randn(2000, 30, seed=11).mul(2).softmax(-1)
    nudged = 0.99 * found + 0.01 * others
    for candidates in (others, nudged):
        assert (candidates - z).norm(dim=-1).min() > (found - z).norm()


@pytest.mark.parametrize("shape", [(5,), (1, 5), (3, 5), (2, 3, 5), (2, 1, 3, 5), (0, 5)])
def test_any_leading_shape(shape: tuple[int, ...]) -> None:
    z = randn(*shape, seed=12)
    found = sparsemax(z)
    assert found.shape == z.shape
    for row, weights in zip(z.reshape(-1, 5).tolist(), found.reshape(-1, 5).tolist(), strict=True):
        assert weights == pytest.approx(sparsemax_exact(row), abs=1e-14)


def test_a_transposed_matrix() -> None:
    z = randn(6, 4, seed=13)
    assert torch.equal(sparsemax(z.T), sparsemax(z.T.contiguous()))


def test_the_support_says_which_columns_are_used() -> None:
    z = torch.cat([0.01 * randn(4, 2000, seed=14), torch.zeros(1, 2000, dtype=torch.float64)])
    (tau, used), weights = find_support(z), sparsemax(z)
    assert torch.equal(used, (weights > 0).any(0))
    assert torch.equal(tau.weights(z), weights)
    assert ((tau.depth >= -1) & (tau.depth < 0)).all()
    torch.testing.assert_close(tau.highest.squeeze(1), z.amax(1))
    some = torch.tensor([3, 77, 1999])
    assert torch.equal(tau.weights(z[:, some]), weights[:, some])


# --- gradient -------------------------------------------------------------------------------------


def jacobian(weights: list[float]) -> Tensor:
    """Proposition 2 of the paper: Diag(s) - s sᵀ/|S|, s the indicator of the support."""
    s = torch.tensor([1.0 if w > 0 else 0.0 for w in weights], dtype=torch.float64)
    return torch.diag(s) - torch.outer(s, s) / s.sum()


@pytest.mark.parametrize("seed", range(5))
def test_backward_is_the_jacobian_on_the_support(seed: int) -> None:
    z, upstream = randn(1, 12, seed=seed).requires_grad_(), randn(1, 12, seed=seed + 100)
    weights = sparsemax(z)
    (gradient,) = torch.autograd.grad(weights, z, upstream)
    expected = upstream @ jacobian(sparsemax_exact(z[0].tolist()))
    torch.testing.assert_close(gradient, expected, rtol=0, atol=1e-14)
    assert (gradient[weights == 0] == 0).all()
    torch.testing.assert_close(backward_on_support(upstream, weights.detach()), expected, rtol=0, atol=1e-14)


def away_from_kinks(z: Tensor) -> bool:
    tau = find_support(z).threshold
    return bool((z - tau.highest - tau.depth).abs().min() > 1e-3)


@pytest.mark.parametrize(("length", "scale"), [(2, 1.0), (6, 0.2), (6, 1.0), (15, 0.05), (15, 0.5)])
def test_gradcheck_away_from_kinks(length: int, scale: float) -> None:
    candidates = (scale * randn(3, length, seed=seed) for seed in range(200))
    z = next(candidate for candidate in candidates if away_from_kinks(candidate)).requires_grad_()
    assert torch.autograd.gradcheck(sparsemax, (z,))
    assert torch.autograd.gradgradcheck(sparsemax, (z,))


def test_gradient_of_long_rows_equals_that_of_the_sorted_definition() -> None:
    z, upstream = 1e-3 * randn(3, 5000, seed=15), randn(3, 5000, seed=16)
    fast, slow = z.clone().requires_grad_(), z.clone().requires_grad_()
    (found,) = torch.autograd.grad(sparsemax(fast), fast, upstream)
    (expected,) = torch.autograd.grad(sparsemax_by_sorting(slow), slow, upstream)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


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


def test_a_limited_row_uses_nothing_of_its_neighbours() -> None:
    """A column that another row uses has weight zero in a row where it is not among the largest."""
    z = torch.tensor([[0.5, 0.49, 0.48, 0.0], [0.0, 0.0, 0.5, 0.5]])
    support = find_limited_support(z, 2)
    assert support.used.tolist() == [True, True, True, True]
    torch.testing.assert_close(support.weights(z), torch.tensor([[0.505, 0.495, 0, 0], [0, 0, 0.5, 0.5]]))
