"""What the command line shows of runs: live while they last, then tables in which every number says what it is."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import TaskID

from parse_dg.cli.options import say
from parse_dg.cli.show.compact import CELLS, FOOTNOTE, NAMES, as_csv, as_markdown, table_rows, text_cells
from parse_dg.cli.show.progress import counting_display, training_display
from parse_dg.cli.show.tables import print_rows, print_table
from parse_dg.data.benchmarks import open_benchmark, require_target
from parse_dg.data.listing import Progress
from parse_dg.runs.afterwards.compact import CompactionOutcome, CompactionReport, compact_runs
from parse_dg.runs.afterwards.opened import NamedAccuracy
from parse_dg.runs.config import RunConfig
from parse_dg.runs.folder import read_finished
from parse_dg.runs.keeper import EVERY
from parse_dg.runs.result import RunResult
from parse_dg.runs.run import count_steps, execute, prepare
from parse_dg.runs.train import RunPreview
from parse_dg.sweeps.cost import SweepCost, duration
from parse_dg.tables.text_table import TextTable, spreadsheet_csv
from parse_dg.training.accuracy import Accuracy
from parse_dg.training.team import ALONE, Team
from parse_dg.wording import percent, plural


@contextmanager
def progress_display(console: Console | None = None) -> Iterator[Progress]:
    """Progress as bars, one for each thing that is counted, on standard error unless a console is given."""
    with counting_display(console or Console(stderr=True)) as bars:
        tasks: dict[str, TaskID] = {}

        def progress(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(escape(what), total=total)
            bars.update(tasks[what], completed=done)

        yield progress


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
        say(console, f"finished: nothing to do, this run is already in {folder}")
        return finished
    require_target(config.data)
    with progress_display(console) as progress:  # it may have to be made first
        opened = open_benchmark(config.data, progress)
    benchmark, split = prepare(config, opened)
    title = escape(f"{config.algorithm.name}, {_held_out(config.data.target)}")
    with training_display(console, title, count_steps(config, split)) as observe:
        return execute(
            config, folder, observe, benchmark, checkpoint_every=checkpoint_every, team=team, track=track
        )


def print_preview(console: Console, found: RunPreview, folder: Path, cost: SweepCost) -> None:
    """The images of each split, the length and the expected cost; where it would be written."""
    rows = [(part.domain, part.purpose, f"{part.images:,}") for part in found.parts]
    print_rows(console, ("domain", "images are for", "images"), rows, names=2)
    expected = []
    for estimate in () if found.finished else cost.estimates:
        how = f"{estimate.how}; `parse-dg sweep FILE --dry-run` times a few steps"
        if estimate.seconds is not None:
            how = f"{duration(estimate.seconds)} on one {cost.unit}, {estimate.how}"
        expected.append(f"expected cost: {how}")
    done = "the run is there already, and finished" if found.finished else "would be written to"
    say(
        console,
        *found.rules,
        f"{plural(found.classes, 'class')}; {plural(found.steps, 'step')} with batches of {found.batch:,} images "
        f"({found.epochs:.3g} epochs), {plural(found.checks, 'check')}; images {found.framing.words}",
        *expected,
        f"nothing was written; {done}: {folder}",
    )


def print_result(console: Console, result: RunResult, folder: Path) -> None:
    """The result of one run, said in full."""
    target = result.target
    split = "" if result.trial == result.seed else f", split by seed {result.trial}"
    held_out = _held_out(target.domain if target else None)
    title = f"{result.algorithm}, {held_out}, seed {result.seed}{split}"
    part = f"{result.validation_part} (source)"
    rows = [(f"{name}, {part}", *_shares(value)) for name, value in result.validation.items()]
    if len(rows) > 1:
        rows.append(("mean of the source domains", percent(result.validation_mean_accuracy), ""))
    if target:
        rows.append((f"{target.domain}, {target.part} (target: the result)", *_shares(target)))
    bold = frozenset((len(rows) - 1, column) for column in (0, 1)) if target else frozenset()
    print_table(console, TextTable(title, ("images", "accuracy", "correct of"), tuple(rows), (), bold=bold))
    say(console, f"weights of step {result.selected_step} of {result.steps}, by {result.selection}")
    plain = result.without_averaging  # of single steps, which the same run without averaging would have kept
    if plain and plain.target:
        chosen = f"weights of step {plain.selected_step} of {result.steps}, by {plain.selection}"
        share, correct = _shares(plain.target)
        of = f"{plain.target.domain}, {plain.target.part} (target)"
        say(console, f"without averaging: {share} on {of}, {correct}; {chosen}")
    if result.leakage.images:
        say(console, result.leakage.words)
    if per_class := result.active_applications_per_class:
        mean = sum(per_class) / len(per_class)
        say(console, f"{result.active_applications} predicate applications in use, {mean:.0f} a class on average")
    if not target:
        advice = f"`parse-dg evaluate {folder} --data FOLDER` scores it on images from elsewhere"
        say(console, f"no number above is of a domain that was not trained on: {advice}")
    say(console, f"written to {folder}")


def _held_out(target: str | None) -> str:
    return f"{target} held out" if target else "no domain held out"


def print_accuracies(console: Console, rows: Sequence[NamedAccuracy]) -> None:
    """Accuracies, each with the images it is of."""
    cells = [(row.domain, row.images, *_shares(row.accuracy)) for row in rows]
    print_rows(console, ("domain", "images", "accuracy", "correct of"), cells, names=2)


def _shares(value: Accuracy) -> tuple[str, str]:
    return percent(value.accuracy), f"{value.correct}/{value.images}"


def compact_with_display(
    folders: Sequence[Path], out: Path | None, threshold: float, device_name: str, console: Console | None
) -> list[CompactionOutcome]:
    """`compact_runs`, with a bar for every comparison."""
    with progress_display(console) as progress:
        return compact_runs(folders, out, threshold, device_name, progress)


def print_compactions(console: Console, outcomes: Sequence[CompactionOutcome], style: str) -> None:
    """A single run in full, several as the paper's table; in `markdown` and `csv` always the table and no more."""
    rows = table_rows([outcome.report for outcome in outcomes])
    if style != "text":
        text = as_markdown(rows) if style == "markdown" else as_csv(rows)
        say(console, spreadsheet_csv(text) if style == "csv" else text)
    elif len(outcomes) == 1:
        print_compaction(console, outcomes[0])
    else:
        title = f"compaction, threshold {outcomes[0].report.threshold:g}"
        print_rows(console, tuple(CELLS), text_cells(rows), len(NAMES), title)
        say(console, FOOTNOTE, *(f"written to {outcome.path}" for outcome in outcomes))


def print_compaction(console: Console, outcome: CompactionOutcome) -> None:
    """One run: what compaction dropped, and what that changed on every domain."""
    report = outcome.report
    title = f"{report.target} held out, seed {report.seed}, threshold {report.threshold:g}"
    counts = {
        "predicate applications": report.applications,
        "parameters of Λ (classes × applications)": report.lambda_parameters,
        "parameters of the whole model": report.model_parameters,
        "model file, bytes": report.file_bytes,
    }
    rows = [(name, f"{count.before:,}", f"{count.after:,}") for name, count in counts.items()]
    rows.append(("GFLOPs for one image", f"{report.gflops.before:.4f}", f"{report.gflops.after:.4f}"))
    print_rows(console, (title, "before", "after"), rows)
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
    say(console, f"written to {outcome.path}", f"all figures in {outcome.report_path}")


def _print_comparisons(console: Console, report: CompactionReport) -> None:
    """A row for every domain, the target first."""
    rows = [
        (
            f"{name} ({found.role})",
            f"{found.images:,}",
            f"{percent(found.accuracy.before)} → {percent(found.accuracy.after)}",
            f"{found.same_prediction:,}",
            f"{found.largest_logit_difference:.2g}",
        )
        for name, found in report.domains.items()
    ]
    print_rows(console, ("domain", "images", "accuracy", "same prediction", "largest logit difference"), rows)
    say(console, "all images of each domain: the target's were never seen in training, most of a source's were")
