"""Marks on images: discs that give way, parts that are enlarged, edges of every kind of relation."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from parse_dg.explain.explanation import Relation
from parse_dg.explain.figures.marks import give_way, mark_relation, show, zoom_on
from parse_dg.model.paper_predicates import PAPER
from tests.explain.figures.test_explanation import noise


def closest(places: np.ndarray) -> float:
    apart = np.linalg.norm(places[:, None] - places[None], axis=-1)
    return float(apart[~np.eye(len(places), dtype=bool)].min())


@pytest.mark.parametrize("count", [2, 5, 16])
def test_discs_in_one_place_are_pushed_apart(count: int) -> None:
    moved = give_way(np.zeros((count, 2)), 5.0)
    assert closest(moved) > 4.5
    assert np.abs(moved).max() < 5.0 * count  # and not far
    assert np.array_equal(moved, give_way(np.zeros((count, 2)), 5.0))


@pytest.mark.parametrize(
    ("places", "middle"),
    [
        ([[30.0, 30.0], [34.0, 30.0]], (32, 30)),
        ([[0.0, 0.0], [2.0, 2.0]], None),
        ([[63.0, 63.0]], None),
        ([[0.0, 0.0], [63.0, 63.0]], None),
    ],
    ids=["inside", "a corner", "another corner", "everything"],
)
def test_zooming(places: list[list[float]], middle: tuple[float, float] | None) -> None:
    axes = Figure((2, 2)).add_axes((0, 0, 1, 1))
    show(axes, noise(3, 64, 64), faint=True)
    zoom_on(axes, np.array(places))
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    assert right - left == pytest.approx(bottom - top)  # a square
    assert 0.39 * 64 < right - left <= 64
    assert min(left, top) >= -0.5
    assert max(right, bottom) <= 63.5
    for x, y in places:
        assert left <= x <= right
        assert top <= y <= bottom
    if middle:
        assert ((left + right) / 2, (top + bottom) / 2) == pytest.approx(middle)


def test_every_predicate_has_its_edges() -> None:
    places, found = np.array([[float(k), 0.0] for k in range(4)]), {}
    for each in PAPER:
        axes = Figure((2, 2)).add_axes((0, 0, 1, 1))
        mark_relation(axes, Relation("", "", each.name, tuple(range(each.arity)), 1.0, 1.0), places, "red")
        found[each.name] = axes.texts
        assert len(axes.lines) == (each.name == "has")  # the ring
    ends = {name: [(round(e.xyann[0]), round(e.xy[0])) for e in edges] for name, edges in found.items()}
    assert ends == {
        "has": [],
        **{name: [(0, 1)] for name in ("above", "left", "h_align", "v_align", "near", "contains")},
        "tri": [(0, 1), (0, 2)],
        "turn": [(0, 1), (1, 2)],
        "orient": [(0, 1), (2, 3)],
        "eqdist": [(0, 1), (2, 3)],
    }
    headed = {name for name, edges in found.items() if any("-|>" in e.arrowprops["arrowstyle"] for e in edges)}
    assert headed == {"above", "left", "contains", "turn", "orient"}
