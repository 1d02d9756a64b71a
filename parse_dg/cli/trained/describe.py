"""`parse-dg describe`: images in words, by a trained GVRT."""

from argparse import Namespace
from dataclasses import asdict
from typing import TYPE_CHECKING

from parse_dg.cli.options import Commands, Console, add_command, print_json, say
from parse_dg.errors import InputError
from parse_dg.wording import printable

if TYPE_CHECKING:
    from parse_dg.runs.afterwards.describe import Description

COUNT = 8


def describe(options: Namespace, console: Console) -> None:
    """Print the sentence that a trained GVRT writes about each image, and the class it predicts.

    Images are files, or some of the run's benchmark, spread over the classes; those come with their
    true class and the data set's own captions.

    For example:
      parse-dg describe runs/blueprints/gvrt/sketch/seed0 --count 16
      parse-dg describe runs/blueprints/gvrt/sketch/seed0 drawing.png --as glider
    """
    from parse_dg.runs.afterwards.describe import describe_domain, describe_files
    from parse_dg.runs.afterwards.opened import open_run

    if options.images and (options.domain is not None or options.count is not None):
        raise InputError("give image files, or --domain and --count for images of the run's benchmark, not both")
    run = open_run(options.run, device=options.device)
    if options.images:
        found = describe_files(run, options.images, options.argued)
    else:
        count = COUNT if options.count is None else options.count
        found = describe_domain(run, options.domain, count, options.argued)
    if options.format == "json":
        print_json(console, [asdict(each) for each in found])
    else:
        say(console, "\n\n".join(map(in_text, found)))


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
    words = "the sentences that a trained GVRT writes about images"
    command = add_command(commands, "describe", describe, words)
    command.add_run("the folder of a run of gvrt")
    command.add("images FILE", "an image file, of any size", nargs="*")
    command.add("--domain DOMAIN", "of the run's benchmark (default: the target)")
    command.add("--count N", f"how many images of it (default: {COUNT})")
    command.add("--as CLASS", "argue for this class instead of the predicted one", dest="argued")
    command.add_device()
    command.add("--format", choices=("text", "json"))
