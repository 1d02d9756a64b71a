"""The paper's compaction tables: a row for every run, with the mean of each data set; or by data set and target."""

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields
from statistics import mean
from typing import Any

from parse_dg.runs.afterwards.compact import CompactionReport
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

_count, _gflops, _seconds = "{:,.0f}".format, "{:.4f}".format, "{:.3g}".format


def _known(number: float | None, say: Callable[[float], str]) -> str:
    return UNKNOWN if number is None else say(number)


def _change(before: float, after: float, say: Callable[[float], str]) -> str:
    return f"{say(before)} → {say(after)}"


CELLS: dict[str, Callable[[CompactionRow], str]] = {
    "data": lambda row: row.data,
    "target": lambda row: row.target,
    "seed": lambda row: row.seed,
    "parameters": lambda row: _change(row.model_parameters_before, row.model_parameters_after, _count),
    "parameters of Λ": lambda row: _change(row.lambda_parameters_before, row.lambda_parameters_after, _count),
    "reduction of Λ": lambda row: percent(row.reduction),
    "applications": lambda row: _change(row.applications_before, row.applications_after, _count),
    "in use at the start": lambda row: _known(row.applications_at_start, _count),
    "GFLOPs": lambda row: _change(row.gflops_before, row.gflops_after, _gflops),
    "same prediction": lambda row: f"{_count(row.same_prediction)} of {_count(row.images)}",
    "accuracy on target": lambda row: _change(row.target_accuracy_before, row.target_accuracy_after, percent),
}
"""Heading → what stands below it."""
TIMES: dict[str, Callable[[CompactionRow], str]] = {
    "s a step": lambda row: _known(row.seconds_a_step, _seconds),
    "s an epoch": lambda row: _known(row.seconds_an_epoch, _seconds),
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
    of_runs = "Means over the runs of a row"
    told = f"{plural(len(rows), 'run')}. Threshold {threshold:g}{lossless}. {of_runs}"
    theirs = known.compaction if known else ()
    sources = dict.fromkeys(row.source for row in theirs)
    notes = [f"{told}: {FOOTNOTE}; s: seconds of training, checks included."]
    notes += [f"{source.name}: {source.cite}." for source in sources]
    numbers = {name: cell for name, cell in (CELLS | TIMES).items() if name not in NAMES}
    tables = []
    for kind, names in (("data set", ("data",)), ("target", ("data", "target"))):
        groups: dict[Any, list[CompactionRow]] = {}
        for row in rows:  # what had another vocabulary has a row of its own
            groups.setdefault((row.applications_before, *(getattr(row, n) for n in names)), []).append(row)
        cells = [
            (*values, *(cell(_mean(group)) for cell in numbers.values()), str(len(group)))
            for (_, *values), group in groups.items()
        ]
        ours = {_published_name(*values) for _, *values in groups}
        alike = [row for row in theirs if (row.target is None) == (names == ("data",))]
        cells += [_printed(row, tuple(numbers)) for row in alike if (row.data_set, row.target) in ours]
        header = (*names, *numbers, "runs")
        title = f"compaction by {kind}"
        caption = f"What compaction keeps of PARSE, by {kind}. {of_runs}; before → after."
        tables.append(TextTable(title, header, tuple(cells), tuple(notes), names=len(names), caption=caption))
    return tuple(tables)


def _published_name(data: str, target: str | None = None) -> tuple[str | None, str | None]:
    """What papers call a data set of ours and, of a row by target, its target."""
    name = find_name(data)
    return name, find_domain(name, target) if name and target else None


def _printed(row: PublishedCompaction, headings: Sequence[str]) -> tuple[str, ...]:
    """Published figures as they are printed, below our headings; and no number of runs."""
    found = ([row.figures[part] for part in PUBLISHED_AS.get(name, ()) if part in row.figures] for name in headings)
    of = [f"{row.data_set} ({row.source.name}, {row.table})"]
    if row.target is not None:
        of = [row.data_set, f"{row.target} ({row.source.name})"]
    return (*of, *(" → ".join(parts) or UNKNOWN for parts in found), "")


def table_row(report: CompactionReport, time: TrainingTime | None = None) -> CompactionRow:
    """One run."""
    target = report.domains[report.target]
    names = ("model_parameters", "lambda_parameters", "applications", "gflops")
    pairs = {name: getattr(report, name) for name in names} | {"target_accuracy": target.accuracy}
    changes = {f"{name}_{when}": getattr(of, when) for name, of in pairs.items() for when in ("before", "after")}
    return CompactionRow(
        data=report.benchmark.name,
        target=report.target,
        seed=str(report.seed),
        reduction=report.reduction,
        applications_at_start=report.applications.at_start,
        images=report.images,
        same_prediction=report.same_prediction,
        target_images=target.images,
        seconds_a_step=None if time is None else time.per_step,
        seconds_an_epoch=None if time is None else time.per_epoch,
        **changes,
    )


def _mean(rows: Sequence[CompactionRow]) -> CompactionRow:
    numbers = {f.name: [getattr(row, f.name) for row in rows] for f in fields(CompactionRow) if f.name not in NAMES}
    means: dict[str, Any] = {name: None if None in some else mean(some) for name, some in numbers.items()}
    return CompactionRow(data=rows[0].data, target=f"mean of {len(rows)} runs", seed="", **means)
