"""`parse-dg predict` and `parse-dg describe`: the classes of images, and by a trained GVRT images in words."""

from argparse import Namespace
from dataclasses import asdict
from typing import TYPE_CHECKING

from parse_dg.cli.options import Console, command, print_json, say
from parse_dg.errors import InputError
from parse_dg.wording import printable

if TYPE_CHECKING:
    from parse_dg.runs.afterwards.describe import Description

COUNT = 8


@command("describe")
def describe(options: Namespace, console: Console) -> None:
    """The sentences that a trained GVRT writes about images, and the classes it predicts.

    Images are files, or some of the run's benchmark, spread over the classes; those come with their
    true class and the data set's own captions.

    Takes:
      run RUN  the folder of a run of gvrt
      images FILE*  an image file, of any size
      --domain DOMAIN  of the run's benchmark (default: the target)
      --count N  how many images of it (default: {COUNT})
      --as CLASS -> argued  argue for this class instead of the predicted one
      {DEVICE}
      --format = text json

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
        say(console, "\n\n".join(map(_in_text, found)))


def _in_text(each: "Description") -> str:
    where = [] if each.domain is None else [f"{each.domain}, image {each.index}"]
    where += [] if each.file is None else [each.file]
    rows = [] if each.truth is None else [("true class", each.truth)]
    rows.append(("predicted class", each.predicted))
    generated = "generated" if each.argued == each.predicted else f"generated, for {each.argued}"
    rows.append((generated, each.sentence or "(no word)"))
    rows += [("caption of the data set", caption) for caption in each.captions]
    lines = [f"  {name}: {printable(text)}" for name, text in rows]
    return "\n".join([": ".join(map(printable, where)), *lines])


@command("predict")
def predict(options: Namespace, console: Console) -> None:
    """The classes of images, by a trained model.

    Each class with its probability. Images may be of any size; they are resized as in training and evaluation.

    An image that cannot be read is named on standard error, the others are predicted, and the exit code is
    1. Standard output has the answers alone, in the order of the images, as they come.

    Takes:
      {RUN}
      images IMAGE+  an image file, a folder (with all below it, by name), or - for a path a line on standard input
      --top K = 3  how many classes to name
      --format = table jsonl csv csv-raw  {CSV}
      --explain  add the strongest relations in words (models of PARSE)
      --pictures FOLDER  draw an explanation of each image there (models of PARSE)
      {MODEL}
      --batch N = 128  images predicted at once

    For example:
      parse-dg predict runs/blueprints/parse/sketch/seed0 drawing.png --explain
      parse-dg predict RUN photos --format csv > classes.csv
      find photos -name '*.jpg' | parse-dg predict RUN - --format jsonl
    """
    from parse_dg.cli.show.predictions import predict_images

    predict_images(options, console)
