"""`parse-dg figure`: the paper's figures of a run, at the size they have on a page."""

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from parse_dg.cli.options import Command, Commands, Console, add_command, add_group, opened, say
from parse_dg.wording import printable

if TYPE_CHECKING:
    from parse_dg.explain.figures.examples import FigureRequest

WIDTHS = {"page": 7.0, "column": 3.3}
"""In inches."""


def primitives(options: Namespace, console: Console) -> None:
    """Draw heat maps of primitives over classes and domains."""
    from parse_dg.explain.figures.examples import draw_primitives

    _draw(options, console, draw_primitives)


def errors(options: Namespace, console: Console) -> None:
    """Draw target images classified right and wrong, and what collapsed in them."""
    from parse_dg.explain.figures.examples import draw_errors

    _draw(options, console, draw_errors)


def pipeline(options: Namespace, console: Console) -> None:
    """Draw one image on its way through the network, in the model's numbers."""
    from parse_dg.explain.figures.examples import draw_pipeline

    _draw(options, console, lambda asked: draw_pipeline(asked, options.image, options.steps))


def faces(options: Namespace, console: Console) -> None:
    """Draw the faces of primitives: patches of source training images where each is strongest."""
    from parse_dg.explain.figures.examples import draw_faces

    _draw(options, console, draw_faces)


def cards(options: Namespace, console: Console) -> None:
    """Draw classes as cards: their strongest relations over a mean layout, with the primitives' faces."""
    from parse_dg.explain.figures.examples import draw_cards

    _draw(options, console, draw_cards)


def against_k(options: Namespace, console: Console) -> None:
    """Draw accuracy against the number of primitives: the plot of `parse-dg table --view k`."""
    from parse_dg.cli.show.views import curve, view_tables
    from parse_dg.tables.curve import check_picture
    from parse_dg.tables.estimate import find_spread

    check_picture(options.out)
    curve(view_tables(options.runs, "k", (), options.selection, find_spread(options.spread)), options.out)
    _written(console, options.out, f"accuracy on the target by {options.selection} selection")


def _draw(options: Namespace, console: Console, draw: "Callable[[FigureRequest], str]") -> None:
    from parse_dg.cli.show.display import progress_display
    from parse_dg.explain.figures.examples import FigureRequest

    chosen = {name: getattr(options, name, ()) for name in ("classes", "primitives", "domains")}
    with progress_display(console) as progress:
        run = opened(options, progress)
        said = draw(FigureRequest(run=run, path=options.out, width=options.width, **chosen))
    _written(console, options.out, said)


def _written(console: Console, path: Path, said: str) -> None:
    say(console, printable(said), f"written to {printable(str(path))}")


def add_commands(commands: Commands) -> None:
    """Add the command of this file, with a command of its own for every figure."""
    figures = add_group(
        commands,
        "figure",
        "figures of a run: primitives and their faces, class cards, errors, the pipeline, accuracy against K",
        "Draw a figure of a trained PARSE, as PNG, SVG or PDF, as wide as a paper's column or page.\n"
        "The same run gives the same file. What is shown is chosen by a rule that is said when it is done; all\n"
        "images are of the target, or held out of training.",
        "for example:\n"
        "  parse-dg figure primitives RUN --classes dog horse --primitives 0 3 --out primitives.svg\n"
        "  parse-dg figure faces RUN\n"
        "  parse-dg figure cards RUN --classes dog horse\n"
        "  parse-dg figure errors RUN --width column\n"
        "  parse-dg figure pipeline RUN photo.jpg --out pipeline.pdf\n"
        "  parse-dg figure k runs/k --out k.svg",
    )
    command = add_command(figures, "primitives", primitives, "heat maps of primitives over classes and domains")
    _add_common(command, "primitives")
    _add_several(command, "--classes CLASS", "default: some, evenly spread")
    _add_several(command, "--primitives N", "default: those that the classes' compositions rest on most")
    _add_several(command, "--domains DOMAIN", "default: the sources and the target")
    words = "patches of source training images where primitives are strongest"
    command = add_command(figures, "faces", faces, words)
    _add_common(command, "faces")
    _add_several(command, "--primitives N", "default: all")
    words = "classes as their strongest relations over a mean layout, with faces"
    command = add_command(figures, "cards", cards, words)
    _add_common(command, "cards")
    _add_several(command, "--classes CLASS", "default: some, evenly spread")
    words = "target images classified right and wrong, and what collapsed in them"
    command = add_command(figures, "errors", errors, words)
    _add_common(command, "errors")
    _add_several(command, "--classes CLASS", "default: those with most wrong images")
    words = "whose heat maps are shown; default: those that a class rests on most"
    _add_several(command, "--primitives N", words)
    words = "one image on its way through the network, in the model's numbers"
    command = add_command(figures, "pipeline", pipeline, words)
    _add_common(command, "pipeline")
    words = "a file, or DOMAIN:NUMBER (default: of some of the target's, the one right with most confidence)"
    command.add("image IMAGE", words, nargs="?")
    command.add("--steps FOLDER", "also a picture of each step there, as in docs/how_parse_works.md")
    command = add_command(figures, "k", against_k, "accuracy against the number of primitives")
    command.add("runs RUN", "run folders, or folders that have runs below them", nargs="+")
    command.add_selection("what the bars are: se or std")
    _add_out(command, "k")


def _add_common(command: Command, name: str) -> None:
    command.add_run("the folder of a run of parse")
    _add_out(command, name)
    widths = ", ".join(f"{width} {inches:g} inches" for width, inches in WIDTHS.items())
    command.add("--width", f"how wide: {widths}", choices=tuple(WIDTHS))
    command.add_model()


def _add_out(command: Command, name: str) -> None:
    command.add("--out FILE", ".png, .svg or .pdf, here", Path(f"figure_{name}.png"))


def _add_several(command: Command, name: str, words: str) -> None:
    command.add(name, words, nargs="+", default=())
