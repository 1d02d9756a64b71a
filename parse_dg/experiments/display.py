"""What the command line shows of runs: live while they last, then tables in which every number says what it is."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from parse_dg.data.benchmarks import Benchmark, open_benchmark
from parse_dg.experiments.config import RunConfig
from parse_dg.experiments.evaluate import CompactionOutcome, NamedAccuracy
from parse_dg.experiments.run import Result, count_steps, execute, prepare, read_finished
from parse_dg.training.progress import counting_display, training_display


def default_folder(config: RunConfig) -> Path:
    """runs/DATA/ALGORITHM/TARGET/seedN."""
    parts = (config.data.benchmark, config.algorithm.name, config.data.target, f"seed{config.seed}")
    return Path("runs").joinpath(*parts)


def open_with_display(config: RunConfig, console: Console) -> Benchmark:
    """The benchmark of a run, with a bar if it has to be made first."""
    with counting_display(console) as bars:
        tasks: dict[str, int] = {}

        def progress(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done)  # type: ignore[arg-type]

        return open_benchmark(config.data, progress)


def run_with_display(config: RunConfig, folder: Path, console: Console) -> Result:
    """`execute`, shown live."""
    finished = read_finished(config, folder)
    if finished is not None:
        print_path(console, "finished: nothing to do, this run is already in", folder)
        return finished
    benchmark, split = prepare(config, open_with_display(config, console))
    title = f"{config.algorithm.name}, {config.data.target} held out"
    with training_display(console, title, count_steps(config, split)) as observe:
        return execute(config, folder, observe, benchmark)


def print_result(console: Console, result: Result, folder: Path) -> None:
    """The result of one run, said in full."""
    target = result["target"]
    table = Table(
        title=f"{result['algorithm']}, {target['domain']} held out, seed {result['seed']}", title_justify="left"
    )
    table.add_column("images")
    table.add_column("accuracy", justify="right")
    table.add_column("correct of", justify="right")
    for name, value in result["validation"].items():
        table.add_row(
            f"{name}, held-out images (source)", percent(value["accuracy"]), f"{value['correct']}/{value['images']}"
        )
    table.add_row("mean of the source domains", percent(result["validation_mean_accuracy"]), "")
    row = f"[bold]{target['domain']}, all images (target: the result)"
    table.add_row(row, f"[bold]{percent(target['accuracy'])}", f"{target['correct']}/{target['images']}")
    console.print(table)
    console.print(f"weights of step {result['selected_step']} of {result['steps']}, by {result['selection']}")
    if "active_applications" in result:
        per_class = result["active_applications_per_class"]
        mean = sum(per_class) / len(per_class)
        console.print(
            f"{result['active_applications']} predicate applications in use, {mean:.0f} a class on average"
        )
    print_path(console, "written to", folder)


def print_accuracies(console: Console, rows: Sequence[NamedAccuracy]) -> None:
    """Accuracies, each with the images it is of."""
    table = Table("domain", "images")
    table.add_column("accuracy", justify="right")
    table.add_column("correct of", justify="right")
    for row in rows:
        value = row.accuracy
        table.add_row(row.domain, row.images, percent(value.fraction), f"{value.correct}/{value.images}")
    console.print(table)


def print_compaction(console: Console, outcome: CompactionOutcome) -> None:
    """The paper's compaction table for one run, and whether predictions changed."""
    report = outcome.compaction
    table = Table("structural layer")
    for heading in ("before", "after"):
        table.add_column(heading, justify="right")
    table.add_row("predicate applications", f"{report.applications_before:,}", f"{report.applications_after:,}")
    table.add_row(
        "parameters (classes × applications)", f"{report.parameters_before:,}", f"{report.parameters_after:,}"
    )
    table.add_row("model file, bytes", f"{outcome.size_before:,}", f"{outcome.size_after:,}")
    before, after = percent(outcome.target_before.fraction), percent(outcome.target_after.fraction)
    table.add_row(f"accuracy on {outcome.target} (target)", before, after)
    console.print(table)
    console.print(
        f"{100 * report.reduction:.1f}% of the structural parameters are gone; the predicted class is the same on "
        f"{outcome.same_prediction:,} of all {outcome.images:,} images, the largest difference of a logit is "
        f"{outcome.largest_difference:.1g}"
    )
    print_path(console, "written to", outcome.path)


def print_path(console: Console, what: str, path: Path) -> None:
    """A path on one line, to be copied whole."""
    console.print(f"{what} {path}", markup=False, soft_wrap=True)


def percent(fraction: float) -> str:
    """0.8125 → 81.2%."""
    return f"{100 * fraction:.1f}%"
