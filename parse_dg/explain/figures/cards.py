"""Primitives and classes to be looked at: the faces of all primitives, and classes as cards made of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from parse_dg.deploy.names import called
from parse_dg.errors import InputError
from parse_dg.explain.classes import FACE, ClassCard
from parse_dg.explain.faces import PrimitiveFaces
from parse_dg.explain.figures.marks import Names, mark_relation
from parse_dg.explain.figures.page import COLOURS, FAINT, INK, NORMAL, SMALL, TALLEST, WIDTHS, Sheet, in_lines

BESIDE = {"page": 4, "column": 2}
"""Cards beside each other."""
GAP, HEADER, LINE, FOOT = 0.14, 0.2, 0.11, 0.4
"""Inches: between cards, for a class's name, for a line of text, for what is said below."""
TILE = {"page": 0.5, "column": 0.42}
"""Inches: the side of a face on the sheet of all of them."""


def cards_figure(
    path: Path, cards: Sequence[ClassCard], faces: PrimitiveFaces | None, names: Names, *, width: str = "page"
) -> None:
    """Every class as a card: its strongest relations over the mean layout, with the faces of their primitives."""
    beside = BESIDE[width]
    side = (WIDTHS[width] - (beside - 1) * GAP) / beside
    said = {card.name: [in_lines(term.words, side - 0.42, SMALL) for term in card.relations] for card in cards}
    tall = HEADER + side + max(sum(len(lines) + 0.4 for lines in each) for each in said.values()) * LINE + GAP
    rows = -(-len(cards) // beside)
    most = max(card.images for card in cards)
    notes = (
        "number: a relation's weight, the most it can add to the class's score",
        f"drawn over the mean layout in {most} or fewer training images, moved apart",
        "faces: where a primitive is strongest",
    )
    height = rows * tall + FOOT
    if height > TALLEST:
        fitting = beside * int((TALLEST - FOOT) / tall)
        raise InputError(f"{len(cards)} class cards do not fit on a page: choose at most {fitting} with --classes")
    with Sheet.file(path, width, height) as sheet:
        for number, card in enumerate(cards):
            left, top = number % beside * (side + GAP), number // beside * tall
            _draw_card(sheet, card, faces, names, left, top, side)
            y = top + HEADER + side + 0.1
            for term, colour, lines in zip(card.relations, COLOURS, said[card.name], strict=False):
                sheet.bar(left, y - 0.03, 0.06, 0.06, colour)
                sheet.text(left + side, y, f"{term.weight:.3f}", SMALL, ha="right", color=FAINT)
                for line in lines:
                    sheet.text(left + 0.1, y, line, SMALL)
                    y += LINE
                y += 0.4 * LINE
        sheet.notes(0, rows * tall + 0.05, *notes)


def _draw_card(
    sheet: Sheet, card: ClassCard, faces: PrimitiveFaces | None, names: Names, left: float, top: float, side: float
) -> None:
    from matplotlib.patches import Rectangle

    sheet.text(left, top + 0.08, card.name, NORMAL + 1, within=side, weight="bold")
    axes = sheet.axes(left, top + HEADER, side, side)
    axes.set(xlim=(0, 1), ylim=(1, 0))
    axes.axhspan(0, 1, color="#f3f1ec", zorder=0)
    where = card.arranged()
    looks: dict[str, Any] = {"facecolor": "white", "edgecolor": INK, "linewidth": 0.6, "zorder": 2}
    for k, (x, y) in where.items():
        mine = faces.faces[k][:1] if faces else ()
        for face in mine:
            box = (x - FACE, x + FACE, y + FACE, y - FACE)
            axes.imshow(face.pixels(), extent=box, zorder=2, interpolation="bicubic")
        axes.add_patch(Rectangle((x - FACE, y - FACE), 2 * FACE, 2 * FACE, fill=not mine, **looks))
    axes.set(xlim=(0, 1), ylim=(1, 0))
    if where:
        places = np.full((max(where) + 1, 2), np.nan)
        places[list(where)] = list(where.values())
        for row, (term, colour) in enumerate(zip(card.relations, COLOURS, strict=False)):
            mark_relation(axes, term, places, colour, 0.7, bend=0.12 * row, shrink=FACE * side * 72 / 0.7 + 2)
    for k, (x, y) in where.items():
        paper = {"facecolor": "white", "alpha": 0.85, "linewidth": 0, "pad": 0.5}
        name = names.get(k, f"p{k}")
        axes.text(x, y + FACE, name, fontsize=SMALL, ha="center", va="top", zorder=6, bbox=paper)


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
    if len(primitives) > (most := fitting(faces, width)):
        raise InputError(f"{len(primitives)} primitives are too many: choose at most {most} with --primitives")
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
