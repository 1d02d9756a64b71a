"""Primitives and classes to be looked at: the faces of all primitives, and classes as cards made of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from parse_dg.deploy.names import called
from parse_dg.errors import InputError
from parse_dg.explain.class_cards import ClassCard
from parse_dg.explain.faces import Face, PrimitiveFaces
from parse_dg.explain.figures.marks import give_way, mark_relation
from parse_dg.explain.figures.page import COLOURS, FAINT, INK, NORMAL, SMALL, TALLEST, WIDTHS, Sheet, in_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BESIDE = {"page": 4, "column": 2}
"""Cards beside each other."""
GAP, HEADER, LINE, FOOT = 0.14, 0.2, 0.11, 0.34
"""Inches: between cards, for a class's name, for a line of text, for what is said below."""
FACE = 0.09
"""Half the side of a face on a card, as a share of the card's width."""
TILE = {"page": 0.5, "column": 0.42}
"""Inches: the side of a face on the sheet of all of them."""

Names = Mapping[int, str]


def cards_figure(
    path: Path, cards: Sequence[ClassCard], faces: PrimitiveFaces | None, names: Names, *, width: str = "page"
) -> None:
    """Every class as a card: its strongest relations over the mean layout, with the faces of their primitives."""
    beside = BESIDE[width]
    side = (WIDTHS[width] - (beside - 1) * GAP) / beside
    lines = 2 * max(len(card.relations) for card in cards)
    tall = HEADER + side + lines * LINE + GAP
    rows = -(-len(cards) // beside)
    height = rows * tall + FOOT
    if height > TALLEST:
        most = beside * int((TALLEST - FOOT) / tall)
        raise InputError(f"{len(cards)} class cards do not fit on a page: choose at most {most} with --classes")
    with Sheet.file(path, width, height) as sheet:
        for number, card in enumerate(cards):
            _draw_card(sheet, card, faces, names, number % beside * (side + GAP), number // beside * tall, side)
        notes = ["numbers: a relation's weight, the most it can add to the score of its class"]
        of = f"mean layout in {max(card.images for card in cards)} or fewer training images of a class, drawn apart"
        sheet.notes(0, height - FOOT + 0.1, *notes, f"{of}; faces: where a primitive is strongest")


def _draw_card(
    sheet: Sheet, card: ClassCard, faces: PrimitiveFaces | None, names: Names, left: float, top: float, side: float
) -> None:
    sheet.text(left, top + 0.08, card.name, NORMAL + 1, within=side, weight="bold")
    axes = sheet.axes(left, top + HEADER, side, side)
    axes.set_xlim(0, 1)
    axes.set_ylim(1, 0)
    axes.axhspan(0, 1, color="#f3f1ec", zorder=0)
    numbers = [place.primitive for place in card.places]
    where = dict(zip(numbers, arranged(np.array([(p.x, p.y) for p in card.places]).reshape(-1, 2)), strict=True))
    if where:
        places = np.full((max(numbers) + 1, 2), np.nan)
        places[numbers] = list(where.values())
        shrink = FACE * side * 72 + 2
        for row, (term, colour) in enumerate(zip(card.relations, COLOURS, strict=False)):
            mark_relation(axes, term, places, colour, bend=0.12 * row, shrink=shrink)
    for k, at in where.items():
        _place_face(axes, at, faces.faces[k][0] if faces and faces.faces[k] else None, names.get(k, f"p{k}"))
    y = top + HEADER + side + 0.08
    for term, colour in zip(card.relations, COLOURS, strict=False):
        sheet.bar(left, y - 0.03, 0.06, 0.06, colour)
        sheet.text(left + side, y, f"{term.weight:.3f}", SMALL, ha="right", color=FAINT)
        for number, line in enumerate(in_lines(term.words, side - 0.42, SMALL)):
            sheet.text(left + 0.1, y + number * LINE, line, SMALL)
        y += 2 * LINE


def arranged(places: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, "n 2"]:
    """Places stretched, alike in both directions, until they fill a card from 0 to 1, and moved apart for faces."""
    if not len(places):
        return places
    moved = give_way(_filling(places), 3.2 * FACE)
    return _filling(moved)


def _filling(places: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, "n 2"]:
    low, high = places.min(0), places.max(0)
    room = 1 - 2 * FACE - 0.12  # a label stands below a face
    scale = room / max(float((high - low).max()), 0.15)
    return np.asarray((places - (low + high) / 2) * scale + np.array([0.5, 0.47]))


def _place_face(axes: "Axes", at: Float[np.ndarray, "2"], face: Face | None, words: str) -> None:
    from matplotlib.patches import Rectangle

    x, y = at
    if face is not None:
        axes.imshow(
            face.pixels(), extent=(x - FACE, x + FACE, y + FACE, y - FACE), zorder=4, interpolation="bicubic"
        )
    looks: dict[str, Any] = {"fill": face is None, "facecolor": "white", "edgecolor": INK, "linewidth": 0.6}
    axes.add_patch(Rectangle((x - FACE, y - FACE), 2 * FACE, 2 * FACE, zorder=4, **looks))
    axes.set_xlim(0, 1)
    axes.set_ylim(1, 0)
    paper = {"facecolor": "white", "alpha": 0.85, "linewidth": 0, "pad": 0.5}
    axes.text(x, y + FACE, words, fontsize=SMALL, ha="center", va="top", zorder=5, bbox=paper)


def fitting(faces: PrimitiveFaces, width: str) -> int:
    """Of how many primitives the faces fit on a page."""
    _, tall, beside = _grid(faces, width)
    return beside * int((TALLEST - FOOT) / tall)


def _grid(faces: PrimitiveFaces, width: str) -> tuple[float, float, int]:
    """Inches that a primitive takes, across and down, and how many stand beside each other."""
    most = max(len(each) for each in faces.faces)
    wide = most * (TILE[width] + 0.04) + 0.14
    return wide, TILE[width] + 0.36, max(1, int((WIDTHS[width] + 0.14) / wide))


def faces_figure(
    path: Path, faces: PrimitiveFaces, primitives: Sequence[int], names: Names, *, width: str = "page"
) -> None:
    """The faces of primitives, each with the class and the domain of the image it was cut out of."""
    tile = TILE[width]
    wide, tall, beside = _grid(faces, width)
    if len(primitives) > fitting(faces, width):
        most = fitting(faces, width)
        raise InputError(
            f"{len(primitives)} primitives do not fit on a page: choose at most {most} with --primitives"
        )
    height = -(-len(primitives) // beside) * tall + FOOT
    with Sheet.file(path, width, height) as sheet:
        for number, k in enumerate(primitives):
            left, top = number % beside * wide, number // beside * tall
            sheet.text(left, top + 0.07, called(k, names), NORMAL, within=wide - 0.14, weight="bold")
            for column, face in enumerate(faces.faces[k]):
                x = left + column * (tile + 0.04)
                sheet.axes(x, top + 0.14, tile, tile).imshow(face.pixels(), interpolation="bicubic")
                for line, words in enumerate((face.label, face.domain)):
                    sheet.text(x, top + tile + 0.19 + 0.09 * line, words, 5, within=tile, color=FAINT)
        lines = in_lines(f"{faces.words}; below each: its class and its domain", WIDTHS[width], SMALL)
        sheet.notes(0, height - FOOT + 0.14, *lines)
