"""A view of run folders, worked out: its tables, the curve through them, what is missing and how to make it."""

import logging
import shlex
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from parse_dg.cli.options import say
from parse_dg.cli.show.compact import as_csv, table_row, view_tables as compact_tables
from parse_dg.cli.show.tables import show
from parse_dg.data.public.catalogue import DATA_SETS, SUITE_DATA_SETS
from parse_dg.errors import InputError, require_known
from parse_dg.runs.afterwards.compact import read_compaction
from parse_dg.runs.folder import read_config, read_result, training_time
from parse_dg.tables.comparison import compare as compare_tables, compare_csv, published_csv, published_tables
from parse_dg.tables.curve import AccuracyPoint, Panel, check_picture, draw_curves
from parse_dg.tables.domainbed import domainbed_tables, read_sweep
from parse_dg.tables.estimate import SPREADS, Estimate, Spread, find_spread
from parse_dg.tables.missing import fill_commands
from parse_dg.tables.published import AVERAGE, Published, find_domain, find_name, published
from parse_dg.tables.records import find_runs, read_comparable
from parse_dg.tables.selection_tables import DataSetTable, SelectionTables, only_targets, selection_tables
from parse_dg.tables.text_table import TextTable
from parse_dg.tables.views import VIEWS, TableRow, find_view, require_fields
from parse_dg.wording import plural, some

log = logging.getLogger(__name__)

PAPERS_K = 16
"""The number of primitives of the paper's published accuracies (its appendix A)."""


def show_runs(
    folders: Sequence[Path],
    console: Console,
    *,
    view: str = "main",
    by: Sequence[str] = (),
    selection: str = "training-domain",
    spread: str = "se",
    compare: str | None = None,
    plot: Path | None = None,
    against: str | None = None,
    style: str = "text",
) -> None:
    """The tables of runs, as `parse-dg table` shows them; a folder may be a run, or have runs below it."""
    known = find_published(compare) if compare else None
    if view == "compaction":
        if by or plot or against:
            expected = "goes without --by and --plot, and without --against"
            raise InputError(f"--view compaction {expected}: its tables are not of accuracy")
        if known and style.startswith("csv"):
            raise InputError("--view compaction has our own figures alone in csv: leave --compare out")
        tables, csv = compaction_tables(folders, known)
        show(console, style, tables, lambda: csv)
        return
    if plot and view != "k":
        raise InputError(f"--plot draws accuracy against K: it goes with --view k, found --view {view}")
    if plot:
        check_picture(plot)
    seen = view_tables(folders, view, by, selection, find_spread(spread))
    if against is not None:
        require_known("row", against, seen.rows)
        seen = seen._replace(tables=replace(seen.tables, against=against))
    show_tables(console, style, seen.tables, known and compared(view, known))
    if plot:
        curve(seen, plot)
        if style == "text":
            say(console, f"plot written to {plot}")


def find_published(sources: str | None) -> Published:
    """The published figures of the sources that were asked for."""
    if sources is None:
        return published()
    if sources not in published().sources and Path(sources).is_dir():
        raise InputError(f"--compare takes sources, such as paper,domainbed: give it after the run {sources}")
    return published().of(sources)


def show_domainbed(options: Namespace, known: Published | None, console: Console) -> None:
    """The tables of DomainBed's own output, as the options of `parse-dg table` ask for them."""
    tables = domainbed_tables(read_sweep(options.domainbed), options.selection)
    show_tables(console, options.format, replace(tables, spread=find_spread(options.spread)), known)


def show_tables(console: Console, style: str, tables: SelectionTables, known: Published | None) -> None:
    """Tables of ours, with published figures below where those are asked for."""
    if known is None:
        show(console, style, tables.text(), tables.csv)
    else:
        show(console, style, compare_tables(tables, known), lambda: compare_csv(tables, known))


def show_published(options: Namespace, known: Published, console: Console) -> None:
    """Published figures alone."""
    tables = published_tables(known, options.published)
    if not tables:
        raise InputError(f"nothing is known of {options.published} from {options.compare}: leave --compare out")
    show(console, options.format, tables, lambda: published_csv(known, options.published))


class ViewedRuns(NamedTuple):
    """Runs in one view."""

    tables: SelectionTables
    rows: dict[str, TableRow]
    """By name, in their order."""


def view_tables(
    folders: Sequence[Path], view: str, by: Sequence[str], selection: str, spread: Spread
) -> ViewedRuns:
    """The tables of a view over every run that is in the folders, or below them."""
    look = find_view(view, by)
    places = find_runs(folders)
    if by:
        require_fields(by, [read_config(place) for place in places])
    runs = read_comparable(places, selection, lambda config: look.row(config).name)
    rows = {row.name: row for row in sorted(look.row(run.config) for run in runs)}
    names = {run.record.data_set for run in runs}
    known = [name for data in DATA_SETS for name in sorted(names) if find_name(name) == data]
    records = [record for run in runs for record in run.records]
    tables = selection_tables(records, selection, data_sets=known, algorithms=tuple(rows))
    suite = tuple(name for name in known if find_name(name) in SUITE_DATA_SETS)
    averaged = suite if len(suite) == len(SUITE_DATA_SETS) else ()  # the paper's table 1 (b) is of these alone
    tables = replace(tables, spread=spread, averaged=averaged)
    columns = replace(tables, tables=tuple(map(only_targets, tables.tables)))  # two targets are two columns
    wanted = tables if look.all_targets else columns
    return ViewedRuns(replace(columns, fill=fill_commands(wanted, runs, places)), rows)


def compared(view: str, known: Published) -> Published:
    """The published figures that belong beside a view."""
    return replace(known, rows=tuple(row for row in known.rows if VIEWS[view].published(row)))


def curve(seen: ViewedRuns, path: Path) -> None:
    """Accuracy against K: a panel for every data set and method, a line for every target, and their mean."""
    counts = Counter(row.of for row in seen.rows.values() if row.at is not None)
    methods = [of for of, count in counts.items() if count > 1] or list(counts)  # a point is no curve
    panels = [panel for table in seen.tables.tables for of in methods if (panel := _panel(seen, table, of)).lines]
    if not panels:
        raise InputError(f"{path} would be empty: none of these runs has a number of primitives")
    draw_curves(panels, path, label="K, number of primitives", spread=SPREADS[seen.tables.spread])


def _panel(seen: ViewedRuns, table: DataSetTable, of: str) -> Panel:
    rows = [row for row in seen.rows.values() if row.of == of and row.at is not None and row.name in table.cells]
    lines: dict[str, list[AccuracyPoint]] = {}
    for row in rows:
        for name, estimate in (*table.cells[row.name].items(), ("Avg", table.average[row.name])):
            if estimate.mean is not None and row.at is not None:
                lines.setdefault(name, []).append(_point(row.at, estimate, seen.tables.spread))
    own = of == "parse"  # the figures are of the method as published
    kind = seen.tables.spread
    papers = {n: point for n in lines if own and (point := _published(table.data_set, n, kind)) is not None}
    count = plural(len(table.trials), "trial")
    return Panel(f"{of} on {table.data_set}, {count}", lines, papers)


def _point(at: float, estimate: Estimate, spread: Spread) -> AccuracyPoint:
    found = estimate.spread(spread)
    assert estimate.mean is not None
    return AccuracyPoint(at, 100 * estimate.mean, None if found is None else 100 * found)


def _published(data_set: str, line: str, spread: Spread) -> AccuracyPoint | None:
    """What the paper has of PARSE on a target of a data set, or on their average; its error if it is alike."""
    name = find_name(data_set)
    target = AVERAGE if line == "Avg" else find_domain(name, line) if name else None
    for row in published().rows:
        column = row.column(name, target) if name and target and VIEWS["k"].published(row) else None
        if column is not None:
            value = row.cells[column]
            alike = value.error is not None and SPREADS[spread].endswith(row.error)
            return AccuracyPoint(PAPERS_K, float(value.value), float(value.error or 0) if alike else None)
    return None


def compaction_tables(folders: Sequence[Path], known: Published | None = None) -> tuple[tuple[TextTable, ...], str]:
    """What `parse-dg compact` found of the runs of PARSE in the folders, or below them, as tables, with published
    figures of the same data sets below, and as CSV.
    """
    found, missing, others = {}, [], []
    for folder in find_runs(folders):
        if not read_config(folder).algorithm.explains:
            others.append(folder)
        elif read_result(folder) is None:
            log.warning("%s is not finished: left out", folder)
        elif (report := read_compaction(folder)) is None:
            missing.append(folder)
        else:
            found[folder] = report
    if others:
        log.warning("only runs of parse can be compacted, left out: %s", some(others))
    command = shlex.join(["parse-dg", "compact", *map(str, missing)])
    if not found:
        hint = f": make it with {command}" if missing else ": expected finished runs of parse"
        raise InputError(f"none of these runs has a compact.json{hint}")
    thresholds = {report.threshold for report in found.values()}
    if len(thresholds) > 1:
        given = ", ".join(f"{report.threshold:g} ({folder})" for folder, report in found.items())
        raise InputError(f"one table is of one threshold, found {given}: compact the runs again with the same")
    rows = [table_row(report, training_time(folder)) for folder, report in found.items()]
    tables = compact_tables(rows, thresholds.pop(), known)
    if missing:
        note = f"Missing: {plural(len(missing), 'run')} of parse without compact.json, {some(missing)}."
        *above, last = tables
        tables = (*above, last._replace(notes=(*last.notes, note), commands=(command,)))
    return tables, as_csv(rows)
