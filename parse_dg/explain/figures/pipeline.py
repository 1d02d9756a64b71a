"""The paper's pipeline on one real image, from a trained model's own numbers: nothing in it is a sketch.

Image → feature map → heat maps → primitives and their places → strongest relations → class scores. In one figure
or a picture a step (docs/how_parse_works.md), with the composition of the class among them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from parse_dg.deploy.model_file import Model
from parse_dg.explain.explanation import Explanation, Relation, read_image
from parse_dg.explain.figures.marks import mark_primitives, mark_relation, pixels_of, show, show_heat, zoom_on
from parse_dg.explain.figures.page import BLUE, COLOURS, FAINT, INK, NORMAL, SMALL, VERMILION, Sheet, figure_file
from parse_dg.explain.measures.collapse import PRESENT
from parse_dg.model.predicate import FAMILIES

SHOWN_RELATIONS = 5
SHOWN_CLASSES = 8
TITLE = 0.3
"""Inches above a panel for what it is."""

STEP_DPI = 160
"""Of a picture of one step: it is seen on a screen."""

Box = tuple[float, float, float, float]
"""x, y, width, height of a panel without its title, in inches."""
DrawPanel = Callable[[Sheet, Box, "PipelineImage"], None]


@dataclass(frozen=True, eq=False)
class PipelineImage:
    """One image through the whole network."""

    title: str
    """Where it is from."""
    image: UInt8[Tensor, "3 H W"]
    truth: str | None
    features: Float[Tensor, "C h w"]
    explanation: Explanation
    applications: int
    """M: how many a class could use."""

    @property
    def relations(self) -> tuple[Relation, ...]:
        """The strongest of the predicted class."""
        return tuple(r for r in self.explanation.relations if r.contribution > 0)[:SHOWN_RELATIONS]


@torch.no_grad()
def read_pipeline(
    model: Model, image: UInt8[Tensor, "3 H W"], title: str, truth: str | None = None
) -> PipelineImage:
    """Everything that the figure shows of one RGB image, values 0 to 255, at the model's size."""
    network = model.parse_network()
    features = network.backbone(model.prepare(image[None]))[0].cpu()
    explanation = read_image(model, image).explain()
    return PipelineImage(title, image, truth, features, explanation, network.structure.vocabulary.size)


def pipeline_figure(path: Path, seen: PipelineImage, *, width: str = "page") -> None:
    """Draw it in two rows on a page, in four in a column."""
    side, gap, top = (1.55, 0.22, TITLE + 0.06) if width == "page" else (1.45, 0.26, TITLE + 0.06)
    second = top + side + TITLE + (0.16 if width == "page" else 0.12)
    boxes: list[Box]
    if width == "page":
        boxes = [(0.07 + column * (side + gap), top, side, side) for column in range(4)]
        boxes += [(0.07, second, 4.95, side), (5.35, second, 1.55, side)]
    else:
        third = second + side + TITLE + 0.12
        boxes = [(0.07 + column * (side + gap), row, side, side) for row in (top, second) for column in (0, 1)]
        boxes += [(0.07, third, 3.16, 1.6), (0.07, third + 1.6 + TITLE + 0.1, 3.16, 1.1)]
    height = boxes[-1][1] + boxes[-1][3] + (0.1 if width == "page" else 0.06)
    draw = (_image, _features, _heatmaps, _places, _relations, _scores)
    with Sheet.file(path, width, height) as sheet:
        for number, (panel, box) in enumerate(zip(draw, boxes, strict=True), 1):
            _draw(sheet, panel, box, number, seen)
        for one, other in pairwise(boxes):
            if one[1] == other[1]:  # beside each other
                middle = one[1] + min(one[3], other[3]) / 2
                sheet.line(one[0] + one[2] + 0.03, middle, other[0] - 0.03, middle, arrow=True, color=INK)


def step_figures(folder: Path, seen: PipelineImage) -> tuple[Path, ...]:
    """A picture a step: `1_image.png` to `7_scores.png`."""
    side, top = 2.6, TITLE + 0.06
    steps: dict[str, tuple[DrawPanel, float, float]] = {
        "image": (_image, side, side),
        "features": (_features, side, side),
        "heatmaps": (_heatmaps, 3.0, 3.0),
        "primitives": (_places, side, side),
        "relations": (_relations, 4.95, 1.55),
        "composition": (_composition, 4.95, 1.3),
        "scores": (_scores, 3.3, 1.55),
    }
    paths = []
    for number, (name, (panel, width, height)) in enumerate(steps.items(), 1):
        paths.append(folder / f"{number}_{name}.png")
        with figure_file(paths[-1], width + 0.14, top + height + 0.1, dpi=STEP_DPI) as figure:
            _draw(Sheet(figure), panel, (0.07, top, width, height), number, seen)
    return tuple(paths)


def _draw(sheet: Sheet, panel: DrawPanel, box: Box, number: int, seen: PipelineImage) -> None:
    panel(sheet, box, seen)
    sheet.text(box[0], box[1] - TITLE + 0.04, str(number), NORMAL, weight="bold", color=BLUE)


def _title(sheet: Sheet, box: Box, title: str, below: str) -> None:
    sheet.text(box[0] + 0.12, box[1] - TITLE + 0.04, title, within=box[2] - 0.12, weight="bold")
    sheet.text(box[0], box[1] - TITLE + 0.18, below, SMALL, within=box[2] + 0.2, color=FAINT)


def _image(sheet: Sheet, box: Box, seen: PipelineImage) -> None:
    _title(sheet, box, "image", seen.title)
    show(sheet.axes(*box), seen.image, smooth=True)


def _features(sheet: Sheet, box: Box, seen: PipelineImage) -> None:
    channels, height, width = seen.features.shape
    _title(sheet, box, "feature map", f"{channels} × {height} × {width}; norm over channels")
    axes = sheet.axes(*box)
    axes.imshow(seen.features.float().norm(dim=0).numpy(), cmap="cividis", aspect="auto")


def _heatmaps(sheet: Sheet, box: Box, seen: PipelineImage) -> None:
    z = seen.explanation.descriptors
    count = z.presence.shape[1]
    columns = int(np.ceil(count**0.5))
    rows = -(-count // columns)
    _title(sheet, box, "heat maps", f"of all {count} primitives")
    step_x, step_y = box[2] / columns, box[3] / rows
    side = min(step_x, step_y) - 0.03
    for k in range(count):
        x, y = box[0] + k % columns * step_x, box[1] + k // columns * step_y
        axes = sheet.axes(x, y, side, side)
        show_heat(axes, seen.image, z, k, ring="")
        paper = {"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 0.4}
        place: dict[str, Any] = {"xycoords": "axes fraction", "ha": "left", "va": "top"}
        axes.annotate(f"{k}", (0.03, 0.97), fontsize=SMALL, bbox=paper, **place)


def _places(sheet: Sheet, box: Box, seen: PipelineImage) -> None:
    _title(sheet, box, "primitives", "centre, extent; faint: less present")
    from matplotlib.patches import Ellipse

    z, axes = seen.explanation.descriptors, sheet.axes(*box)
    show(axes, seen.image, faint=True)
    places = pixels_of(z.centre[0], seen.image)
    scale = (np.array(seen.image.shape[:0:-1]) - 1) / 2  # pixels in a unit of the grid, along x and y
    for k in np.argsort(z.presence[0].cpu().numpy()).tolist():
        presence = float(z.presence[0, k])
        wide, high = 2 * z.extent[0, k].cpu().numpy() * scale
        looks: dict[str, Any] = {"edgecolor": BLUE, "linewidth": 0.4, "alpha": 0.05 + 0.35 * presence}
        axes.add_patch(Ellipse(places[k], wide, high, fill=False, zorder=2, **looks))
        if presence < PRESENT:
            axes.plot(*places[k], "o", color=BLUE, markersize=2, alpha=0.5, zorder=3)
    present = (z.presence[0] >= PRESENT).nonzero().flatten().tolist()
    mark_primitives(axes, places[present], present, inches=box[2], edge=BLUE)


def _relations(sheet: Sheet, box: Box, seen: PipelineImage) -> None:
    explanation, shown = seen.explanation, seen.relations
    x, y, width, height = box
    of = f"{len(shown)} of {len(explanation.relations):,}"
    told = f"strongest {of}: weight × satisfaction = part of the score of {explanation.explained}"
    _title(sheet, box, "relations", told)
    side = min(height, 1.45)
    axes = sheet.axes(x, y, side, side)
    show(axes, seen.image, faint=True)
    places = pixels_of(explanation.descriptors.centre[0], seen.image)
    for row, (relation, colour) in enumerate(zip(shown, COLOURS, strict=False)):
        mark_relation(axes, relation, places, colour, scale=0.7, bend=0.1 * row)
    bound = sorted({k for relation in shown for k in relation.primitives})
    if bound:
        zoom_on(axes, places[bound])
        sheet.text(x + 0.03, y + side - 0.07, "enlarged", SMALL, color=FAINT)
    mark_primitives(axes, places[bound], bound, inches=side, names=explanation.names)
    _list_relations(sheet, (x + side + 0.12, y, width - side - 0.12, height), seen)


def _list_relations(sheet: Sheet, box: Box, seen: PipelineImage) -> None:
    """A relation in words; below it, how far it is satisfied and what that adds to the score."""
    x, y, width, height = box
    explanation, shown = seen.explanation, seen.relations
    step = height / (len(shown) + 0.6)
    longest = max((relation.contribution for relation in shown), default=1.0)
    for row, (relation, colour) in enumerate(zip(shown, COLOURS, strict=False)):
        top = y + row * step
        numbers = f"{relation.weight:.3f} × {relation.satisfaction:.2f} = {relation.contribution:.3f}"
        sheet.text(x, top + 0.05, relation.words, SMALL, within=width)
        sheet.bar(x, top + 0.125, max((width - 1.05) * relation.contribution / longest, 0.01), 0.07, colour)
        sheet.text(x + width, top + 0.16, numbers, SMALL, ha="right")
    score = explanation.scores[explanation.explained]
    others = score - sum(relation.contribution for relation in shown)
    rest = f"{len(explanation.relations) - len(shown):,} weaker: {others:.3f}; sum: {score:.3f}"
    sheet.text(x + width, y + len(shown) * step + 0.05, rest, SMALL, ha="right", color=FAINT)


def _composition(sheet: Sheet, box: Box, seen: PipelineImage) -> None:
    """The weights of the explained class, the largest first, in the colours of their families."""
    relations = sorted(seen.explanation.relations, key=lambda relation: -relation.weight)
    told = f"{len(relations):,} of {seen.applications:,} applications have weight; the weights sum to 1"
    _title(sheet, box, f"composition of {seen.explanation.explained}", told)
    colours = dict(zip(FAMILIES, COLOURS, strict=False))
    axes = sheet.axes(*box)
    heights, places = [relation.weight for relation in relations], range(len(relations))
    axes.bar(places, heights, width=0.8, color=[colours[relation.family] for relation in relations])
    axes.set_xlim(-0.6, max(len(relations), 8) - 0.4)
    for row, family in enumerate(name for name in FAMILIES if name in {each.family for each in relations}):
        share = sum(each.weight for each in relations if each.family == family)
        x, y = box[0] + box[2], box[1] + 0.1 + 0.14 * row
        sheet.bar(x - 0.95, y - 0.04, 0.08, 0.08, colours[family])
        sheet.text(x - 0.82, y, f"{family} {share:.2f}")


def _scores(sheet: Sheet, box: Box, seen: PipelineImage) -> None:
    explanation = seen.explanation
    ranked = sorted(explanation.scores.items(), key=lambda item: -item[1])
    truth = "" if seen.truth is None else " (right)" if seen.truth == explanation.predicted else " (wrong)"
    probability = explanation.probabilities[explanation.predicted]
    _title(sheet, box, "class scores", f"{explanation.predicted}{truth}, probability {probability:.2f}")
    step = box[3] / (min(SHOWN_CLASSES, len(ranked)) + 0.5)
    names = 0.36 * box[2]
    bar = box[2] - names - 0.3
    for row, (name, score) in enumerate(ranked[:SHOWN_CLASSES]):
        at = box[1] + (row + 0.5) * step
        colour = VERMILION if name == explanation.predicted else FAINT
        weight = "bold" if name == seen.truth else "normal"
        sheet.text(box[0] + names, at, name, SMALL, within=names, ha="right", weight=weight)
        start = box[0] + names + 0.05
        length = max(bar * score / max(ranked[0][1], 1e-9), 0.01)
        sheet.bar(start, at - 0.3 * step, length, 0.6 * step, colour)
        sheet.text(start + length + 0.03, at, f"{score:.2f}", SMALL)
