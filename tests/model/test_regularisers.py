"""The regularisers against the sums of appendix B."""

from typing import Any

import pytest
import torch
from torch import Tensor

from parse_dg.model.regularisers import (
    angle_repulsion,
    concentration,
    diversity,
    diversity_and_concentration,
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


@pytest.mark.parametrize("count", [2, 3, 4, 9])
def test_angle_repulsion_equals_the_slow_loop(count: int) -> None:
    angles = 3 * randn(count, seed=count)
    expected = reference.angle_repulsion(angles.tolist())
    assert angle_repulsion(angles).item() == pytest.approx(expected, rel=1e-12)


def test_gradients_are_right() -> None:
    assert torch.autograd.gradcheck(diversity, (heatmaps(2, 3, 2, 3).requires_grad_(),))
    assert torch.autograd.gradcheck(concentration, (heatmaps(2, 3, 2, 3).requires_grad_(),))
    assert torch.autograd.gradcheck(angle_repulsion, (randn(4).requires_grad_(),))


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
