"""Pictures to look at: a prediction with its relations drawn on it, every primitive over images of all domains, and
the images where a primitive is strongest. Figures for a page have files of their own.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from parse_dg.data.domain import Benchmark
from parse_dg.data.framing import Picture, pixels_in
from parse_dg.data.loader import load_images
from parse_dg.data.splits import whole
from parse_dg.deploy.model_file import Model
from parse_dg.deploy.names import called
from parse_dg.explain.explanation import Explanation, Relation
from parse_dg.explain.figures.marks import Names, mark_primitives, mark_relation, show, show_heat, show_picture
from parse_dg.explain.figures.page import COLOURS, FAINT, INK, figure_file, require_matplotlib, shorten
from parse_dg.explain.primitive_images import PrimitiveImages, find_primitives
from parse_dg.files import attempting
from parse_dg.wording import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN_RELATIONS = len(COLOURS)
SCREEN = 150
"""Pixels to an inch."""
CELL = 1.4
"""Inches that one of a primitive's strongest images takes, with its caption."""
COLUMNS = 24
"""How many of them a sheet has side by side, at most."""


@torch.no_grad()
def primitive_sheet(
    model: Model, images: Mapping[str, UInt8[Tensor, "n 3 H W"]], path: Path, names: Names | None = None
) -> None:
    """Every primitive's heat map over some images of each domain: a row an image, a column a primitive."""
    network = model.parse_network()
    rows = sum(len(batch) for batch in images.values())
    primitives = network.bottleneck.config.count
    size = 0.72 * (primitives + 1) + 0.6, 0.72 * rows + 0.7
    with figure_file(path, *size, dpi=SCREEN, bbox_inches="tight") as figure:
        axes = figure.subplots(rows, primitives + 1, squeeze=False, gridspec_kw={"wspace": 0.05, "hspace": 0.05})
        row = 0
        for domain, batch in images.items():
            z = network(model.prepare(batch)).descriptors
            for number, image in enumerate(batch):
                show(axes[row, 0], image)
                if number == 0:
                    axes[row, 0].set_ylabel(domain, fontsize=8)
                for k in range(primitives):
                    show_heat(axes[row, k + 1], image, z, k, number)
                row += 1
        for k in range(primitives):
            name = (names or {}).get(k, "")
            axes[0, k + 1].set_title(f"p{k}\n{name}" if name else f"p{k}", fontsize=7)


def explanation_figure(
    picture: Picture, explanation: Explanation, path: Path, *, truth: str | None = None, names: Names | None = None
) -> None:
    """The image with the strongest relations drawn over it, and the same relations in words with their share.

    What the network did not see of it is pale.
    """
    shown = [r for r in explanation.relations if r.contribution > 0][:SHOWN_RELATIONS]
    places = pixels_in(picture.seen, explanation.descriptors.centre[0].cpu().numpy())
    used = sorted({i for relation in shown for i in relation.primitives})
    right = "" if truth is None else (" (right)" if truth == explanation.predicted else f" (wrong: {truth})")
    probability = explanation.probabilities[explanation.predicted]
    with figure_file(path, 11.0, 4.6, dpi=SCREEN, bbox_inches="tight") as figure:
        drawing, words = figure.subplots(1, 2, gridspec_kw={"width_ratios": (1, 1.35), "wspace": 0.04})
        show_picture(drawing, picture)
        for relation, colour in zip(shown, COLOURS, strict=False):
            mark_relation(drawing, relation, places, colour)
        mark_primitives(drawing, places[used], used, inches=4.0, size=11, text=7, names=explanation.names)
        drawing.set_title(f"predicted: {explanation.predicted}{right}, probability {probability:.2f}", fontsize=9)
        _write_relations(words, explanation, shown, used, names or {})


def _write_relations(
    axes: "Axes", explanation: Explanation, shown: Sequence[Relation], used: Sequence[int], names: Names
) -> None:
    score = explanation.scores[explanation.explained]
    rest = score - sum(relation.contribution for relation in shown)
    axes.set(xlim=(0, 1), ylim=(len(shown) + 2.2, -1.2))
    axes.axis("off")
    title = f"score of “{explanation.explained}” {score:.3f} = sum of weight × satisfaction"
    axes.text(0, -0.8, title, fontsize=9, color=INK)
    longest = max((relation.contribution for relation in shown), default=1.0)
    for row, (relation, colour) in enumerate(zip(shown, COLOURS, strict=False)):
        axes.barh(row + 0.28, 0.6 * relation.contribution / longest, height=0.16, color=colour)
        numbers = f"{relation.contribution:.3f} = {relation.weight:.3f} × {relation.satisfaction:.2f}"
        axes.text(0, row, relation.words, fontsize=9, color=INK, va="center")
        axes.text(1, row, numbers, fontsize=8, color=INK, va="center", ha="right")
    others = len(explanation.relations) - len(shown)
    axes.text(0, len(shown) + 0.2, f"and {others} weaker relations: {rest:.3f}", fontsize=8, color=FAINT)
    legend = ", ".join(f"p{i}: {names[i]}" for i in used if i in names)
    if legend:
        legend = f"what the primitives sit on here: {legend}"
        axes.text(0, len(shown) + 0.9, legend, fontsize=7, color=FAINT, wrap=True)


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
        _strongest_sheet(model, tuple(each), benchmark, paths[-1])
    return paths


def _strongest_sheet(model: Model, found: Sequence[PrimitiveImages], benchmark: Benchmark, path: Path) -> None:
    """One primitive: a row a domain, its strongest images from the left, each with class and evidence."""
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
            indices = np.array([image.index for image in each.images])
            images, _ = load_images(whole(benchmark.domain(each.domain)), indices)
            _, z = find_primitives(model, images)
            for b, (cell, pixels, image) in enumerate(zip(axes, images, each.images, strict=False)):
                show_heat(cell, pixels, z, primitive, b)
                name = shorten(printable(benchmark.classes[image.label]), 0.7 * CELL, 7)
                cell.set_title(f"{name}, {image.evidence:.1f}", fontsize=7)
