"""What a model says of labelled images, as two pictures: confusions, and how far confidence can be trusted."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from parse_dg.explain.figures.page import BLUE, FAINT, INK, NORMAL, SMALL, VERMILION, WIDTHS, figure_file, in_lines
from parse_dg.training.measures import PredictionScores
from parse_dg.wording import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NUMBERED, NAMED = 24, 60
"""Up to how many classes counts stand in the cells, and names beside them."""
CELL, MARGIN = 0.27, 1.25
"""Inches: the side of a cell with a number, and the room for names."""


def confusion_figure(path: Path, scores: PredictionScores, predicted: tuple[str, ...]) -> None:
    """A row a true class, a column a predicted one; shaded by the share of the row, so that rare classes show."""
    counts = np.array(scores.confusion)
    rows, columns = counts.shape
    names = [each.name for each in scores.classes]
    cell = CELL if columns <= NUMBERED else max((WIDTHS["page"] - MARGIN) / columns, 0.02)
    width, height = MARGIN + cell * columns + 0.35, MARGIN + cell * rows + 0.55
    from matplotlib.patches import Rectangle

    width, height = max(width, WIDTHS["column"]), max(height, MARGIN + 1.0)
    with figure_file(path, width, height, bbox_inches="tight") as figure:
        box = (MARGIN / width, MARGIN / height, cell * columns / width, cell * rows / height)
        axes = figure.add_axes(box)
        shares = counts / counts.sum(1, keepdims=True)
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        _name_axes(axes, names, predicted)
        if columns <= NUMBERED:
            for (row, column), count in np.ndenumerate(counts):
                colour = "white" if shares[row, column] > 0.55 else INK if count else "#bbbbbb"
                axes.text(column, row, f"{count:,}", ha="center", va="center", fontsize=SMALL, color=colour)
            for row, name in enumerate(names):  # right is framed
                axes.add_patch(Rectangle((predicted.index(name) - 0.5, row - 0.5), 1, 1, fill=False, edgecolor=INK))
        title = in_lines(f"Confusions on {scores.of}", width - 0.1)
        framed = " (framed)" if columns <= NUMBERED else ""
        words = [*title, f"{_right(scores)} right{framed}; shade: share of the row"]
        figure.text(0.05 / width, 1 - 0.05 / height, "\n".join(words), fontsize=NORMAL, ha="left", va="top")


def _name_axes(axes: "Axes", names: list[str], predicted: tuple[str, ...]) -> None:
    if max(len(names), len(predicted)) <= NAMED:
        axes.set_xticks(range(len(predicted)), [_short(name) for name in predicted], rotation=90, fontsize=SMALL)
        axes.set_yticks(range(len(names)), [_short(name) for name in names], fontsize=SMALL)
        axes.set_xlabel("predicted")
        axes.set_ylabel("true class")
    else:
        axes.set_xlabel(f"predicted: {len(predicted)} classes, in the order of evaluation.json")
        axes.set_ylabel(f"true class: {len(names)}, in that order")
        axes.set_xticks([])
        axes.set_yticks([])
    axes.tick_params(length=0)


def reliability_figure(path: Path, scores: PredictionScores) -> None:
    """Accuracy against confidence, bin by bin, and how many images each bin has; on the diagonal both agree."""
    bins = scores.calibration
    middles = [(each.low + each.high) / 2 for each in bins]
    width, height = WIDTHS["column"], 4.1
    with figure_file(path, width, height) as figure:
        upper = figure.add_axes((0.16, 0.33, 0.8, 0.47))
        lower = figure.add_axes((0.16, 0.12, 0.8, 0.17), sharex=upper)
        wide = bins[0].high - bins[0].low
        upper.bar(middles, [each.accuracy for each in bins], wide, color=BLUE, edgecolor="white", linewidth=0.5)
        upper.plot(
            [each.confidence for each in bins], [each.accuracy for each in bins], "o", color=VERMILION, markersize=3
        )
        upper.plot([0, 1], [0, 1], "--", color=FAINT, linewidth=0.8)
        upper.set(xlim=(0, 1), ylim=(0, 1.02), ylabel="accuracy")
        lower.bar(middles, [each.images for each in bins], wide, color=FAINT, edgecolor="white", linewidth=0.5)
        lower.set(xlabel="confidence: probability of the predicted class", ylabel="images")
        upper.tick_params(labelbottom=False)
        for axes in (upper, lower):
            axes.spines[["top", "right"]].set_visible(False)
            axes.tick_params(labelsize=SMALL)
        words = [
            *in_lines(f"Calibration on {scores.of}", width - 0.1),
            f"{_right(scores)} right",
            f"expected calibration error (ECE) {scores.ece:.3f}",
        ]
        figure.text(0.05 / width, 1 - 0.05 / height, "\n".join(words), fontsize=NORMAL, ha="left", va="top")
        figure.text(
            0.17, 0.855, "dot: mean confidence of a bin; dashed: as sure as right", fontsize=SMALL, color=FAINT
        )


def _right(scores: PredictionScores) -> str:
    found = scores.accuracy
    return f"{percent(found.fraction)} ({percent(found.low)} to {percent(found.high)}, 95%)"


def _short(name: str) -> str:
    return in_lines(name, MARGIN - 0.35, SMALL)[0]
