"""Sparsemax against its definition on thousands of rows made to break a search without a sort; and with a limit."""

import math
from collections.abc import Callable
from itertools import combinations

import pytest
import torch
from torch import Tensor

from parse_dg.model import sparsemax as module
from parse_dg.model.sparsemax import WIDTH, find_support, sparsemax, sparsemax_of_few
from tests.model.reference import sparsemax_by_sorting, sparsemax_exact

ROWS = 24
LENGTHS = [1, 2, 3, 31, *(blocks * WIDTH + more for blocks in (1, 2, 3, 4) for more in (-1, 0, 1)), 777]
DTYPES = [torch.float32, torch.float64]
TOLERANCE = {torch.float32: 2e-7, torch.float64: 2e-15}
"""A few roundings of a number in [0, 1]."""

each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])

Make = Callable[[int, torch.Generator, torch.dtype], Tensor]
"""A length, draws and a precision → (ROWS, length)."""


def randn(n: int, draw: torch.Generator, dtype: torch.dtype) -> Tensor:
    return torch.randn(ROWS, n, generator=draw, dtype=torch.float64).to(dtype)


def spread(low: float, high: float, dtype: torch.dtype) -> Tensor:
    """One number a row, from 10^low to 10^high."""
    return torch.logspace(low, high, ROWS, dtype=torch.float64).to(dtype).unsqueeze(1)


def scales(n: int, draw: torch.Generator, dtype: torch.dtype) -> Tensor:
    return spread(-6, 6, dtype) * randn(n, draw, dtype)


def shifted_scales(n: int, draw: torch.Generator, dtype: torch.dtype) -> Tensor:
    return spread(-6, 2, dtype) * randn(n, draw, dtype) + 1000 * randn(1, draw, dtype)


def cauchy(n: int, draw: torch.Generator, dtype: torch.dtype) -> Tensor:
    angle = math.pi * (torch.rand(ROWS, n, generator=draw, dtype=torch.float64) - 0.5)
    return spread(-6, 2, dtype) * angle.tan().to(dtype)


def lognormal(n: int, draw: torch.Generator, dtype: torch.dtype) -> Tensor:
    sign = -1 if n % 2 else 1
    return sign * spread(-6, 1, dtype) * (4 * randn(n, draw, dtype)).exp()


def constant(n: int, draw: torch.Generator, dtype: torch.dtype) -> Tensor:
    return (spread(-6, 6, dtype) * randn(1, draw, dtype).sign()).expand(ROWS, n).clone()


def ties_on_top(n: int, draw: torch.Generator, dtype: torch.dtype) -> Tensor:
    z = spread(-4, 1, dtype) * randn(n, draw, dtype)
    tied = torch.rand(ROWS, n, generator=draw) < torch.rand(ROWS, 1, generator=draw)
    return torch.where(tied, z.amax(1, keepdim=True) + 0.01, z)


def ties_at_the_threshold(n: int, draw: torch.Generator, dtype: torch.dtype) -> Tensor:
    """2^k entries of 2^-k above a floor where all others lie: τ is the floor, exactly."""
    place = torch.rand(ROWS, n, generator=draw).argsort(1).argsort(1)
    power = torch.randint(0, int(math.log2(n)) + 1, (ROWS, 1), generator=draw)
    floor = torch.randint(-4, 5, (ROWS, 1), generator=draw) * 0.25
    return (floor + (place < 2**power) * 0.5**power).to(dtype)


def few_values(n: int, draw: torch.Generator, dtype: torch.dtype) -> Tensor:
    return (randn(n, draw, dtype) * 4).round() * spread(-4, 0, dtype)


def on_the_simplex(n: int, draw: torch.Generator, dtype: torch.dtype) -> Tensor:
    z = (3 * randn(n, draw, dtype)).softmax(1)
    return torch.where(torch.rand(ROWS, n, generator=draw) < 0.5, z, -0.02)


def staircase(n: int, draw: torch.Generator, dtype: torch.dtype) -> Tensor:
    step = torch.randint(1, 70, (ROWS, 1), generator=draw)
    stairs = -(torch.arange(n) // step) * spread(-5, 0, torch.float64)
    return in_some_order(stairs, draw).to(dtype)


def geometric(n: int, draw: torch.Generator, dtype: torch.dtype) -> Tensor:
    """-r^j, r^j - 1, and -r^-j: every step of Newton's method loses few entries."""
    ratio = torch.linspace(0.3, 0.999, ROWS, dtype=torch.float64).unsqueeze(1)
    powers = ratio ** torch.arange(n).clamp_max(300)
    kind = torch.arange(ROWS).unsqueeze(1) % 3
    z = torch.where(kind == 0, -powers, torch.where(kind == 1, powers - 1, -1e-3 / powers))
    return in_some_order(z, draw).to(dtype)


def harmonic(n: int, draw: torch.Generator, dtype: torch.dtype) -> Tensor:
    """1/j and -log j, whose sums grow without end but slowly."""
    j = torch.arange(1, n + 1, dtype=torch.float64)
    z = torch.where(torch.arange(ROWS).unsqueeze(1) % 2 == 0, 1 / j, -j.log()) * spread(-3, 1, torch.float64)
    return in_some_order(z, draw).to(dtype)


def in_some_order(z: Tensor, draw: torch.Generator) -> Tensor:
    """A third of the rows as they are, a third backwards, a third shuffled."""
    z = z.clone()
    z[1::3] = z[1::3].flip(1)
    shuffled = torch.rand(z[2::3].shape, generator=draw).argsort(1)
    z[2::3] = z[2::3].gather(1, shuffled)
    return z


def one_block(n: int, draw: torch.Generator, dtype: torch.dtype) -> Tensor:
    block = torch.randint(0, -(-n // WIDTH), (ROWS, 1), generator=draw)
    return spread(-5, 0, dtype) * randn(n, draw, dtype) - 30.0 * (torch.arange(n) // WIDTH != block)


def one_entry_a_block(n: int, draw: torch.Generator, dtype: torch.dtype) -> Tensor:
    lane = torch.randint(0, WIDTH, (ROWS, n), generator=draw)[:, torch.arange(n) // WIDTH]
    high = (torch.arange(n) % WIDTH == lane) | (torch.arange(n) == 0)
    return spread(-5, 0, dtype) * randn(n, draw, dtype) - 30.0 * ~high


def last_partial_block(n: int, draw: torch.Generator, dtype: torch.dtype) -> Tensor:
    first = (n - 1) // WIDTH * WIDTH
    return spread(-5, 0, dtype) * randn(n, draw, dtype) - 30.0 * (torch.arange(n) < first)


def next_to_each_other(n: int, draw: torch.Generator, dtype: torch.dtype) -> Tensor:
    """Numbers that differ in their last bits."""
    steps = torch.randint(0, 5, (ROWS, n), generator=draw).to(dtype)
    return spread(-3, 3, dtype) * (1 + steps * torch.finfo(dtype).eps)


def barely_inside(n: int, draw: torch.Generator, dtype: torch.dtype) -> Tensor:
    """One entry on top, and one in every block that has next to nothing of the weight."""
    z = torch.full((ROWS, n), -9.0, dtype=dtype)
    z[:, ::WIDTH] = spread(0, 4, dtype) * torch.finfo(dtype).eps - 1
    z[:, n // 2] = 0
    return z


def huge(n: int, draw: torch.Generator, dtype: torch.dtype) -> Tensor:
    values = torch.tensor([1e30, -1e30, 0.0, 1.0, 0.5, torch.finfo(dtype).max, torch.finfo(dtype).min], dtype=dtype)
    some = torch.randint(0, len(values), (ROWS, 3), generator=draw)
    return values[some.gather(1, torch.randint(0, 3, (ROWS, n), generator=draw))]


def denormal(n: int, draw: torch.Generator, dtype: torch.dtype) -> Tensor:
    smallest = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    z = torch.randint(-9, 10, (ROWS, n), generator=draw).to(dtype) * smallest
    return z - (torch.rand(ROWS, n, generator=draw) < 0.3) * spread(-3, 0, dtype)


def minus_infinity(n: int, draw: torch.Generator, dtype: torch.dtype) -> Tensor:
    gone = torch.rand(ROWS, n, generator=draw) < torch.linspace(0, 1, ROWS).unsqueeze(1)
    gone[torch.arange(ROWS), torch.randint(0, n, (ROWS,), generator=draw)] = False
    return (spread(-4, 1, dtype) * randn(n, draw, dtype)).masked_fill(gone, -torch.inf)


KINDS: dict[str, Make] = {
    make.__name__.replace("_", " "): make
    for make in (
        *(scales, shifted_scales, cauchy, lognormal, constant, ties_on_top, ties_at_the_threshold, few_values),
        *(on_the_simplex, staircase, geometric, harmonic, one_block, one_entry_a_block, last_partial_block),
        *(next_to_each_other, barely_inside, huge, denormal, minus_infinity),
    )
}


def rows_of(kind: str, length: int, dtype: torch.dtype) -> Tensor:
    return KINDS[kind](length, torch.Generator().manual_seed(length), dtype)


def definition(z: Tensor) -> Tensor:
    """By sorting, in float64. The largest entry is taken off first: -1e30 and 1 do not fit into one sum."""
    wide = z.double()
    return sparsemax_by_sorting(wide - wide.amax(1, keepdim=True))


def check(z: Tensor) -> None:
    """Everything that must hold of the weights of rows that have a projection."""
    before, weights, (threshold, used, *_) = z.clone(), sparsemax(z), find_support(z)
    tolerance = TOLERANCE[z.dtype]
    assert torch.equal(z, before)
    assert weights.dtype == z.dtype
    assert (weights >= 0).all()
    expected = definition(z)
    assert (weights > 0).any(1).all()
    torch.testing.assert_close(weights.double(), expected, rtol=0, atol=tolerance)
    assert ((weights.double().sum(1) - 1).abs() <= tolerance * (2 + (expected > 0).sum(1))).all()
    assert torch.equal(used, (weights > 0).any(0))
    assert torch.equal(threshold.weights(z), weights)
    assert torch.equal(threshold.highest, z.amax(1, keepdim=True))
    assert ((threshold.depth >= -1) & (threshold.depth < 0)).all()


@each_dtype
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_row_at_every_length_equals_the_definition(kind: str, dtype: torch.dtype) -> None:
    for length in LENGTHS:
        check(rows_of(kind, length, dtype))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "minus infinity"])
def test_short_rows_equal_the_definition_in_exact_fractions(kind: str) -> None:
    assert sparsemax_exact([-2.0, 0.0, 0.5]) == [0.0, 0.25, 0.75]
    for length in (1, 2, 3, 7):
        z = rows_of(kind, length, torch.float64)
        for row, weights in zip(z.tolist(), sparsemax(z).tolist(), strict=True):
            assert weights == pytest.approx(sparsemax_exact(row), abs=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["constant", "scales", "one in a thousand", "ascending", "last entry"])
@each_dtype
def test_a_million_columns(kind: str, dtype: torch.dtype) -> None:
    n = 10**6 + 7
    draw = torch.Generator().manual_seed(0)
    z = {
        "constant": lambda: torch.full((n,), 0.3),
        "scales": lambda: 1e-2 * torch.randn(n, generator=draw, dtype=torch.float64),
        "one in a thousand": lambda: (torch.arange(n) % 1000 == 3) * 1e-3 - 0.02,
        "ascending": lambda: torch.linspace(0, 1, n, dtype=torch.float64),
        "last entry": lambda: (torch.arange(n) == n - 1) * 2.0,
    }[kind]()
    z = z.to(dtype).unsqueeze(0)
    weights, support = sparsemax(z), find_support(z)
    tolerance = {torch.float32: 2e-7, torch.float64: 1e-13}[dtype]
    torch.testing.assert_close(weights.double(), definition(z), rtol=0, atol=tolerance)
    assert weights.double().sum().item() == pytest.approx(1, abs=1e-3 if dtype == torch.float32 else 1e-9)
    assert torch.equal(support.used, weights[0] > 0)


# --- the ways through the search ------------------------------------------------------------------


class Watched:
    """Counts the portions of rows, and those that were searched entry by entry."""

    def __init__(self, patch: pytest.MonkeyPatch):
        self.portions, self.few = 0, 0
        portions, side_by_side = module._portions, module._side_by_side

        def watched_portions(*arguments: Tensor) -> list[Tensor]:
            made = list(portions(*arguments))
            self.portions += len(made)
            return made

        def watched_side_by_side(owner: Tensor, entries: Tensor, rows: int) -> Tensor:
            self.few += 1
            return side_by_side(owner, entries, rows)

        patch.setattr(module, "_portions", watched_portions)
        patch.setattr(module, "_side_by_side", watched_side_by_side)


@pytest.mark.parametrize("at_once", [1, 10_000])
@each_dtype
def test_rows_in_many_portions_give_what_rows_at_once_give(
    at_once: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    z = torch.cat([rows_of(kind, 2 * WIDTH + 1, dtype) for kind in KINDS])
    weights, support = sparsemax(z), find_support(z)
    watched = Watched(monkeypatch)
    monkeypatch.setattr(module, "AT_ONCE", at_once)
    found = find_support(z)
    assert torch.equal(found.used, support.used)
    torch.testing.assert_close(found.threshold, support.threshold, rtol=0, atol=TOLERANCE[dtype])
    torch.testing.assert_close(found.weights(z), weights, rtol=0, atol=TOLERANCE[dtype])
    assert watched.portions > 5
    assert watched.few < watched.portions
    assert watched.few > 0 or at_once == 10_000


# --- how a matrix may lie in memory ---------------------------------------------------------------


@pytest.mark.parametrize("rows", [0, 3])
def test_a_matrix_without_columns_is_refused(rows: int) -> None:
    with pytest.raises(ValueError, match="at least one column"):
        find_support(torch.zeros(rows, 0))


# --- rows without a projection --------------------------------------------------------------------

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize("at_once", [1, 2**22])
@pytest.mark.parametrize("length", [1, 2 * WIDTH + 2])
@pytest.mark.parametrize("value", [NAN, INF, -INF], ids=str)
@pytest.mark.parametrize("scale", [0.1, 30.0], ids=["most inside", "few inside"])
@each_dtype
def test_a_row_without_a_projection_is_nan_and_alone_in_it(
    scale: float, value: float, length: int, at_once: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AT_ONCE", at_once)
    z = scale * randn(length, torch.Generator().manual_seed(6), dtype).repeat(3, 1)
    places = sorted({0, length // 2, length - 1})
    broken = torch.zeros(len(z), dtype=torch.bool)
    for row, place in zip((0, 5, len(z) - 1), (places * 3)[:3], strict=True):
        z[row, place] = value
        broken[row] = True
    if value == -INF:
        z[broken] = -INF
    good = z[~broken]
    z.requires_grad_()
    weights = sparsemax(z)
    upstream = randn(length, torch.Generator().manual_seed(7), dtype).repeat(3, 1)
    (gradient,) = torch.autograd.grad(weights, z, upstream)
    assert weights[broken].isnan().all()
    assert gradient[broken].isnan().all()
    torch.testing.assert_close(weights[~broken], sparsemax(good), rtol=0, atol=TOLERANCE[dtype])
    torch.testing.assert_close(weights[~broken].double(), definition(good), rtol=0, atol=TOLERANCE[dtype])
    assert gradient[~broken].isfinite().all()
    threshold, used, *_ = find_support(z.detach())
    expected = (weights > 0).any(0)
    expected[0] = True
    assert torch.equal(used, expected)
    assert torch.equal(threshold.depth.isnan().squeeze(1), broken)


# --- gradient -------------------------------------------------------------------------------------


@each_dtype
@pytest.mark.parametrize("kind", KINDS)
def test_backward_is_the_jacobian_of_every_kind_of_row(kind: str, dtype: torch.dtype) -> None:
    """Diag(s) - s sᵀ/|S|, s the indicator of the support."""
    for length in (1, 5, WIDTH, 2 * WIDTH + 1):
        z = rows_of(kind, length, dtype).requires_grad_()
        upstream = randn(length, torch.Generator().manual_seed(8), dtype)
        weights = sparsemax(z)
        (gradient,) = torch.autograd.grad(weights, z, upstream)
        s = (weights > 0).double()
        jacobian = torch.diag_embed(s) - s.unsqueeze(2) * s.unsqueeze(1) / s.sum(1)[:, None, None]
        expected = (jacobian @ upstream.double().unsqueeze(2)).squeeze(2)
        torch.testing.assert_close(gradient.double(), expected, rtol=0, atol=20 * TOLERANCE[dtype])
        assert (gradient[weights == 0] == 0).all()


def away_from_kinks(z: Tensor) -> bool:
    tau = find_support(z).threshold
    return bool((z - tau.highest - tau.depth).abs().min() > 1e-3)


@pytest.mark.parametrize(("length", "scale"), [(2, 1.0), (6, 0.2), (12, 0.5)])
def test_gradcheck_away_from_kinks(length: int, scale: float) -> None:
    draws = (torch.Generator().manual_seed(seed) for seed in range(200))
    candidates = (scale * randn(length, draw, torch.float64)[:3] for draw in draws)
    z = next(candidate for candidate in candidates if away_from_kinks(candidate)).requires_grad_()
    assert torch.autograd.gradcheck(sparsemax, (z,))
    assert torch.autograd.gradgradcheck(sparsemax, (z,))


# --- at most so many entries ----------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 3, 12])
def test_limited_to_the_largest_entries(limit: int) -> None:
    """The nearest of all vectors of the simplex with at most so many entries: every choice of entries is tried."""
    z = torch.randn(6, 8, generator=torch.Generator().manual_seed(3), dtype=torch.float64) * 0.3
    support = find_support(z, limit)
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
    support = find_support(z, 4)
    weights = support.weights(z[:, support.used])
    assert (weights > 0).sum(1).tolist() == [4, 4, 4]
    torch.testing.assert_close(weights.sum(1), torch.ones(3))


@pytest.mark.parametrize("scale", [1e-6, 0.1, 1.0, 1e4])
@pytest.mark.parametrize("length", [1, 2, 49, 256])
def test_sparsemax_of_few_is_sparsemax(length: int, scale: float) -> None:
    generator = torch.Generator().manual_seed(length)
    z = scale * torch.randn(3, 5, length, generator=generator) + 100 * scale
    upstream = torch.randn(3, 5, length, generator=generator)
    found = []
    for function in (sparsemax, sparsemax_of_few):
        given = z.clone().requires_grad_()
        weights = function(given)
        found.append((weights.detach(), torch.autograd.grad(weights, given, upstream)[0]))
    (long, of_long), (short, of_short) = found
    torch.testing.assert_close(short, long, rtol=0, atol=1e-5)
    assert ((short > 0) == (long > 0)).float().mean() > 0.99  # where rounding decides, either may be
    if torch.equal(short > 0, long > 0):
        torch.testing.assert_close(of_short, of_long, rtol=0, atol=1e-5)
