"""Accuracy against a number, such as K, as a picture: PNG, SVG or PDF.

Needs matplotlib (the extra `pictures`). Colours are Okabe and Ito's, which colour-blind readers can tell apart;
every line has a marker of its own besides.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from parse_dg.errors import InputError
from parse_dg.files import attempting, require_writable, whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8C7A00")
MARKERS = ("s", "^", "D", "v", "P", "X", "h")
INK = "#222222"
FORMATS = (".png", ".svg", ".pdf")
STAR: dict[str, Any] = {"marker": "*", "markersize": 12, "markerfacecolor": "white", "linestyle": "none"}
WIDTH, HEIGHT = 6.6, 4.0
"""Of one panel, in inches."""


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
    """Figures of the paper, by the name of the line they belong to."""


def check_picture(path: Path) -> None:
    """Raise unless a picture can be written there."""
    require_writable(path, "a plot", FORMATS)
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise InputError("a plot needs matplotlib: pip install 'parse-dg[pictures]'") from error


def draw_curves(panels: Sequence[Panel], path: Path, *, label: str, spread: str) -> None:
    """A panel a data set, side by side; `label` says what is along the x axis, `spread` what the bars are."""
    check_picture(path)
    import matplotlib
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH * len(panels), HEIGHT), dpi=150, layout="constrained")
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        _draw(axes, panel)
        axes.set_xlabel(label)
        axes.set_ylabel(f"accuracy on the target, %\n(mean ± {spread})")
    kind = path.suffix.lower().removeprefix(".")
    # The same figures, the same file: without the date.
    dates: dict[str, dict[str, str | None]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with (
        attempting(f"write {path}"),
        whole_file(path) as temporary,
        matplotlib.rc_context({"svg.hashsalt": "parse-dg", "svg.fonttype": "none"}),
    ):
        figure.savefig(temporary, format=kind, metadata=dates.get(kind, {}), facecolor="white")


def _draw(axes: "Axes", panel: Panel) -> None:
    ticks = sorted({point.at for line in panel.lines.values() for point in line})
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
            ticks = sorted({*ticks, point.at})
    if panel.published:
        axes.plot([], [], label="the paper's", color=INK, **STAR)
    axes.set_title(panel.title, loc="left", fontsize=11, color=INK)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.grid(axis="y", color="#dddddd", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1, 1))  # hides no line
