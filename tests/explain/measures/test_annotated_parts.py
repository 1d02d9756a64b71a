"""Primitives beside parts whose places in photographs are known: what is near, who decides, and chance."""

import numpy as np
import pytest
import torch

from parse_dg.data.framing import Framing, ImageFit
from parse_dg.data.public.cub_parts import PartAnnotations
from parse_dg.explain.measures.annotated_parts import AnnotatedParts, annotated_parts
from parse_dg.explain.measures.images import SubsetPrimitives
from tests.explain.measures.test_collapse import located

PARTS = ("beak", "tail")
WIDTH, HEIGHT = 101, 51
"""So that a pixel is 0.02 of the grid along x, and 0.04 along y."""
Place = tuple[float, float]


def grid(places: list[list[Place]]) -> SubsetPrimitives:
    """Images of primitives, given in pixels."""
    pixels = torch.tensor(places, dtype=torch.float64)
    return located(2 * pixels / torch.tensor([WIDTH - 1, HEIGHT - 1]) - 1)


def marked(places: list[list[Place | None]], diagonal: float = 50.0) -> PartAnnotations:
    """Photographs of parts, in pixels; None: not visible."""
    count = len(places)
    return PartAnnotations(
        parts=PARTS,
        places=np.array([[part or (0.0, 0.0) for part in parts] for parts in places], dtype=np.float64),
        visible=np.array([[part is not None for part in parts] for parts in places]),
        sizes=np.tile(np.array([WIDTH, HEIGHT], dtype=np.float64), (count, 1)),
        diagonals=np.full(count, diagonal),
    )


def measured(*domains: tuple[SubsetPrimitives, PartAnnotations], fit: ImageFit = "squash") -> AnnotatedParts:
    places, parts = zip(*domains, strict=True)
    return annotated_parts(places, parts, Framing(size=8, fit=fit), torch.Generator().manual_seed(0))


SOURCE = grid([[(20, 20), (80, 40)]] * 4), marked([[(20, 20), (80, 40)]] * 4)


def shares(found: AnnotatedParts, domain: int = -1) -> list[tuple[str, float | None]]:
    return [(each.part, each.share) for each in found.domains[domain].primitives]


def test_primitives_on_their_parts() -> None:
    found = measured(SOURCE, SOURCE)
    assert shares(found) == [("beak", 1), ("tail", 1)]
    assert (found.parts, found.within) == (PARTS, 0.1)
    assert [each.domain for each in found.domains] == ["sketch", "sketch"]
    assert (found.sources.domain, found.sources.images, found.sources.followed) == ("sources together", 4, 2)


def test_places_are_of_the_square_that_was_seen() -> None:
    """The middle of a photograph is its middle whatever the fit; what lies at the edge of a crop is inside it."""
    middle = ((WIDTH - 1) / 2, (HEIGHT - 1) / 2)
    crop = (WIDTH - HEIGHT) / 2
    found = grid([[middle, (0, 0)]] * 2), marked([[middle, (crop, 0)]] * 2)
    assert shares(measured(found, found, fit="crop")) == [("beak", 1), ("tail", 1)]
    assert shares(measured(found, found)) == [("beak", 1), ("beak", 0)]


@pytest.mark.parametrize(
    ("place", "near"), [((24.9, 20.0), 1), ((25.1, 20.0), 0), ((20.0, 25.1), 0), ((17.0, 16.1), 1)]
)
def test_near_is_a_tenth_of_the_diagonal_in_pixels_of_the_photograph(place: Place, near: int) -> None:
    """5 pixels, along x as along y, whatever they are of the square that the network sees."""
    target = grid([[place, (80, 40)]]), marked([[(20, 20), (80, 40)]])
    assert shares(measured(SOURCE, target)) == [("beak", near), ("tail", 1)]


def test_only_photographs_in_which_the_part_is_visible_count() -> None:
    away = (60.0, 5.0)
    target = (
        grid([[(20, 20), (80, 40)], [away, (80, 40)], [away, (80, 40)], [(20, 20), away]]),
        marked([[(20, 20), None], [None, None], [(20, 20), None], [(20, 20), None]]),
    )
    found = measured(SOURCE, target).domains[-1]
    assert [(each.part, each.photographs, each.share) for each in found.primitives] == [
        ("beak", 3, pytest.approx(2 / 3)),
        ("tail", 0, None),
    ]
    assert (found.images, found.followed) == (4, 1)


def test_a_part_is_followed_by_any_primitive_in_half_of_the_photographs() -> None:
    """In the target the beak has another primitive than on the sources, in half of them; the tail in fewer."""
    away = (60.0, 5.0)
    target = (
        grid([[away, (20, 20)], [away, (20, 20)], [away, (80, 40)], [away, away]]),
        marked([[(20, 20), (80, 40)]] * 4),
    )
    found = measured(SOURCE, target).domains[-1]
    assert [(each.part, each.primitive, each.share) for each in found.parts] == [
        ("beak", 1, 0.5),
        ("tail", 1, 0.25),
    ]
    assert found.followed == 1


def test_chance_is_with_the_places_of_another_image() -> None:
    """A bird is at one of ten places; its primitives are on its parts."""
    draw = np.random.default_rng(0).integers(0, 10, 600)
    places: list[list[Place]] = [[(10.0 * n, 10.0), (10.0 * n, 40.0)] for n in draw.tolist()]
    domain = grid(places), marked([list(parts) for parts in places], diagonal=20.0)
    found = measured(domain, domain)
    assert shares(found) == [("beak", 1), ("tail", 1)]
    for each in (found.sources, *found.domains):
        assert [one.by_chance for one in each.primitives] == [pytest.approx(0.1, abs=0.05)] * 2
        assert [one.by_chance for one in each.parts] == [one.by_chance for one in each.primitives]
        assert (each.followed, each.followed_by_chance) == (2, 0)
    assert measured(domain, domain) == found
