"""`parse-dg predict`: the classes of images, by a trained model of any method."""

import os
import re
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from parse_dg.cli.options import Commands, Console, add_command, opened
from parse_dg.config import require
from parse_dg.errors import InputError
from parse_dg.wording import plural

if TYPE_CHECKING:
    from rich.progress import Progress

    from parse_dg.cli.show.predictions import PredictedImage
    from parse_dg.data.images import ImageError
    from parse_dg.deploy.image_batches import LoadedImage
    from parse_dg.deploy.model_file import Model
    from parse_dg.deploy.predictor import Prediction, Predictor

RELATIONS = 5
"""How many of an image's relations are said."""
EXIT_UNREADABLE = 1


class Tally:
    """Counts the images, and says of every one that cannot be read why."""

    def __init__(self) -> None:
        self.predicted = self.unreadable = 0

    def refuse(self, error: "ImageError") -> None:
        """Told of every image that cannot be read."""
        self.unreadable += 1
        print(f"parse-dg: {error}", file=sys.stderr)


def predict(options: Namespace, console: Console) -> None:
    """Print the class that a trained model gives each image, with its probability. Images may be
    of any size; they are resized as in training and evaluation.

    An image that cannot be read is named on standard error, the others are predicted, and the exit code is
    1. Standard output has the answers alone, in the order of the images, as they come.

    For example:
      parse-dg predict runs/blueprints/parse/sketch/seed0 drawing.png --explain
      parse-dg predict RUN photos --format csv > classes.csv
      find photos -name '*.jpg' | parse-dg predict RUN - --format jsonl
    """
    require(options.top >= 1, "--top", options.top, "at least 1")
    require(options.batch >= 1, "--batch", options.batch, "at least 1")
    predictor = opened(options).predictor
    if options.explain or options.pictures:
        predictor.model.parse_network()  # or an error: no other method can be explained
    if options.pictures:
        _prepare_pictures(options.pictures, options.images)
    tally = Tally()
    try:
        _write(options, predictor, tally, console)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever reads has seen enough; what Python would still flush goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    if tally.unreadable:
        told = f"{plural(tally.predicted, 'image')} predicted, {tally.unreadable:,} could not be read"
        print(f"parse-dg: {told}", file=sys.stderr)
        raise SystemExit(EXIT_UNREADABLE)
    if not tally.predicted:
        raise InputError("no image was given: expected files, folders, or - and a path a line on standard input")


def _write(options: Namespace, predictor: "Predictor", tally: Tally, console: Console) -> None:
    """Predict and print image after image."""
    from parse_dg.cli.show.predictions import OutputFields, write_csv, write_jsonl, write_tables

    shown = OutputFields(
        classes=min(options.top, len(predictor.classes)),
        relations=RELATIONS if options.explain else 0,
        pictures=options.pictures is not None,
    )
    with _counter(console) as bar:
        answers = bar.track(_answers(options, predictor, tally))
        match options.format:
            case "jsonl":
                write_jsonl(answers, shown)
            case "csv":
                write_csv(answers, shown)
            case _:
                write_tables(answers, shown, predictor, console)


def _answers(options: Namespace, predictor: "Predictor", tally: Tally) -> Iterator["PredictedImage"]:
    from parse_dg.cli.show.predictions import PredictedImage
    from parse_dg.deploy.image_batches import load_batches

    images = _files(options.images, tally)
    for batch in load_batches(
        images, predictor.image_size, options.batch, tally.refuse, predictor.model.spec.resize_to
    ):
        for image, prediction in zip(batch, predictor.predict_batch(batch, options.top), strict=True):
            if options.explain or options.pictures:
                yield _explained(predictor.model, image, prediction, options)
            else:
                yield PredictedImage(prediction)
            tally.predicted += 1
        sys.stdout.flush()


def _files(given: Iterable[str], tally: Tally) -> Iterator[Path]:
    """The files given and those of folders given; for `-` those of standard input, whatever bytes a name has."""
    from parse_dg.deploy.image_batches import find_images

    for path in given:
        if path != "-":
            yield from find_images(Path(path), tally.refuse)
            continue
        for line in sys.stdin.buffer:
            if name := line.rstrip(b"\r\n"):
                yield Path(os.fsdecode(name))


def _explained(
    model: "Model", image: "LoadedImage", prediction: "Prediction", options: Namespace
) -> "PredictedImage":
    import torch

    from parse_dg.cli.show.predictions import PredictedImage
    from parse_dg.explain.explanation import explain
    from parse_dg.explain.figures.explanation import explanation_figure

    explanation = explain(model, image.pixels, prediction.predicted)
    picture = None
    if options.pictures:
        stem = re.sub(r"[^\w.-]+", "_", Path(str(image.file)).stem, flags=re.ASCII)[:80]
        picture = options.pictures / f"{image.position + 1:06d}-{stem}.png"
        writing = picture.with_name(f"{picture.stem}.writing.png")
        explanation_figure(torch.from_numpy(image.pixels).permute(2, 0, 1), explanation, writing)
        writing.replace(picture)
    strongest = tuple(r for r in explanation.relations[:RELATIONS] if r.contribution > 0)
    return PredictedImage(prediction, strongest if options.explain else (), picture)


def _prepare_pictures(folder: Path, images: Iterable[str]) -> None:
    """Raise before any image is read if pictures cannot be drawn, or have no place."""
    from parse_dg.explain.figures.strongest import prepare_folder

    for each in images:
        if Path(each).is_dir() and folder.resolve().is_relative_to(Path(each).resolve()):
            raise InputError(f"--pictures {folder} lies in {each}, where images are looked for: choose another")
    prepare_folder(folder)
    if not os.access(folder, os.W_OK):
        raise InputError(f"cannot write pictures to {folder}: expected a folder that can be written")


def _counter(console: Console) -> "Progress":
    """A count on standard error, unless the answers themselves are seen there."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    messages = Console(stderr=True)
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.completed:,.0f} images predicted"),
        TimeElapsedColumn(),
        console=messages,
        transient=True,
        redirect_stdout=False,  # else what is printed would go to standard error, too
        disable=console.is_terminal or not messages.is_terminal,
    )


def add_commands(commands: Commands) -> None:
    """Add the command of this file."""
    command = add_command(commands, "predict", predict, "the classes of images, by a trained model")
    command.add_run()
    words = "an image file, a folder (with all below it, by name), or - for a path a line on standard input"
    command.add("images IMAGE", words, nargs="+")
    command.add("--top K", "how many classes to name", 3)
    command.add("--format", choices=("table", "jsonl", "csv"))
    command.add("--explain", "add the strongest relations in words (models of PARSE)")
    command.add("--pictures FOLDER", "draw an explanation of each image there (models of PARSE)")
    command.add_model()
    command.add("--batch N", "images predicted at once", 128)
