"""Tables of selected models: rows are algorithms, columns targets; what is missing is named, not averaged over."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from parse_dg.errors import InputError
from parse_dg.evaluation.selection import (
    Case,
    Record,
    Selected,
    Selection,
    average,
    find_selection,
    select,
    standard_error,
)
from parse_dg.evaluation.tables import csv_table
from parse_dg.evaluation.text_table import TextTable

CSV_HEADER = (
    *("selection", "data", "algorithm", "target"),
    *("accuracy", "standard_error", "trials", "missing_trials", "share_of_target"),
)
CHOSEN_HEADER = ("data", "algorithm", "target", "values", "trial", "hyper-parameters", "step", "score", "accuracy")


@dataclass(frozen=True)
class Estimate:
    """An accuracy over trials, as fractions."""

    values: Mapping[int, float]
    """By trial."""
    missing: tuple[int, ...] = ()
    """Trials of the data set that have no value."""

    @property
    def mean(self) -> float | None:
        return average(list(self.values.values())) if self.values else None

    @property
    def error(self) -> float | None:
        """The standard error of the mean; 0 for a single trial, which has no spread to measure."""
        return standard_error(list(self.values.values())) if self.values else None

    def __str__(self) -> str:
        """Mean ± standard error in per cent; says so when trials are missing."""
        if self.mean is None or self.error is None:
            return "missing"
        count = len(self.values)
        incomplete = f" ({count} of {count + len(self.missing)} trials)" if self.missing else ""
        return f"{100 * self.mean:.1f} ± {100 * self.error:.1f}{incomplete}"


@dataclass(frozen=True)
class DataSetTable:
    """Target accuracy on one data set."""

    data_set: str
    domains: tuple[str, ...]
    trials: tuple[int, ...]
    cells: Mapping[str, Mapping[str, Estimate]]
    """By algorithm, then by target."""
    average: Mapping[str, Estimate]
    """By algorithm: the mean over all targets inside a trial, for every trial that has them all."""


@dataclass(frozen=True)
class SelectionTables:
    """A table for every data set and, where there are several, one of their averages."""

    selection: Selection
    share: float
    """Of the target's images, the fraction that is scored."""
    tables: tuple[DataSetTable, ...]
    algorithms: tuple[str, ...]
    selected: Mapping[Case, Selected]

    def average(self, data_set: DataSetTable, algorithm: str) -> Estimate:
        """The mean over the targets of a data set."""
        return data_set.average.get(algorithm, Estimate({}, data_set.trials))

    def overall(self, algorithm: str) -> float | None:
        """The mean of the data sets' means, if there is one of each."""
        means = [self.average(table, algorithm).mean for table in self.tables]
        known = [value for value in means if value is not None]
        return average(known) if len(known) == len(means) else None

    def text(self) -> tuple[TextTable, ...]:
        """Each table as headings, rows of text and notes, the averages last."""
        tables = tuple(self._data_set(table) for table in self.tables)
        return (*tables, self._averages()) if len(tables) > 1 else tables

    def chosen(self) -> TextTable:
        """Which step and which hyper-parameters were selected, a row for every target and trial."""
        rows = []
        for case in self._cases():
            if found := self.selected.get(case):
                values = ", ".join(f"{name} {_say(value)}" for name, value in found.settings.items())
                numbers = (str(case.trial), found.hyperparameters, str(found.step))
                scores = (f"{100 * found.score:.1f}", f"{100 * found.accuracy:.1f}")
                rows.append((case.data_set, case.algorithm, case.target, values, *numbers, *scores))
        note = f"Model selection: {self.selection.summary}; that accuracy, in %, is the score. {self._scored()}."
        return TextTable("selected models", CHOSEN_HEADER, tuple(rows), (note,), names=4)

    def markdown(self) -> str:
        """Every table in Markdown, with its notes."""
        return "\n\n".join(table.markdown() for table in self.text())

    def latex(self) -> str:
        """Every table in LaTeX, with its notes."""
        return "\n\n".join(table.latex() for table in self.text())

    def csv(self) -> str:
        """One line for every cell of every table, unrounded; fractions instead of percentages."""
        rows: list[list[object]] = []
        for table in self.tables:
            for algorithm, cells in table.cells.items():
                for target, estimate in (*cells.items(), ("average", table.average[algorithm])):
                    rows.append(self._csv_row(table.data_set, algorithm, target, estimate))
        for algorithm in self.algorithms if len(self.tables) > 1 else ():
            overall = _blank(self.overall(algorithm))
            rows.append([self.selection.name, "average", algorithm, "average", overall, "", "", "", self.share])
        return csv_table(CSV_HEADER, rows)

    def _csv_row(self, data: str, algorithm: str, target: str, estimate: Estimate) -> list[object]:
        trials, missing = len(estimate.values), len(estimate.missing)
        numbers = (_blank(estimate.mean), _blank(estimate.error), trials, missing, self.share)
        return [self.selection.name, data, algorithm, target, *numbers]

    def _cases(self) -> list[Case]:
        return [
            Case(table.data_set, algorithm, target, trial)
            for table in self.tables
            for algorithm in table.cells
            for target in table.domains
            for trial in table.trials
        ]

    def _data_set(self, table: DataSetTable) -> TextTable:
        rows = [
            (algorithm, *map(str, cells.values()), str(table.average[algorithm]))
            for algorithm, cells in table.cells.items()
        ]
        count = len(table.trials)
        over = f"{count} trials" if count > 1 else "1 trial, which has no spread: its error is 0"
        how = f"mean ± standard error over {over}; Avg: the mean over targets inside each trial"
        notes = (f"{self._scored()}: {how}.", *self._notes(_missing(table)))
        return TextTable(table.data_set, ("algorithm", *table.domains, "Avg"), tuple(rows), notes)

    def _averages(self) -> TextTable:
        rows = []
        for algorithm in self.algorithms:
            overall = self.overall(algorithm)
            cells = [str(self.average(table, algorithm)) for table in self.tables]
            rows.append((algorithm, *cells, "missing" if overall is None else f"{100 * overall:.1f}"))
        counts = ", ".join(f"{len(table.trials)} of {table.data_set}" for table in self.tables)
        how = f"mean ± standard error over trials ({counts}) of the mean over targets; Avg: mean of the data sets"
        names = tuple(table.data_set for table in self.tables)
        missing = [
            f"{algorithm} on {table.data_set}"
            for algorithm in self.algorithms
            for table in self.tables
            if self.average(table, algorithm).missing
        ]
        notes = (f"{self._scored()}: {how}.", *self._notes(missing))
        return TextTable("averages", ("algorithm", *names, "Avg"), tuple(rows), notes)

    def _scored(self) -> str:
        if self.share == 1:
            return "Accuracy in % on all images of the target"
        return f"Accuracy in % on the target's in part, {100 * self.share:g}% of its images"

    def _notes(self, missing: Sequence[str]) -> tuple[str, ...]:
        selection = f"Model selection: {self.selection.summary}."
        if not missing:
            return (selection,)
        return (selection, f"Missing: {'; '.join(missing)}. This selection needs {self.selection.needs}.")


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
        raise InputError(
            f"one table must be of runs scored on the same share of the target's images, found {found}"
        )
    selected = select(records, selection)
    names = _ordered((record.data_set for record in records), data_sets)
    methods = _ordered((record.algorithm for record in records), algorithms)
    tables = tuple(_table(name, [r for r in records if r.data_set == name], methods, selected) for name in names)
    return SelectionTables(method, shares[0], tables, methods, selected)


def _table(
    name: str, records: Sequence[Record], algorithms: Sequence[str], selected: Mapping[Case, Selected]
) -> DataSetTable:
    domains = _domains(name, records)
    trials = tuple(sorted({record.trial for record in records}))
    present = {record.algorithm for record in records}
    cells, averages = {}, {}
    for algorithm in (algorithm for algorithm in algorithms if algorithm in present):
        found = {
            (target, trial): selected[case].accuracy
            for target in domains
            for trial in trials
            if (case := Case(name, algorithm, target, trial)) in selected
        }
        complete = {
            trial: average([found[target, trial] for target in domains])
            for trial in trials
            if all((target, trial) in found for target in domains)
        }
        cells[algorithm] = {
            target: _estimate({trial: found[target, trial] for trial in trials if (target, trial) in found}, trials)
            for target in domains
        }
        averages[algorithm] = _estimate(complete, trials)
    return DataSetTable(name, domains, trials, cells, averages)


def _estimate(values: Mapping[int, float], trials: Sequence[int]) -> Estimate:
    return Estimate(values, tuple(trial for trial in trials if trial not in values))


def _domains(name: str, records: Sequence[Record]) -> tuple[str, ...]:
    domains = records[0].domains
    for record in records:
        if record.domains != domains:
            found = f"{', '.join(domains)} and {', '.join(record.domains)}"
            raise InputError(f"the runs on {name} must have the same domains, found {found}")
    return domains


def _ordered(found: Iterable[str], first: Sequence[str]) -> tuple[str, ...]:
    names = set(found)
    return (*(name for name in first if name in names), *sorted(names - set(first)))


def _missing(table: DataSetTable) -> list[str]:
    """`ERM: C (trial 1), L (all trials)`, an entry for every algorithm that lacks something."""
    entries = []
    for algorithm, cells in table.cells.items():
        lacking = [f"{target} ({_which(cell)})" for target, cell in cells.items() if cell.missing]
        if lacking:
            entries.append(f"{algorithm}: {', '.join(lacking)}")
    return entries


def _which(cell: Estimate) -> str:
    if not cell.values:
        return "all trials"
    return ("trial " if len(cell.missing) == 1 else "trials ") + ", ".join(map(str, cell.missing))


def _say(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _blank(value: float | None) -> object:
    return "" if value is None else value
