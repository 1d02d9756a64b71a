"""What the command line shows of runs: live while they last, then tables in which every number says what it is."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import TaskID
from rich.table import Table

from parse_dg.cli.show.compact import CELLS, FOOTNOTE, NAMES, as_csv, as_markdown, table_rows, text_cells
from parse_dg.cli.show.progress import counting_display, training_display
from parse_dg.data.benchmarks import open_benchmark
from parse_dg.data.domain import Benchmark
from parse_dg.data.listing import Progress
from parse_dg.runs.compact import CompactionOutcome, CompactionReport, compact_runs
from parse_dg.runs.config import RunConfig
from parse_dg.runs.folder import read_finished
from parse_dg.runs.keeper import EVERY
from parse_dg.runs.opened import NamedAccuracy
from parse_dg.runs.result import RunResult, ScoredWeights
from parse_dg.runs.run import count_steps, execute, prepare
from parse_dg.training.team import ALONE, Team
from parse_dg.wording import percent


@contextmanager
def progress_display(console: Console) -> Iterator[Progress]:
    """Progress as bars, one for each thing that is counted."""
    with counting_display(console) as bars:
        tasks: dict[str, TaskID] = {}

        def progress(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(escape(what), total=total)
            bars.update(tasks[what], completed=done)

        yield progress


def open_with_display(config: RunConfig, console: Console) -> Benchmark:
    """The benchmark of a run, with a bar if it has to be made first."""
    with progress_display(console) as progress:
        return open_benchmark(config.data, progress)


def run_with_display(
    config: RunConfig,
    folder: Path,
    console: Console,
    *,
    track: Sequence[str] = (),
    checkpoint_every: float = EVERY,
    team: Team = ALONE,
) -> RunResult:
    """`execute`, shown live, by the first process where there are several."""
    if not team.first:
        console = Console(quiet=True)
    finished = read_finished(config, folder)
    if finished is not None:
        print_path(console, "finished: nothing to do, this run is already in", folder)
        return finished
    benchmark, split = prepare(config, open_with_display(config, console))
    title = escape(f"{config.algorithm.name}, {config.data.target} held out")
    with training_display(console, title, count_steps(config, split)) as observe:
        return execute(
            config, folder, observe, benchmark, checkpoint_every=checkpoint_every, team=team, track=track
        )


def print_result(console: Console, result: RunResult, folder: Path) -> None:
    """The result of one run, said in full."""
    target = result.target
    split = "" if result.trial == result.seed else f", split by seed {result.trial}"
    title = f"{result.algorithm}, {target.domain} held out, seed {result.seed}{split}"
    table = Table(title=escape(title), title_justify="left")
    table.add_column("images")
    table.add_column("accuracy", justify="right")
    table.add_column("correct of", justify="right")
    for name, value in result.validation.items():
        images = escape(f"{name}, {result.validation_part} (source)")
        table.add_row(images, percent(value.accuracy), f"{value.correct}/{value.images}")
    if len(result.validation) > 1:
        table.add_row("mean of the source domains", percent(result.validation_mean_accuracy), "")
    row = f"[bold]{escape(target.domain)}, {target.part} (target: the result)"
    table.add_row(row, f"[bold]{percent(target.accuracy)}", f"{target.correct}/{target.images}")
    console.print(table)
    console.print(f"weights of step {result.selected_step} of {result.steps}, by {result.selection}")
    if result.without_averaging:
        console.print(_without_averaging(result.without_averaging, result.steps), markup=False)
    if result.leakage.images:
        console.print(result.leakage.words, markup=False)
    if per_class := result.active_applications_per_class:
        mean = sum(per_class) / len(per_class)
        console.print(f"{result.active_applications} predicate applications in use, {mean:.0f} a class on average")
    print_path(console, "written to", folder)


def _without_averaging(plain: ScoredWeights, steps: int) -> str:
    """What the weights of single steps gave, which the same run without averaging would have kept."""
    target = plain.target
    return (
        f"without averaging: {percent(target.accuracy)} on {target.domain}, {target.part} (target), "
        f"{target.correct}/{target.images}; weights of step {plain.selected_step} of {steps}, by {plain.selection}"
    )


def print_accuracies(console: Console, rows: Sequence[NamedAccuracy]) -> None:
    """Accuracies, each with the images it is of."""
    table = Table("domain", "images")
    table.add_column("accuracy", justify="right")
    table.add_column("correct of", justify="right")
    for row in rows:
        value = row.accuracy
        table.add_row(escape(row.domain), row.images, percent(value.accuracy), f"{value.correct}/{value.images}")
    console.print(table)


def compact_with_display(
    folders: Sequence[Path], out: Path | None, threshold: float, device_name: str, console: Console
) -> list[CompactionOutcome]:
    """`compact_runs`, with a bar for every comparison."""
    with progress_display(console) as progress:
        return compact_runs(folders, out, threshold, device_name, progress)


def print_compactions(console: Console, outcomes: Sequence[CompactionOutcome], style: str) -> None:
    """A single run in full, several as the paper's table; in `markdown` and `csv` always the table and no more."""
    rows = table_rows([outcome.report for outcome in outcomes])
    if style != "text":
        text = as_markdown(rows) if style == "markdown" else as_csv(rows)
        console.print(text, markup=False, soft_wrap=True)
        return
    if len(outcomes) == 1:
        print_compaction(console, outcomes[0])
        return
    table = Table(title=f"compaction, threshold {outcomes[0].report.threshold:g}", title_justify="left")
    for heading in CELLS:
        table.add_column(heading, justify="left" if heading in NAMES else "right")
    for row in text_cells(rows):
        table.add_row(*map(escape, row))
    console.print(table)
    console.print(FOOTNOTE)
    for outcome in outcomes:
        print_path(console, "written to", outcome.path)


def print_compaction(console: Console, outcome: CompactionOutcome) -> None:
    """One run: what compaction dropped, and what that changed on every domain."""
    report = outcome.report
    title = f"{report.target} held out, seed {report.seed}, threshold {report.threshold:g}"
    table = Table(escape(title))
    for heading in ("before", "after"):
        table.add_column(heading, justify="right")
    counts = {
        "predicate applications": report.applications,
        "parameters of Λ (classes × applications)": report.lambda_parameters,
        "parameters of the whole model": report.model_parameters,
        "model file, bytes": report.file_bytes,
    }
    for name, count in counts.items():
        table.add_row(name, f"{count.before:,}", f"{count.after:,}")
    table.add_row("GFLOPs for one image", f"{report.gflops.before:.4f}", f"{report.gflops.after:.4f}")
    console.print(table)
    _print_comparisons(console, report)
    console.print(
        f"{percent(report.reduction)} of Λ's parameters are gone; the predicted class is the same on "
        f"{report.same_prediction:,} of all {report.images:,} images, the largest difference of a logit is "
        f"{report.largest_logit_difference:.2g}"
    )
    if report.applications.at_start is not None:
        unused = 1 - report.applications.at_start / report.applications.before
        console.print(
            f"in use at the start, before training: {report.applications.at_start:,} of "
            f"{report.applications.before:,} applications, so that {percent(unused)} of Λ's parameters were not "
            "needed even then"
        )
    print_path(console, "written to", outcome.path)
    print_path(console, "all figures in", outcome.report_path)


def _print_comparisons(console: Console, report: CompactionReport) -> None:
    """A row for every domain, the target first."""
    table = Table("domain")
    for heading in ("images", "accuracy", "same prediction", "largest logit difference"):
        table.add_column(heading, justify="right")
    for name, found in report.domains.items():
        table.add_row(
            f"{escape(name)} ({found.role})",
            f"{found.images:,}",
            f"{percent(found.accuracy.before)} → {percent(found.accuracy.after)}",
            f"{found.same_prediction:,}",
            f"{found.largest_logit_difference:.2g}",
        )
    console.print(table)
    console.print("all images of each domain: the target's were never seen in training, most of a source's were")


def print_path(console: Console, what: str, path: Path) -> None:
    """A path on one line, to be copied whole."""
    console.print(f"{what} {path}", markup=False, soft_wrap=True)
