"""Many runs, whatever happens: what is missing is started, what crashes is tried again, what is done stays done.

A sweep remembers nothing: it reads from the folders of its runs what is finished and what another process is at. So
it can be stopped and started at will, and run from two terminals at once.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from parse_dg.errors import InputError
from parse_dg.sweeps.jobs import Job, JobState, Launcher, Outcome, read_state

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

    @property
    def exit_code(self) -> int:
        return 1 if self.failed else 0


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
            if sweep.at("running"):
                for outcome in launcher.wait(TICK):
                    sweep.note(outcome)
            elif sweep.unfinished:
                time.sleep(TICK)
    finally:
        launcher.stop()
    return SweepReport(sweep.at("done"), tuple(sweep.failed), tuple(sweep.retried))


def unique(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Every job once; raises if two different runs would share a folder."""
    known: dict[Path, Job] = {}
    for job in jobs:
        if known.setdefault(job.folder.absolute(), job).config != job.config:
            raise InputError(f"two different runs have the folder {job.folder}: each must have its own")
    return tuple(known.values())


class _Sweep:
    """The jobs of a sweep, each in one place: a field of `SweepStatus`."""

    def __init__(self, jobs: Sequence[Job], observe: SweepObserver, retries: int) -> None:
        self.jobs = {job.folder: job for job in jobs}
        self.places = dict.fromkeys(self.jobs, "waiting")
        self.failed: list[Outcome] = []
        self.retried: list[Outcome] = []
        self.crashes: Counter[Path] = Counter()
        self.look_at: dict[Path, float] = {}
        self.observe, self.retries = observe, retries

    def at(self, place: str) -> tuple[Job, ...]:
        return tuple(self.jobs[folder] for folder, found in self.places.items() if found == place)

    @property
    def unfinished(self) -> bool:
        return not set(self.places.values()) <= {"done", "failed"}

    def standing(self) -> SweepStatus:
        return SweepStatus(*map(self.at, SweepStatus._fields))

    def find_finished(self) -> None:
        """Sort out what needs no start; raises before anything is started if a folder cannot be used."""
        for job in self.at("waiting"):
            self._sort(job, read_state(job))

    def fill(self, launcher: Launcher) -> None:
        running = len(self.at("running"))
        for job in self.at("waiting"):
            if running >= launcher.slots:
                return
            if self._may_start(job):  # another process may have taken or finished it since
                launcher.start(job)
                running += 1
                self._move(job, "running", "started")

    def look_elsewhere(self) -> None:
        """What other processes were at: finished, still busy, or given up and so ours to start."""
        now = time.monotonic()
        for job in self.at("elsewhere"):
            if now >= self.look_at[job.folder]:
                self._move(job, "waiting")
                self._may_start(job, told=True)

    def note(self, outcome: Outcome) -> None:
        match outcome.kind:
            case "done":
                self._move(outcome.job, "done", "done")
            case "failed":
                self._fail(outcome)
            case "crashed":
                self._note_crash(outcome)
            case "elsewhere":
                self._put_elsewhere(outcome.job)

    def _may_start(self, job: Job, told: bool = False) -> bool:
        """Whether a waiting job is nobody's; moves it to where it belongs if not."""
        try:
            state = read_state(job)
        except InputError as error:
            self._fail(Outcome(job, "failed", str(error)))
            return False
        self._sort(job, state, told)
        return state == "unfinished"

    def _sort(self, job: Job, state: JobState, told: bool = False) -> None:
        if state == "finished":
            self._move(job, "done", "found")
        elif state == "busy":
            self._put_elsewhere(job, told)

    def _put_elsewhere(self, job: Job, told: bool = False) -> None:
        self.look_at[job.folder] = time.monotonic() + LOOK_AGAIN
        self._move(job, "elsewhere", None if told else "elsewhere")

    def _note_crash(self, outcome: Outcome) -> None:
        folder = outcome.job.folder
        self.crashes[folder] += 1
        times = self.crashes[folder]
        if times > self.retries:
            often = f"crashed {times} times, at last: " if times > 1 else ""
            self._fail(outcome._replace(reason=often + outcome.reason))
        else:
            self.retried.append(outcome)
            self._move(outcome.job, "waiting", "retried", outcome.reason)

    def _fail(self, outcome: Outcome) -> None:
        self.failed.append(outcome)
        self._move(outcome.job, "failed", "failed", outcome.reason)

    def _move(self, job: Job, place: str, event: EventKind | None = None, reason: str = "") -> None:
        del self.places[job.folder]
        self.places[job.folder] = place
        if event is not None:
            self.observe(self.standing(), Event(job, event, reason))
