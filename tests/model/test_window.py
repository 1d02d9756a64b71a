"""The window around a map's peak: a local soft-argmax that closes in as training goes on."""

import pytest
import torch
from torch import Tensor

from parse_dg.model.primitives import (
    PrimitiveBottleneck,
    PrimitiveDescriptors,
    PrimitivesConfig,
    focused,
    to_descriptors,
)
from tests.model import reference
from tests.model.test_primitives import random_evidence, single_map

SIZES = [(7, 7), (4, 6), (6, 3), (1, 5), (5, 1), (1, 1), (2, 2)]


def number(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


def described(evidence: Tensor, temperature: float = 1.0, focus: float = 0.0) -> PrimitiveDescriptors:
    return to_descriptors(focused(evidence, number(temperature), number(focus)), number(temperature))


def slow_window(heatmap: list[list[float]], temperature: float, focus: float) -> list[list[float]]:
    """H/T - f·d² of one map [h][w], cell by cell; the peak is the first in the order of reading."""
    cells = [(h, w) for h in range(len(heatmap)) for w in range(len(heatmap[0]))]
    peak = max(cells, key=lambda cell: heatmap[cell[0]][cell[1]])  # the first of equals
    return [
        [value / temperature - focus * ((h - peak[0]) ** 2 + (w - peak[1]) ** 2) for w, value in enumerate(row)]
        for h, row in enumerate(heatmap)
    ]


def bottleneck_of(
    window: float | None, count: int = 4, channels: int = 8, **settings: float
) -> PrimitiveBottleneck:
    config = PrimitivesConfig(count=count, window=window, **settings)
    return PrimitiveBottleneck(channels, config, torch.Generator().manual_seed(0))


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(("temperature", "focus"), [(1.0, 0.0), (0.3, 0.125), (4.0, 0.125), (0.7, 2.0)])
@pytest.mark.parametrize("size", SIZES)
def test_a_focused_map_equals_the_slow_loop(
    size: tuple[int, int], temperature: float, focus: float, ties: bool
) -> None:
    evidence = random_evidence(2, 3, *size)
    if ties:
        evidence = evidence.round().clamp(-1, 1)
    z = described(evidence, temperature, focus)
    for image in range(2):
        for primitive in range(3):
            plain = evidence[image, primitive].tolist()
            centre, _, extent, normal = reference.describe(slow_window(plain, temperature, focus), 1.0)
            assert z.centre[image, primitive].tolist() == pytest.approx(centre, abs=1e-13)
            assert z.extent[image, primitive].tolist() == pytest.approx(extent, abs=1e-12)
            expected = torch.tensor(normal, dtype=torch.float64)
            torch.testing.assert_close(z.heatmap[image, primitive], expected, rtol=0, atol=1e-13)
    assert torch.equal(z.presence, evidence.amax((2, 3)).sigmoid())  # to the bit, whatever the window


@pytest.mark.parametrize("size", [(2, 3), (1, 4), (4, 1), (1, 1)])
def test_gradient_of_a_focused_map_is_right(size: tuple[int, int]) -> None:
    """Of the temperature, too: it divides the evidence and not the window."""
    evidence = random_evidence(1, 2, *size, seed=3).requires_grad_()
    temperature = number(0.8).requires_grad_()
    focus = number(0.3)
    assert torch.autograd.gradcheck(
        lambda e, t: tuple(to_descriptors(focused(e, t, focus), t)), (evidence, temperature)
    )


def test_gradient_of_the_whole_bottleneck_with_a_window_is_right() -> None:
    bottleneck = bottleneck_of(1.5, count=2, channels=2, temperature=0.7).double()
    bottleneck.advance(1.0)
    features = random_evidence(1, 2, 2, 3, seed=4).requires_grad_()
    names, values = zip(*bottleneck.named_parameters(), strict=True)

    def run(features: Tensor, *parameters: Tensor) -> tuple[Tensor, ...]:
        return tuple(torch.func.functional_call(bottleneck, dict(zip(names, parameters, strict=True)), (features,)))

    assert set(names) == {"projection.weight", "projection.bias", "log_temperature"}  # focus is not learnt
    assert torch.autograd.gradcheck(run, (features, *values))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("window", [0.01, 1.5])
@pytest.mark.parametrize(
    "evidence",
    [
        torch.zeros(1, 2, 4, 4),
        torch.full((1, 2, 1, 1), 1e30),
        torch.tensor([[[[1e30, -1e30], [1e30, 0]]]]),
        single_map({(2, 3): 1e4}),
    ],
    ids=["flat", "one huge cell", "±1e30", "one peak"],
)
def test_focused_descriptors_and_gradients_are_finite(evidence: Tensor, window: float, dtype: torch.dtype) -> None:
    evidence = evidence.to(dtype, copy=True).requires_grad_()
    temperature = torch.tensor(1.0, dtype=dtype, requires_grad=True)
    focus = torch.tensor(PrimitivesConfig(window=window).focus(1.0), dtype=dtype)
    z = to_descriptors(focused(evidence, temperature, focus), temperature)
    assert all(part.isfinite().all() for part in z)
    gradients = torch.autograd.grad(z.centre.sum() + z.presence.sum() + z.extent.sum(), (evidence, temperature))
    assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_without_a_window_nothing_changes_to_the_bit(dtype: torch.dtype) -> None:
    """Nor with one that has not begun to close in."""
    features = random_evidence(2, 8, 5, 7).to(dtype)
    plain, still = bottleneck_of(None).to(dtype), bottleneck_of(1.5).to(dtype)
    plain.advance(1.0)
    still.advance(0.5)
    expected = to_descriptors(plain.evidence(features), plain.log_temperature.exp())
    for bottleneck in (plain, still):
        for part, wanted in zip(bottleneck(features), expected, strict=True):
            assert torch.equal(part, wanted)
    assert torch.equal(plain.whole_maps(features), expected.heatmap)


@pytest.mark.parametrize(
    ("start", "progress", "share"),
    [(0.5, 0.5, 0.0), (0.5, 0.625, 0.5), (0.5, 0.75, 1.0), (0.5, 1.0, 1.0), (0.8, 0.85, 0.5)],
)
def test_the_window_closes_in_and_then_stays(start: float, progress: float, share: float) -> None:
    bottleneck = bottleneck_of(2.0, window_from=start)
    assert bottleneck.focus.item() == 0
    bottleneck.advance(progress)
    assert bottleneck.focus.item() == pytest.approx(share / 8)  # 1/(2·2²)
