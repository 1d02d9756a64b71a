"""`parse-dg report`: a finished run as one HTML file."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from parse_dg.cli.options import Commands, add_model, opened
from parse_dg.wording import printable

if TYPE_CHECKING:
    from rich.console import Console


def report(options: argparse.Namespace, console: "Console") -> None:
    """`parse-dg report`."""
    from parse_dg.cli.show.display import progress_display
    from parse_dg.explain.report.gather import gather_report
    from parse_dg.explain.report.page import check_place, write_report

    path = options.out or options.run / "report.html"
    with progress_display(console) as progress:
        if options.out or options.run.is_dir():
            check_place(path)
        gathered = gather_report(opened(options, progress), images=options.images)
    size = write_report(path, gathered)
    for note in gathered.notes:
        console.print(printable(note), markup=False, soft_wrap=True)
    console.print(f"written to {path}: {size:,} bytes, to be opened in a browser", markup=False, soft_wrap=True)


def add_commands(commands: Commands) -> None:
    """Add the command of this file."""
    command = commands.add_parser(
        "report",
        help="one HTML file about a run: results, confusions, classes in words, images with their reasons",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Write all there is to say of a finished run into one HTML file, which needs no network and\n"
        "no other file: the result and how it was chosen, accuracy and confusions by domain, what each class\n"
        "is made of, right and wrong images with their relations, compaction, and how to repeat it.\n\n"
        "The images of the run's benchmark are looked at again. Where they are not on this machine, the report is\n"
        "made of what the run's folder holds, and says what it lacks.",
        epilog="example:\n  parse-dg report runs/blueprints/parse/sketch/seed0 --out parse-sketch.html",
    )
    command.add_argument("run", type=Path, metavar="RUN", help="the run's folder")
    command.add_argument("--out", type=Path, metavar="FILE", help="a .html file (default: RUN/report.html)")
    command.add_argument(
        "--images",
        type=int,
        default=12,
        metavar="N",
        help="shown of each kind: right and wrong, of the target and of the source domains "
        "(default: %(default)s; about 20 to 50 kB each)",
    )
    add_model(command)
    command.set_defaults(command=report)
