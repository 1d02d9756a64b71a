"""A live display of a training run: step, loss terms, validation accuracy, rate and time left."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from parse_dg.training.trainer import Check, Observer


@contextmanager
def training_display(console: Console, title: str, steps: int) -> Iterator[Observer]:
    """An observer that shows the run while it lasts; it shows nothing where the console is not a terminal."""
    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[state]}"),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(title, total=steps, state="")

        def observe(step: int, check: Check | None) -> None:
            progress.update(task, completed=step)
            if check:
                progress.update(task, state=describe(check))

        yield observe


@contextmanager
def counting_display(console: Console) -> Iterator[Progress]:
    """A plain bar for anything that is counted; tasks are added by the caller."""
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        yield progress


def describe(check: Check) -> str:
    """One line on a check."""
    terms = "  ".join(f"{name} {value:.3f}" for name, value in check.losses.items() if name != "total")
    rates = "  ".join(f"{name} {rate:.1e}" for name, rate in check.rates.items())
    accuracy = f"source validation {100 * check.mean_accuracy:.1f}%"
    return f"{accuracy}  loss {check.losses['total']:.3f} ({terms})  rate {rates}"
