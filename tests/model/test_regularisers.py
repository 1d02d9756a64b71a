"""The regularisers against the sums of appendix B."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from parse_dg.model.primitives import to_descriptors
from parse_dg.model.regularisers import (
    angle_repulsion,
    concentration,
    diversity,
    diversity_and_concentration,
    ownership,
    spread,
)
from tests.model import reference


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def heatmaps(B: int, K: int, H: int, W: int, seed: int = 0) -> Tensor:
    """Normalised maps, as the bottleneck makes them."""
    return (2 * randn(B, K, H, W, seed=seed)).flatten(2).softmax(-1).view(B, K, H, W)


def flat(maps: Tensor) -> list[list[list[float]]]:
    return maps.flatten(2).tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("shape", [(1, 2, 3, 3), (3, 4, 2, 5), (2, 5, 1, 1), (2, 3, 1, 6), (2, 1, 1, 6)])
def test_diversity_and_concentration_equal_the_slow_loops_averaged_over_images(shape: Any) -> None:
    maps = heatmaps(*shape)
    for fast, slow in ((diversity, reference.diversity), (concentration, reference.concentration)):
        if shape[1] > 1 or fast is concentration:  # of a single map there are no two that differ
            expected = sum(slow(image) for image in flat(maps)) / shape[0]
            assert fast(maps).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("shape", [(3, 4, 2, 5), (2, 1, 3, 3)])
def test_both_together_are_both_alone(shape: tuple[int, int, int, int]) -> None:
    maps = heatmaps(*shape).requires_grad_()
    together, alone = diversity_and_concentration(maps), (diversity(maps), concentration(maps))
    assert all(torch.equal(a, b) for a, b in zip(together, alone, strict=True))
    gradients = [torch.autograd.grad(a + 0.1 * b, maps)[0] for a, b in (together, alone)]
    assert torch.equal(*gradients)


def test_spread_is_the_variance_under_the_maps_averaged() -> None:
    evidence = randn(2, 3, 4, 5)
    z = to_descriptors(evidence, torch.tensor(0.7, dtype=torch.float64))
    slow = []
    for maps in evidence.tolist():
        for heatmap in maps:
            _, _, (width, height), _ = reference.describe(heatmap, 0.7)
            slow.append((width / 2) ** 2 + (height / 2) ** 2)
    assert spread(z.extent).item() == pytest.approx(sum(slow) / 6, rel=1e-12)


def test_ownership_is_the_cross_entropy_of_telling_primitives_at_their_centres() -> None:
    evidence, centre = randn(2, 3, 4, 5), randn(2, 3, 2, seed=1).clamp(-1, 1)
    slow = []
    for maps, places in zip(evidence.tolist(), centre.tolist(), strict=True):
        for k, (x, y) in enumerate(places):
            column, row = (x + 1) / 2 * 4, (y + 1) / 2 * 3
            left, top = min(int(column), 3), min(int(row), 2)
            right, down = column - left, row - top
            found = [
                (1 - down) * ((1 - right) * each[top][left] + right * each[top][left + 1])
                + down * ((1 - right) * each[top + 1][left] + right * each[top + 1][left + 1])
                for each in maps
            ]
            slow.append(math.log(sum(math.exp(value) for value in found)) - found[k])
    assert ownership(evidence, centre).item() == pytest.approx(sum(slow) / 6, rel=1e-12)


def test_a_centre_between_two_peaks_is_not_its_own() -> None:
    evidence = torch.zeros(1, 2, 5, 5, dtype=torch.float64)
    evidence[0, 0, 2, [0, 4]] = 8.0  # two peaks, and the other primitive between them
    evidence[0, 1, 2, 2] = 8.0
    two = to_descriptors(evidence, torch.tensor(1.0, dtype=torch.float64), "sparsemax")
    assert two.centre[0, 0].abs().max() < 1e-12
    evidence[0, 0, 2, 4] = 0.0
    one = to_descriptors(evidence, torch.tensor(1.0, dtype=torch.float64), "sparsemax")
    assert spread(one.extent) < 0.1 * spread(two.extent)
    evidence[0, 0, 2, 4] = 8.0
    between = ownership(evidence, two.centre)
    evidence[0, 0, 2, 4] = 0.0
    assert ownership(evidence, one.centre) < 0.1 * between


@pytest.mark.parametrize("count", [2, 3, 4, 9])
def test_angle_repulsion_equals_the_slow_loop(count: int) -> None:
    angles = 3 * randn(count, seed=count)
    expected = reference.angle_repulsion(angles.tolist())
    assert angle_repulsion(angles).item() == pytest.approx(expected, rel=1e-12)


def test_gradients_are_right() -> None:
    assert torch.autograd.gradcheck(diversity, (heatmaps(2, 3, 2, 3).requires_grad_(),))
    assert torch.autograd.gradcheck(concentration, (heatmaps(2, 3, 2, 3).requires_grad_(),))
    assert torch.autograd.gradcheck(angle_repulsion, (randn(4).requires_grad_(),))
    evidence, centre = randn(1, 3, 3, 4).requires_grad_(), (0.3 * randn(1, 3, 2, seed=1)).requires_grad_()
    assert torch.autograd.gradcheck(ownership, (evidence, centre))
    assert torch.autograd.gradcheck(spread, (centre,))


def test_gradients_at_peaks_and_coincident_angles_are_finite() -> None:
    peaks = torch.zeros(1, 2, 3, 3)
    peaks[:, :, 1, 1] = 1
    peaks.requires_grad_()
    (diversity(peaks) + concentration(peaks)).backward()
    assert peaks.grad is not None
    assert peaks.grad.isfinite().all()
    angles = torch.zeros(4, requires_grad=True)
    angle_repulsion(angles).backward()
    assert angles.grad is not None
    assert angles.grad.isfinite().all()
