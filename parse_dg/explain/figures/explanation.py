"""A prediction with its relations drawn on it, and every primitive over images of all domains: pictures to look at.

Figures for a page have files of their own: `primitives.py`, `errors.py`, `pipeline.py`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from jaxtyping import UInt8
from torch import Tensor

from parse_dg.data.framing import Picture, pixels_in
from parse_dg.deploy.model_file import Model
from parse_dg.explain.explanation import Explanation, Relation
from parse_dg.explain.figures.marks import mark_primitives, mark_relation, show, show_heat, show_picture
from parse_dg.explain.figures.page import COLOURS, FAINT, INK, figure_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN_RELATIONS = len(COLOURS)
SCREEN = 150
"""Pixels to an inch."""


@torch.no_grad()
def primitive_sheet(
    model: Model, images: Mapping[str, UInt8[Tensor, "n 3 H W"]], path: Path, names: Mapping[int, str] | None = None
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
    picture: Picture,
    explanation: Explanation,
    path: Path,
    *,
    truth: str | None = None,
    names: Mapping[int, str] | None = None,
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
    axes: "Axes", explanation: Explanation, shown: Sequence[Relation], used: Sequence[int], names: Mapping[int, str]
) -> None:
    score = explanation.scores[explanation.explained]
    rest = score - sum(relation.contribution for relation in shown)
    axes.set_xlim(0, 1)
    axes.set_ylim(len(shown) + 2.2, -1.2)
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
