"""Accuracies that others have published: the rows of `published.json`, each with its source.

The file follows the papers: a table there is a table here, a line of values is as it is printed. A table has the
targets of one data set as columns, or data sets (`domainbed`), of which each value is the average over the targets.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from parse_dg.data.public.catalogue import DATA_SETS, spelling
from parse_dg.errors import require_known
from parse_dg.tables.domainbed import ENVIRONMENTS

FILE = Path(__file__).with_name("published.json")
AVERAGE = "average"
SUITE = "domainbed"
"""Stands for the five data sets of DomainBed, where a table has them as columns."""
ERRORS = ("standard error", "standard deviation", "not stated", "none")


class Publication(NamedTuple):
    """A publication."""

    name: str
    cite: str


class PrintedAccuracy(NamedTuple):
    """An accuracy in per cent, with the digits that are printed."""

    value: Decimal
    error: Decimal | None = None

    def __str__(self) -> str:
        return str(self.value) if self.error is None else f"{self.value} ± {self.error}"


@dataclass(frozen=True, kw_only=True)
class PublishedRow:
    """A method's line in a table."""

    source: Publication
    origin: Publication
    table: str
    method: str
    data_set: str
    """The catalogue's name, or `domainbed`."""
    cells: Mapping[str, PrintedAccuracy]
    """By domain of the data set, or by data set, as the catalogue calls them; and their `average`."""
    error: str
    """What stands after a ±: one of ERRORS."""
    trials: int | None
    selection: str | None
    """Name of the model selection; None: not stated."""
    protocol: str
    note: str
    notes_on: Mapping[str, str]
    """By column: what is to be said of that value alone."""

    def column(self, data_set: str, target: str) -> str | None:
        """Where the accuracy on a target of a data set stands, or that on its `average`; None: it is not there."""
        name = target
        if self.data_set != data_set:
            name = data_set if self.data_set == SUITE and target == AVERAGE else ""
        return name if name in self.cells else None

    def notes(self, column: str) -> tuple[str, ...]:
        """What is to be said of a value: where it comes from, what of the method, what of that value alone."""
        taken = f"from {self.origin.name}" if self.origin != self.source else ""
        return tuple(text for text in (taken, self.note, self.notes_on.get(column, "")) if text)


class PublishedCompaction(NamedTuple):
    """A line of a table about the size and speed of PARSE."""

    source: Publication
    table: str
    data_set: str
    target: str | None
    figures: Mapping[str, str]


@dataclass(frozen=True)
class Published:
    """Everything that is known, in the order of the file."""

    sources: Mapping[str, Publication]
    rows: tuple[PublishedRow, ...]
    compaction: tuple[PublishedCompaction, ...] = ()

    def of(self, names: str) -> "Published":
        """What was read in the sources named `paper,domainbed`, or was measured by them; `all` is all."""
        if names == "all":
            return self
        wanted = [name.strip() for name in names.split(",")]
        for name in wanted:
            require_known("source of published figures", name, ("all", *self.sources))
        rows = tuple(row for row in self.rows if {row.source.name, row.origin.name} & set(wanted))
        return Published(self.sources, rows, tuple(row for row in self.compaction if row.source.name in wanted))


def find_name(name: str) -> str | None:
    """The catalogue's name of a data set that may be spelled otherwise: `CUB-DG` → `cub-dg`."""
    return {spelling(known): known for known in DATA_SETS}.get(spelling(name))


def find_domain(data_set: str, name: str) -> str | None:
    """The catalogue's name of a domain: of PACS, `A`, `art` and `Art Painting` are `art_painting`."""
    known = DATA_SETS[data_set]
    letters = {spelling(short): n for n, short in enumerate(ENVIRONMENTS.get(known.title, ()))}
    number = (letters | known.domain_numbers()).get(spelling(name))
    return None if number is None else known.domains[number]


@cache
def published() -> Published:
    """The figures that come with this package; the tests check the file."""
    data = json.loads(FILE.read_text(encoding="utf-8"))
    sources = {name: Publication(name, entry["cite"]) for name, entry in data["sources"].items()}
    rows = tuple(_row(sources, table, row) for table in data["tables"] for row in table["rows"])
    lines = ((table, row.split()) for table in data["compaction"] for row in table["rows"])
    compaction = (
        _compaction_row(sources[table["source"]], table["table"], dict(zip(table["columns"], values, strict=True)))
        for table, values in lines
    )
    return Published(sources, rows, tuple(compaction))


def _compaction_row(source: Publication, table: str, values: dict[str, str]) -> PublishedCompaction:
    data_set, target = values.pop("data"), values.pop("target", None)
    domain = None if target is None else find_domain(data_set, target.replace("_", " "))
    return PublishedCompaction(source, table, data_set, domain, values)


def _row(sources: Mapping[str, Publication], table: Mapping[str, Any], row: Mapping[str, Any]) -> PublishedRow:
    *names, _ = table["columns"]  # the last is the average
    if table["data"] != SUITE:
        names = [find_domain(table["data"], name) for name in names]
    values = [PrintedAccuracy(*(Decimal(part) for part in word.split("±"))) for word in row["values"].split()]
    return PublishedRow(
        source=sources[table["source"]],
        origin=sources[row.get("origin", table["source"])],
        table=table["table"],
        method=row["method"],
        data_set=table["data"],
        cells=dict(zip((*names, AVERAGE), values, strict=True)),
        error=table["error"],
        trials=row.get("trials", table["trials"]),
        selection=table["selection"],
        protocol=table["protocol"],
        note=row.get("note", table.get("note", "")),
        notes_on=row.get("note_on", {}),
    )
