"""The paper's compaction tables: a row for every run, with the mean of each data set; or by data set and target."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from statistics import mean
from typing import Any

from parse_dg.errors import InputError
from parse_dg.files import read_json
from parse_dg.runs.compact import CompactionOutcome
from parse_dg.runs.folder import read_result
from parse_dg.tables.table import csv_table, markdown_table
from parse_dg.tables.text_table import TextTable
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


def table_rows(outcomes: Sequence[CompactionOutcome]) -> list[CompactionRow]:
    """The runs by data set, in the order given, with a mean below every data set that has several."""
    rows: list[CompactionRow] = []
    for data in dict.fromkeys(outcome.benchmark for outcome in outcomes):
        group = [_row(outcome) for outcome in outcomes if outcome.benchmark == data]
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


def read_row(folder: Path) -> tuple[CompactionRow, float] | None:
    """What `parse-dg compact` found of a run, and its threshold, from compact.json; None if it is not there."""
    path = folder / "compact.json"
    if not path.exists():
        return None
    report = read_json(path)
    try:
        target = report["domains"][report["target"]]
        figures = {
            **_change_of("model_parameters", report["model_parameters"]),
            **_change_of("lambda_parameters", report["lambda_parameters"]),
            **_change_of("applications", report["applications"]),
            **_change_of("gflops", report["gflops"]),
            **_change_of("target_accuracy", target["accuracy"]),
            **{name: report[name] for name in ("reduction", "images", "same_prediction")},
            "target_images": target["images"],
        }
        values: dict[str, Any] = {name: _number(value) for name, value in figures.items()}
        at_start = report["applications"].get("at_start")  # older reports do not say
        values["applications_at_start"] = None if at_start is None else _number(at_start)
        names = (report["benchmark"]["name"], report["target"], report["seed"])
        values |= dict(zip(NAMES, map(str, names), strict=True))
        row = CompactionRow(**values)
        threshold, fingerprint = float(report["threshold"]), report["benchmark"]["fingerprint"]
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is not what `parse-dg compact` writes: {type(error).__name__} {error}") from error
    result = read_result(folder)
    if result is not None and result["benchmark"]["fingerprint"] != fingerprint:
        raise InputError(f"{path} is of other images than the run: compact it again")
    return row, threshold


def _change_of(name: str, found: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{name}_before": found["before"], f"{name}_after": found["after"]}


def _number(found: object) -> float:
    """The number as it is, whole or not."""
    if isinstance(found, int | float) and not isinstance(found, bool):
        return found
    raise TypeError(f"{found!r} is no number")


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


def _row(outcome: CompactionOutcome) -> CompactionRow:
    report, target = outcome.compaction, outcome.target
    return CompactionRow(
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
        applications_at_start=outcome.applications_at_start,
        gflops_before=report.cost_before.gflops,
        gflops_after=report.cost_after.gflops,
        images=outcome.images,
        same_prediction=outcome.same_prediction,
        target_images=target.before.images,
        target_accuracy_before=target.before.fraction,
        target_accuracy_after=target.after.fraction,
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
