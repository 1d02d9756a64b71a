"""The paper's error analysis: target images of one class, classified right and wrong, and what collapsed in them.

Every image has its present primitives marked where they are: a blue dot each, or one in vermilion for several that
coincide, with their number. Below it are the heat maps of the primitives that the class's composition rests on
most; one that coincides with others says with which.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jaxtyping import Bool, Int
from torch import Tensor

from parse_dg.deploy.names import called
from parse_dg.explain.figures.marks import NO_NAMES, Names, mark_primitive, pixels_of, show, show_heat
from parse_dg.explain.figures.page import BLUE, INK, NORMAL, SMALL, VERMILION, WIDTHS, Sheet, shorten
from parse_dg.explain.figures.primitives import ReadImage
from parse_dg.wording import plural

LEFT, HEADER, FOOT = 0.24, 0.36, 0.3
"""Inches: for the primitives' names, for what the block is of, for the legend."""
GAP, BETWEEN = 0.05, 0.12
"""Inches between images, and between right and wrong or two classes."""
LINE = 0.1
"""Inches from one line of text to the next."""
NOTES = ("dots: present primitives, vermilion: so many coincide", "collapse: 0 all apart, 1 all at one place")


@dataclass(frozen=True, eq=False, kw_only=True)
class JudgedImage(ReadImage):
    """An image, what was found in it and said of it, and which primitives coincide."""

    predicted: str
    probability: float
    present: Bool[Tensor, "K"]
    place: Int[Tensor, "K"]
    """The first primitive at the same place (`explain/measures/collapse.py`)."""
    collapse: float


@dataclass(frozen=True, eq=False, kw_only=True)
class ImageGroup:
    """Images of one class that are all right, or all wrong."""

    images: tuple[JudgedImage, ...]
    """Those that are shown, of `count` in all."""
    count: int
    collapse: float
    """Their mean."""


@dataclass(frozen=True, eq=False)
class ErrorBlock:
    """One true class."""

    name: str
    right: ImageGroup
    wrong: ImageGroup
    primitives: tuple[int, ...]
    """Whose heat maps are shown."""


def errors_figure(
    path: Path, blocks: Sequence[ErrorBlock], *, domain: str, width: str = "page", names: Names = NO_NAMES
) -> None:
    """Draw the blocks beside each other; all have as many images and primitives."""
    each = len(blocks[0].right.images) + len(blocks[0].wrong.images)
    room = WIDTHS[width] - LEFT * len(blocks) - BETWEEN * (2 * len(blocks) - 1)
    side = room / (each * len(blocks)) - GAP
    rows = 1 + len(blocks[0].primitives)
    height = HEADER + rows * (side + GAP) + 4 * LINE + FOOT
    with Sheet.file(path, width, height) as sheet:
        step = LEFT + each * (side + GAP) + 2 * BETWEEN
        for number, block in enumerate(blocks):
            _draw_block(sheet, block, domain, number * step, side, names)
        sheet.notes(LEFT, height - FOOT + 0.1, *(NOTES if width == "column" else ("   ".join(NOTES),)))


def _draw_block(sheet: Sheet, block: ErrorBlock, domain: str, left: float, side: float, names: Names) -> None:
    step = side + GAP
    columns = len(block.right.images) + len(block.wrong.images)
    wide = columns * step + BETWEEN
    title = f"true class: {block.name} ({domain}, never seen)"
    sheet.text(left + LEFT, 0.08, title, NORMAL, within=wide, weight="bold")
    for row, k in enumerate(block.primitives, 1):
        middle = HEADER + row * step + side / 2
        if k in names:
            words = shorten(called(k, names), side, SMALL)
            sheet.text(left + LEFT - 0.1, middle, words, SMALL, ha="center", rotation=90)
        else:
            sheet.text(left + LEFT - 0.04, middle, f"p{k}", SMALL, ha="right")
    x = left + LEFT
    for group, word, colour in ((block.right, "right", BLUE), (block.wrong, "wrong", VERMILION)):
        words = f"{word}: {group.count:,}, mean collapse {group.collapse:.2f}"
        sheet.text(x, 0.23, words, SMALL, color=colour)
        sheet.line(x, 0.31, x + len(group.images) * step - GAP, 0.31, color=colour)
        for judged in group.images:
            _draw_image(sheet, judged, block, x, side)
            x += step
        x += BETWEEN


def _draw_image(sheet: Sheet, judged: JudgedImage, block: ErrorBlock, x: float, side: float) -> None:
    y, clusters = HEADER, _clusters(judged)
    axes = sheet.axes(x, y, side, side)
    show(axes, judged.image, faint=True)
    places = pixels_of(judged.descriptors.centre[0], judged.image)
    for members in sorted(clusters, key=len):  # a dot a place; where several primitives are, how many
        place = places[members].mean(0)
        if len(members) > 1:
            mark_primitive(axes, place, len(members), size=7.5, text=SMALL, fill=VERMILION, edge="white")
        else:
            axes.plot(*place, "o", color=BLUE, markersize=3.5, zorder=4, mec="white", mew=0.5)
    for k in block.primitives:
        y += side + GAP
        others = [number for members in clusters if k in members for number in members if number != k]
        colour = VERMILION if others else BLUE
        show_heat(sheet.axes(x, y, side, side), judged.image, judged.descriptors, k, ring=colour)
        if others:
            together = f"with p{', '.join(map(str, others))}"
            sheet.text(x + 0.02, y + side - 0.06, together, SMALL, within=side, color=colour)
    lines = {
        f"pred.: {judged.predicted}": BLUE if judged.predicted == block.name else VERMILION,
        f"true: {block.name}": INK,
        f"collapse {judged.collapse:.2f}": INK,
        f"{int(judged.present.sum())} at {plural(len(clusters), 'place')}": INK,
    }
    for number, (line, colour) in enumerate(lines.items()):
        sheet.text(x, y + side + 0.07 + LINE * number, line, SMALL, within=side + GAP, color=colour)


def _clusters(judged: JudgedImage) -> list[list[int]]:
    """The present primitives, those at one place together."""
    found: dict[int, list[int]] = {}
    for k, (present, place) in enumerate(zip(judged.present.tolist(), judged.place.tolist(), strict=True)):
        if present:
            found.setdefault(place, []).append(k)
    return list(found.values())
