"""`parse-dg figure`: the paper's figures of a run, at the size they have on a page."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from parse_dg.cli.options import SELECTION_NAMES, Commands, add_model, opened
from parse_dg.wording import printable

if TYPE_CHECKING:
    from rich.console import Console

    from parse_dg.explain.figures.examples import FigureRequest

WIDTHS = {"column": 3.3, "page": 7.0}
"""In inches."""
Figure = Callable[[argparse.Namespace, "Console"], None]


def primitives(options: argparse.Namespace, console: "Console") -> None:
    """`parse-dg figure primitives`."""
    from parse_dg.explain.figures.examples import draw_primitives

    _draw(options, console, draw_primitives)


def errors(options: argparse.Namespace, console: "Console") -> None:
    """`parse-dg figure errors`."""
    from parse_dg.explain.figures.examples import draw_errors

    _draw(options, console, draw_errors)


def pipeline(options: argparse.Namespace, console: "Console") -> None:
    """`parse-dg figure pipeline`."""
    from parse_dg.explain.figures.examples import draw_pipeline

    _draw(options, console, lambda asked: draw_pipeline(asked, options.image))


def against_k(options: argparse.Namespace, console: "Console") -> None:
    """`parse-dg figure k`: the plot of `parse-dg table --view k`."""
    from parse_dg.cli.show.views import curve, view_tables
    from parse_dg.tables.curve import check_picture
    from parse_dg.tables.estimate import find_spread

    check_picture(options.out)
    curve(view_tables(options.runs, "k", (), options.selection, find_spread(options.spread)), options.out)
    _written(console, options.out, f"accuracy on the target by {options.selection} selection")


def _draw(options: argparse.Namespace, console: "Console", draw: "Callable[[FigureRequest], str]") -> None:
    from parse_dg.cli.show.display import progress_display
    from parse_dg.explain.figures.examples import FigureRequest

    with progress_display(console) as progress:
        asked = FigureRequest(
            run=opened(options, progress),
            path=options.out,
            width=options.width,
            classes=getattr(options, "classes", ()),
            primitives=getattr(options, "primitives", ()),
            domains=getattr(options, "domains", ()),
        )
        said = draw(asked)
    _written(console, options.out, said)


def _written(console: "Console", path: Path, said: str) -> None:
    console.print(
        f"{printable(said)}\nwritten to {printable(str(path))}", markup=False, emoji=False, soft_wrap=True
    )


def add_commands(commands: Commands) -> None:
    """Add the command of this file, with a command of its own for every figure."""
    command = commands.add_parser(
        "figure",
        help="the paper's figures of a run: primitives, errors, the pipeline, accuracy against K",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Draw a figure of a trained PARSE, as PNG, SVG or PDF, as wide as a paper's column or page.\n"
        "The same run gives the same file. What is shown is chosen by a rule that is said when it is done; all\n"
        "images are of the target, or held out of training.",
        epilog="examples:\n"
        "  parse-dg figure primitives RUN --classes dog horse --primitives 0 3 --out primitives.svg\n"
        "  parse-dg figure errors RUN --width column\n"
        "  parse-dg figure pipeline RUN photo.jpg --out pipeline.pdf\n"
        "  parse-dg figure k runs/k --out k.svg",
    )
    figures = command.add_subparsers(
        title="figures", required=True, metavar="FIGURE", help="`parse-dg figure FIGURE --help` explains each"
    )
    _add_primitives(figures)
    _add_errors(figures)
    _add_pipeline(figures)
    _add_k(figures)


def _add_primitives(figures: Commands) -> None:
    figure = _add(figures, "primitives", primitives, "heat maps of primitives over classes and domains")
    _add_classes(figure, "default: some, evenly spread")
    _add_numbers(figure, "default: those that the classes' compositions rest on most")
    figure.add_argument(
        "--domains", nargs="+", default=(), metavar="DOMAIN", help="default: the sources and the target"
    )


def _add_errors(figures: Commands) -> None:
    figure = _add(figures, "errors", errors, "target images classified right and wrong, and what collapsed in them")
    _add_classes(figure, "default: those with most wrong images")
    _add_numbers(figure, "whose heat maps are shown; default: those that a class rests on most")


def _add_pipeline(figures: Commands) -> None:
    figure = _add(figures, "pipeline", pipeline, "one image on its way through the network, in the model's numbers")
    figure.add_argument(
        "image",
        type=Path,
        nargs="?",
        metavar="IMAGE",
        help="an image file (default: of some of the target's, the one classified right with most confidence)",
    )


def _add_k(figures: Commands) -> None:
    figure = figures.add_parser("k", help="accuracy against the number of primitives")
    figure.add_argument(
        "runs", type=Path, nargs="+", metavar="RUN", help="run folders, or folders that have runs below them"
    )
    figure.add_argument(
        "--selection",
        default="training-domain",
        metavar="NAME",
        help=f"{SELECTION_NAMES} (default: training-domain)",
    )
    figure.add_argument("--spread", default="se", metavar="NAME", help="what the bars are: se or std (default: se)")
    _add_out(figure, "k")
    figure.set_defaults(command=against_k)


def _add(figures: Commands, name: str, draw: Figure, what: str) -> argparse.ArgumentParser:
    figure = figures.add_parser(name, help=what, description=f"Draw {what}.")
    figure.add_argument("run", type=Path, metavar="RUN", help="the folder of a run of parse")
    _add_out(figure, name)
    widths = ", ".join(f"{width} {inches:g} inches" for width, inches in WIDTHS.items())
    figure.add_argument(
        "--width", choices=tuple(WIDTHS), default="page", help=f"how wide: {widths} (default: page)"
    )
    add_model(figure)
    figure.set_defaults(command=draw)
    return figure


def _add_out(figure: argparse.ArgumentParser, name: str) -> None:
    default = Path(f"figure_{name}.png")
    figure.add_argument(
        "--out", type=Path, default=default, metavar="FILE", help=f".png, .svg or .pdf (default: {default}, here)"
    )


def _add_classes(figure: argparse.ArgumentParser, default: str) -> None:
    figure.add_argument("--classes", nargs="+", default=(), metavar="CLASS", help=default)


def _add_numbers(figure: argparse.ArgumentParser, default: str) -> None:
    figure.add_argument("--primitives", nargs="+", type=int, default=(), metavar="NUMBER", help=default)
