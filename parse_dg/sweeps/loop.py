"""Many runs, whatever happens: what is missing is started, what crashes is tried again, what is done stays done.

A sweep remembers nothing: it reads from the folders of its runs what is finished and what another process is at. So
it can be stopped and started at will, and run from two terminals at once.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from parse_dg.errors import FailedError, InputError
from parse_dg.sweeps.jobs import Job, Launcher, Outcome
from parse_dg.sweeps.state import JobState, read_state

TICK = 0.5
"""Seconds between two looks at everything, unless something ends before."""
LOOK_AGAIN = 5.0
"""Seconds between two looks at a run of another process."""


EventKind = Literal["found", "started", "done", "failed", "retried", "elsewhere"]


class Event(NamedTuple):
    """A job was found, started, finished, failed or retried."""

    job: Job
    kind: EventKind
    """`found`: it is finished, by whomever. `retried`: it crashed and waits to be tried again."""
    reason: str = ""


class SweepStatus(NamedTuple):
    """The state of every job of a sweep: each is in one of these."""

    waiting: tuple[Job, ...]
    running: tuple[Job, ...]
    elsewhere: tuple[Job, ...]
    """Another process is at them."""
    done: tuple[Job, ...]
    failed: tuple[Job, ...]


SweepObserver = Callable[[SweepStatus, Event | None], None]
"""Called for every event, and now and then without one."""


class SweepReport(NamedTuple):
    """How a sweep ended."""

    done: tuple[Job, ...]
    """With a result in the folder, whoever made it."""
    failed: tuple[Outcome, ...]
    retried: tuple[Outcome, ...]
    """The crashes after which a job was tried again."""

    @property
    def exit_code(self) -> int:
        """1 if a run failed."""
        return 1 if self.failed else 0


class SweepFailedError(FailedError):
    """Some runs of a sweep failed; all the others are done."""


def run_sweep(jobs: Sequence[Job], launcher: Launcher, observe: SweepObserver, retries: int = 2) -> SweepReport:
    """Run what is missing of `jobs`; a job that crashes is started again up to `retries` times.

    Returns when every job is done or has failed, by this process or another. When interrupted, what runs is told to
    save and end.
    """
    sweep = _Sweep(unique(jobs), observe, retries)
    try:
        sweep.find_finished()
        while sweep.unfinished:
            sweep.look_elsewhere()
            sweep.fill(launcher)
            observe(sweep.standing(), None)
            if sweep.running:
                for outcome in launcher.wait(TICK):
                    sweep.note(outcome)
            elif sweep.unfinished:
                time.sleep(TICK)
    finally:
        launcher.stop()
    return SweepReport(tuple(sweep.done.values()), tuple(sweep.failed.values()), tuple(sweep.retried))


def unique(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Every job once; raises if two different runs would share a folder."""
    known: dict[Path, Job] = {}
    for job in jobs:
        if known.setdefault(job.folder.absolute(), job).config != job.config:
            raise InputError(f"two different runs have the folder {job.folder}: each must have its own")
    return tuple(known.values())


class _Sweep:
    """The jobs of a sweep, each in one of `waiting`, `running`, `elsewhere`, `done` and `failed`."""

    def __init__(self, jobs: Sequence[Job], observe: SweepObserver, retries: int) -> None:
        self.waiting = {job.folder: job for job in jobs}
        self.running: dict[Path, Job] = {}
        self.elsewhere: dict[Path, Job] = {}
        self.done: dict[Path, Job] = {}
        self.failed: dict[Path, Outcome] = {}
        self.retried: list[Outcome] = []
        self.crashes: Counter[Path] = Counter()
        self.look_at: dict[Path, float] = {}
        """When a job of another process is looked at again."""
        self.observe = observe
        self.retries = retries

    @property
    def unfinished(self) -> bool:
        return bool(self.waiting or self.running or self.elsewhere)

    def standing(self) -> SweepStatus:
        failed = tuple(outcome.job for outcome in self.failed.values())
        waiting, running, elsewhere, done = (
            tuple(jobs.values()) for jobs in (self.waiting, self.running, self.elsewhere, self.done)
        )
        return SweepStatus(waiting, running, elsewhere, done, failed)

    def find_finished(self) -> None:
        """Sort out what needs no start; raises before anything is started if a folder cannot be used."""
        for job in tuple(self.waiting.values()):
            self._sort(job, read_state(job))

    def fill(self, launcher: Launcher) -> None:
        """Start what waits while there is room."""
        for job in tuple(self.waiting.values()):
            if len(self.running) >= launcher.slots:
                return
            if self._may_start(job):  # another process may have taken or finished it since
                del self.waiting[job.folder]
                self.running[job.folder] = job
                launcher.start(job)
                self._tell(job, "started")

    def look_elsewhere(self) -> None:
        """What other processes were at: finished, still busy, or given up and so ours to start."""
        now = time.monotonic()
        for job in tuple(self.elsewhere.values()):
            if now >= self.look_at[job.folder]:
                del self.elsewhere[job.folder]
                self.waiting[job.folder] = job
                self._may_start(job, told=True)

    def note(self, outcome: Outcome) -> None:
        """What has ended in the launcher."""
        job = self.running.pop(outcome.job.folder)
        match outcome.kind:
            case "done":
                self.done[job.folder] = job
                self._tell(job, "done")
            case "failed":
                self._fail(outcome)
            case "crashed":
                self._note_crash(outcome)
            case "elsewhere":
                self._put_elsewhere(job)

    def _may_start(self, job: Job, told: bool = False) -> bool:
        """Whether a waiting job is nobody's; moves it to where it belongs if not."""
        try:
            state = read_state(job)
        except InputError as error:
            del self.waiting[job.folder]
            self._fail(Outcome(job, "failed", str(error)))
            return False
        self._sort(job, state, told)
        return state == "unfinished"

    def _sort(self, job: Job, state: JobState, told: bool = False) -> None:
        """Move a waiting job to where its state says it belongs."""
        if state == "unfinished":
            return
        del self.waiting[job.folder]
        if state == "finished":
            self.done[job.folder] = job
            self._tell(job, "found")
        else:
            self._put_elsewhere(job, told)

    def _put_elsewhere(self, job: Job, told: bool = False) -> None:
        self.elsewhere[job.folder] = job
        self.look_at[job.folder] = time.monotonic() + LOOK_AGAIN
        if not told:
            self._tell(job, "elsewhere")

    def _note_crash(self, outcome: Outcome) -> None:
        job = outcome.job
        self.crashes[job.folder] += 1
        times = self.crashes[job.folder]
        if times > self.retries:
            often = f"crashed {times} times, at last: " if times > 1 else ""
            self._fail(outcome._replace(reason=often + outcome.reason))
            return
        self.retried.append(outcome)
        self.waiting[job.folder] = job
        self._tell(job, "retried", outcome.reason)

    def _fail(self, outcome: Outcome) -> None:
        self.failed[outcome.job.folder] = outcome
        self._tell(outcome.job, "failed", outcome.reason)

    def _tell(self, job: Job, kind: EventKind, reason: str = "") -> None:
        self.observe(self.standing(), Event(job, kind, reason))
