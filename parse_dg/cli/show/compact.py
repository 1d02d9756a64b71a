"""The paper's compaction tables: a row for every run, with the mean of each data set; or by data set and target."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from statistics import mean
from typing import Any

from parse_dg.runs.compact import CompactionReport
from parse_dg.runs.folder import TrainingTime
from parse_dg.tables.published import Published, PublishedCompaction, find_domain, find_name
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
    seconds_a_step: float | None = None
    """Of training, checks included."""
    seconds_an_epoch: float | None = None


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
TIMES: dict[str, Callable[[CompactionRow], str]] = {
    "s a step": lambda row: _seconds(row.seconds_a_step),
    "s an epoch": lambda row: _seconds(row.seconds_an_epoch),
}
"""The same, where the runs themselves are looked at."""
PUBLISHED_AS = {
    "parameters": ("parameters",),
    "parameters of Λ": ("Λ before", "Λ after"),
    "reduction of Λ": ("reduction",),
    "applications": ("applications before", "applications after"),
    "GFLOPs": ("GFLOPs before", "GFLOPs after"),
    "s a step": ("seconds a step",),
    "s an epoch": ("seconds an epoch",),
}
"""What published figures stand below a heading."""
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


def view_tables(
    rows: Sequence[CompactionRow], threshold: float, known: Published | None = None
) -> tuple[TextTable, ...]:
    """The means of each data set, and those of each target; published figures of the same below."""
    lossless = " (lossless)" if threshold == 0 else ""
    seconds = "s: seconds of training, checks included"
    note = f"Threshold {threshold:g}{lossless}. Means over the runs of a row: {FOOTNOTE}; {seconds}."
    by_data: dict[tuple[str, float], list[CompactionRow]] = {}
    by_target: dict[tuple[str, float, str], list[CompactionRow]] = {}
    for row in rows:  # what had another vocabulary has a row of its own
        by_data.setdefault((row.data, row.applications_before), []).append(row)
        by_target.setdefault((row.data, row.applications_before, row.target), []).append(row)
    numbers = {name: cell for name, cell in (CELLS | TIMES).items() if name not in NAMES}

    def text(group: Sequence[CompactionRow], *names: str) -> tuple[str, ...]:
        mean_of = _mean(group)
        return (*names, *(cell(mean_of) for cell in numbers.values()), str(len(group)))

    theirs = known.compaction if known else ()
    sets = {find_name(data) for data, _ in by_data}
    targets = {(name, find_domain(name, target)) for data, _, target in by_target if (name := find_name(data))}
    whole = [row for row in theirs if row.target is None and row.data_set in sets]
    single = [row for row in theirs if row.target is not None and (row.data_set, row.target) in targets]
    notes = tuple(f"{source.name}: {source.cite}." for source in dict.fromkeys(row.source for row in theirs))
    return (
        TextTable(
            "compaction by data set",
            ("data", *numbers, "runs"),
            (
                *(text(group, data) for (data, _), group in by_data.items()),
                *((f"{row.data_set} ({row.source.name}, {row.table})", *_printed(row, numbers)) for row in whole),
            ),
            (f"{plural(len(rows), 'run')}. {note}", *notes),
        ),
        TextTable(
            "compaction by target",
            ("data", "target", *numbers, "runs"),
            (
                *(text(group, data, target) for (data, _, target), group in by_target.items()),
                *((row.data_set, f"{row.target} ({row.source.name})", *_printed(row, numbers)) for row in single),
            ),
            (f"{plural(len(rows), 'run')}. {note}", *notes),
            names=2,
        ),
    )


def _printed(row: PublishedCompaction, headings: Iterable[str]) -> tuple[str, ...]:
    """Published figures as they are printed, below our headings; and no number of runs."""
    found = ([row.figures[part] for part in PUBLISHED_AS.get(name, ()) if part in row.figures] for name in headings)
    return (*(" → ".join(parts) or UNKNOWN for parts in found), "")


def table_row(report: CompactionReport, time: TrainingTime | None = None) -> CompactionRow:
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
        seconds_a_step=None if time is None else time.per_step,
        seconds_an_epoch=None if time is None else time.per_epoch,
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


def _seconds(number: float | None) -> str:
    return UNKNOWN if number is None else f"{number:.3g}"


def _gflops(number: float) -> str:
    return f"{number:.4f}"
