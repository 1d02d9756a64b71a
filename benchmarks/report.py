"""What the benchmark reports: rows of ratios, as a table and as JSON."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from rich.markup import escape
from rich.table import Table

from benchmarks.timing import Laps

Unit = Literal["ms", "MiB", "columns"]


@dataclass(frozen=True)
class Goal:
    """What a ratio should be."""

    sense: Literal["at most", "at least"]
    limit: float

    def reached(self, ratio: float) -> bool:
        return ratio <= self.limit if self.sense == "at most" else ratio >= self.limit

    def __str__(self) -> str:
        return f"{'≤' if self.sense == 'at most' else '≥'} {self.limit:g}"


@dataclass(frozen=True, kw_only=True)
class Side:
    """One of the two things a ratio is of."""

    name: str
    values: Sequence[float]
    """One a round."""
    gpu: Sequence[float] = ()
    """Of times on a GPU: milliseconds between CUDA events."""

    @classmethod
    def timed(cls, name: str, laps: Laps) -> "Side":
        return cls(name=name, values=laps.host, gpu=laps.gpu)

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def as_json(self) -> dict[str, Any]:
        gpu = {"gpu_median": statistics.median(self.gpu)} if self.gpu else {}
        summary = {"median": self.median, "quartiles": quartiles(self.values), "repeats": len(self.values)}
        return {"name": self.name, **summary, **gpu}


@dataclass(frozen=True, kw_only=True)
class Row:
    """A ratio: the quotient of two medians. Its quartiles are those of the quotients of single rounds."""

    what: str
    first: Side
    second: Side
    unit: Unit = "ms"
    goal: Goal | None = None
    note: str = ""
    parts: dict[str, float] = field(default_factory=dict)
    """Other medians of the same measurement, in the same unit."""

    def renamed(self, what: str) -> "Row":
        return replace(self, what=what)

    @property
    def ratio(self) -> float:
        return self.first.median / self.second.median

    @property
    def reached(self) -> bool | None:
        return self.goal.reached(self.ratio) if self.goal else None

    @property
    def spread(self) -> tuple[float, float]:
        """Round by round; against the median where the second was not measured in each."""
        first, second = self.first.values, self.second.values
        if len(first) != len(second):
            second = [self.second.median] * len(first)
        return quartiles([a / b for a, b in zip(first, second, strict=True)])

    def as_json(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "ratio": self.ratio,
            "ratio_quartiles": self.spread,
            "goal": str(self.goal) if self.goal else None,
            "reached": self.reached,
            "unit": self.unit,
            "first": self.first.as_json(),
            "second": self.second.as_json(),
            "parts": self.parts,
            "note": self.note,
        }


@dataclass(frozen=True)
class Skipped:
    """A ratio that could not be measured here, and why."""

    what: str
    reason: str

    def as_json(self) -> dict[str, Any]:
        return {"what": self.what, "skipped": self.reason}


@dataclass
class Section:
    """The rows of one question, and what went wrong if not all are there."""

    title: str
    rows: list[Row | Skipped] = field(default_factory=list)
    error: str | None = None
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        rows = [row.as_json() for row in self.rows]
        return {"title": self.title, "seconds": self.seconds, "error": self.error, "rows": rows}


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """The first and the third."""
    if len(values) == 1:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def line(row: Row | Skipped) -> str:
    """A row in words, while the others are still being measured."""
    if isinstance(row, Skipped):
        return f"{row.what}: skipped, {row.reason}"
    return f"{row.what}: {row.ratio:.3f}"


LEGEND = """\
ratio: first ÷ second, of their medians; quartiles: of the ratios of single rounds, in which the two take turns
composed: the backbone measured once, the heads apart on given features; first = ERM step - ERM head + PARSE head"""


def table(section: Section) -> Table:
    """Every row of a section."""
    made = Table(title=section.title, title_justify="left", title_style="bold")
    made.add_column("ratio of")
    for name in ("ratio", "quartiles", "goal", "reached", "first", "second", "rounds"):
        made.add_column(name, justify="right", no_wrap=True)
    made.add_column("note")
    for row in section.rows:
        made.add_row(*_cells(row))
    if section.error:
        made.add_row("[red]failed", *[""] * 7, escape(section.error))
    return made


def _cells(row: Row | Skipped) -> list[str]:
    if isinstance(row, Skipped):
        return [row.what, *[""] * 7, escape(f"skipped: {row.reason}")]
    reached = {None: "", True: "[green]yes", False: "[red]no"}[row.reached]
    rounds = len(row.first.values)
    spread = "{:.3g} to {:.3g}".format(*row.spread) if rounds > 1 else ""
    medians = [f"{_short(side.median)} {row.unit}" for side in (row.first, row.second)]
    goal = str(row.goal) if row.goal else ""
    return [row.what, f"{row.ratio:.3f}", spread, goal, reached, *medians, str(rounds), row.note]


def _short(value: float) -> str:
    """Three or more digits, never an exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def write(path: Path, hardware: dict[str, Any], sections: dict[str, Section]) -> None:
    """The JSON file."""
    report = {"hardware": hardware, "sections": {name: section.as_json() for name, section in sections.items()}}
    path.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n")
