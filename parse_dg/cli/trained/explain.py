"""Why a model of PARSE says what it says: classes, images, primitives.

A prediction of PARSE is a sum of relations between primitives: see what it is the sum of.
Of other methods, `image` shows where in the image a score comes from.

For example:
  parse-dg explain classes RUN
  parse-dg explain image RUN drawing.png
  parse-dg explain contrast RUN sketch:12    (image 12 of the domain sketch of the run's benchmark)
"""

from argparse import Namespace
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from parse_dg.cli.options import SHARED, Console, command, opened, print_json, say
from parse_dg.config import require
from parse_dg.errors import InputError, require_known

if TYPE_CHECKING:
    from parse_dg.data.listing import Progress
    from parse_dg.deploy.image_batches import ImageLike
    from parse_dg.deploy.predictor import Predictor
    from parse_dg.explain.explanation import Reading
    from parse_dg.runs.afterwards.opened import OpenedRun

TOP = 10
IMAGES = 3
IMAGE = f"""{SHARED["RUN"]}
  image IMAGE  an image file of any size; or DOMAIN:NUMBER, an image of the run's benchmark, from 0: sketch:12"""
FORMAT = f"--format = table json\n  {SHARED['MODEL']}".format_map(SHARED)


class ExplainedImage(NamedTuple):
    """An image that is explained."""

    predictor: "Predictor"
    name: str
    image: "ImageLike"
    truth: str | None
    """Its class, where that is known."""

    @property
    def reading(self) -> "Reading":
        from parse_dg.explain.explanation import read_image

        return read_image(self.predictor, self.image)


@command("explain classes")
def classes(options: Namespace, console: Console) -> None:
    """The relations that every class is composed of, in words, the strongest first, with their weights.

    Takes:
      {RUN}
      --class NAME... -> classes  this one only; repeatable
      --top N  how many relations of each (default: {TOP}; in JSON all)
      {FORMAT}
    """
    from parse_dg.cli.show.explanations import print_classes
    from parse_dg.explain.classes import describe_classes

    run = _open(options)
    for name in options.classes:
        require_known("class", name, run.classes)
    every = describe_classes(run.predictor)
    found = [each for each in every if not options.classes or each.name in options.classes]
    if options.format == "json":
        print_json(console, {"classes": [each.to_dict(options.top) for each in found]})
    else:
        print_classes(console, found, options.top or TOP)


@command("explain image")
def image(options: Namespace, console: Console) -> None:
    """An image's score as a sum of relations; of other methods, a map.

    The relations whose contributions, weight × satisfaction, sum to a class's score, the largest first, and
    the places of the primitives that they bind. Of a method without relations: where in the image the class's
    logit comes from, as a class activation map.

    Takes:
      {IMAGE}
      --class NAME -> of  explain its score (default: the predicted one's)
      --top N  how many relations (default: {TOP}; in JSON all)
      {FORMAT}
    """
    from parse_dg.cli.show.explanations import print_explanation, print_logit
    from parse_dg.explain.logits import read_logits

    shown = _find(options, any_method=True)
    if shown.predictor.model.explains:
        found = shown.reading.explain(options.of)
        _print(options, console, shown, found, partial(print_explanation, truth=shown.truth))
        return
    reading = read_logits(shown.predictor, shown.image)
    if options.format == "json":
        print_json(console, {"image": shown.name, "truth": shown.truth, **reading.to_dict(options.of)})
    else:
        print_logit(console, shown.name, reading, options.of, options.top, shown.truth)


@command("explain contrast")
def contrast(options: Namespace, console: Console) -> None:
    """Why this class and not that one: the relations by which one scores higher or lower on an image.

    Takes:
      {IMAGE}
      --this NAME  the class to argue for (default: the predicted one)
      --that NAME  the other one (default: the best of the others)
      --top N  how many relations on each side (default: {TOP}; in JSON all)
      {FORMAT}
    """
    from parse_dg.cli.show.explanations import print_contrast
    from parse_dg.explain.contrast import contrast

    shown = _find(options)
    _print(options, console, shown, contrast(shown.reading, options.this, options.that), print_contrast)


@command("explain counterfactual")
def counterfactual(options: Namespace, console: Console) -> None:
    """Which single relation would change the prediction.

    Those each of which alone would change it if it held fully, or not at all; the smallest change first.

    Takes:
      {IMAGE}
      --top N  how many relations (default: {TOP}; in JSON all)
      {FORMAT}
    """
    from parse_dg.cli.show.explanations import print_counterfactual
    from parse_dg.explain.contrast import counterfactual

    shown = _find(options)
    _print(options, console, shown, counterfactual(shown.reading), print_counterfactual)


@command("explain primitive")
def primitive(options: Namespace, console: Console) -> None:
    """The images of each domain, of all of the run's benchmark, where a primitive is strongest.

    Takes:
      run RUN  the run's folder
      --primitive K... -> primitives  this one only, such as 3 for p3; repeatable
      --pictures FOLDER  draw these images with the heat map, a sheet a primitive
      --top N  how many images of each domain (default: {IMAGES})
      {FORMAT}
    """
    from parse_dg.cli.show.display import progress_display
    from parse_dg.cli.show.explanations import print_primitives
    from parse_dg.data.splits import whole
    from parse_dg.explain.figures.strongest import COLUMNS, prepare_folder, write_sheets
    from parse_dg.explain.primitive_images import strongest_images

    with progress_display() as progress:
        run = _open(options, progress)
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


def _open(options: Namespace, progress: "Progress | None" = None, *, any_method: bool = False) -> "OpenedRun":
    """The run, or model file, that is asked about, of PARSE unless `any_method` will do."""
    require(options.top is None or options.top >= 1, "--top", options.top, "at least 1")
    run = opened(options, progress)
    if not any_method:
        run.model.parse_network()  # or an error: no other method has relations
    return run


def _find(options: Namespace, *, any_method: bool = False) -> ExplainedImage:
    from parse_dg.cli.show.display import progress_display

    with progress_display() as progress:  # standard output has the explanation alone
        run = _open(options, progress, any_method=any_method)
        return ExplainedImage(run.predictor, *run.find_image(options.image))


def _print(
    options: Namespace, console: Console, shown: ExplainedImage, found: Any, in_words: Callable[..., None]
) -> None:
    if options.format == "json":
        print_json(console, {"image": shown.name, "truth": shown.truth, **found.to_dict(options.top)})
    else:
        in_words(console, shown.name, found, options.top or TOP)
