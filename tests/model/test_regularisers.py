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


@pytest.mark.parametrize("count", [2, 3, 4, 9])
def test_angle_repulsion_equals_the_slow_loop(count: int) -> None:
    angles = 3 * randn(count, seed=count)
    expected = reference.angle_repulsion(angles.tolist())
    assert angle_repulsion(angles).item() == pytest.approx(expected, rel=1e-12)


def test_the_spread_is_the_variance_of_what_is_present() -> None:
    extent = torch.tensor([[[0.2, 0.4], [1.0, 1.0], [3.0, 3.0]]])  # twice the standard deviation
    presence = torch.tensor([[1.0, 0.5, 0.0]])
    expected = (1.0 * (0.01 + 0.04) + 0.5 * (0.25 + 0.25)) / 1.5
    assert spread(extent, presence).item() == pytest.approx(expected)


def test_two_peaks_far_apart_are_as_concentrated_as_two_neighbours_and_spread_more() -> None:
    near, far = torch.zeros(1, 1, 1, 9), torch.zeros(1, 1, 1, 9)
    near[..., 3:5] = far[..., ::8] = 20
    found = [to_descriptors(evidence, torch.tensor(1.0)) for evidence in (near, far)]
    assert concentration(found[0].heatmap).item() == pytest.approx(concentration(found[1].heatmap).item())
    assert 10 * spread(found[0].extent, found[0].presence) < spread(found[1].extent, found[1].presence)


def test_ownership_equals_the_slow_loop() -> None:
    maps, evidence, presence = heatmaps(2, 3, 2, 4), randn(2, 3, 2, 4, seed=5), randn(2, 3, seed=6).sigmoid()
    total = 0.0
    for b in range(2):
        for k in range(3):
            found = [float((maps[b, k] * evidence[b, j]).sum()) for j in range(3)]
            surprise = math.log(sum(math.exp(value) for value in found)) - found[k]
            total += float(presence[b, k]) * surprise
    assert ownership(maps, evidence, presence).item() == pytest.approx(total / float(presence.sum()), rel=1e-12)


def test_a_place_is_owned_by_the_only_one_that_finds_something_there() -> None:
    evidence = torch.full((1, 2, 1, 2), -9.0)
    evidence[0, 0, 0, 0] = evidence[0, 1, 0, 1] = 9
    maps, both = evidence.flatten(2).softmax(-1).view_as(evidence), torch.ones(1, 2)
    assert ownership(maps, evidence, both).item() == pytest.approx(0, abs=1e-6)
    same = evidence[:, :1].expand(1, 2, 1, 2)
    assert ownership(maps[:, :1].expand(1, 2, 1, 2), same, both).item() == pytest.approx(math.log(2))


def test_presence_is_moved_by_neither_and_nothing_present_is_no_loss() -> None:
    presence = torch.full((1, 2), 0.5, requires_grad=True)
    maps = heatmaps(1, 2, 2, 2).float().requires_grad_()
    (ownership(maps, maps, presence) + spread(maps.sum(2), presence)).backward()
    assert presence.grad is None
    nothing = torch.zeros(1, 2)
    assert ownership(maps, maps, nothing).item() == 0
    assert spread(torch.ones(1, 2, 2), nothing).item() == 0


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
