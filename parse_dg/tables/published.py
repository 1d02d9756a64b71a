"""Accuracies that others have published: `published.json` read and checked, every row with its source.

The file follows the papers: a table there is a table here, a line of values is as it is printed. A table has the
targets of one data set as columns, or data sets (`domainbed`), of which each value is the average over the targets.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from parse_dg.data.public.catalogue import DATA_SETS, SUITE_DATA_SETS, spelling
from parse_dg.errors import InputError, unknown
from parse_dg.tables.domainbed import ENVIRONMENTS

FILE = Path(__file__).with_name("published.json")
AVERAGE = "average"
SUITE = "domainbed"
"""Stands for the five data sets of DomainBed, where a table has them as columns."""
ERRORS = ("standard error", "standard deviation", "not stated", "none")
"""What is printed after a ±."""
VALUE = re.compile(r"(\d{1,3}\.\d)(?:±(\d{1,2}\.\d))?")


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
    """Where it was read."""
    origin: Publication
    """Who measured it."""
    table: str
    method: str
    data_set: str
    """The catalogue's name, or `domainbed`."""
    cells: Mapping[str, PrintedAccuracy]
    """By domain of the data set, or by data set, as the catalogue calls them; and their `average`."""
    error: str
    """What stands after a ±: one of ERRORS."""
    trials: int | None
    """None: not stated."""
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


@dataclass(frozen=True)
class Published:
    """Everything that is known, in the order of the file."""

    sources: Mapping[str, Publication]
    rows: tuple[PublishedRow, ...]

    def of(self, names: str) -> "Published":
        """What was read in the sources named `paper,domainbed`, or was measured by them; `all` is all."""
        if names == "all":
            return self
        wanted = [name.strip() for name in names.split(",")]
        for name in wanted:
            if name not in self.sources:
                raise unknown("source of published figures", name, ("all", *self.sources))
        return Published(self.sources, tuple(r for r in self.rows if {r.source.name, r.origin.name} & set(wanted)))


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
    """The figures that come with this package."""
    return parse_published(json.loads(FILE.read_text(encoding="utf-8")))


def parse_published(data: Mapping[str, Any]) -> Published:
    """The content of such a file, checked: sources, columns, averages, and that nothing is there twice."""
    try:
        sources = {name: Publication(name, entry["cite"]) for name, entry in data["sources"].items()}
        rows = tuple(_row(sources, table, row) for table in data["tables"] for row in table["rows"])
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"published figures are incomplete: {type(error).__name__} {error}") from error
    _require_once(rows)
    for row in rows:
        _require_average(row)
    return Published(sources, rows)


def _row(sources: Mapping[str, Publication], table: Mapping[str, Any], row: Mapping[str, Any]) -> PublishedRow:
    where = f"{table['source']}, {table['table']}, {row['method']}"
    for name in (table["source"], row.get("origin", table["source"])):
        if name not in sources:
            raise unknown(f"source of {where}", name, sources)
    for text in (table["table"], row["method"], table["protocol"], sources[table["source"]].cite):
        if not text.strip():
            raise InputError(f"{where} must have a source, a table, a method and a protocol, found a blank")
    if table["error"] not in ERRORS:
        raise unknown(f"kind of error of {where}", table["error"], ERRORS)
    columns = _columns(where, table["data"], table["columns"])
    cells = dict(zip(columns, _values(where, row["values"], len(columns)), strict=True))
    if table["error"] == "none" and any(cell.error is not None for cell in cells.values()):
        raise InputError(f"{where} has errors, though its table says that it has none")
    return PublishedRow(
        source=sources[table["source"]],
        origin=sources[row.get("origin", table["source"])],
        table=table["table"],
        method=row["method"],
        data_set=table["data"],
        cells=cells,
        error=table["error"],
        trials=row.get("trials", table["trials"]),
        selection=table["selection"],
        protocol=table["protocol"],
        note=row.get("note", table.get("note", "")),
        notes_on=row.get("note_on", {}),
    )


def _columns(where: str, data_set: str, printed: Sequence[str]) -> list[str]:
    """The catalogue's names of the columns, of which the last is the average."""
    if data_set != SUITE and data_set not in DATA_SETS:
        raise unknown(f"data set of {where}", data_set, (*DATA_SETS, SUITE))
    expected = SUITE_DATA_SETS if data_set == SUITE else DATA_SETS[data_set].domains
    found = [name if data_set == SUITE else find_domain(data_set, name) for name in printed[:-1]]
    if printed[-1] != AVERAGE or set(found) != set(expected) or len(found) != len(expected):
        raise InputError(
            f"{where} must have the columns {', '.join(expected)}, {AVERAGE}, found {', '.join(printed)}"
        )
    return [*(name for name in found if name is not None), AVERAGE]


def _values(where: str, text: str, count: int) -> list[PrintedAccuracy]:
    found = [VALUE.fullmatch(word) for word in text.split()]
    if len(found) != count or None in found:
        raise InputError(f"{where} must have {count} values such as 84.7 or 84.7±0.4, found {text!r}")
    return [PrintedAccuracy(Decimal(one[1]), Decimal(one[2]) if one[2] else None) for one in found if one]


def _require_once(rows: Iterable[PublishedRow]) -> None:
    known = set()
    for row in rows:
        told_apart = (row.source.name, row.method, row.data_set)
        if told_apart in known:
            raise InputError(f"{', '.join(told_apart)} is there twice: a source has a method once for a data set")
        known.add(told_apart)


def _require_average(row: PublishedRow) -> None:
    """Values and average are rounded to a digit each, so they agree within one; otherwise a note says why not."""
    parts = [cell.value for name, cell in row.cells.items() if name != AVERAGE]
    mean = sum(parts, Decimal(0)) / len(parts)
    if abs(mean - row.cells[AVERAGE].value) > Decimal("0.1") and AVERAGE not in row.notes_on:
        where = f"{row.source.name}, {row.table}, {row.method}"
        raise InputError(f"{where}: the average is printed as {row.cells[AVERAGE]}, its values give {mean:.2f}")
