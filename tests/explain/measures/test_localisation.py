"""Do primitives sit on parts? With primitives whose places are known, against parts whose places are known."""

import numpy as np
import pytest
import torch

from parse_dg.data.benchmarks import open_benchmark
from parse_dg.data.blueprints.benchmark import PARTS
from parse_dg.data.blueprints.store import open_blueprints
from parse_dg.data.splits import Subset
from parse_dg.explain.measures.images import SubsetPrimitives
from parse_dg.explain.measures.localisation import (
    FollowedParts,
    Localisation,
    PrimitivePlace,
    assign_parts,
    followed_parts,
    localisation,
    places_among_parts,
    primitive_places,
)
from tests.conftest import Tiny
from tests.explain.measures.test_collapse import located
from tests.explain.test_explanation import placed_model
from tests.parts import seeded

COUNT = 160


@pytest.fixture(scope="module")
def centres(tiny: Tiny) -> np.ndarray:
    truth = open_blueprints(tiny().data.blueprints).domains["sketch"].centres
    return np.tile(truth, (COUNT // len(truth), 1, 1))


def at(places: np.ndarray) -> SubsetPrimitives:
    """Images with primitives at these places."""
    return located(torch.from_numpy(places.astype(np.float32)))


def test_primitives_on_the_true_centres(centres: np.ndarray) -> None:
    places = places_among_parts([at(centres)], [centres], PARTS)
    assert places == tuple(PrimitivePlace(k, part, 1, 0, 1) for k, part in enumerate(PARTS))


def test_the_distance_is_the_median_in_units_of_the_grid(centres: np.ndarray) -> None:
    shift = np.zeros_like(centres)
    shift[: COUNT // 2 + 1, :, 0] = 0.03  # most are a little off to the right, the others a little more, down
    shift[COUNT // 2 + 1 :, :, 1] = 0.05
    places = places_among_parts([at(centres + shift)], [centres], PARTS)
    assert all(place.share == 1 for place in places)
    assert [place.distance for place in places] == pytest.approx([0.03] * len(PARTS), abs=1e-5)


def test_a_heat_map_on_the_true_centre_is_found_there(tiny: Tiny) -> None:
    """The grid of maps and the grid of parts are one: a map drawn at a part's pixel is at distance 0 from it."""
    stored = open_blueprints(tiny().data.blueprints).domains["photo"]
    pixels = np.rint((stored.centres[0] + 1) / 2 * 63).astype(int)
    maps = torch.full((len(PARTS), 64, 64), -60.0)
    for part, (column, row) in enumerate(pixels.tolist()):
        maps[part, row, column] = 40.0
    domain = open_benchmark(tiny().data).domain("photo")
    places = primitive_places(placed_model(maps), Subset(domain, np.array([0])), stored.centres[:1], PARTS)
    assert [place.part for place in places] == list(PARTS)
    assert max(place.distance for place in places) < np.hypot(0.5, 0.5) * 2 / 63 + 1e-5


def measured(centres: np.ndarray, places: np.ndarray) -> Localisation:
    return localisation(at(places), centres, PARTS, FOLLOWED, seeded())


FOLLOWED = dict(enumerate(PARTS))


def test_on_the_parts_there_is_no_error(centres: np.ndarray) -> None:
    found = measured(centres, centres)
    assert (found.domain, found.images, found.primitives) == ("sketch", COUNT, len(PARTS))
    assert (found.following, found.expected) == (len(PARTS), len(PARTS))
    assert found.error == 0
    assert found.error_by_chance is not None
    assert found.error_by_chance > 0.3  # where the part is in another image
    assert found.same_part == 1
    assert found.same_part_by_chance == pytest.approx(1 / len(PARTS))


def test_the_error_is_to_the_part_that_is_followed_on_the_sources(centres: np.ndarray) -> None:
    """Two primitives have changed parts: they follow one here, but not the one they should."""
    order = [1, 0, 2, 3, 4, 5]
    found = measured(centres, centres[:, order])
    assert found.following == len(PARTS)
    assert found.same_part == pytest.approx(4 / 6)
    apart = np.median(np.linalg.norm(centres[:, 0] - centres[:, 1], axis=-1))
    assert found.error == pytest.approx(2 * apart / 6, abs=1e-5)


# --- parts followed at once ---

THREE = ("body", "head", "tail")
SIZE = 64
PLACES = np.array([[10.0, 10.0], [30.0, 50.0], [55.0, 20.0]])
"""Of the parts, in pixels."""


def grid(pixels: np.ndarray) -> np.ndarray:
    """Pixels of a 64-pixel image on the grid: the first is at -1, the last at 1."""
    return (2 * pixels / (SIZE - 1) - 1).astype(np.float32)


def truth(images: int) -> np.ndarray:
    return grid(np.broadcast_to(PLACES, (images, 3, 2)))


def at_once(places: np.ndarray, centres: np.ndarray) -> FollowedParts:
    """Each part has the primitive of its number."""
    return followed_parts(at(grid(places)), centres, THREE, {"body": 0, "head": 1, "tail": 2}, SIZE, seeded())


def test_what_is_within_six_pixels_is_followed() -> None:
    """In every image primitive k is so many pixels to the right of part k."""
    off = np.array([[0, 5.9, -5.9], [0, 6.1, 5.9], [7, 7, 7], [0, 0, 0]])
    found = at_once(PLACES + off[:, :, None] * np.array([1.0, 0.0]), truth(4))
    assert [(part.part, part.primitive, part.share) for part in found.parts] == [
        ("body", 0, 0.75),
        ("head", 1, 0.5),
        ("tail", 2, 0.75),
    ]
    assert found.count == (3 + 2 + 0 + 3) / 4
    assert found.all == 0.5
    assert found.images == 4


def test_each_part_is_given_the_best_primitive_that_is_left() -> None:
    """p1 is on the body in all images; p0 in most, and is on the head in the others; p2 is on the tail in some."""
    places = np.stack([PLACES[[0, 0, 2]], PLACES[[0, 0, 2]], PLACES[[1, 0, 0]]])
    assigned = assign_parts([at(grid(places))], [truth(3)], THREE, SIZE)
    assert assigned == {"body": 1, "tail": 2, "head": 0}


def test_all_sources_together_decide() -> None:
    one, other = at(grid(PLACES[None])), at(grid(np.broadcast_to(PLACES[[1, 2, 0]], (2, 3, 2))))
    assert assign_parts([one, other], [truth(1), truth(2)], THREE, SIZE) == {"body": 2, "head": 0, "tail": 1}


def test_chance_is_with_the_parts_of_another_image() -> None:
    """On every part in every image; the parts of an image are together at one of ten places."""
    generator = np.random.default_rng(0)
    pixels = np.stack([PLACES + np.array([20 * n, 0]) for n in generator.integers(0, 10, 500)])
    found = at_once(pixels, grid(pixels))
    assert (found.count, found.all) == (3, 1)
    assert found.count_by_chance == pytest.approx(0.3, abs=0.1)
    assert found.all_by_chance == pytest.approx(0.1, abs=0.04)
