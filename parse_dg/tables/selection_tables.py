"""Tables of selected models: rows are algorithms, columns targets; what is missing is named, not averaged over."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from parse_dg.data.public.catalogue import DATA_SETS
from parse_dg.errors import InputError
from parse_dg.tables.estimate import SPREADS, Estimate, Spread, compared_with, explain_spread, shown
from parse_dg.tables.selection import Case, Record, SelectedModel, Selection, average, find_selection, select
from parse_dg.tables.text_table import TextTable, best_cells, csv_table
from parse_dg.wording import plural


@dataclass(frozen=True)
class DataSetTable:
    """Target accuracy on one data set."""

    data_set: str
    domains: tuple[str, ...]
    trials: tuple[int, ...]
    cells: Mapping[str, Mapping[str, Estimate]]
    average: Mapping[str, Estimate]
    """By algorithm: the mean over all targets inside a trial, for every trial that has them all."""
    runs: int = 0
    runs_in: Mapping[tuple[str, str], int] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    """Domains that are no columns, as no run has them as its target. There is no average then."""
    tried: Mapping[str, str] = field(default_factory=dict)
    """By algorithm: out of how many configurations its cells are the best, and what those differ in."""


def data_set_table(
    name: str,
    records: Sequence[Record],
    algorithms: Sequence[str],
    selected: Mapping[Case, SelectedModel],
    *,
    pairs: bool,
) -> DataSetTable:
    """The table of a data set: every algorithm that has runs on it, in the order given.

    `pairs` says whether runs with two domains held out took part in the selection.
    """
    domains = records[0].domains
    for record in records:
        if record.domains != domains:
            found = f"{', '.join(domains)} and {', '.join(record.domains)}"
            raise InputError(f"the runs on {name} must have the same domains, found {found}")
    trials = tuple(sorted({record.trial for record in records}))
    present = {record.algorithm for record in records}
    cells, averages = {}, {}
    for algorithm in (algorithm for algorithm in algorithms if algorithm in present):
        of_target: dict[str, dict[int, float]] = {target: {} for target in domains}
        for target, trial in product(domains, trials):
            if (case := Case(name, algorithm, target, trial)) in selected:
                of_target[target][trial] = selected[case].accuracy
        cells[algorithm] = {target: Estimate.over(trials, values) for target, values in of_target.items()}
        complete = [trial for trial in trials if all(trial in values for values in of_target.values())]
        means = {trial: average([values[trial] for values in of_target.values()]) for trial in complete}
        averages[algorithm] = Estimate.over(trials, means)
    used = [record for record in records if pairs or len(record.held_out) == 1]
    runs = dict.fromkeys((r.algorithm, r.held_out, r.trial, r.hyperparameters) for r in used)
    runs_in = Counter((algorithm, target) for algorithm, held_out, *_ in runs for target in held_out)
    tried = {name: words for name in cells if (words := _tried([r for r in used if r.algorithm == name]))}
    return DataSetTable(name, domains, trials, cells, averages, len(runs), runs_in, tried=tried)


def _tried(records: Sequence[Record]) -> str:
    """`the best of 2 configurations, which differ in optimizer.head_rate`; nothing where no cell has a choice."""
    cells: dict[object, set[str]] = {}
    for record in records:
        cells.setdefault((record.held_out, record.trial), set()).add(record.hyperparameters)
    most = max(map(len, cells.values()), default=0)
    names = sorted({name for record in records for name in record.settings})
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    differ = f", which differ in {', '.join(names[:NAMED])}{more}" if names else ""
    return f"the best of {most} configurations{differ}" if most > 1 else ""


def only_targets(table: DataSetTable) -> DataSetTable:
    """The table without the columns of domains that no run has as its target."""
    used = {target for (_, target), count in table.runs_in.items() if count}
    kept = tuple(target for target in table.domains if target in used or not used)
    left_out = tuple(target for target in table.domains if target not in kept)
    cells = {name: {target: row[target] for target in kept} for name, row in table.cells.items()}
    return replace(table, domains=kept, cells=cells, left_out=left_out)


def count_runs(table: DataSetTable) -> str:
    """`12 runs, 3 a cell`, and the cells that have another number of them: `2 for ERM on art, photo`."""
    ((usual, _),) = Counter(table.runs_in.values()).most_common(1) or [(0, 0)]
    others: dict[tuple[str, int], list[str]] = {}
    for name, cells in table.cells.items():
        for target in cells:
            count = table.runs_in.get((name, target), 0)
            if count not in (0, usual):
                others.setdefault((name, count), []).append(target)
    rare = [f"; {count} for {name} on {', '.join(targets)}" for (name, count), targets in others.items()]
    return f"{plural(table.runs, 'run')}, {usual} a cell{''.join(rare)}."


def missing_cells(table: DataSetTable) -> list[str]:
    """`ERM: C (trial 1), L (all trials)`, an entry for every algorithm that lacks something."""
    entries = []
    for algorithm, cells in table.cells.items():
        lacking = [f"{target} ({cell.lacks})" for target, cell in cells.items() if cell.missing]
        entries += [f"{algorithm}: {', '.join(lacking)}"] if lacking else []
    return entries


CSV_HEADER = (
    *("selection", "data", "algorithm", "target", "accuracy", "standard_error", "standard_deviation"),
    *("trials", "missing_trials", "runs", "share_of_target", "to_fill"),
)
BEST = "bold: the best mean of each column"
NAMED = 4
"""How many of the settings in which configurations differ are named."""

CellKey = tuple[str, str, str]


@dataclass(frozen=True)
class SelectionTables:
    """A table for every data set and, where there are several, one of their averages."""

    selection: Selection
    share: float
    tables: tuple[DataSetTable, ...]
    algorithms: tuple[str, ...]
    spread: Spread = "se"
    averaged: tuple[str, ...] = ()
    """The data sets that enter the table of averages; none: all."""
    fill: Mapping[CellKey, tuple[str, ...]] = field(default_factory=dict)
    against: str | None = None

    @property
    def averaged_tables(self) -> tuple[DataSetTable, ...]:
        """Those whose averages make a table of their own; a single one does not."""
        found = tuple(table for table in self.tables if table.data_set in self.averaged or not self.averaged)
        return found if len(found) > 1 else ()

    def average(self, data_set: DataSetTable, algorithm: str) -> Estimate:
        return data_set.average.get(algorithm, Estimate({}, data_set.trials))

    def overall(self, algorithm: str) -> float | None:
        """The mean of the data sets' means, if there is one of each."""
        means = [self.average(table, algorithm).mean for table in self.averaged_tables or self.tables]
        known = [value for value in means if value is not None]
        return average(known) if len(known) == len(means) else None

    def text(self) -> tuple[TextTable, ...]:
        tables = tuple(self._data_set(table) for table in self.tables)
        return (*tables, self._averages()) if self.averaged_tables else tables

    def csv(self) -> str:
        """One line for every cell of every table, unrounded; fractions instead of percentages."""
        rows: list[list[object]] = []
        for table in self.tables:
            for algorithm in table.cells:
                wanted = [name for name in table.left_out if (table.data_set, algorithm, name) in self.fill]
                targets = (*table.domains, *(wanted if table.left_out else ("average",)))
                rows += [self._csv_row(table, algorithm, target) for target in targets]
        for algorithm in self.algorithms if self.averaged_tables else ():
            place = (self.selection.name, "average", algorithm, "average")
            rows.append([*place, self.overall(algorithm), *[None] * 5, self.share, None])
        return csv_table(CSV_HEADER, rows)

    def _csv_row(self, table: DataSetTable, algorithm: str, target: str) -> list[object]:
        place = (table.data_set, algorithm, target)
        none = table.average[algorithm] if target == "average" else Estimate({}, table.trials)
        estimate = table.cells[algorithm].get(target, none)
        numbers = (estimate.mean, estimate.error, estimate.deviation)
        runs = table.runs_in.get((algorithm, target))
        counts = (len(estimate.values), len(estimate.missing), runs, self.share)
        return [self.selection.name, *place, *numbers, *counts, "; ".join(self.fill.get(place, ()))]

    def _data_set(self, table: DataSetTable) -> TextTable:
        whole = not table.left_out
        average = table.average
        estimates = {name: [*row.values(), *([average[name]] * whole)] for name, row in table.cells.items()}
        rows = [(name, *(each.say(self.spread) for each in row)) for name, row in estimates.items()]
        bold = best_cells([[each.mean for each in row] for row in estimates.values()])
        last = "Avg: the mean over targets inside each trial"
        if not whole:
            last = f"no run has {', '.join(table.left_out)} as its target, so that there is no average"
        how = f"{explain_spread(self.spread, len(table.trials))}; {last}{f'; {BEST}' if bold else ''}"
        header = ("algorithm", *table.domains, *(["Avg"] if whole else []))
        paired = (compared_with(table.cells, self.against),) if self.against in table.cells and self.against else ()
        tried = tuple(f"{name}: in each cell {words}." for name, words in table.tried.items())
        notes = (f"{self._scored()}: {how}. {count_runs(table)}", *tried, *paired)
        title = DATA_SETS[table.data_set].title if table.data_set in DATA_SETS else table.data_set
        caption = self._caption(f"each target of {title}", explain_spread(self.spread, len(table.trials)))
        text = TextTable(table.data_set, header, tuple(rows), notes, bold=bold, caption=caption)
        places = product([table.data_set], table.cells, (*table.domains, *table.left_out))
        return self._finish(text, missing_cells(table), places)

    def _averages(self) -> TextTable:
        tables = self.averaged_tables
        rows, means = [], []
        for algorithm in self.algorithms:
            overall = self.overall(algorithm)
            each = [self.average(table, algorithm) for table in tables]
            cells = [estimate.say(self.spread) for estimate in each]
            rows.append((algorithm, *cells, "missing" if overall is None else shown(overall)))
            means.append([*(estimate.mean for estimate in each), overall])
        bold = best_cells(means)
        counts = ", ".join(f"{len(table.trials)} of {table.data_set}" for table in tables)
        over = f"mean ± {SPREADS[self.spread]} over trials ({counts}) of the mean over targets"
        how = f"{over}; Avg: mean of the data sets"
        pairs = product(self.algorithms, tables)
        missing = [f"{name} on {table.data_set}" for name, table in pairs if self.average(table, name).missing]
        # what an algorithm lacks on a data set that it has some runs of is said above, in the table of that one
        places: list[CellKey] = []
        for table in tables:
            lacking = [name for name in self.algorithms if name not in table.cells]
            places += product([table.data_set], lacking, table.domains)
        runs = plural(sum(table.runs for table in tables), "run")
        first = f"{self._scored()}: {how}{f'; {BEST}' if bold else ''}. {runs}."
        header = ("algorithm", *(table.data_set for table in tables), "Avg")
        caption = self._caption("several data sets", f"mean ± {SPREADS[self.spread]} over trials")
        text = TextTable("averages", header, tuple(rows), (first,), bold=bold, caption=caption)
        return self._finish(text, missing, places)

    def _caption(self, where: str, spread: str) -> str:
        return f"Accuracy (%) on {where} ({spread}). Models are chosen by {self.selection.name} selection."

    def _scored(self) -> str:
        if self.share == 1:
            return "Accuracy in % on all images of the target"
        return f"Accuracy in % on the scored part of the target, {100 * self.share:g}% of its images"

    def _finish(self, table: TextTable, missing: Sequence[str], places: Iterable[CellKey]) -> TextTable:
        """The table with its selection named, and what is missing, with the commands that would fill it."""
        notes = [*table.notes, f"Model selection: {self.selection.summary}."]
        if missing:
            notes.append(f"Missing: {'; '.join(missing)}. This selection needs {self.selection.needs}.")
        commands = tuple(dict.fromkeys(command for place in places for command in self.fill.get(place, ())))
        return table._replace(notes=tuple(notes), commands=commands)


def selection_tables(
    records: Sequence[Record], selection: str, *, data_sets: Sequence[str] = (), algorithms: Sequence[str] = ()
) -> SelectionTables:
    """Select for every case and gather the results.

    Data sets and algorithms that are named come first, in that order; the others follow by name.
    """
    method = find_selection(selection)
    if not records:
        raise InputError("there are no records to select from: expected those of one run or more")
    shares = sorted({record.share for record in records})
    if len(shares) > 1:
        found = ", ".join(f"{share:g}" for share in shares)
        raise InputError(f"runs of a table must be scored on the same share of the target's images, found {found}")
    selected = select(records, selection)
    names = _ordered((record.data_set for record in records), data_sets)
    methods = _ordered((record.algorithm for record in records), algorithms)
    pairs = selection == "leave-one-domain-out"
    tables = tuple(
        data_set_table(name, [r for r in records if r.data_set == name], methods, selected, pairs=pairs)
        for name in names
    )
    return SelectionTables(method, shares[0], tables, methods)


def _ordered(found: Iterable[str], first: Sequence[str]) -> tuple[str, ...]:
    names = set(found)
    return (*(name for name in first if name in names), *sorted(names - set(first)))
