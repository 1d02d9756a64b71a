"""Pictures: primitive heat maps over images of all domains, and a prediction with its relations drawn on it.

Needs matplotlib (the extra `pictures`). Colours are Okabe and Ito's, which colour-blind readers can tell apart.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from parse_dg.data.augment import IMAGENET_MEAN, IMAGENET_STD, normalise, to_unit
from parse_dg.deploy.model_file import Model
from parse_dg.errors import InputError
from parse_dg.explain.explanation import Explanation, Relation
from parse_dg.model.primitives import PrimitiveDescriptors

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#E69F00", "#56B4E9", "#009E73", "#CC79A7", "#0072B2", "#D55E00")
INK = "#222222"
SHOWN_RELATIONS = len(COLOURS)


def require_matplotlib() -> "type[Figure]":
    """Matplotlib's figure, or an error that says what to install."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError("pictures need matplotlib: install parse-dg[pictures]") from error
    return Figure


def _figure(width: float, height: float) -> "Figure":
    return require_matplotlib()(figsize=(width, height), dpi=150)


@torch.no_grad()
def primitive_sheet(
    model: Model,
    images: Mapping[str, UInt8[Tensor, "n 3 H W"]],
    path: Path,
    names: Mapping[int, str] | None = None,
) -> None:
    """Every primitive's heat map over some images of each domain: a row an image, a column a primitive."""
    network = model.parse().network
    rows = sum(len(batch) for batch in images.values())
    primitives = network.bottleneck.config.count
    figure = _figure(0.72 * (primitives + 1) + 0.6, 0.72 * rows + 0.7)
    axes = np.atleast_2d(figure.subplots(rows, primitives + 1, gridspec_kw={"wspace": 0.05, "hspace": 0.05}))
    row = 0
    for domain, batch in images.items():
        z = network(normalise(to_unit(batch), IMAGENET_MEAN, IMAGENET_STD)).descriptors
        for number, image in enumerate(batch):
            _show(axes[row, 0], image)
            if number == 0:
                axes[row, 0].set_ylabel(domain, fontsize=8)
            for k in range(primitives):
                _show_heat(axes[row, k + 1], image, z, number, k)
            row += 1
    for k in range(primitives):
        name = (names or {}).get(k, "")
        axes[0, k + 1].set_title(f"p{k}\n{name}" if name else f"p{k}", fontsize=7)
    figure.savefig(path, bbox_inches="tight")


def explanation_figure(
    image: UInt8[Tensor, "3 H W"],
    explanation: Explanation,
    path: Path,
    *,
    truth: str | None = None,
    names: Mapping[int, str] | None = None,
) -> None:
    """The image with the strongest relations drawn over it, and the same relations in words with their share."""
    figure = _figure(11.0, 4.6)
    picture, words = figure.subplots(1, 2, gridspec_kw={"width_ratios": (1, 1.35), "wspace": 0.04})
    shown = [r for r in explanation.relations if r.contribution > 0][:SHOWN_RELATIONS]
    _show(picture, image, smooth=True)
    centre = explanation.descriptors.centre[0].cpu().numpy()
    height, width = image.shape[1:]
    places = (centre + 1) / 2 * np.array([width - 1, height - 1])  # grid [-1, 1]² → pixels, corners aligned
    for relation, colour in zip(shown, COLOURS, strict=False):
        _draw_relation(picture, relation, places, colour)
    used = sorted({i for relation in shown for i in relation.primitives})
    for i in used:
        picture.plot(*places[i], "o", color="white", markeredgecolor=INK, markersize=11, zorder=4)
        picture.annotate(str(i), places[i], ha="center", va="center", fontsize=7, color=INK, zorder=5)
    right = "" if truth is None else (" (right)" if truth == explanation.predicted else f" (wrong: {truth})")
    probability = explanation.probabilities[explanation.predicted]
    picture.set_title(f"predicted: {explanation.predicted}{right}, probability {probability:.2f}", fontsize=9)
    _write_relations(words, explanation, shown, used, names or {})
    figure.savefig(path, bbox_inches="tight")


def _write_relations(
    axes: "Axes",
    explanation: Explanation,
    shown: Sequence[Relation],
    used: Sequence[int],
    names: Mapping[int, str],
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
    axes.text(0, len(shown) + 0.2, f"and {others} weaker relations: {rest:.3f}", fontsize=8, color="#666666")
    legend = ", ".join(f"p{i}: {names[i]}" for i in used if i in names)
    if legend:
        axes.text(
            0,
            len(shown) + 0.9,
            f"what the primitives sit on: {legend}",
            fontsize=7,
            color="#666666",
            wrap=True,
        )


def _draw_relation(axes: "Axes", relation: Relation, places: Float[np.ndarray, "K 2"], colour: str) -> None:
    """A ring for presence, an arrow for an ordered pair, a line for a symmetric one, the edges for the rest."""
    points = [places[i] for i in relation.primitives]
    match relation.predicate:
        case "has":
            axes.plot(
                *points[0],
                "o",
                markersize=17,
                markerfacecolor="none",
                markeredgecolor=colour,
                markeredgewidth=2,
            )
            edges = []
        case "above" | "left" | "contains":
            edges = [(points[0], points[1], "-|>")]
        case "h_align" | "v_align" | "near":
            edges = [(points[0], points[1], "-")]
        case "tri":
            edges = [(points[0], points[1], "-"), (points[0], points[2], "-")]
        case "turn":
            edges = [(points[0], points[1], "-|>"), (points[1], points[2], "-|>")]
        case "orient":
            edges = [(points[0], points[1], "-|>"), (points[2], points[3], "-|>")]
        case _:
            edges = [(points[0], points[1], "-"), (points[2], points[3], "-")]
    for start, end, style in edges:
        axes.annotate(
            "",
            xy=end,
            xytext=start,
            zorder=3,
            arrowprops={"arrowstyle": style, "color": colour, "linewidth": 2, "shrinkA": 5, "shrinkB": 5},
        )


def _show(axes: "Axes", image: UInt8[Tensor, "3 H W"], smooth: bool = False) -> None:
    options: dict[str, Any] = {"interpolation": "bicubic"} if smooth else {}
    axes.imshow(image.permute(1, 2, 0).cpu().numpy(), **options)
    axes.set_xticks([])
    axes.set_yticks([])
    for side in axes.spines.values():
        side.set_visible(False)


def _show_heat(axes: "Axes", image: UInt8[Tensor, "3 H W"], z: PrimitiveDescriptors, row: int, k: int) -> None:
    """The image in grey with the heat map over it, as strong as the primitive is present, and its centre."""
    height, width = image.shape[1:]
    grey = image.float().mean(0).cpu().numpy()
    axes.imshow(0.5 * grey + 110, cmap="gray", vmin=0, vmax=255)
    upsampled = torch.nn.functional.interpolate(
        z.heatmap[row : row + 1, k : k + 1], size=(height, width), mode="bilinear", align_corners=True
    )[0, 0]
    heat = (upsampled / upsampled.max()).cpu().numpy()
    axes.imshow(heat, cmap="inferno", alpha=heat * (0.25 + 0.65 * float(z.presence[row, k])), vmin=0, vmax=1)
    x, y = ((z.centre[row, k].cpu().numpy() + 1) / 2) * np.array([width - 1, height - 1])
    axes.plot(x, y, "+", color="#56B4E9", markersize=4, markeredgewidth=1)
    axes.set_xticks([])
    axes.set_yticks([])
    for side in axes.spines.values():
        side.set_visible(False)
