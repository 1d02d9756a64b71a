"""The paper's figure of primitives: their heat maps over images of chosen classes, in every domain.

A block a class, a row a domain, a column a primitive, after the image itself: what a primitive looks at is seen
down a column. The domain that was never seen in training stands last, and says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaxtyping import UInt8
from torch import Tensor

from parse_dg.deploy.names import called
from parse_dg.errors import InputError
from parse_dg.explain.figures.marks import NO_NAMES, Names, show, show_heat
from parse_dg.explain.figures.page import FAINT, NORMAL, SMALL, TALLEST, VERMILION, WIDTHS, Sheet, in_lines, shorten
from parse_dg.model.primitives import PrimitiveDescriptors

LEFT, HEADER, FOOT = 0.32, 0.36, 0.16
"""Inches: for the domains' names, for those of classes and primitives, for what is said below."""
GAP, BETWEEN = 0.03, 0.1
"""Inches between columns, and between blocks."""
NUMBER = 0.11
"""Inches below an image for its presence."""
SMALLEST, LARGEST = 0.34, 1.0
"""Side of an image, in inches."""
NOTES = ("colour: heat map, to its own maximum, fainter if less present", "ring: centre   number: presence")


@dataclass(frozen=True, eq=False)
class ReadImage:
    """An image and what the model found in it (B = 1)."""

    image: UInt8[Tensor, "3 H W"]
    descriptors: PrimitiveDescriptors


@dataclass(frozen=True, eq=False)
class ClassBlock:
    """One class: an image of every domain, None where there is none."""

    name: str
    images: tuple[ReadImage | None, ...]


def primitives_figure(
    path: Path,
    blocks: Sequence[ClassBlock],
    domains: Sequence[str],
    primitives: Sequence[int],
    *,
    unseen: str,
    width: str = "page",
    names: Names = NO_NAMES,
) -> None:
    """Draw the blocks, as many beside each other as fit; `names` are what primitives are called, or sit on."""
    columns = len(primitives) + 1
    beside, side = _fit(columns, len(blocks), WIDTHS[width])
    bands = [blocks[start : start + beside] for start in range(0, len(blocks), beside)]
    band_height = HEADER + len(domains) * (side + NUMBER)
    height = len(bands) * band_height + FOOT * (2 if width == "column" else 1)
    if height > TALLEST:
        raise InputError(
            f"{len(blocks)} classes, {len(domains)} domains and {len(primitives)} primitives would be {height:.0f} "
            f"inches high, a page is {TALLEST:g}: choose fewer with --classes, --domains or --primitives"
        )
    with Sheet.file(path, width, height) as sheet:
        for number, band in enumerate(bands):
            top = number * band_height
            _label_domains(sheet, domains, unseen, top + HEADER, side)
            for place, block in enumerate(band):
                left = LEFT + place * (columns * (side + GAP) + BETWEEN)
                _draw_block(sheet, block, primitives, names, left, top, side)
        lines = NOTES if width == "column" else ("   ".join(NOTES),)
        sheet.notes(LEFT, height - FOOT * len(lines) + 0.08, *lines)


def _fit(columns: int, blocks: int, width: float) -> tuple[int, float]:
    """How many blocks stand beside each other, and the side of an image: as many as can be seen well."""
    room = width - LEFT
    most = int((room + GAP) / (SMALLEST + GAP)) - 1
    if columns - 1 > most:
        raise InputError(f"{columns - 1} primitives do not fit beside each other: at this width at most {most} do")
    fitting = (room + BETWEEN) / (columns * (max(SMALLEST, 0.42) + GAP) + BETWEEN)
    beside = max(1, min(blocks, int(fitting)))
    side = (room - (beside - 1) * BETWEEN) / (beside * columns) - GAP
    return beside, min(side, LARGEST)


def _label_domains(sheet: Sheet, domains: Sequence[str], unseen: str, top: float, side: float) -> None:
    for row, domain in enumerate(domains):
        middle = top + row * (side + NUMBER) + side / 2
        lines = [(line, NORMAL) for line in in_lines(domain, side + NUMBER)]
        looks: dict[str, Any] = {"color": VERMILION} if domain == unseen else {}
        if domain == unseen:
            lines.append(("never seen", SMALL))
        for number, (line, size) in enumerate(lines):
            x = LEFT / 2 + 0.1 * (number - (len(lines) - 1) / 2)
            sheet.text(x, middle, line, size, rotation=90, ha="center", **looks)


def _draw_block(
    sheet: Sheet, block: ClassBlock, primitives: Sequence[int], names: Names, left: float, top: float, side: float
) -> None:
    step = side + GAP
    wide = (len(primitives) + 1) * step - GAP
    sheet.text(left, top + 0.08, block.name, NORMAL + 1, within=wide, weight="bold")
    sheet.line(left, top + 0.16, left + wide, top + 0.16, linewidth=0.5)
    for column, k in enumerate(primitives, 1):
        words = shorten(called(k, names), step, SMALL)  # of a long name its beginning
        sheet.text(left + column * step + side / 2, top + 0.26, words, SMALL, ha="center")
    sheet.text(left + side / 2, top + 0.26, "image", SMALL, ha="center")
    for row, read in enumerate(block.images):
        y = top + HEADER + row * (side + NUMBER)
        if read is None:
            sheet.text(left + wide / 2, y + side / 2, "no image", SMALL, ha="center", color=FAINT)
            continue
        show(sheet.axes(left, y, side, side), read.image, smooth=True)
        for column, k in enumerate(primitives, 1):
            x, presence = left + column * step, float(read.descriptors.presence[0, k])
            show_heat(sheet.axes(x, y, side, side), read.image, read.descriptors, k)
            sheet.text(x + side / 2, y + side + 0.05, f"{presence:.2f}", SMALL, ha="center", color=FAINT)
