"""What the command line shows of a sweep: its plan, where every run stands while it lasts, how it ended."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from parse_dg.cli.options import say
from parse_dg.cli.show.tables import print_rows
from parse_dg.sweeps.jobs import Job, read_progress, read_seconds, read_state
from parse_dg.sweeps.loop import Event, SweepObserver, SweepReport, SweepStatus
from parse_dg.wording import plural

ROWS = 16
"""At most this many running jobs are shown, one on a line."""
REFRESH = 1.0
"""Seconds between two looks into the folders of running jobs."""
SAID = {"found": "done by another process:", "elsewhere": "another process is at"}
"""How events are said, where it is not by their name."""


def print_plan(console: Console, jobs: Sequence[Job]) -> None:
    """How many runs there are, by data set and method, and how many of them are finished."""
    states = {job.folder: read_state(job) for job in jobs}
    groups: dict[tuple[str, str], list[Job]] = {}
    for job in jobs:
        groups.setdefault((Path(job.config.data.benchmark).name, row_of(job).partition(",")[0]), []).append(job)
    columns: dict[str, list[int]] = {
        "settings": [len({row_of(job) for job in some}) for some in groups.values()],
        "targets": [len({job.config.data.target for job in some}) for some in groups.values()],
        "seeds": [len({job.config.trial for job in some}) for some in groups.values()],
        "runs": [len(some) for some in groups.values()],
    }
    for heading, state in (("finished", "finished"), ("running now", "busy"), ("to run", "unfinished")):
        columns[heading] = [sum(states[job.folder] == state for job in some) for some in groups.values()]
    for heading, nothing in (("settings", 1), ("running now", 0)):  # no column that says nothing
        if set(columns[heading]) == {nothing}:
            del columns[heading]
    rows = [(*names, *map(str, counts)) for names, *counts in zip(groups, *columns.values(), strict=True)]
    title = f"the plan: {plural(len(jobs), 'run')}"
    print_rows(console, ("data set", "method", *columns), rows, 2, title)


def row_of(job: Job) -> str:
    """The row of tables that a job belongs to, as its folder DATA/ROW/TARGET/seedN says."""
    return job.folder.parts[-3] if len(job.folder.parts) >= 3 else job.config.method


@contextmanager
def sweep_display(console: Console, out: Path) -> Iterator[SweepObserver]:
    """An observer that shows a sweep while it lasts: live in a terminal, elsewhere a line for every event.

    Jobs are called by their folders below `out`.
    """
    view = SweepView(out)
    if not console.is_terminal:

        def tell(standing: SweepStatus, event: Event | None) -> None:
            view.note(standing, event)
            if event is not None and (event.kind != "found" or view.ticked):  # the plan has said what was there
                say(console, f"{view.headline(standing)}: {view.describe(event)}")

        yield tell
        return
    with Live(console=console, transient=True, auto_refresh=False) as live:

        def show(standing: SweepStatus, event: Event | None) -> None:
            view.note(standing, event)
            if event is not None and event.kind in ("failed", "retried"):
                say(live.console, view.describe(event))
            if event is None and time.monotonic() - view.shown >= REFRESH:
                view.shown = time.monotonic()
                live.update(view.render(standing), refresh=True)

        yield show


class SweepView:
    """A sweep in words: counts, the jobs that run, time gone and time left."""

    def __init__(self, out: Path) -> None:
        self.out = out.absolute()
        self.began = time.monotonic()
        self.shown = -REFRESH
        self.side_by_side = 1
        self.ticked = False
        """Whether the sweep is past what it found at its beginning."""
        self.started: dict[Path, float] = {}
        """When a job that runs was first seen to."""
        self.seconds: dict[Path, float | None] = {}
        """How long the finished ones took, where that is known."""

    def note(self, standing: SweepStatus, event: Event | None) -> None:
        """Remember when a job began, and how many run when all places are filled."""
        if event is None:
            self.ticked = True
            self.side_by_side = max(1, len(standing.running) + len(standing.elsewhere))
        elif event.kind in ("started", "elsewhere"):
            self.started[event.job.folder] = time.monotonic()

    def name(self, job: Job) -> str:
        """A job by its folder."""
        folder = job.folder.absolute()
        return str(folder.relative_to(self.out) if folder.is_relative_to(self.out) else job.folder)

    def describe(self, event: Event) -> str:
        """An event on one line."""
        said = f"{SAID.get(event.kind, event.kind)} {self.name(event.job)}"
        if event.kind == "retried":
            return f"crashed and will be tried again: {self.name(event.job)}: {event.reason}"
        return f"{said}: {event.reason}" if event.reason else said

    def headline(self, standing: SweepStatus) -> str:
        """Counts, time gone and left: `3 of 24 runs done, 2 running, 19 waiting; 2:10 gone, about 9:00 left`."""
        counts = [f"{len(standing.done)} of {sum(map(len, standing))} runs done"]
        for what in ("running", "elsewhere", "failed", "waiting"):
            if some := getattr(standing, what):
                counts.append(f"{len(some)} {'run by another process' if what == 'elsewhere' else what}")
        left = self.time_left(standing)
        about = "" if left is None else f", about {clock(left)} left"
        return f"{', '.join(counts)}; {clock(time.monotonic() - self.began)} gone{about}"

    def time_left(self, standing: SweepStatus) -> float | None:
        """Seconds until all is done, if runs last as finished ones of their kind did and as many run side by side
        as do now; None before the first is finished.
        """
        kin: dict[tuple[str, str], list[float]] = {}
        now = time.monotonic()
        for job in standing.done:
            if job.folder not in self.seconds:  # seen from its start, it took a little longer than it says itself
                started = self.started.get(job.folder)
                self.seconds[job.folder] = read_seconds(job.folder) if started is None else now - started
            if (seconds := self.seconds[job.folder]) is not None:
                kin.setdefault(_kind(job), []).append(seconds)
        if not kin:
            return None
        typical = fmean(seconds for some in kin.values() for seconds in some)
        at_work = (*standing.running, *standing.elsewhere)

        def length(job: Job) -> float:
            return fmean(kin.get(_kind(job), (typical,)))

        left = [max(0.0, length(job) - (now - self.started.get(job.folder, now))) for job in at_work]
        left += [length(job) for job in standing.waiting]
        return max(sum(left) / self.side_by_side, max(left, default=0.0))

    def render(self, standing: SweepStatus) -> Group:
        """The headline, a bar, and a line for every job that runs."""
        ended = len(standing.done) + len(standing.failed)
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        at_work = [(job, "") for job in standing.running]
        at_work += [(job, "another process") for job in standing.elsewhere]
        now = time.monotonic()
        for job, where in at_work[:ROWS]:
            gone = clock(now - self.started.get(job.folder, now))
            table.add_row(Text(self.name(job)), Text(read_progress(job).text()), gone, where)
        bar = Table.grid()
        bar.add_row(ProgressBar(sum(map(len, standing)), ended, width=48))
        parts: list[RenderableType] = [Text(self.headline(standing)), bar, table]
        if len(at_work) > ROWS:
            parts.append(Text(f"and {len(at_work) - ROWS} more"))
        return Group(*parts)


def print_report(console: Console, report: SweepReport) -> None:
    """How a sweep ended: what is done, what was tried again, and why what failed did."""
    again = f"; tried again after a crash: {len(report.retried)}" if report.retried else ""
    say(console, f"{plural(len(report.done), 'run')} done, {len(report.failed)} failed{again}")
    say(console, *(f"failed: {outcome.job.folder}: {outcome.reason}" for outcome in report.failed))


def clock(seconds: float) -> str:
    """95 → 1:35; 3700 → 1:01:40."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _kind(job: Job) -> tuple[str, str]:
    """Jobs of one kind take about the same time."""
    return job.config.data.benchmark, row_of(job)
