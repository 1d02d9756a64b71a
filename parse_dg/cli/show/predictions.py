"""Predictions as they are printed: tables for people, JSON lines and CSV for programs; each as it comes.

They live here and not in `deploy`, as a prediction may be told with the relations that explain it.
"""

import csv
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from parse_dg.deploy.predictor import Prediction, Predictor
from parse_dg.explain.explanation import Relation
from parse_dg.wording import percent, plural, printable

TABLE_ROWS = 200
"""A longer table is printed in parts, each when it is full: nobody waits for the last image to see the first."""


@runtime_checkable
class Output(Protocol):
    """Standard output, or anything else that text is written to."""

    def write(self, text: str, /) -> object:
        """Take some text."""


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


def write_jsonl(answers: Iterable[PredictedImage], shown: OutputFields, out: Output) -> None:
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
            line["relations"] = [
                {
                    "words": each.words,
                    "contribution": _short(each.contribution),
                    "weight": _short(each.weight),
                    "satisfaction": _short(each.satisfaction),
                }
                for each in answer.relations
            ]
        if shown.pictures:
            line["picture"] = str(answer.picture)
        print(json.dumps(line), file=out)  # in ASCII: valid whatever the terminal's encoding and the file's name


def write_csv(answers: Iterable[PredictedImage], shown: OutputFields, out: Output) -> None:
    """A row an image, after a heading."""
    writer = csv.writer(out, lineterminator="\n")
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
        writer.writerow(row)


def write_tables(
    answers: Iterable[PredictedImage], shown: OutputFields, predictor: Predictor, console: Console
) -> None:
    """Tables of at most `TABLE_ROWS` rows, and below them what the numbers are."""
    table, some = _empty_table(shown), False
    for answer in answers:
        some = True
        table.add_row(*(Text(cell) for cell in _cells(answer, shown)))
        if table.row_count == TABLE_ROWS:
            console.print(table)
            table = _empty_table(shown)
    if table.row_count:
        console.print(table)
    if some:
        size, wider = predictor.image_size, predictor.model.spec.resize_to
        whole = f"{size} × {size}" if wider is None else f"{wider} × {wider}, of which the middle {size} × {size}"
        model = f"{predictor.model.spec.algorithm.name}, {plural(len(predictor.classes), 'class')}"
        console.print(f"probability: softmax of the model's logits ({model}; images resized to {whole})")
    if some and shown.relations:
        console.print(
            "before a relation: its contribution, weight × satisfaction, to the score of the predicted class; "
            f"the {shown.relations} largest at most"
        )


def _empty_table(shown: OutputFields) -> Table:
    table = Table()
    table.add_column("file", overflow="fold")
    table.add_column("predicted class", overflow="fold")
    table.add_column("probability", justify="right")
    if shown.classes > 1:
        table.add_column("next classes", overflow="fold")
    if shown.relations:
        table.add_column("strongest relations", overflow="fold")
    if shown.pictures:
        table.add_column("picture", overflow="fold")
    return table


def _cells(answer: PredictedImage, shown: OutputFields) -> Iterator[str]:
    prediction = answer.prediction
    yield printable(answer.file)
    yield printable(prediction.predicted)
    yield percent(prediction.probability)
    if shown.classes > 1:
        yield ", ".join(f"{printable(name)} {percent(p)}" for name, p in prediction.top[1:])
    if shown.relations:
        yield "\n".join(f"{each.contribution:.3f} {each.words}" for each in answer.relations)
    if shown.pictures:
        yield printable(str(answer.picture))


def _short(value: float) -> float:
    """Six digits: what a float32 is good for."""
    return float(f"{value:.6g}")
