"""What the report of a run says, as data, and as one HTML file, which needs no other and no network."""

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Int
from markupsafe import Markup

from parse_dg.deploy.names import called
from parse_dg.explain import viewer
from parse_dg.explain.classes import ClassCard, ClassComposition
from parse_dg.explain.faces import PrimitiveFaces, known_primitives
from parse_dg.explain.report.curve import Curve, charts
from parse_dg.files import attempting, require_writable, write_file
from parse_dg.model.predicate import FAMILIES
from parse_dg.tables.text_table import TextTable, page_template
from parse_dg.wording import percent, plural

SCRIPTS = (*viewer.SCRIPTS, "report.js")
STYLES = (*viewer.STYLES, "report.css")
POLICY = (
    "default-src 'none'; script-src '{script}'; style-src '{style}'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)
"""What a browser lets the page do: run this very script, use this very style, show images that are in it."""
SECTIONS = {
    "summary": "Summary",
    "images": "Right and wrong, and why",
    "accuracy": "Accuracy by domain",
    "classes": "What each class is made of",
    "training": "Training",
    "compaction": "Compaction",
    "repeat": "How to repeat it",
}
"""By their names in addresses."""
OPEN_CLASSES = 12
"""With more classes than this their compositions are folded."""
MATRIX_CLASSES = 30
"""With more classes than this a matrix is not readable: the most frequent confusions are listed instead."""
CONFUSIONS = 40
"""How many of them."""
LEVELS = 10
"""Of the shading."""


Role = Literal["result", "target", "source"]
"""The result of the run is of these images, or they are others of the target domain, or of a source domain."""


@dataclass(frozen=True, eq=False)
class DomainScore:
    """How many images of one domain a model gets right, and what it takes the others for."""

    domain: str
    images: str
    """Which images of the domain, in words."""
    role: Role
    correct: int
    total: int
    confusion: Int[np.ndarray, "C C"] | None = None
    """How many images of class (row) were predicted to be of class (column); None where it was not looked."""


@dataclass(frozen=True, kw_only=True)
class Gallery:
    """Some images of a kind, to be looked at one by one."""

    title: str
    words: str
    """Which images these are, and how they were chosen."""
    cases: tuple[dict[str, Any], ...]
    """As in `explain/viewer_data.py`."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Report:
    """All that is said of a run. The same run gives the same report: no date, no path of the machine."""

    title: str
    accuracy: float
    """The result of the run; `headline` says what that number is."""
    headline: str
    facts: tuple[tuple[str, str], ...]
    """Name and value of what one asks first."""
    rules: tuple[str, ...]
    """How the run was scored, a sentence each."""
    notes: tuple[str, ...]
    """What was left out and why, and what else a reader has to know, a sentence each."""
    classes: tuple[str, ...]
    scores: tuple[DomainScore, ...]
    """The target first."""
    galleries: tuple[Gallery, ...]
    compositions: tuple[ClassComposition, ...]
    """Empty, as `compaction`, for methods other than PARSE."""
    compaction: tuple[TextTable, ...]
    cards: tuple[ClassCard, ...] = ()
    """The same classes, drawn; empty, as `faces`, where the images are not here, too."""
    faces: PrimitiveFaces | None = None
    names: Mapping[int, str] = field(default_factory=dict)
    """What people call the primitives."""
    curve: Curve | None
    config: Mapping[str, str]
    """Every field of the configuration by its dotted name, as `--set` takes it."""
    commands: tuple[tuple[str, str], ...]
    """What each does, and what to type."""
    environment: Mapping[str, str]


def check_place(path: Path) -> None:
    """Raise before any work is done if the page could not be written there."""
    require_writable(path, "the report", (".html", ".htm"))


def write_report(path: Path, report: Report) -> int:
    """Write the page, whole or not at all. Returns its bytes."""
    data = report_page(report).encode("utf-8", "backslashreplace")  # a name may hold half a character
    with attempting(f"write the report to {path}"):
        write_file(path, data)
    return len(data)


def report_page(report: Report) -> str:
    """The whole page: `report.html`, in which text is text, whatever it holds."""
    script, style = viewer.read(*SCRIPTS), viewer.read(*STYLES)
    galleries = [vars(gallery) for gallery in report.galleries if gallery.cases]
    cards = [card.drawing() for card in report.cards]
    primitives = {"known": known_primitives(report.names, report.faces), "cards": cards}
    return page_template(Path(__file__).with_name("report.html")).render(
        report=report,
        sections=SECTIONS,
        galleries=galleries,
        sources=[score.correct / score.total for score in report.scores if score.role == "source"],
        charts=charts(report.curve) if report.curve else (),
        config=_config(report),
        families=FAMILIES,
        open_classes=OPEN_CLASSES,
        matrix_classes=MATRIX_CLASSES,
        matrix=_matrix,
        confusions=_confusions,
        percent=percent,
        plural=plural,
        policy=POLICY.format(script=_digest(script), style=_digest(style)),
        script=Markup(script),
        style=Markup(style),
        called=called,
        data=_embedded(galleries),
        primitives=_embedded(primitives),
    )


def _embedded(data: object) -> Markup:
    """JSON as the content of a script element: never executed, and no `<` in it can end its element."""
    return Markup(json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"))


def _config(report: Report) -> dict[str, list[tuple[str, str]]]:
    """The fields of each section of the configuration; those of none are `other`."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for name, value in report.config.items():
        group, _, field = name.partition(".")
        groups.setdefault(group if field else "other", []).append((field or group, value))
    return groups


def _matrix(
    confusion: Int[np.ndarray, "C C"], classes: tuple[str, ...]
) -> Iterator[tuple[str, list[tuple[str, int]], str]]:
    """The rows: a class, its counts with their shade (any image at all is seen), its accuracy."""
    for number, (name, row) in enumerate(zip(classes, confusion.tolist(), strict=True)):
        total = sum(row)
        cells = [(f"{count:,}", -(-LEVELS * count // total) if total else 0) for count in row]
        yield name, cells, percent(row[number] / total) if total else "no image"


def _confusions(
    confusion: Int[np.ndarray, "C C"], classes: tuple[str, ...]
) -> tuple[list[tuple[str, str, str]], int]:
    """The most frequent confusions, and how many kinds there are."""
    off = confusion.copy()
    np.fill_diagonal(off, 0)
    rows = []
    for place in np.argsort(-off, axis=None, kind="stable")[:CONFUSIONS].tolist():
        true, predicted = divmod(place, len(classes))
        count, total = int(off[true, predicted]), int(confusion[true].sum())
        if count:
            rows.append((classes[true], classes[predicted], f"{count:,} of {total:,} ({percent(count / total)})"))
    return rows, int((off > 0).sum())


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
