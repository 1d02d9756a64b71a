"""Predictions as they are printed: tables for people, JSON lines and CSV for programs; each as it comes.

They live here and not in `deploy`, as a prediction may be told with the relations that explain it.
"""

import csv
import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from parse_dg.deploy.predictor import Prediction, Predictor
from parse_dg.explain.explanation import Relation
from parse_dg.wording import percent, plural, printable

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


def write_csv(answers: Iterable[PredictedImage], shown: OutputFields) -> None:
    """A row an image, after a heading."""
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
        writer.writerow(row)


def write_tables(
    answers: Iterable[PredictedImage], shown: OutputFields, predictor: Predictor, console: Console
) -> None:
    """Tables of at most `TABLE_ROWS` rows, and below them what the numbers are."""
    rows, some = (_cells(answer, shown) for answer in answers), False
    while part := list(islice(rows, TABLE_ROWS)):
        some, table = True, Table()
        for heading in part[0]:
            table.add_column(heading, justify="right" if heading == "probability" else "left", overflow="fold")
        for cells in part:
            table.add_row(*map(Text, cells.values()))
        console.print(table)
    if some:
        size = predictor.image_size
        model = f"{predictor.model.spec.algorithm.name}, {plural(len(predictor.classes), 'class')}"
        console.print(f"probability: softmax of the model's logits ({model}; images resized to {size} × {size})")
    if some and shown.relations:
        console.print(
            "before a relation: its contribution, weight × satisfaction, to the score of the predicted class; "
            f"the {shown.relations} largest at most"
        )


def _cells(answer: PredictedImage, shown: OutputFields) -> dict[str, str]:
    """By their headings."""
    first, *others = answer.prediction.top
    cells = {"file": printable(answer.file), "predicted class": printable(first.name)}
    cells["probability"] = percent(first.probability)
    if shown.classes > 1:
        cells["next classes"] = ", ".join(f"{printable(name)} {percent(p)}" for name, p in others)
    if shown.relations:
        cells["strongest relations"] = "\n".join(f"{r.contribution:.3f} {r.words}" for r in answer.relations)
    if shown.pictures:
        cells["picture"] = printable(str(answer.picture))
    return cells


def _short(value: float) -> float:
    """Six digits: what a float32 is good for."""
    return float(f"{value:.6g}")
