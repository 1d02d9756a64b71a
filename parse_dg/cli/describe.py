"""`parse-dg describe`: images in words, by a trained GVRT."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from parse_dg.cli.options import Commands, add_device
from parse_dg.errors import InputError
from parse_dg.wording import printable

if TYPE_CHECKING:
    from rich.console import Console

    from parse_dg.runs.describe import Description

COUNT = 8


def describe(options: argparse.Namespace, console: "Console") -> None:
    """`parse-dg describe`."""
    from parse_dg.runs.describe import describe_domain, describe_files
    from parse_dg.runs.opened import open_run

    if options.images and (options.domain is not None or options.count is not None):
        raise InputError("give image files, or --domain and --count for images of the run's benchmark, not both")
    run = open_run(options.run, device=options.device)
    if options.images:
        found = describe_files(run, options.images, options.argued)
    else:
        count = COUNT if options.count is None else options.count
        found = describe_domain(run, options.domain, count, options.argued)
    if options.format == "json":
        text = json.dumps([asdict(each) for each in found], indent=2, ensure_ascii=False)
        console.print(text, markup=False, soft_wrap=True)
        return
    for each in found:
        console.print(in_text(each), markup=False, soft_wrap=True, end="\n\n" if each is not found[-1] else "\n")


def in_text(each: "Description") -> str:
    """A description, a line for each thing that is known."""
    where = [] if each.domain is None else [f"{each.domain}, image {each.index}"]
    where += [] if each.file is None else [each.file]
    rows = [] if each.truth is None else [("true class", each.truth)]
    rows.append(("predicted class", each.predicted))
    generated = "generated" if each.argued == each.predicted else f"generated, for {each.argued}"
    rows.append((generated, each.sentence or "(no word)"))
    rows += [("caption of the data set", caption) for caption in each.captions]
    lines = [f"  {name}: {printable(text)}" for name, text in rows]
    return "\n".join([": ".join(map(printable, where)), *lines])


def add_commands(commands: Commands) -> None:
    """Add the command of this file."""
    command = commands.add_parser(
        "describe",
        help="the sentences that a trained GVRT writes about images",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Print the sentence that a trained GVRT writes about each image, and the class it predicts.\n\n"
        "Images are files, or some of the run's benchmark, spread over the classes; those come with their\n"
        "true class and the data set's own captions.",
        epilog="examples:\n"
        "  parse-dg describe runs/blueprints/gvrt/sketch/seed0 --count 16\n"
        "  parse-dg describe runs/blueprints/gvrt/sketch/seed0 drawing.png --as glider",
    )
    command.add_argument("run", type=Path, metavar="RUN", help="the folder of a run of gvrt")
    command.add_argument("images", type=Path, nargs="*", metavar="IMAGE", help="an image file, of any size")
    command.add_argument("--domain", metavar="DOMAIN", help="of the run's benchmark (default: the target)")
    command.add_argument("--count", type=int, metavar="N", help=f"how many images of it (default: {COUNT})")
    command.add_argument(
        "--as", dest="argued", metavar="CLASS", help="argue for this class instead of the predicted one"
    )
    add_device(command)
    command.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    command.set_defaults(command=describe)
