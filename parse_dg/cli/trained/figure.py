"""Figures of a run: primitives and their faces, class cards, errors, the pipeline, accuracy against K.

Draw a figure of a trained PARSE, as PNG, SVG or PDF, as wide as a paper's column or page.
The same run gives the same file. What is shown is chosen by a rule that is said when it is done; all
images are of the target, or held out of training.

For example:
  parse-dg figure primitives RUN --classes dog horse --primitives 0 3 --out primitives.svg
  parse-dg figure faces RUN
  parse-dg figure cards RUN --classes dog horse
  parse-dg figure errors RUN --width column
  parse-dg figure pipeline RUN photo.jpg --out pipeline.pdf
  parse-dg figure k runs/k --out k.svg
"""

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

from parse_dg.cli.options import SHARED, Console, command, opened, say
from parse_dg.wording import printable

OUT = ".png, .svg or .pdf, here"
COMMON = f"""run RUN  the folder of a run of parse
  --width = page column  how wide: page 7 inches, column 3.3 inches
  {SHARED["MODEL"]}""".format_map(SHARED)
FIGURES = {
    "primitives": """Heat maps of primitives over classes and domains.
      --classes CLASS+  default: some, evenly spread
      --primitives N+  default: those that the classes' compositions rest on most
      --domains DOMAIN+  default: the sources and the target""",
    "faces": """Patches of source training images where primitives are strongest.
      --primitives N+  default: all""",
    "cards": """Classes as their strongest relations over a mean layout, with faces.
      --classes CLASS+  default: some, evenly spread""",
    "errors": """Target images classified right and wrong, and what collapsed in them.
      --classes CLASS+  default: those with most wrong images
      --primitives N+  whose heat maps are shown; default: those that a class rests on most""",
    "pipeline": """One image on its way through the network, in the model's numbers.
      image IMAGE?  a file, or DOMAIN:NUMBER (default: of some of the target's, the one right with most confidence)
      --steps FOLDER  also a picture of each step there, as in docs/how_parse_works.md""",
}
"""What each shows, and what it takes beside the common."""


def _figure(name: str) -> Callable[[Namespace, Console], None]:
    def draw(options: Namespace, console: Console) -> None:
        from parse_dg.cli.show.display import progress_display
        from parse_dg.explain.figures import examples

        chosen = {each: getattr(options, each, ()) for each in ("classes", "primitives", "domains")}
        more = (options.image, options.steps) if name == "pipeline" else ()
        with progress_display(console) as progress:
            run = opened(options, progress)
            asked = examples.FigureRequest(run=run, path=options.out, width=options.width, **chosen)
            said = getattr(examples, f"draw_{name}")(asked, *more)
        _written(console, options.out, said)

    return draw


for _name, _words in FIGURES.items():
    _summary, *_takes = map(str.strip, _words.splitlines())
    _lines = (COMMON, f"--out FILE = figure_{_name}.png  {OUT}", *_takes)
    command(f"figure {_name}", "\n  ".join([f"{_summary}\n\nTakes:", *_lines]))(_figure(_name))


@command("figure k")
def against_k(options: Namespace, console: Console) -> None:
    """Accuracy against the number of primitives: the plot of `parse-dg table --view k`.

    Takes:
      runs RUN+  run folders, or folders that have runs below them
      {SELECTION}
      --spread NAME = se  what the bars are: se or std
      --out FILE = figure_k.png  {OUT}
    """
    from parse_dg.cli.show.curve import curve
    from parse_dg.cli.show.views import view_tables
    from parse_dg.explain.figures.page import check_place
    from parse_dg.tables.estimate import find_spread

    check_place(options.out)
    curve(view_tables(options.runs, "k", (), options.selection, find_spread(options.spread)), options.out)
    _written(console, options.out, f"accuracy on the target by {options.selection} selection")


def _written(console: Console, path: Path, said: str) -> None:
    say(console, printable(said), f"written to {printable(str(path))}")
