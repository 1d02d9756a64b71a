"""A figure as a page has room for it: its width, its text, its colours, and how it is written.

PNG, SVG or PDF by the file's ending. The same figure is the same bytes, whatever a user's matplotlib is set to;
text in SVG stays text; a `$` in a name is a `$`. Needs matplotlib (the extra `pictures`). Colours are Okabe and
Ito's, which colour-blind readers can tell apart.
"""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parse_dg.errors import InputError
from parse_dg.files import attempting, require_writable, whole_file
from parse_dg.wording import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTHS = {"column": 3.3, "page": 7.0}
"""In inches: what a figure is as wide as."""
TALLEST = 9.0
"""In inches: what a page has room for."""
FORMATS = (".png", ".svg", ".pdf")
SMALL, NORMAL = 6.0, 7.0
"""Points at that width: the smallest text there is, and the usual."""
DPI = 300

COLOURS = ("#E69F00", "#56B4E9", "#009E73", "#CC79A7", "#0072B2", "#D55E00")
INK, FAINT = "#222222", "#666666"
BLUE, VERMILION = "#0072B2", "#D55E00"

_STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": NORMAL,
    "text.color": INK,
    "text.parse_math": False,
    "svg.hashsalt": "parse-dg",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
}
_UNDATED: dict[str, dict[str, str | None]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}


def require_matplotlib() -> "type[Figure]":
    """Matplotlib's figure, or an error that says what to install."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError("pictures need matplotlib: install parse-dg[pictures]") from error
    return Figure


def check_place(path: Path) -> None:
    """Raise, before any work, unless a figure can be written there."""
    require_writable(path, "a figure", FORMATS)
    require_matplotlib()


@contextmanager
def figure_file(path: Path, width: float, height: float, dpi: int = DPI, **saving: Any) -> "Iterator[Figure]":
    """An empty figure of so many inches, to draw on; when that is done it is written, whole or not at all."""
    figure_class = require_matplotlib()
    import matplotlib.style

    kind = path.suffix.lower().removeprefix(".")
    with matplotlib.style.context(["default", _STYLE]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # a box is shown for it
        figure = figure_class(figsize=(width, height), dpi=dpi, facecolor="white")
        yield figure
        with attempting(f"write {path}"), whole_file(path) as temporary:
            figure.savefig(temporary, format=kind, metadata=_UNDATED[kind], **saving)


class Sheet:
    """A figure laid out in inches, from its top left corner."""

    def __init__(self, figure: "Figure"):
        self.figure = figure
        self.width, self.height = (float(side) for side in figure.get_size_inches())

    @classmethod
    @contextmanager
    def file(cls, path: Path, width: str, height: float) -> "Iterator[Sheet]":
        """An empty sheet as wide as a column or a page, to draw on; it is written when that is done."""
        with figure_file(path, WIDTHS[width], height) as figure:
            yield cls(figure)

    def axes(self, x: float, y: float, width: float, height: float) -> "Axes":
        """Axes without ticks or frame, whose top left corner is at (x, y)."""
        box = (x / self.width, 1 - (y + height) / self.height, width / self.width, height / self.height)
        axes = self.figure.add_axes(box)
        axes.set_axis_off()
        return axes

    def text(
        self, x: float, y: float, text: str, size: float = NORMAL, within: float | None = None, **looks: Any
    ) -> None:
        """A text at (x, y): its left end on that height, unless `ha` and `va` say otherwise; cut if too long."""
        if within is not None:
            text = shorten(text, within, size, looks.get("weight", "normal"))
        options = {"ha": "left", "va": "center", "color": INK} | looks
        self.figure.text(x / self.width, 1 - y / self.height, text, fontsize=size, **options)

    def notes(self, x: float, y: float, *lines: str) -> None:
        """Small lines of text, one below the other."""
        for number, line in enumerate(lines):
            self.text(x, y + 0.12 * number, line, SMALL, color=FAINT)

    def line(self, x: float, y: float, to_x: float, to_y: float, **looks: Any) -> None:
        """A line from one place to another; with `arrow=True` one with a head."""
        from matplotlib.patches import FancyArrowPatch

        options: dict[str, Any] = {"color": FAINT, "linewidth": 0.8} | looks
        style = "-|>,head_length=3,head_width=1.5" if options.pop("arrow", False) else "-"
        start, end = ((px / self.width, 1 - py / self.height) for px, py in ((x, y), (to_x, to_y)))
        self.figure.add_artist(
            FancyArrowPatch(
                start, end, arrowstyle=style, shrinkA=0, shrinkB=0, transform=self.figure.transFigure, **options
            )
        )

    def bar(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        """A filled box whose top left corner is at (x, y)."""
        from matplotlib.patches import Rectangle

        corner = (x / self.width, 1 - (y + height) / self.height)
        size = (width / self.width, height / self.height)
        self.figure.add_artist(Rectangle(corner, *size, color=colour, linewidth=0))


def shorten(text: str, inches: float, size: float = NORMAL, weight: str = "normal") -> str:
    """The text on one line if it fits into so many inches, else as much of its beginning as does, and dots."""
    text = printable(text)
    if _inches(text, size, weight) <= inches:
        return text
    most = len(text)
    while most > 1 and _inches(text[:most] + "…", size, weight) > inches:
        most -= 1
    return text[:most].rstrip() + "…"


def in_lines(text: str, inches: float, size: float = NORMAL) -> tuple[str, ...]:
    """The text on one line if it fits, else on two, broken at a blank, a dash or an underscore if it has one."""
    text = printable(text)
    breaks = [match.end() for match in re.finditer(r"[\s_-](?=.)", text)]
    if not breaks or _inches(text, size, "normal") <= inches:
        return (shorten(text, inches, size),)
    best = min(breaks, key=lambda at: max(_inches(part, size, "normal") for part in (text[:at], text[at:])))
    return shorten(text[:best], inches, size), shorten(text[best:], inches, size)


def _inches(text: str, size: float, weight: str) -> float:
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family=_STYLE["font.family"], weight=weight, size=size)
    return float(text_to_path.get_text_width_height_descent(text, font, ismath=False)[0]) / 72
