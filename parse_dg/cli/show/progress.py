"""A live display of a training run: step, loss terms, validation accuracy, rate and time left."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from parse_dg.training.check import Check, Observer


@contextmanager
def training_display(console: Console, title: str, steps: int) -> Iterator[Observer]:
    """An observer that shows the run while it lasts; where the console is not a terminal, by a line a check."""
    if not console.is_terminal:

        def print_line(step: int, check: Check | None) -> None:
            if check:
                loss = check.losses["total"]
                line = f"{title}: step {step} of {steps}, {_accuracy(check)}, loss {loss:.3f}"
                console.print(line, soft_wrap=True)

        yield print_line
        return
    names = (TextColumn("[bold]{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn())
    bar = Progress(*names, TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    task = bar.add_task(title, total=steps)
    last = Text()  # on lines of its own, so that the bar keeps its place on a narrow terminal
    with Live(Group(bar, last), console=console, transient=True):

        def observe(step: int, check: Check | None) -> None:
            bar.update(task, completed=step)
            if check:
                last.plain = check_line(check)

        yield observe


def print_checks(step: int, check: Check | None) -> None:
    """An observer for scripts and notebooks: prints every check."""
    if check:
        print(check_line(check))


@contextmanager
def counting_display(console: Console) -> Iterator[Progress]:
    """A plain bar for anything that is counted; tasks are added by the caller."""
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        yield progress


def check_line(check: Check) -> str:
    """Three lines on a check: accuracy, loss and its terms, rates."""
    terms = " + ".join(f"{name} {value:.3f}" for name, value in check.losses.items() if name != "total")
    rates = ", ".join(f"{name} {rate:.1e}" for name, rate in check.rates.items())
    return f"  step {check.step}: {_accuracy(check)}\n  loss {check.losses['total']:.3f} = {terms}\n  rate {rates}"


def _accuracy(check: Check) -> str:
    found = f"source validation {100 * check.mean_accuracy:.1f}%"
    return found if check.validation else "trained on all source images, none held out"
