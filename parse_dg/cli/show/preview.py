"""What a run would do, as `parse-dg train --dry-run` shows it."""

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from parse_dg.runs.train import RunPreview
from parse_dg.sweeps.cost import SweepCost, duration
from parse_dg.wording import plural


def print_preview(console: Console, found: RunPreview, folder: Path, cost: SweepCost) -> None:
    """The images of each split, the length and the expected cost; where it would be written."""
    table = Table("domain", "images are for")
    table.add_column("images", justify="right")
    for part in found.parts:
        table.add_row(escape(part.domain), part.purpose, f"{part.images:,}")
    console.print(table)
    for rule in found.rules:
        console.print(rule, markup=False, soft_wrap=True)
    console.print(
        f"{plural(found.classes, 'class')}; {plural(found.steps, 'step')} with batches of {found.batch:,} images "
        f"({found.epochs:.3g} epochs), {plural(found.checks, 'check')}",
        soft_wrap=True,
    )
    for line in expected_cost(found, cost):
        console.print(line, markup=False, soft_wrap=True)
    done = "the run is there already, and finished" if found.finished else "would be written to"
    console.print(f"nothing was written; {done}: {folder}", markup=False, soft_wrap=True)


def expected_cost(found: RunPreview, cost: SweepCost) -> list[str]:
    """How long it will take here, and how that is known."""
    if found.finished:
        return []
    (estimate,) = cost.estimates
    if estimate.seconds is None:
        return [f"expected cost: {estimate.how}; `parse-dg sweep FILE --dry-run` times a few steps"]
    return [f"expected cost: {duration(estimate.seconds)} on one {cost.unit}, {estimate.how}"]
