"""What a run would do, as `parse-dg train --dry-run` shows it."""

from pathlib import Path

from rich.console import Console

from parse_dg.cli.options import say
from parse_dg.cli.show.tables import print_rows
from parse_dg.runs.preview import RunPreview
from parse_dg.sweeps.cost import SweepCost, duration
from parse_dg.wording import plural


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
        f"({found.epochs:.3g} epochs), {plural(found.checks, 'check')}",
        *expected,
        f"nothing was written; {done}: {folder}",
    )
