"""`parse-dg measure`: what a run's primitives and relations are worth, in numbers."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from parse_dg.cli.options import Commands, add_model, opened

if TYPE_CHECKING:
    from rich.console import Console

FORMATS = ("table", "json", "csv", "markdown")


def measure(options: argparse.Namespace, console: "Console") -> None:
    """`parse-dg measure`."""
    from rich.console import Console

    from parse_dg.cli.show.display import progress_display
    from parse_dg.cli.show.measures import measure_tables, measures_csv
    from parse_dg.cli.tables import show
    from parse_dg.explain.measures.measure import measure_run

    with progress_display(Console(stderr=True)) as progress:
        run = opened(options, progress)
        found = measure_run(run, within=options.within, swaps=options.swaps, parts=options.parts)
    if options.format == "json":
        text = json.dumps(found.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)
        console.print(text, markup=False, emoji=False, soft_wrap=True)
        return
    show(console, options.format, measure_tables(found), lambda: measures_csv(found))


def add_commands(commands: Commands) -> None:
    """Add the command of this file."""
    command = commands.add_parser(
        "measure",
        help="what a run's primitives and relations are worth: collapse, consistency, use of structure",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Measure a run of PARSE on the images it is judged by, the target's and the held-out ones of\n"
        "the sources, in one pass over them:\n"
        "  what accuracy rests on: relations alone, presence alone, another image's geometry swapped in;\n"
        "  beside it the guide, the classifier on pooled features that only trains: what the features know;\n"
        "  selected after the start: how many relations a class uses, and which it did not begin with;\n"
        "  collapse: how many primitives coincide, in images classified right and wrong;\n"
        "  on its evidence: how often a primitive's heat map is strong where the primitive is said to be;\n"
        "  consistency: whether a primitive is the same thing in two domains, from images and labels alone;\n"
        "  localisation: the distance to true parts, on Blueprints, where those are known;\n"
        "  parts followed at once: in how many images every part has its own primitive on it, there too;\n"
        "  annotated parts: which primitives follow the parts that people have marked in photographs (--parts).\n\n"
        "Numbers come with what chance would give, where there is such a thing. The definitions are below the\n"
        "tables; --format json has every number in full, also of every primitive.",
        epilog="examples:\n"
        "  parse-dg measure runs/blueprints/parse/sketch/seed0\n"
        "  parse-dg measure runs/pacs/parse/sketch/seed0 --format json > measures.json\n"
        "  parse-dg measure runs/cub-dg/parse/Paint/seed0 --parts CUB_200_2011",
    )
    command.add_argument("run", type=Path, metavar="RUN", help="the folder of a run of parse")
    command.add_argument("--format", choices=FORMATS, default="table", help="default: table")
    command.add_argument(
        "--within",
        type=float,
        default=0.5,
        metavar="CELLS",
        help="how far apart primitives that coincide may be, in cells of the heat map (default: %(default)s)",
    )
    command.add_argument(
        "--swaps", type=int, default=5, metavar="N", help="how often geometry is swapped (default: %(default)s)"
    )
    command.add_argument(
        "--parts",
        type=Path,
        metavar="FOLDER",
        help="parts marked in the photographs of a run on cub-dg: the folder of CUB-200-2011, with images.txt, "
        "bounding_boxes.txt, parts/ and images/",
    )
    add_model(command)
    command.set_defaults(command=measure)
