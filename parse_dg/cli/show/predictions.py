"""Predictions as they are printed: tables for people, JSON lines and CSV for programs; each as it comes.

They live here and not in `deploy`, as a prediction may be told with the relations that explain it. Standard output
has the answers alone.
"""

import csv
import json
import os
import re
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from parse_dg.cli.options import opened, say
from parse_dg.cli.show.tables import print_rows
from parse_dg.config import require
from parse_dg.data.images import ImageError, open_file
from parse_dg.deploy.image_batches import LoadedImage, find_images, load_batches
from parse_dg.deploy.model_file import Model
from parse_dg.deploy.predictor import Prediction, Predictor
from parse_dg.errors import InputError
from parse_dg.explain.explanation import Relation, explain
from parse_dg.explain.figures.explanation import explanation_figure
from parse_dg.explain.figures.strongest import prepare_folder
from parse_dg.tables.text_table import spreadsheet_cell
from parse_dg.wording import percent, plural, printable

RELATIONS = 5
"""How many of an image's relations are said."""
PICTURE = 768
"""The longer side, in pixels, of an image in its picture."""
EXIT_UNREADABLE = 1
TABLE_ROWS = 200
"""A longer table is printed in parts, each when it is full: nobody waits for the last image to see the first."""


class PredictedImage(NamedTuple):
    """What is said of one image."""

    prediction: Prediction
    relations: tuple[Relation, ...] = ()
    """The strongest, where they were asked for."""
    picture: Path | None = None
    """Where its explanation was drawn, if it was."""

    @property
    def file(self) -> str:
        """The image's path as it was given, or found."""
        return str(self.prediction.file)


@dataclass(frozen=True, kw_only=True)
class OutputFields:
    """What is told of every image besides its class."""

    classes: int
    """How many classes are named, the predicted one among them."""
    relations: int = 0
    """How many relations are named at most; 0: none, and no word of them."""
    pictures: bool = False
    """Whether it is told where the explanation was drawn."""


class Tally:
    """Counts the images, and says of every one that cannot be read why."""

    def __init__(self) -> None:
        self.predicted = self.unreadable = 0

    def refuse(self, error: ImageError) -> None:
        """Told of every image that cannot be read."""
        self.unreadable += 1
        print(f"parse-dg: {error}", file=sys.stderr)


def predict_images(options: Namespace, console: Console) -> None:
    """`parse-dg predict`, as its options have it."""
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


def _write(options: Namespace, predictor: Predictor, tally: Tally, console: Console) -> None:
    """Predict and print image after image."""
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
            case "csv" | "csv-raw":
                write_csv(answers, shown, raw=options.format == "csv-raw")
            case _:
                write_tables(answers, shown, predictor, console)


def _answers(options: Namespace, predictor: Predictor, tally: Tally) -> Iterator[PredictedImage]:
    framing = predictor.model.spec.framing
    for batch in load_batches(_files(options.images, tally), framing, options.batch, tally.refuse):
        for image, prediction in zip(batch, predictor.predict_batch(batch, options.top), strict=True):
            if options.explain or options.pictures:
                yield _explained(predictor.model, image, prediction, options)
            else:
                yield PredictedImage(prediction)
            tally.predicted += 1
        sys.stdout.flush()


def _files(given: Iterable[str], tally: Tally) -> Iterator[Path]:
    """The files given and those of folders given; for `-` those of standard input, whatever bytes a name has."""
    for path in given:
        if path != "-":
            yield from find_images(Path(path), tally.refuse)
            continue
        for line in sys.stdin.buffer:
            if name := line.rstrip(b"\r\n"):
                yield Path(os.fsdecode(name))


def _explained(model: Model, image: LoadedImage, prediction: Prediction, options: Namespace) -> PredictedImage:
    explanation = explain(model, image.pixels, prediction.predicted)
    picture = None
    if options.pictures:
        stem = re.sub(r"[^\w.-]+", "_", Path(str(image.file)).stem, flags=re.ASCII)[:80]
        picture = options.pictures / f"{image.position + 1:06d}-{stem}.png"
        drawn = model.spec.framing.picture(open_file(Path(str(image.file))), PICTURE)
        explanation_figure(drawn, explanation, picture)
    strongest = tuple(r for r in explanation.relations[:RELATIONS] if r.contribution > 0)
    return PredictedImage(prediction, strongest if options.explain else (), picture)


def _prepare_pictures(folder: Path, images: Iterable[str]) -> None:
    """Raise before any image is read if pictures cannot be drawn, or have no place."""
    for each in images:
        if Path(each).is_dir() and folder.resolve().is_relative_to(Path(each).resolve()):
            raise InputError(f"--pictures {folder} lies in {each}, where images are looked for: choose another")
    prepare_folder(folder)
    if not os.access(folder, os.W_OK):
        raise InputError(f"cannot write pictures to {folder}: expected a folder that can be written")


def _counter(console: Console) -> Progress:
    """A count on standard error, unless the answers themselves are seen there."""
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


def write_jsonl(answers: Iterable[PredictedImage], shown: OutputFields) -> None:
    """An object a line."""
    for answer in answers:
        prediction = answer.prediction
        line: dict[str, Any] = {
            "file": answer.file,
            "predicted": prediction.predicted,
            "probability": _short(prediction.probability),
            "top": [{"name": name, "probability": _short(p)} for name, p in prediction.top],
        }
        if shown.relations:
            numbers = ("contribution", "weight", "satisfaction")
            line["relations"] = [
                {"words": each.words} | {name: _short(getattr(each, name)) for name in numbers}
                for each in answer.relations
            ]
        if shown.pictures:
            line["picture"] = str(answer.picture)
        print(json.dumps(line))  # in ASCII: valid whatever the terminal's encoding and the file's name


def write_csv(answers: Iterable[PredictedImage], shown: OutputFields, *, raw: bool) -> None:
    """A row an image, after a heading; unless it is to be `raw`, no cell is a formula."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    heading = ["file", "predicted", "probability"]
    heading += [name for rank in range(2, shown.classes + 1) for name in (f"name_{rank}", f"probability_{rank}")]
    heading += ["relations"] * bool(shown.relations) + ["picture"] * shown.pictures
    writer.writerow(heading)
    for answer in answers:
        row = [answer.file, *(cell for name, p in answer.prediction.top for cell in (name, _short(p)))]
        if shown.relations:
            row.append("; ".join(f"{each.words} ({_short(each.contribution)})" for each in answer.relations))
        if shown.pictures:
            row.append(str(answer.picture))
        writer.writerow(row if raw else map(spreadsheet_cell, row))


def write_tables(
    answers: Iterable[PredictedImage], shown: OutputFields, predictor: Predictor, console: Console
) -> None:
    """Tables of at most `TABLE_ROWS` rows, or image after image with its reasons; then what the numbers are."""
    some = False
    if shown.relations or shown.pictures:
        for answer in answers:
            some = True
            say(console, *_block(answer, shown))
    else:
        rows = (_cells(answer, shown) for answer in answers)
        while part := list(islice(rows, TABLE_ROWS)):
            some = True
            print_rows(console, tuple(part[0]), [tuple(cells.values()) for cells in part], names=2)
    if some:
        spec = predictor.model.spec
        model = f"{spec.algorithm.name}, {plural(len(spec.classes), 'class')}; images {spec.framing.words}"
        say(console, f"probability: softmax of the model's logits ({model})")
    if some and shown.relations:
        say(
            console,
            "before a relation: its contribution, weight × satisfaction, to the score of the predicted class; "
            f"the {shown.relations} largest at most",
        )


def _block(answer: PredictedImage, shown: OutputFields) -> Iterator[str]:
    """What is said of one image, line by line."""
    file, first, probability, *others = _cells(answer, shown).values()
    yield f"{file}: {first} {probability}" + (f", then {others[0]}" if others and others[0] else "")
    yield from (f"  {each.contribution:.3f} {printable(each.words)}" for each in answer.relations)
    if shown.pictures:
        yield f"  picture: {printable(str(answer.picture))}"


def _cells(answer: PredictedImage, shown: OutputFields) -> dict[str, str]:
    """By their headings."""
    first, *others = answer.prediction.top
    cells = {"file": printable(answer.file), "predicted class": printable(first.name)}
    cells["probability"] = percent(first.probability)
    if shown.classes > 1:
        cells["next classes"] = ", ".join(f"{printable(name)} {percent(p)}" for name, p in others)
    return cells


def _short(value: float) -> float:
    """Six digits: what a float32 is good for."""
    return float(f"{value:.6g}")
