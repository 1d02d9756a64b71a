"""Parts followed at once, by primitives whose distances to the parts are known in pixels."""

import numpy as np
import pytest
import torch

from parse_dg.explain.measures.images import SubsetPrimitives
from parse_dg.explain.measures.localisation import FollowedParts, assign_parts, followed_parts
from tests.explain.measures.test_collapse import located

PARTS = ("body", "head", "tail")
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


def measured(found: SubsetPrimitives, assigned: dict[str, int]) -> FollowedParts:
    images = len(found.labels)
    return followed_parts(found, truth(images), PARTS, assigned, SIZE, torch.Generator().manual_seed(0))


def test_what_is_within_six_pixels_is_followed() -> None:
    found = measured(off([0, 5.9, -5.9], [0, 6.1, 5.9], [7, 7, 7], [0, 0, 0]), {"body": 0, "head": 1, "tail": 2})
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
    assigned = assign_parts([located(torch.from_numpy(grid(places)))], [truth(3)], PARTS, SIZE)
    assert assigned == {"body": 1, "tail": 2, "head": 0}


def test_all_sources_together_decide() -> None:
    one = located(torch.from_numpy(grid(PLACES[[0, 1, 2]][None])))
    other = located(torch.from_numpy(grid(np.broadcast_to(PLACES[[1, 2, 0]], (2, 3, 2)))))
    assert assign_parts([one, other], [truth(1), truth(2)], PARTS, SIZE) == {"body": 2, "head": 0, "tail": 1}


def test_chance_is_with_the_parts_of_another_image() -> None:
    """On every part in every image; the parts of an image are together at one of ten places."""
    generator = np.random.default_rng(0)
    pixels = np.stack([PLACES + np.array([20 * n, 0]) for n in generator.integers(0, 10, 500)])
    found = followed_parts(
        located(torch.from_numpy(grid(pixels))),
        grid(pixels),
        PARTS,
        {"body": 0, "head": 1, "tail": 2},
        SIZE,
        torch.Generator().manual_seed(0),
    )
    assert (found.count, found.all) == (3, 1)
    assert found.count_by_chance == pytest.approx(0.3, abs=0.1)
    assert found.all_by_chance == pytest.approx(0.1, abs=0.04)
