"""`parse-dg explain`: why a model says what it says, in words and numbers."""

from argparse import Namespace
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from parse_dg.cli.options import Command, Commands, Console, add_command, add_group, opened, print_json, say
from parse_dg.config import require
from parse_dg.errors import InputError, unknown

if TYPE_CHECKING:
    from parse_dg.data.listing import Progress
    from parse_dg.deploy.image_batches import ImageLike
    from parse_dg.deploy.predictor import Predictor
    from parse_dg.explain.explanation import Reading
    from parse_dg.runs.afterwards.opened import OpenedRun

TOP = 10
"""How many relations a table lists."""
IMAGES = 3
"""How many images of each domain are listed for a primitive."""


class ExplainedImage(NamedTuple):
    """An image that is explained."""

    predictor: "Predictor"
    name: str
    image: "ImageLike"
    truth: str | None
    """Its class, where that is known."""

    @property
    def reading(self) -> "Reading":
        """As a model of PARSE reads it."""
        from parse_dg.explain.explanation import read_image

        return read_image(self.predictor, self.image)


def classes(options: Namespace, console: Console) -> None:
    """List the relations that a class is composed of, the strongest first, with their weights."""
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


def image(options: Namespace, console: Console) -> None:
    """List the relations whose contributions, weight × satisfaction, sum to a class's score, the largest
    first, and the places of the primitives that they bind. Of a method without relations: where in the image the
    class's logit comes from, as a class activation map.
    """
    from parse_dg.cli.show.explanations import print_explanation, print_logit
    from parse_dg.explain.logits import read_logits

    shown = find_shown(options, any_method=True)
    if shown.predictor.model.explains:
        found = shown.reading.explain(options.of)
        _print(options, console, shown, found, partial(print_explanation, truth=shown.truth))
        return
    reading = read_logits(shown.predictor, shown.image)
    if options.format == "json":
        print_json(console, {"image": shown.name, "truth": shown.truth, **reading.to_dict(options.of)})
    else:
        print_logit(console, shown.name, reading, options.of, options.top, shown.truth)


def contrast(options: Namespace, console: Console) -> None:
    """List the relations by which one class scores higher or lower on an image than another."""
    from parse_dg.cli.show.explanations import print_contrast
    from parse_dg.explain.contrast import contrast

    shown = find_shown(options)
    _print(options, console, shown, contrast(shown.reading, options.this, options.that), print_contrast)


def counterfactual(options: Namespace, console: Console) -> None:
    """List the relations each of which alone would change the prediction if it held fully, or not at all;
    the smallest change first.
    """
    from parse_dg.cli.show.explanations import print_counterfactual
    from parse_dg.explain.contrast import counterfactual

    shown = find_shown(options)
    _print(options, console, shown, counterfactual(shown.reading), print_counterfactual)


def _print(
    options: Namespace, console: Console, shown: ExplainedImage, found: Any, in_words: Callable[..., None]
) -> None:
    if options.format == "json":
        print_json(console, {"image": shown.name, "truth": shown.truth, **found.to_dict(options.top)})
    else:
        in_words(console, shown.name, found, options.top or TOP)


def primitive(options: Namespace, console: Console) -> None:
    """Look through all images of the run's benchmark, and list those of each domain where a primitive's
    presence is largest.
    """
    from parse_dg.cli.show.display import progress_display
    from parse_dg.cli.show.explanations import print_primitives
    from parse_dg.data.splits import whole
    from parse_dg.explain.figures.strongest import COLUMNS, prepare_folder, write_sheets
    from parse_dg.explain.primitive_images import strongest_images

    with progress_display() as progress:
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
        print_primitives(console, found, run.benchmark.classes, run.model.names)
    if options.pictures:
        write_sheets(run.model, found, run.benchmark, options.pictures)
    if options.pictures and options.format == "table":
        say(console, f"pictures: {options.pictures}")


def open_parse_run(
    options: Namespace, progress: "Progress | None" = None, *, any_method: bool = False
) -> "OpenedRun":
    """The run, or model file, that is asked about, of PARSE unless `any_method` will do."""
    require(options.top is None or options.top >= 1, "--top", options.top, "at least 1")
    run = opened(options, progress)
    if not any_method:
        run.model.parse_network()  # or an error: no other method has relations
    return run


def find_shown(options: Namespace, *, any_method: bool = False) -> ExplainedImage:
    """The image and the model that are asked about; a model of PARSE unless `any_method` will do."""
    from parse_dg.cli.show.display import progress_display

    with progress_display() as progress:  # standard output has the explanation alone
        run = open_parse_run(options, progress, any_method=any_method)
        return ExplainedImage(run.predictor, *run.find_image(options.image))


def add_commands(commands: Commands) -> None:
    """Add the commands of this file."""
    verbs = add_group(
        commands,
        "explain",
        "why a model of PARSE says what it says: classes, images, primitives",
        "A prediction of PARSE is a sum of relations between primitives: see what it is the sum of.\n"
        "Of other methods, `image` shows where in the image a score comes from.",
        "for example:\n  parse-dg explain classes RUN\n  parse-dg explain image RUN drawing.png\n"
        "  parse-dg explain contrast RUN sketch:12    (image 12 of the domain sketch of the run's benchmark)",
    )
    relations = f"how many relations (default: {TOP}; in JSON all)"
    command = add_command(verbs, "classes", classes, "what every class is composed of, in words")
    command.add_run()
    command.add("--class NAME", "this one only", dest="classes", many=True)
    _add_common(command, f"how many relations of each (default: {TOP}; in JSON all)")
    command = add_command(verbs, "image", image, "an image's score as a sum of relations; of other methods, a map")
    _add_image(command)
    command.add("--class NAME", "explain its score (default: the predicted one's)", dest="of")
    _add_common(command, relations)
    command = add_command(verbs, "contrast", contrast, "why this class and not that one")
    _add_image(command)
    command.add("--this NAME", "the class to argue for (default: the predicted one)")
    command.add("--that NAME", "the other one (default: the best of the others)")
    _add_common(command, f"how many relations on each side (default: {TOP}; in JSON all)")
    words = "which single relation would change the prediction"
    command = add_command(verbs, "counterfactual", counterfactual, words)
    _add_image(command)
    _add_common(command, relations)
    words = "the images of each domain where a primitive is strongest"
    command = add_command(verbs, "primitive", primitive, words)
    command.add_run("the run's folder")
    words = "this one only, such as 3 for p3"
    command.add("--primitive K", words, dest="primitives", type=int, many=True)
    command.add("--pictures FOLDER", "draw these images with the heat map, a sheet a primitive")
    _add_common(command, f"how many images of each domain (default: {IMAGES})")


def _add_image(command: Command) -> None:
    command.add_run()
    words = "an image file of any size; or DOMAIN:NUMBER, an image of the run's benchmark, from 0: sketch:12"
    command.add("image IMAGE", words)


def _add_common(command: Command, top: str) -> None:
    command.add("--top N", top)
    command.add("--format", choices=("table", "json"))
    command.add_model()
