"""On its evidence: heat maps drawn by hand, whose value at the centre is known."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from parse_dg.data.benchmarks import open_benchmark
from parse_dg.data.splits import Subset
from parse_dg.explain.measures.collapse import evidence
from parse_dg.explain.measures.images import heat_at_centre, locate
from parse_dg.model.primitives import to_descriptors
from tests.conftest import Tiny
from tests.explain.measures.test_collapse import APART, located
from tests.explain.test_explanation import placed_model


def heat(cells: list[list[float]]) -> float:
    """Of one map, given as weights that sum to one; its centre is the mean."""
    heatmap = torch.tensor(cells, dtype=torch.float64)
    assert float(heatmap.sum()) == pytest.approx(1)
    z = to_descriptors((heatmap + 1e-300).log()[None, None], torch.tensor(1.0, dtype=torch.float64))
    return float(heat_at_centre(z.heatmap, z.centre))


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([[0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]], 1.0),
        ([[0.5, 0.0, 0.5]], 0.0),  # two peaks and nothing between
        ([[0.5, 0.5]], 1.0),  # between two cells, as strong as both
        ([[0.75, 0.25]], 0.75 * 1.0 + 0.25 / 3),  # a quarter of the way from the first to the second
        ([[0.5, 0.0], [0.0, 0.5]], 0.5),  # the middle of four cells: the mean of them
        ([[1.0]], 1.0),  # a single cell
        ([[0.25] * 4], 1.0),  # wide and flat: as strong here as anywhere
    ],
)
def test_heat_at_the_centre(cells: list[list[float]], expected: float) -> None:
    assert heat(cells) == pytest.approx(expected, abs=1e-12)


def test_only_present_primitives_count() -> None:
    presence = torch.tensor([[1.0, 0.5, 0.49, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0, 1.0]])
    at_centre = torch.tensor([[1.0, 0.5, 1.0, 1.0, 0.49], [1.0, 1.0, 1.0, 1.0, 0.01]])
    found = evidence(replace(located(APART.expand(2, -1, -1), presence), heat_at_centre=at_centre))
    assert (found.present, found.on_evidence) == (4, 2 / 4)
    assert found.heat_at_centre == pytest.approx((1 + 0.5 + 0.49 + 0.01) / 4)


def test_maps_are_seen_when_images_are_read(tiny: Tiny) -> None:
    """One peak, two equal ones far apart, and a flat map: in all images alike."""
    maps = torch.full((4, 9, 9), -60.0)
    maps[0, 2, 3] = 40.0
    maps[1, 0, 0] = maps[1, 8, 8] = 40.0
    maps[2] = 40.0
    maps[3, 4, 4], maps[3, 4, 5] = -60.0, -61.0  # absent
    domain = open_benchmark(tiny().data).domain("photo")
    found = locate(placed_model(maps), Subset(domain, np.arange(5)))
    assert torch.allclose(found.heat_at_centre[:, :3], torch.tensor([1.0, 0.0, 1.0]).expand(5, -1), atol=1e-5)
    measured = evidence(found)
    assert (measured.present, measured.on_evidence) == (15, pytest.approx(2 / 3))


def test_a_window_moves_the_centre_and_not_the_map_it_is_held_against(tiny: Tiny) -> None:
    """Two peaks far apart, the first a little stronger; and a peak far from a plain, where the mean lies."""
    maps = torch.full((2, 9, 9), -60.0)
    maps[0, 4, 0], maps[0, 4, 8] = 40.2, 40.0
    maps[1, :, 4:], maps[1, 4, 0] = 40.0, 41.0
    subset = Subset(open_benchmark(tiny().data).domain("photo"), np.arange(2))
    model = placed_model(maps, window=1.0)
    bottleneck = model.parse_network().bottleneck
    whole = locate(placed_model(maps), subset)
    before = locate(model, subset)
    assert torch.equal(before.heat_at_centre, whole.heat_at_centre)  # the window has not begun to close in
    assert before.heat_at_centre[:, 0].tolist() == pytest.approx([0, 0], abs=1e-6)
    assert before.heat_at_centre[:, 1].tolist() == pytest.approx([math.exp(-1)] * 2, rel=1e-5)
    bottleneck.advance(1.0)
    after = locate(model, subset)
    assert after.centre[0].flatten().tolist() == pytest.approx([-1, 0, -1, 0], abs=0.01)
    assert after.heat_at_centre.flatten().tolist() == pytest.approx([1] * 4, abs=0.01)
    assert torch.equal(after.presence, before.presence)
