"""Collapse of primitives that were placed by hand; heat maps drawn by hand, whose heat at the centre is known."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from parse_dg.data.benchmarks import open_benchmark
from parse_dg.data.splits import Subset
from parse_dg.explain.measures.collapse import collapse, evidence, find_coinciding, wrong_above_right
from parse_dg.explain.measures.images import SubsetPrimitives, heat_at_centre, locate
from parse_dg.model.primitives import to_descriptors
from tests.conftest import Tiny
from tests.explain.test_explanation import placed_model

CELLS = 9
"""A cell is 0.25 of the grid's units wide."""


def located(
    centre: Tensor,
    presence: Tensor | None = None,
    labels: list[int] | Tensor | None = None,
    predicted: list[int] | None = None,
    cells: tuple[int, int] = (CELLS, CELLS),
    domain: str = "sketch",
) -> SubsetPrimitives:
    """Images with primitives at these places; by default all present, of class 0 and classified right."""
    count = len(centre)
    truth = torch.as_tensor([0] * count if labels is None else labels)
    return SubsetPrimitives(
        domain=domain,
        labels=truth,
        predicted=torch.tensor(predicted) if predicted else truth,
        probability=torch.ones(count),
        centre=centre,
        presence=torch.ones(centre.shape[:2]) if presence is None else presence,
        extent=torch.full_like(centre, 0.1),
        heat_at_centre=torch.ones(centre.shape[:2]),
        cells=cells,
    )


def at(*cells: tuple[float, float]) -> Tensor:
    """Centres of one image, given as (column, row) of the heat map."""
    return 2 * torch.tensor(cells) / (CELLS - 1) - 1


APART = at((0, 0), (4, 0), (8, 0), (0, 8), (8, 8))
PAIR = at((0, 0), (0.4, 0), (8, 0), (0, 8), (8, 8))
CHAIN = at((0, 0), (0.4, 0), (0.8, 0), (1.2, 0), (8, 8))
"""The first and the fourth are more than a cell apart, and linked by the others."""
ONE = at(*[(3, 3)] * 5)


def test_what_is_apart_does_not_coincide() -> None:
    found = find_coinciding(located(APART[None]))
    assert not found.coinciding.any()
    assert found.places.tolist() == [5]
    assert found.collapse.tolist() == [0]
    assert found.place.tolist() == [[0, 1, 2, 3, 4]]


@pytest.mark.parametrize(
    ("centre", "coinciding", "places", "share"),
    [
        (PAIR, [0, 1], 4, 1 / 4),
        (CHAIN, [0, 1, 2, 3], 2, 3 / 4),
        (ONE, [0, 1, 2, 3, 4], 1, 1.0),
        (at((0, 0), (8, 8), (0, 0.3), (8, 7.7), (4, 4)), [0, 1, 2, 3], 3, 2 / 4),
    ],
    ids=["a pair", "a chain", "one place", "two pairs"],
)
def test_what_is_together_coincides(centre: Tensor, coinciding: list[int], places: int, share: float) -> None:
    found = find_coinciding(located(centre[None]))
    assert found.coinciding[0].nonzero().flatten().tolist() == coinciding
    assert found.places.tolist() == [places]
    assert found.collapse.tolist() == pytest.approx([share])


def test_only_present_primitives_count() -> None:
    presence = torch.ones(1, 5)
    presence[0, 1] = 0.49  # the other one of the pair
    found = find_coinciding(located(PAIR[None], presence))
    assert found.places.tolist() == [4]
    assert found.collapse.tolist() == [0]
    assert not found.coinciding.any()


def test_the_distance_is_in_cells_of_the_map_along_each_axis() -> None:
    centre = torch.tensor([[[0.0, 0.0], [0.2, 0.0]], [[0.0, 0.0], [0.0, 0.2]]])  # along x, along y
    coarse = find_coinciding(located(centre, cells=(5, 5)))  # a cell is 0.5: 0.4 cells apart
    assert coarse.collapse.tolist() == [1, 1]
    uneven = find_coinciding(located(centre, cells=(9, 5)))  # H 9, W 5: 0.8 cells apart along y
    assert uneven.collapse.tolist() == [1, 0]
    assert find_coinciding(located(centre, cells=(9, 5)), within=0.9).collapse.tolist() == [1, 1]


def test_images_are_compared_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    module, several = sys.modules["parse_dg.explain.measures.collapse"], list[int]()
    whole = find_coinciding(located(images := torch.stack([APART, PAIR, CHAIN, ONE])))
    linked = module._linked
    monkeypatch.setattr(module, "PAIRS_AT_ONCE", 60)  # two images of 5 primitives

    def counted(centre: Tensor, *more: object) -> Tensor:
        several.append(len(centre))
        return linked(centre, *more)

    monkeypatch.setattr(module, "_linked", counted)
    parts = find_coinciding(located(images))
    assert several == [2, 2]
    assert all(torch.equal(one, other) for one, other in zip(whole, parts, strict=True))


def test_means_are_of_all_of_right_and_of_wrong_images() -> None:
    images = torch.stack([APART, PAIR, ONE, ONE])
    found = collapse(located(images, labels=[0, 0, 0, 1], predicted=[0, 0, 1, 0]))
    assert (found.all.images, found.right.images, found.wrong.images) == (4, 2, 2)
    assert found.all.collapse == pytest.approx((0 + 0.25 + 1 + 1) / 4)
    assert (found.right.collapse, found.wrong.collapse) == (0.125, 1)
    assert (found.right.places, found.wrong.places) == (4.5, 1)
    assert (found.right.coinciding, found.wrong.coinciding) == (1, 5)
    assert found.wrong_above_right == 1  # in class 0, the only one with both
    assert found.to_dict()["wrong"] == found.wrong.to_dict()


def test_chance_is_what_shuffling_gives() -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(120) % 3
    values = torch.randint(0, 5, (120,), generator=generator) / 4  # many ties
    right = torch.rand(120, generator=generator) < 0.7
    shuffled = []
    for _ in range(400):
        dealt = right.clone()
        for label in range(3):
            mine = (labels == label).nonzero().flatten()
            dealt[mine] = right[mine[torch.randperm(len(mine), generator=generator)]]
        above, spread = wrong_above_right(values, dealt, labels)
        shuffled.append(above)
    results = torch.tensor(shuffled, dtype=torch.float64)
    assert float(results.mean()) == pytest.approx(0.5, abs=0.01)
    assert float(results.std()) == pytest.approx(spread, rel=0.15)


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


def test_only_present_primitives_have_evidence() -> None:
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
