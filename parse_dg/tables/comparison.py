"""Ours beside theirs: tables of selected models with published rows of the same data sets below; or those alone."""

import csv
import io
from collections.abc import Sequence
from typing import NamedTuple

from parse_dg.data.public.catalogue import DATA_SETS, SUITE_DATA_SETS
from parse_dg.errors import unknown
from parse_dg.tables.published import (
    AVERAGE,
    SUITE,
    PrintedAccuracy,
    Publication,
    Published,
    PublishedRow,
    find_domain,
    find_name,
)
from parse_dg.tables.selection_tables import CSV_HEADER, SelectionTables
from parse_dg.tables.text_table import TextTable, csv_table

OURS = "ours"
MORE_HEADER = ("source", "measured_by", "table", "printed", "error", "error_is", "protocol", "notes")


class Column(NamedTuple):
    """A column of a table, and the published figures that belong into it."""

    data: str
    target: str
    """How the table calls the target; `average` for the mean over them."""
    data_set: str | None
    """The catalogue's name, or `domainbed` for the mean over its five data sets; None: nothing is published."""
    domain: str | None
    """The catalogue's name, or `average`."""


class PublishedValue(NamedTuple):
    """A published value, and the row it stands in."""

    row: PublishedRow
    value: PrintedAccuracy
    notes: tuple[str, ...]


Lines = dict[tuple[Publication, str], dict[int, PublishedValue]]
"""By source and method, what is published there; each value by the number of its column."""


def compare(tables: SelectionTables, known: Published) -> tuple[TextTable, ...]:
    """Each table, its own rows first, then the published ones, values as they are printed there."""
    pairs = zip(tables.text(), _columns_of(tables), strict=True)
    return tuple(_extend(text, columns, known) for text, columns in pairs)


def compare_csv(tables: SelectionTables, known: Published) -> str:
    """One line for every cell, ours and theirs; fractions instead of percentages."""
    _, *ours = csv.reader(io.StringIO(tables.csv()))
    rows: list[Sequence[object]] = [[*row, OURS, *[""] * 4, "standard error", "", ""] for row in ours]
    views = _columns_of(tables)
    if tables.averaged_tables:
        # the averages of data sets are in their own tables already: of the last one only the mean over them is new
        views[-1] = views[-1][-1:]
    rows += [row for columns in views for row in _csv_rows(columns, known)]
    return csv_table((*CSV_HEADER, *MORE_HEADER), rows)


def published_tables(known: Published, data: str = "all") -> tuple[TextTable, ...]:
    """The published figures alone: of a data set, of `domainbed` the averages, or `all`."""
    tables = []
    for name in _chosen(data):
        columns = _columns(name)
        if lines := _lines(columns, known):
            headings = [column.data if name == SUITE else column.target for column in columns[:-1]]
            title = "DomainBed, averages" if name == SUITE else DATA_SETS[name].title
            caption = f"Published accuracy (%) on {title}. Every row is as its source prints it."
            header, rows = ("method", "source", *headings, "Avg"), _text_rows(lines, len(columns))
            tables.append(TextTable(title, header, rows, _notes(lines), names=2, caption=caption))
    return tuple(tables)


def published_csv(known: Published, data: str = "all") -> str:
    """The same as lines of comma-separated values, in the columns of a comparison."""
    rows = []
    for name in _chosen(data):
        whole = data == "all" and name == SUITE  # the data sets are there already
        rows += _csv_rows(_columns(name)[-1:] if whole else _columns(name), known)
    return csv_table((*CSV_HEADER, *MORE_HEADER), rows)


def _chosen(data: str) -> tuple[str, ...]:
    if data == "all":
        return (*DATA_SETS, SUITE)
    name = SUITE if data == SUITE else find_name(data)
    if name is None:
        raise unknown("data set with published figures", data, ("all", *DATA_SETS, SUITE))
    return (name,)


def _columns(name: str) -> list[Column]:
    if name == SUITE:
        each = [Column(DATA_SETS[one].title, AVERAGE, one, AVERAGE) for one in SUITE_DATA_SETS]
        return [*each, Column(AVERAGE, AVERAGE, SUITE, AVERAGE)]
    domains = DATA_SETS[name].domains
    return [*(Column(name, domain, name, domain) for domain in domains), Column(name, AVERAGE, name, AVERAGE)]


def _columns_of(tables: SelectionTables) -> list[list[Column]]:
    views, averages = [], []
    for table in tables.tables:
        name = find_name(table.data_set)
        average = Column(table.data_set, AVERAGE, name, AVERAGE)
        single = [Column(table.data_set, ours, name, name and find_domain(name, ours)) for ours in table.domains]
        views.append(single if table.left_out else [*single, average])
        if table in tables.averaged_tables:
            averages.append(average)
    if not averages:
        return views
    suite = SUITE if {column.data_set for column in averages} == set(SUITE_DATA_SETS) else None
    return [*views, [*averages, Column(AVERAGE, AVERAGE, suite, AVERAGE)]]


def _lines(columns: Sequence[Column], known: Published) -> Lines:
    lines: Lines = {}
    for row in known.rows:
        for number, (_, _, data_set, domain) in enumerate(columns):
            if data_set is None or domain is None:
                continue
            name = row.column(data_set, domain)
            if name is not None:
                found = PublishedValue(row, row.cells[name], row.notes(name))
                lines.setdefault((row.source, row.method), {}).setdefault(number, found)
    return lines


def _extend(text: TextTable, columns: Sequence[Column], known: Published) -> TextTable:
    lines = _lines(columns, known)
    ours = tuple((row[0], OURS, *row[1:]) for row in text.rows)
    theirs = _text_rows(lines, len(columns))
    notes = _notes(lines) if lines else (f"Nothing published is known here to compare {text.title} with.",)
    header = (text.header[0], "source", *text.header[1:])
    bold = frozenset((row, column + 1) for row, column in text.bold)
    among = ("Bold is the best of ours alone: published figures are of protocols of their own.",) if bold else ()
    every = (*text.notes, *among, *notes)
    caption = f"{text.caption[:-1]}; rows of other sources are as published." if lines else text.caption
    return text._replace(header=header, rows=ours + theirs, notes=every, names=2, bold=bold, caption=caption)


def _text_rows(lines: Lines, count: int) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (method, source.name, *(str(cells[n].value) if n in cells else "–" for n in range(count)))
        for (source, method), cells in lines.items()
    )


def _notes(lines: Lines) -> tuple[str, ...]:
    """Each table that was read, with its protocol; then where rows come from, and what is to be said of them."""
    tables: dict[tuple[Publication, str, str], list[PublishedRow]] = {}
    remarks: dict[tuple[str, str], dict[str, None]] = {}
    origins: dict[Publication, None] = {}
    for (source, method), cells in lines.items():
        for row, _, notes in cells.values():
            tables.setdefault((row.source, row.table, row.protocol), []).append(row)
            origins[row.origin] = None
            for note in notes:
                remarks.setdefault((source.name, note), {})[method] = None
    read = {source for source, _, _ in tables}
    return (
        "Published figures are accuracies in % on the target, as printed; – is not published there.",
        *(
            f"{source.name}: {source.cite}, {table}; {_errors(rows)}; model selection: "
            f"{rows[0].selection or 'not stated'}; {protocol}."
            for (source, table, protocol), rows in tables.items()
        ),
        *(f"{source.name}: {source.cite}." for source in origins if source not in read),
        *(f"{name}, {', '.join(methods)}: {note}." for (name, note), methods in remarks.items()),
    )


def _errors(rows: Sequence[PublishedRow]) -> str:
    trials = {row.trials for row in rows}
    count = next(iter(trials))
    over = f" over {count} trials" if len(trials) == 1 and count is not None else ""
    known = {"none": "no errors are given", "not stated": "what ± stands for was not found"}
    return known.get(rows[0].error, f"± is the {rows[0].error}{over}")


def _csv_rows(columns: Sequence[Column], known: Published) -> list[Sequence[object]]:
    rows: list[Sequence[object]] = []
    for (_, method), cells in _lines(columns, known).items():
        for number, (row, value, notes) in cells.items():
            error = None if value.error is None else value.error / 100
            found = {
                "selection": row.selection,
                "data": columns[number].data,
                "algorithm": method,
                "target": columns[number].target,
                "accuracy": value.value / 100,
                row.error.replace(" ", "_"): error,  # `standard_error` or `standard_deviation`, if it is either
                "trials": row.trials,
                "source": row.source.name,
                "measured_by": row.origin.name,
                "table": row.table,
                "printed": value,
                "error": error,
                "error_is": None if error is None else row.error,
                "protocol": row.protocol,
                "notes": "; ".join(notes),
            }
            rows.append([found.get(name) for name in (*CSV_HEADER, *MORE_HEADER)])
    return rows
