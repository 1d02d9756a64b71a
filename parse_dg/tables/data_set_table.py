"""Target accuracy on one data set: a cell an algorithm and a target, over trials, with the runs that are in it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from parse_dg.errors import InputError
from parse_dg.tables.estimate import Estimate
from parse_dg.tables.selection import Case, Record, SelectedModel, average
from parse_dg.wording import plural


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
    runs: int = 0
    runs_in: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """How many a cell is chosen from, by algorithm and target."""
    left_out: tuple[str, ...] = ()
    """Domains that are no columns, as no run has them as its target. There is no average then."""


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
        cells[algorithm] = {target: _estimate(values, trials) for target, values in of_target.items()}
        complete = [trial for trial in trials if all(trial in values for values in of_target.values())]
        means = {trial: average([values[trial] for values in of_target.values()]) for trial in complete}
        averages[algorithm] = _estimate(means, trials)
    used = [record for record in records if pairs or len(record.held_out) == 1]
    runs = dict.fromkeys((r.algorithm, r.held_out, r.trial, r.hyperparameters) for r in used)
    runs_in = Counter((algorithm, target) for algorithm, held_out, *_ in runs for target in held_out)
    return DataSetTable(name, domains, trials, cells, averages, len(runs), runs_in)


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
        lacking = [f"{target} ({_which(cell)})" for target, cell in cells.items() if cell.missing]
        if lacking:
            entries.append(f"{algorithm}: {', '.join(lacking)}")
    return entries


def _estimate(values: Mapping[int, float], trials: Sequence[int]) -> Estimate:
    return Estimate(values, tuple(trial for trial in trials if trial not in values))


def _which(cell: Estimate) -> str:
    if not cell.values:
        return "all trials"
    return ("trial " if len(cell.missing) == 1 else "trials ") + ", ".join(map(str, cell.missing))
