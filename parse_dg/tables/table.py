"""Tables over runs: rows are methods, columns are target domains; every cell says what it averages."""

import csv
import io
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Cell:
    """Target accuracies of several seeds, as fractions."""

    values: tuple[float, ...]

    def __str__(self) -> str:
        """Mean ± sample standard deviation in per cent; the mean alone for a single seed."""
        if not self.values:
            return "missing"
        mean = 100 * statistics.mean(self.values)
        if len(self.values) == 1:
            return f"{mean:.1f}"
        return f"{mean:.1f} ± {100 * statistics.stdev(self.values):.1f}"


@dataclass(frozen=True)
class AccuracyTable:
    """Target accuracy by method and held-out domain, over seeds."""

    domains: tuple[str, ...]
    rows: Mapping[str, Mapping[str, Cell]]
    """By method, then by held-out domain."""
    average: Mapping[str, Cell]
    """By method: for every seed that has all domains, the mean over them."""
    validation: Mapping[str, Cell]
    """By method: for every such seed, the mean source validation accuracy."""

    def markdown(self) -> str:
        """The table in Markdown, the best mean of each column in bold."""
        header = ["method", *(f"{domain}" for domain in self.domains), "mean of targets", "source validation"]
        columns = [{m: row[d] for m, row in self.rows.items()} for d in self.domains]
        columns += [dict(self.average), dict(self.validation)]
        return markdown_table(header, [[m, *(_emphasise(column, m) for column in columns)] for m in self.rows])


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]], names: int = 1) -> str:
    """A table in Markdown: the first columns are `names`, to the left; the others are numbers, to the right."""
    rule = "|---" * names + "|---:" * (len(header) - names) + "|"
    head, *lines = ("| " + " | ".join(row) + " |" for row in (header, *rows))
    return "\n".join([head, rule, *lines])


def csv_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table as comma-separated values, a line a row."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows((header, *rows))
    return text.getvalue().rstrip("\n")


def accuracy_table(results: Sequence[Mapping[str, Any]], domains: Sequence[str]) -> AccuracyTable:
    """Gather the `result.json` of many runs; a run is told apart by its method, target and seed."""
    target: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    validation: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for result in results:
        method, domain, seed = result["algorithm"], result["target"]["domain"], result["seed"]
        target[method][domain][seed] = result["target"]["accuracy"]
        validation[method][domain][seed] = result["validation_mean_accuracy"]
    return AccuracyTable(
        domains=tuple(domains),
        rows={m: {d: Cell(tuple(by[d].values())) for d in domains} for m, by in target.items()},
        average={m: _over_domains(by, domains) for m, by in target.items()},
        validation={m: _over_domains(by, domains) for m, by in validation.items()},
    )


def _over_domains(by_domain: Mapping[str, Mapping[int, float]], domains: Sequence[str]) -> Cell:
    seeds = set.intersection(*(set(by_domain.get(domain, {})) for domain in domains))
    return Cell(tuple(statistics.mean(by_domain[d][seed] for d in domains) for seed in sorted(seeds)))


def _emphasise(column: Mapping[str, Cell], method: str) -> str:
    means = {name: statistics.mean(cell.values) for name, cell in column.items() if cell.values}
    best = bool(means) and means.get(method) == max(means.values())
    return f"**{column[method]}**" if best else str(column[method])
