"""What a primitive looks for, as a picture: its strongest images of every domain with its heat map over them."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from parse_dg.data.domain import Benchmark
from parse_dg.data.loader import load_images
from parse_dg.data.splits import whole
from parse_dg.deploy.model_file import Model
from parse_dg.deploy.names import called
from parse_dg.explain.figures.marks import show_heat
from parse_dg.explain.figures.page import figure_file, require_matplotlib, shorten
from parse_dg.explain.primitive_images import PrimitiveImages, find_primitives
from parse_dg.files import attempting
from parse_dg.wording import printable

CELL = 1.4
"""Inches that an image takes, with its caption."""


COLUMNS = 24
"""How many images a sheet has side by side, at most."""


def prepare_folder(folder: Path) -> None:
    """Raise, before any work, unless sheets can be drawn and the folder be made."""
    require_matplotlib()
    with attempting(f"make the folder {folder} for pictures"):
        folder.mkdir(parents=True, exist_ok=True)


def write_sheets(model: Model, found: Iterable[PrimitiveImages], benchmark: Benchmark, folder: Path) -> list[Path]:
    """A sheet for each primitive, such as `p3.png`; their paths."""
    paths = []
    for primitive, each in groupby(found, key=lambda images: images.primitive):
        paths.append(folder / f"p{primitive}.png")
        strongest_sheet(model, tuple(each), benchmark, paths[-1])
    return paths


def strongest_sheet(model: Model, found: Sequence[PrimitiveImages], benchmark: Benchmark, path: Path) -> None:
    """A picture of one primitive: a row a domain, its strongest images from the left, each with class and evidence.

    `found` is of that primitive alone.
    """
    primitive, columns = found[0].primitive, max(len(each.images) for each in found)
    with figure_file(path, CELL * columns + 0.6, 1.15 * CELL * len(found) + 0.5) as figure:
        figure.set_layout_engine("constrained")
        figure.suptitle(f"{called(primitive, model.names)}: where it is strongest", fontsize=10)
        figure.supxlabel(f"above an image: its class, and the evidence for p{primitive} in it", fontsize=7)
        for axes, each in zip(figure.subplots(len(found), columns, squeeze=False), found, strict=True):
            for unused in axes[len(each.images) :]:
                unused.axis("off")
            label = f"{shorten(printable(each.domain), CELL, 8)}\nmean evidence {each.mean_evidence:.1f}"
            axes[0].set_ylabel(label, fontsize=8)
            _draw_row(list(axes), model, each, benchmark)


def _draw_row(axes: list[Any], model: Model, found: PrimitiveImages, benchmark: Benchmark) -> None:
    """The images of one domain, from the left."""
    indices = np.array([image.index for image in found.images])
    images, _ = load_images(whole(benchmark.domain(found.domain)), indices)
    z = find_primitives(model, images).descriptors
    for b, (cell, pixels, image) in enumerate(zip(axes, images, found.images, strict=False)):
        show_heat(cell, pixels, z, found.primitive, b)
        caption = f"{shorten(printable(benchmark.classes[image.label]), 0.7 * CELL, 7)}, {image.evidence:.1f}"
        cell.set_title(caption, fontsize=7)
