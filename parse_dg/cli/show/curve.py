"""Accuracy against K, the number of primitives, as a picture: PNG, SVG or PDF.

Every line has a marker of its own besides its colour.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from parse_dg.errors import InputError
from parse_dg.explain.figures.page import COLOURS, INK, check_place, figure_file
from parse_dg.tables.estimate import SPREADS, Spread
from parse_dg.tables.published import AVERAGE, find_domain, find_name, published
from parse_dg.tables.selection_tables import DataSetTable
from parse_dg.tables.views import VIEWS
from parse_dg.wording import plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from parse_dg.cli.show.views import ViewedRuns

MARKERS = ("s", "^", "D", "v", "P", "X")
STAR: dict[str, Any] = {"marker": "*", "markersize": 12, "markerfacecolor": "white", "linestyle": "none"}
WIDTH, HEIGHT = 6.6, 4.0
"""Of one panel, in inches."""
PAPERS_K = 16
"""The number of primitives of the paper's published accuracies (its appendix A)."""


class AccuracyPoint(NamedTuple):
    """A mean over trials, in per cent."""

    at: float
    mean: float
    spread: float | None
    """Half the length of the error bar; None: not measured."""


class Panel(NamedTuple):
    """The lines of one data set."""

    title: str
    lines: Mapping[str, Sequence[AccuracyPoint]]
    """By target; a line of the name `Avg` is drawn above the others."""
    published: Mapping[str, AccuracyPoint]


def curve(seen: "ViewedRuns", path: Path) -> None:
    """A panel for every data set and method, a line for every target, and their mean."""
    counts = Counter(row.of for row in seen.rows.values() if row.at is not None)
    methods = [of for of, count in counts.items() if count > 1] or list(counts)  # a point is no curve
    panels = [panel for table in seen.tables.tables for of in methods if (panel := _panel(seen, table, of)).lines]
    if not panels:
        raise InputError(f"{path} would be empty: none of these runs has a number of primitives")
    draw_curves(panels, path, label="K, number of primitives", spread=SPREADS[seen.tables.spread])


def _panel(seen: "ViewedRuns", table: DataSetTable, of: str) -> Panel:
    kind, lines = seen.tables.spread, dict[str, list[AccuracyPoint]]()
    for row in seen.rows.values():
        if row.of != of or row.at is None or row.name not in table.cells:
            continue
        for name, estimate in (*table.cells[row.name].items(), ("Avg", table.average[row.name])):
            if estimate.mean is not None:
                spread = estimate.spread(kind)
                point = AccuracyPoint(row.at, 100 * estimate.mean, None if spread is None else 100 * spread)
                lines.setdefault(name, []).append(point)
    own = of == "parse"  # the figures are of the method as published
    papers = {n: found for n in lines if own and (found := _published(table.data_set, n, kind)) is not None}
    return Panel(f"{of} on {table.data_set}, {plural(len(table.trials), 'trial')}", lines, papers)


def _published(data_set: str, line: str, spread: Spread) -> AccuracyPoint | None:
    """What the paper has of PARSE on a target of a data set, or on their average; its error if it is alike."""
    name = find_name(data_set)
    target = AVERAGE if line == "Avg" else find_domain(name, line) if name else None
    for row in published().rows:
        column = row.column(name, target) if name and target and VIEWS["k"].published(row) else None
        if column is not None:
            value = row.cells[column]
            alike = value.error is not None and SPREADS[spread].endswith(row.error)
            return AccuracyPoint(PAPERS_K, float(value.value), float(value.error or 0) if alike else None)
    return None


def draw_curves(panels: Sequence[Panel], path: Path, *, label: str, spread: str) -> None:
    """Panels side by side; `label` says what is along the x axis, `spread` what the bars are."""
    check_place(path)
    import matplotlib

    size = (WIDTH * len(panels), HEIGHT)
    with figure_file(path, *size, dpi=150) as figure, matplotlib.rc_context({"font.size": 10}):
        figure.set_layout_engine("constrained")
        for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            _draw(axes, panel)
            axes.set_xlabel(label)
            axes.set_ylabel(f"accuracy on the target, %\n(mean ± {spread})")


def _draw(axes: "Axes", panel: Panel) -> None:
    ticks = {point.at for line in panel.lines.values() for point in line}
    for number, (name, line) in enumerate(panel.lines.items()):
        whole = name == "Avg"
        colour = INK if whole else COLOURS[number % len(COLOURS)]
        axes.errorbar(
            [point.at for point in line],
            [point.mean for point in line],
            yerr=[point.spread or 0 for point in line],
            label="mean over targets" if whole else name,
            color=colour,
            marker="o" if whole else MARKERS[number % len(MARKERS)],
            linewidth=2.4 if whole else 1.3,
            markersize=6,
            capsize=3,
            zorder=3 if whole else 2,
        )
        if (point := panel.published.get(name)) is not None:  # a hollow star of the line's colour
            bar = None if point.spread is None else [point.spread]
            axes.errorbar([point.at], [point.mean], yerr=bar, color=colour, capsize=3, zorder=4, **STAR)
            ticks.add(point.at)
    if panel.published:
        axes.plot([], [], label="the paper's", color=INK, **STAR)
    axes.set_title(panel.title, loc="left", fontsize=11, color=INK)
    axes.set_xticks(sorted(ticks), [f"{tick:g}" for tick in sorted(ticks)])
    axes.grid(axis="y", color="#dddddd", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1, 1))  # hides no line
