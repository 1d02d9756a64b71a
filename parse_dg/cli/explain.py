"""`parse-dg explain`: why a model says what it says, in words and numbers."""

import argparse
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from parse_dg.cli.options import Commands, add_model, opened
from parse_dg.config import require
from parse_dg.errors import InputError, unknown

if TYPE_CHECKING:
    from rich.console import Console

    from parse_dg.data.listing import Progress
    from parse_dg.deploy.image_batches import ImageLike
    from parse_dg.explain.explanation import Reading
    from parse_dg.runs.opened import OpenedRun

TOP = 10
"""How many relations a table lists."""
IMAGES = 3
"""How many images of each domain are listed for a primitive."""
NUMBERED = re.compile(r"(.+):(\d{1,9})")
"""An image of the run's benchmark: `sketch:12`."""


class ExplainedImage(NamedTuple):
    """An image that is explained."""

    name: str
    truth: str | None
    """Its class, where that is known."""
    reading: "Reading"


def classes(options: argparse.Namespace, console: "Console") -> None:
    """`parse-dg explain classes`."""
    from parse_dg.cli.show.explanations import print_classes
    from parse_dg.explain.classes import describe_classes

    run = open_parse_run(options)
    for name in options.classes:
        if name not in run.classes:
            raise unknown("class", name, run.classes)
    found = [
        each for each in describe_classes(run.predictor) if not options.classes or each.name in options.classes
    ]
    if options.format == "json":
        print_json(console, {"classes": [each.to_dict(options.top) for each in found]})
    else:
        print_classes(console, found, options.top or TOP)


def image(options: argparse.Namespace, console: "Console") -> None:
    """`parse-dg explain image`."""
    from parse_dg.cli.show.explanations import print_explanation

    shown = read_shown(options)
    explanation = shown.reading.explain(options.of)
    if options.format == "json":
        print_json(console, {**named(shown), **explanation.to_dict(options.top)})
    else:
        print_explanation(console, shown.name, explanation, options.top or TOP, shown.truth)


def contrast(options: argparse.Namespace, console: "Console") -> None:
    """`parse-dg explain contrast`."""
    from parse_dg.cli.show.explanations import print_contrast
    from parse_dg.explain.contrast import contrast

    shown = read_shown(options)
    found = contrast(shown.reading, options.this, options.that)
    if options.format == "json":
        print_json(console, {**named(shown), **found.to_dict(options.top)})
    else:
        print_contrast(console, shown.name, found, options.top or TOP)


def counterfactual(options: argparse.Namespace, console: "Console") -> None:
    """`parse-dg explain counterfactual`."""
    from parse_dg.cli.show.explanations import print_counterfactual
    from parse_dg.explain.contrast import counterfactual

    shown = read_shown(options)
    found = counterfactual(shown.reading)
    if options.format == "json":
        print_json(console, {**named(shown), **found.to_dict(options.top)})
    else:
        print_counterfactual(console, shown.name, found, options.top or TOP)


def primitive(options: argparse.Namespace, console: "Console") -> None:
    """`parse-dg explain primitive`."""
    from rich.console import Console

    from parse_dg.cli.show.display import print_path, progress_display
    from parse_dg.cli.show.explanations import print_primitives
    from parse_dg.data.splits import whole
    from parse_dg.explain.figures.strongest import COLUMNS, prepare_folder, write_sheets
    from parse_dg.explain.primitive_images import strongest_images

    with progress_display(Console(stderr=True)) as progress:
        run = open_parse_run(options, progress)
        count = run.model.parse_network().structure.vocabulary.primitives
        for k in options.primitives:
            if not 0 <= k < count:
                raise InputError(f"unknown primitive {k}: valid are 0 to {count - 1}")
        if options.pictures:
            require((options.top or IMAGES) <= COLUMNS, "--top", options.top, f"at most {COLUMNS} with --pictures")
            prepare_folder(options.pictures)
        subsets = map(whole, run.benchmark.domains)
        everything = strongest_images(run.predictor, subsets, options.top or IMAGES, progress)
    found = [each for each in everything if not options.primitives or each.primitive in options.primitives]
    if options.format == "json":
        print_json(console, {"classes": run.benchmark.classes, "primitives": [each.to_dict() for each in found]})
    else:
        print_primitives(console, found, run.benchmark.classes)
    if options.pictures:
        write_sheets(run.model, found, run.benchmark, options.pictures)
    if options.pictures and options.format == "table":
        print_path(console, "pictures:", options.pictures)


def open_parse_run(options: argparse.Namespace, progress: "Progress | None" = None) -> "OpenedRun":
    """The run, or model file, that is asked about, of PARSE."""
    require(options.top is None or options.top >= 1, "--top", options.top, "at least 1")
    run = opened(options, progress)
    run.model.parse_network()  # or an error: no other method can be explained
    return run


def read_shown(options: argparse.Namespace) -> ExplainedImage:
    """The image that is asked about, as the model reads it."""
    from rich.console import Console

    from parse_dg.cli.show.display import progress_display
    from parse_dg.explain.explanation import read_image

    given = NUMBERED.fullmatch(options.image)
    with progress_display(Console(stderr=True)) as progress:  # standard output has the explanation alone
        run = open_parse_run(options, progress)
        if Path(options.image).exists() or given is None:
            return ExplainedImage(options.image, None, read_image(run.predictor, options.image))
        domain, number = run.benchmark.domain(given[1]), int(given[2])
    if number >= len(domain.labels):
        raise InputError(f"{domain.name} has no image {number}: valid are 0 to {len(domain.labels) - 1}")
    pixels: ImageLike = domain.images[number]
    truth = run.benchmark.classes[domain.labels[number]]
    return ExplainedImage(options.image, truth, read_image(run.predictor, pixels))


def named(shown: ExplainedImage) -> dict[str, Any]:
    """What image it is, as JSON data."""
    return {"image": shown.name, "truth": shown.truth}


def print_json(console: "Console", data: dict[str, Any]) -> None:
    """In ASCII: valid whatever the terminal's encoding and the file's name."""
    console.out(json.dumps(data, indent=2, allow_nan=False), highlight=False)


def add_commands(commands: Commands) -> None:
    """Add the commands of this file."""
    group = commands.add_parser(
        "explain",
        help="why a model of PARSE says what it says: classes, images, primitives",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="A prediction of PARSE is a sum of relations between primitives: see what it is the sum of.",
        epilog="examples:\n"
        "  parse-dg explain classes RUN\n"
        "  parse-dg explain image RUN drawing.png\n"
        "  parse-dg explain contrast RUN sketch:12    (image 12 of the domain sketch of the run's benchmark)",
    )
    hint = "`parse-dg explain COMMAND --help` explains each"
    verbs = group.add_subparsers(title="commands", required=True, metavar="COMMAND", help=hint)
    _add_classes(verbs)
    _add_image(verbs)
    _add_contrast(verbs)
    _add_counterfactual(verbs)
    _add_primitive(verbs)


def _add_classes(verbs: Commands) -> None:
    command = verbs.add_parser(
        "classes",
        help="what every class is composed of, in words",
        description="List the relations that a class is composed of, the strongest first, with their weights.",
    )
    _add_run(command)
    command.add_argument(
        "--class", dest="classes", action="append", default=[], metavar="NAME", help="this one only; repeatable"
    )
    _add_common(command, f"how many relations of each (default: {TOP}; in JSON all)")
    command.set_defaults(command=classes)


def _add_image(verbs: Commands) -> None:
    command = verbs.add_parser(
        "image",
        help="the score of an image as a sum of relations",
        description="List the relations whose contributions, weight × satisfaction, sum to a class's score, the "
        "largest first, and the places of the primitives that they bind.",
    )
    _add_run(command)
    _add_of_image(command)
    command.add_argument(
        "--class", dest="of", metavar="NAME", help="explain its score (default: the predicted one's)"
    )
    _add_common(command, f"how many relations (default: {TOP}; in JSON all)")
    command.set_defaults(command=image)


def _add_contrast(verbs: Commands) -> None:
    command = verbs.add_parser(
        "contrast",
        help="why this class and not that one",
        description="List the relations by which one class scores higher or lower on an image than another.",
    )
    _add_run(command)
    _add_of_image(command)
    command.add_argument("--this", metavar="NAME", help="the class to argue for (default: the predicted one)")
    command.add_argument("--that", metavar="NAME", help="the other one (default: the best of the others)")
    _add_common(command, f"how many relations on each side (default: {TOP}; in JSON all)")
    command.set_defaults(command=contrast)


def _add_counterfactual(verbs: Commands) -> None:
    command = verbs.add_parser(
        "counterfactual",
        help="which single relation would change the prediction",
        description="List the relations each of which alone would change the prediction if it held fully, or not "
        "at all; the smallest change first.",
    )
    _add_run(command)
    _add_of_image(command)
    _add_common(command, f"how many relations (default: {TOP}; in JSON all)")
    command.set_defaults(command=counterfactual)


def _add_primitive(verbs: Commands) -> None:
    command = verbs.add_parser(
        "primitive",
        help="the images of each domain where a primitive is strongest",
        description="Look through all images of the run's benchmark, and list those of each domain where a "
        "primitive's presence is largest.",
    )
    _add_run(command, "the run's folder")
    command.add_argument(
        "--primitive",
        dest="primitives",
        type=int,
        action="append",
        default=[],
        metavar="K",
        help="this one only, such as 3 for p3; repeatable",
    )
    command.add_argument(
        "--pictures", type=Path, metavar="FOLDER", help="draw these images with the heat map, a sheet a primitive"
    )
    _add_common(command, f"how many images of each domain (default: {IMAGES})")
    command.set_defaults(command=primitive)


def _add_run(command: argparse.ArgumentParser, what: str = "the run's folder, or a model file") -> None:
    command.add_argument("run", type=Path, metavar="RUN", help=what)


def _add_of_image(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "image",
        metavar="IMAGE",
        help="an image file of any size; or DOMAIN:NUMBER, an image of the run's benchmark, from 0: sketch:12",
    )


def _add_common(command: argparse.ArgumentParser, top: str) -> None:
    """What all of them take."""
    command.add_argument("--top", type=int, metavar="N", help=top)
    command.add_argument("--format", choices=("table", "json"), default="table", help="default: table")
    add_model(command)
