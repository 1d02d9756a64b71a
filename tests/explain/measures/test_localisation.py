"""Do primitives sit on parts? With primitives whose places are known, against parts whose places are known."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from parse_dg.data.benchmarks import open_benchmark
from parse_dg.data.blueprints.benchmark import PARTS
from parse_dg.data.blueprints.store import open_blueprints
from parse_dg.data.splits import Subset, whole
from parse_dg.deploy.model_file import Model
from parse_dg.explain.measures.images import SubsetPrimitives, locate
from parse_dg.explain.measures.localisation import (
    FollowedParts,
    Localisation,
    assign_parts,
    followed_parts,
    localisation,
    primitive_places,
)
from parse_dg.model.primitives import PrimitiveDescriptors
from tests.conftest import Tiny
from tests.explain.measures.test_collapse import located
from tests.explain.test_explanation import Placed, placed_model

COUNT = 160
"""More images than one evaluation batch holds."""


class Told(nn.Module):
    """A bottleneck that is told where its primitives are, image after image."""

    def __init__(self, centres: np.ndarray, presence: np.ndarray | None = None):
        super().__init__()
        self.centres = torch.from_numpy(np.asarray(centres, dtype=np.float32))
        shown = np.ones(self.centres.shape[:2]) if presence is None else presence
        self.presence = torch.from_numpy(np.asarray(shown, dtype=np.float32))
        self.seen = 0

    def forward(self, features: Tensor) -> PrimitiveDescriptors:
        here = slice(self.seen, self.seen + len(features))
        self.seen += len(features)
        count = self.centres.shape[1]
        return PrimitiveDescriptors(
            centre=self.centres[here],
            presence=self.presence[here],
            extent=torch.full((len(features), count, 2), 0.1),
            heatmap=torch.full((len(features), count, 4, 4), 1 / 16),
        )


def model_at(centres: np.ndarray, presence: np.ndarray | None = None) -> Model:
    model = placed_model(torch.zeros(centres.shape[1], 4, 4))
    model.parse_network().bottleneck = Told(centres, presence)  # type: ignore[assignment]
    return model


@pytest.fixture(scope="module")
def subset(tiny: Tiny) -> Subset:
    """The images of a domain, over and over until there are `COUNT`: only their number matters here."""
    domain = open_benchmark(tiny().data).domain("sketch")
    return Subset(domain, np.arange(COUNT, dtype=np.int64) % len(domain.labels))


@pytest.fixture(scope="module")
def centres(tiny: Tiny) -> np.ndarray:
    truth = open_blueprints(tiny().data.blueprints).domains["sketch"].centres
    return np.tile(truth, (COUNT // len(truth), 1, 1))


def test_primitives_on_the_true_centres(subset: Subset, centres: np.ndarray) -> None:
    places = primitive_places(model_at(centres), subset, centres, PARTS)
    assert [place.primitive for place in places] == list(range(len(PARTS)))
    assert [place.part for place in places] == list(PARTS)
    assert all(place.share == 1 for place in places)
    assert all(place.distance == 0 for place in places)
    assert all(place.presence == 1 for place in places)


def test_the_distance_is_the_median_in_units_of_the_grid(subset: Subset, centres: np.ndarray) -> None:
    shift = np.zeros_like(centres)
    shift[: COUNT // 2 + 1, :, 0] = 0.03  # most are a little off to the right, the others a little more, down
    shift[COUNT // 2 + 1 :, :, 1] = 0.05
    places = primitive_places(model_at(centres + shift), subset, centres, PARTS)
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
    model = placed_model(maps)
    assert isinstance(model.parse_network().backbone, Placed)
    first = Subset(whole(domain).domain, np.array([0]))
    places = primitive_places(model, first, stored.centres[:1], PARTS)
    assert [place.part for place in places] == list(PARTS)
    assert max(place.distance for place in places) < np.hypot(0.5, 0.5) * 2 / 63 + 1e-5


def measured(centres: np.ndarray, places: np.ndarray, subset: Subset, followed: dict[int, str]) -> Localisation:
    return localisation(
        locate(model_at(places), subset), centres, PARTS, followed, torch.Generator().manual_seed(0)
    )


FOLLOWED = dict(enumerate(PARTS))


def test_on_the_parts_there_is_no_error(subset: Subset, centres: np.ndarray) -> None:
    found = measured(centres, centres, subset, FOLLOWED)
    assert (found.domain, found.images, found.primitives) == ("sketch", COUNT, len(PARTS))
    assert (found.following, found.expected) == (len(PARTS), len(PARTS))
    assert found.error == 0
    assert found.error_by_chance is not None
    assert found.error_by_chance > 0.3  # where the part is in another image
    assert found.same_part == 1
    assert found.same_part_by_chance == pytest.approx(1 / len(PARTS))


def test_the_error_is_to_the_part_that_is_followed_on_the_sources(subset: Subset, centres: np.ndarray) -> None:
    """Two primitives have changed parts: they follow one here, but not the one they should."""
    order = [1, 0, 2, 3, 4, 5]
    found = measured(centres, centres[:, order], subset, FOLLOWED)
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


def off(*pixels: list[float]) -> SubsetPrimitives:
    """An image a list: primitive k is so many pixels to the right of part k, or of the last part."""
    shift = np.array(pixels)
    places = PLACES[np.minimum(np.arange(shift.shape[1]), 2)] + shift[:, :, None] * np.array([1.0, 0.0])
    return located(torch.from_numpy(grid(places)))


def at_once(found: SubsetPrimitives, assigned: dict[str, int]) -> FollowedParts:
    images = len(found.labels)
    return followed_parts(found, truth(images), THREE, assigned, SIZE, torch.Generator().manual_seed(0))


def test_what_is_within_six_pixels_is_followed() -> None:
    found = at_once(off([0, 5.9, -5.9], [0, 6.1, 5.9], [7, 7, 7], [0, 0, 0]), {"body": 0, "head": 1, "tail": 2})
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
    assigned = assign_parts([located(torch.from_numpy(grid(places)))], [truth(3)], THREE, SIZE)
    assert assigned == {"body": 1, "tail": 2, "head": 0}


def test_all_sources_together_decide() -> None:
    one = located(torch.from_numpy(grid(PLACES[[0, 1, 2]][None])))
    other = located(torch.from_numpy(grid(np.broadcast_to(PLACES[[1, 2, 0]], (2, 3, 2)))))
    assert assign_parts([one, other], [truth(1), truth(2)], THREE, SIZE) == {"body": 2, "head": 0, "tail": 1}


def test_chance_is_with_the_parts_of_another_image() -> None:
    """On every part in every image; the parts of an image are together at one of ten places."""
    generator = np.random.default_rng(0)
    pixels = np.stack([PLACES + np.array([20 * n, 0]) for n in generator.integers(0, 10, 500)])
    found = followed_parts(
        located(torch.from_numpy(grid(pixels))),
        grid(pixels),
        THREE,
        {"body": 0, "head": 1, "tail": 2},
        SIZE,
        torch.Generator().manual_seed(0),
    )
    assert (found.count, found.all) == (3, 1)
    assert found.count_by_chance == pytest.approx(0.3, abs=0.1)
    assert found.all_by_chance == pytest.approx(0.1, abs=0.04)
