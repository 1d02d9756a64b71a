"""The paper's compaction table: a row for every run, by data set and target, then the mean of each data set."""

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields
from statistics import mean

from parse_dg.evaluation.tables import csv_table, markdown_table
from parse_dg.experiments.compact import CompactionOutcome
from parse_dg.wording import percent


@dataclass(frozen=True, kw_only=True)
class Row:
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

CELLS: dict[str, Callable[[Row], str]] = {
    "data": lambda row: row.data,
    "target": lambda row: row.target,
    "seed": lambda row: row.seed,
    "parameters": lambda row: _change(row.model_parameters_before, row.model_parameters_after, _count),
    "parameters of Λ": lambda row: _change(row.lambda_parameters_before, row.lambda_parameters_after, _count),
    "reduction of Λ": lambda row: percent(row.reduction),
    "applications": lambda row: _change(row.applications_before, row.applications_after, _count),
    "GFLOPs": lambda row: _change(row.gflops_before, row.gflops_after, _gflops),
    "same prediction": lambda row: f"{_count(row.same_prediction)} of {_count(row.images)}",
    "accuracy on target": lambda row: _change(row.target_accuracy_before, row.target_accuracy_after, percent),
}
"""Heading → what stands below it."""
FOOTNOTE = (
    "parameters of the whole model, and of Λ alone; GFLOPs of one image; same prediction: images of all domains on "
    "which the predicted class is the same; accuracy on all images of the target, never seen in training"
)


def table_rows(outcomes: Sequence[CompactionOutcome]) -> list[Row]:
    """The runs by data set, in the order given, with a mean below every data set that has several."""
    rows: list[Row] = []
    for data in dict.fromkeys(outcome.benchmark for outcome in outcomes):
        group = [_row(outcome) for outcome in outcomes if outcome.benchmark == data]
        rows += group
        if len(group) > 1:
            rows.append(_mean(group))
    return rows


def text_cells(rows: Sequence[Row]) -> list[list[str]]:
    """Every row as it is read, a cell for every heading of `CELLS`."""
    return [[cell(row) for cell in CELLS.values()] for row in rows]


def as_markdown(rows: Sequence[Row]) -> str:
    """The table in Markdown."""
    return markdown_table(list(CELLS), text_cells(rows), names=len(NAMES))


def as_csv(rows: Sequence[Row]) -> str:
    """The table as comma-separated values, unrounded; fractions instead of percentages."""
    return csv_table([field.name for field in fields(Row)], [astuple(row) for row in rows])


def _row(outcome: CompactionOutcome) -> Row:
    report, target = outcome.compaction, outcome.target
    return Row(
        data=outcome.benchmark,
        target=target.domain,
        seed=str(outcome.seed),
        model_parameters_before=report.model_parameters_before,
        model_parameters_after=report.model_parameters_after,
        lambda_parameters_before=report.parameters_before,
        lambda_parameters_after=report.parameters_after,
        reduction=report.reduction,
        applications_before=report.applications_before,
        applications_after=report.applications_after,
        gflops_before=report.cost_before.gflops,
        gflops_after=report.cost_after.gflops,
        images=outcome.images,
        same_prediction=outcome.same_prediction,
        target_images=target.before.images,
        target_accuracy_before=target.before.fraction,
        target_accuracy_after=target.after.fraction,
    )


def _mean(rows: Sequence[Row]) -> Row:
    numbers = {f.name: mean(getattr(row, f.name) for row in rows) for f in fields(Row) if f.name not in NAMES}
    return Row(data=rows[0].data, target=f"mean of {len(rows)} runs", seed="", **numbers)


def _change(before: float, after: float, say: Callable[[float], str]) -> str:
    return f"{say(before)} → {say(after)}"


def _count(number: float) -> str:
    return f"{number:,.0f}"


def _gflops(number: float) -> str:
    return f"{number:.4f}"
