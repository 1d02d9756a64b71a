"""The paper's compaction tables: a row for every run, with the mean of each data set; or by data set and target."""

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields
from statistics import mean
from typing import Any

from parse_dg.runs.compact import CompactionReport
from parse_dg.tables.text_table import TextTable, csv_table, markdown_table
from parse_dg.wording import percent, plural


@dataclass(frozen=True, kw_only=True)
class CompactionRow:
    """One run, or the mean of several. The names of the fields are those of the CSV file."""

    data: str
    target: str
    seed: str
    model_parameters_before: float
    model_parameters_after: float
    lambda_parameters_before: float
    lambda_parameters_after: float
    reduction: float
    applications_before: float
    applications_after: float
    applications_at_start: float | None
    """In use before training; None if that is not known of one of the runs."""
    gflops_before: float
    gflops_after: float
    images: float
    same_prediction: float
    """On how many of the images, of all domains, the predicted class is the same."""
    target_images: float
    target_accuracy_before: float
    target_accuracy_after: float


NAMES = ("data", "target", "seed")
"""The fields that say what a row is of."""
UNKNOWN = "–"

CELLS: dict[str, Callable[[CompactionRow], str]] = {
    "data": lambda row: row.data,
    "target": lambda row: row.target,
    "seed": lambda row: row.seed,
    "parameters": lambda row: _change(row.model_parameters_before, row.model_parameters_after, _count),
    "parameters of Λ": lambda row: _change(row.lambda_parameters_before, row.lambda_parameters_after, _count),
    "reduction of Λ": lambda row: percent(row.reduction),
    "applications": lambda row: _change(row.applications_before, row.applications_after, _count),
    "in use at the start": lambda row: _count_or_unknown(row.applications_at_start),
    "GFLOPs": lambda row: _change(row.gflops_before, row.gflops_after, _gflops),
    "same prediction": lambda row: f"{_count(row.same_prediction)} of {_count(row.images)}",
    "accuracy on target": lambda row: _change(row.target_accuracy_before, row.target_accuracy_after, percent),
}
"""Heading → what stands below it."""
FOOTNOTE = (
    "parameters of the whole model, and of Λ alone; in use at the start: applications that some class used before "
    "training; GFLOPs of one image; same prediction: images of all domains on which the predicted class is the "
    "same; accuracy on all images of the target, never seen in training"
)


def table_rows(reports: Sequence[CompactionReport]) -> list[CompactionRow]:
    """The runs by data set, in the order given, with a mean below every data set that has several."""
    rows: list[CompactionRow] = []
    for data in dict.fromkeys(report.benchmark.name for report in reports):
        group = [table_row(report) for report in reports if report.benchmark.name == data]
        rows += group
        if len(group) > 1:
            rows.append(_mean(group))
    return rows


def text_cells(rows: Sequence[CompactionRow]) -> list[list[str]]:
    """Every row as it is read, a cell for every heading of `CELLS`."""
    return [[cell(row) for cell in CELLS.values()] for row in rows]


def as_markdown(rows: Sequence[CompactionRow]) -> str:
    """The table in Markdown."""
    return markdown_table(list(CELLS), text_cells(rows), names=len(NAMES))


def as_csv(rows: Sequence[CompactionRow]) -> str:
    """The table as comma-separated values, unrounded; fractions instead of percentages."""
    return csv_table([field.name for field in fields(CompactionRow)], [astuple(row) for row in rows])


def view_tables(rows: Sequence[CompactionRow], threshold: float) -> tuple[TextTable, ...]:
    """The means of each data set, and those of each target."""
    lossless = " (lossless)" if threshold == 0 else ""
    note = f"Threshold {threshold:g}{lossless}. Means over the runs of a row: {FOOTNOTE}."
    by_data: dict[tuple[str, float], list[CompactionRow]] = {}
    by_target: dict[tuple[str, float, str], list[CompactionRow]] = {}
    for row in rows:  # what had another vocabulary has a row of its own
        by_data.setdefault((row.data, row.applications_before), []).append(row)
        by_target.setdefault((row.data, row.applications_before, row.target), []).append(row)
    numbers = [name for name in CELLS if name not in NAMES]

    def text(group: Sequence[CompactionRow], *names: str) -> tuple[str, ...]:
        mean_of = _mean(group)
        return (*names, *(CELLS[name](mean_of) for name in numbers), str(len(group)))

    return (
        TextTable(
            "compaction by data set",
            ("data", *numbers, "runs"),
            tuple(text(group, data) for (data, _), group in by_data.items()),
            (f"{plural(len(rows), 'run')}. {note}",),
        ),
        TextTable(
            "compaction by target",
            ("data", "target", *numbers, "runs"),
            tuple(text(group, data, target) for (data, _, target), group in by_target.items()),
            (f"{plural(len(rows), 'run')}. {note}",),
            names=2,
        ),
    )


def table_row(report: CompactionReport) -> CompactionRow:
    """One run."""
    target = report.domains[report.target]
    return CompactionRow(
        data=report.benchmark.name,
        target=report.target,
        seed=str(report.seed),
        model_parameters_before=report.model_parameters.before,
        model_parameters_after=report.model_parameters.after,
        lambda_parameters_before=report.lambda_parameters.before,
        lambda_parameters_after=report.lambda_parameters.after,
        reduction=report.reduction,
        applications_before=report.applications.before,
        applications_after=report.applications.after,
        applications_at_start=report.applications.at_start,
        gflops_before=report.gflops.before,
        gflops_after=report.gflops.after,
        images=report.images,
        same_prediction=report.same_prediction,
        target_images=target.images,
        target_accuracy_before=target.accuracy.before,
        target_accuracy_after=target.accuracy.after,
    )


def _mean(rows: Sequence[CompactionRow]) -> CompactionRow:
    numbers = {f.name: [getattr(row, f.name) for row in rows] for f in fields(CompactionRow) if f.name not in NAMES}
    means: dict[str, Any] = {name: None if None in some else mean(some) for name, some in numbers.items()}
    return CompactionRow(data=rows[0].data, target=f"mean of {len(rows)} runs", seed="", **means)


def _change(before: float, after: float, say: Callable[[float], str]) -> str:
    return f"{say(before)} → {say(after)}"


def _count(number: float) -> str:
    return f"{number:,.0f}"


def _count_or_unknown(number: float | None) -> str:
    return UNKNOWN if number is None else _count(number)


def _gflops(number: float) -> str:
    return f"{number:.4f}"
