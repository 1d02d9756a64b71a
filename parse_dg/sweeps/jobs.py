"""What a sweep is made of: jobs, each one run in a folder of its own, and what can run them.

The state of a job is read from its folder: whoever runs it, in whatever terminal, sees the same.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from parse_dg.errors import InputError
from parse_dg.files import is_locked
from parse_dg.runs.config import RunConfig
from parse_dg.runs.folder import LOCK, read_environment, read_finished, read_split
from parse_dg.runs.metrics import read_line
from parse_dg.wording import percent

HANDED_ON = ("PARSE_DG_CACHE", "PARSE_DG_DATA")
"""The environment variables that a run has on a cluster as it would have here, where they are set."""
TAIL = 1 << 16
"""Bytes at the end of a file in which its last lines are looked for."""

JobState = Literal["finished", "busy", "unfinished"]


class Job(NamedTuple):
    """One run."""

    config: RunConfig
    folder: Path


def log_path(logs: Path, job: Job) -> Path:
    """Where what a job says is kept: as its folder lies beside the folder of logs, or wherever else that is."""
    base, folder = logs.parent.absolute(), job.folder.absolute()
    inner = folder.relative_to(base) if folder.is_relative_to(base) else Path(*folder.parts[1:])
    return logs / inner.with_name(f"{inner.name}.log")


class Outcome(NamedTuple):
    """How an attempt at a job ended."""

    job: Job
    kind: Literal["done", "failed", "crashed", "elsewhere"]
    """`failed`: it would fail again, the same way. `crashed`: it may be tried again, and goes on where it was.
    `elsewhere`: another process is at it, or has finished it."""
    reason: str = ""


@runtime_checkable
class Launcher(Protocol):
    """Where jobs run: processes of this machine, or a cluster."""

    @property
    def slots(self) -> int:
        """How many jobs it takes at a time."""

    def start(self, job: Job) -> None:
        """Begin a job."""

    def wait(self, seconds: float) -> Sequence[Outcome]:
        """What has ended; at most this long is waited for the first."""

    def stop(self) -> None:
        """End everything that still runs; what is saved stays saved."""


def read_state(job: Job) -> JobState:
    """`busy`: a process is at it. `unfinished`: nobody is. Raises if the folder holds anything else."""
    if not (job.folder / "result.json").exists() and is_locked(job.folder / LOCK):
        return "busy"
    return "finished" if read_finished(job.config, job.folder, large=False) is not None else "unfinished"


class RunProgress(NamedTuple):
    """The progress of a run, by its last check."""

    step: int
    steps: int | None
    """How many the run has, of the stage it is in; None while that is not written."""
    accuracy: float | None
    """The mean over source domains of the accuracy on held-out images; None where none are held out."""
    stage: int | None = None

    def text(self) -> str:
        stage = "" if self.stage is None else f"stage {self.stage}, "
        total = "" if self.steps is None else f" of {self.steps:,}"
        accuracy = "" if self.accuracy is None else f", source validation {percent(self.accuracy)}"
        return f"{stage}step {self.step:,}{total}{accuracy}"


def read_progress(job: Job) -> RunProgress:
    """The last check of a run; step 0 before the first."""
    steps = _count_steps(job)
    for line in reversed(read_tail(job.folder / "metrics.jsonl").splitlines()):
        with suppress(InputError):  # the last line may be half written
            check = read_line(line)
            return RunProgress(check.step, steps, check.validation_mean_accuracy, check.stage)
    return RunProgress(step=0, steps=steps, accuracy=None)


def read_seconds(folder: Path) -> float | None:
    """How long a finished run took, where that is written."""
    try:
        environment = read_environment(folder)
    except InputError:
        return None
    return environment.seconds if environment else None


def read_tail(path: Path, start: int = 0) -> str:
    """The end of a file, from `start` at the earliest; nothing where there is no file."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(start, size - TAIL))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _count_steps(job: Job) -> int | None:
    training = job.config.training
    if training.epochs is None:
        return training.steps
    try:
        split = read_split(job.folder)
    except InputError:
        return None
    return training.total_steps(sum(split.training_images.values()), len(split.training_images)) if split else None
