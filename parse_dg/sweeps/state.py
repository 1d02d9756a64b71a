"""The state of a job, read from its folder: whoever runs it, in whatever terminal, sees the same."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

from parse_dg.errors import InputError
from parse_dg.files import is_locked
from parse_dg.runs.folder import LOCK, read_environment, read_finished, read_split
from parse_dg.runs.metrics import CheckLine, read_line
from parse_dg.sweeps.jobs import Job

TAIL = 1 << 16
"""Bytes at the end of a file in which its last lines are looked for."""

JobState = Literal["finished", "busy", "unfinished"]


def read_state(job: Job) -> JobState:
    """`busy`: a process is at it. `unfinished`: nobody is. Raises if the folder holds anything else."""
    if not (job.folder / "result.json").exists() and is_locked(job.folder / LOCK):
        return "busy"
    return "finished" if read_finished(job.config, job.folder) is not None else "unfinished"


class RunProgress(NamedTuple):
    """The progress of a run, by its last check."""

    step: int
    steps: int | None
    """How many the run has, of the stage it is in; None while that is not written."""
    accuracy: float | None
    """The mean over source domains of the accuracy on held-out images; None where none are held out."""
    stage: int | None = None
    """Of a run that has several."""

    def text(self) -> str:
        """On one line: `step 50 of 600, source validation 71.2%`."""
        stage = "" if self.stage is None else f"stage {self.stage}, "
        total = "" if self.steps is None else f" of {self.steps:,}"
        accuracy = "" if self.accuracy is None else f", source validation {100 * self.accuracy:.1f}%"
        return f"{stage}step {self.step:,}{total}{accuracy}"


def read_progress(job: Job) -> RunProgress:
    """The last check of a run; step 0 before the first."""
    check = _last_check(job.folder / "metrics.jsonl")
    if check is None:
        return RunProgress(step=0, steps=_count_steps(job), accuracy=None)
    return RunProgress(check.step, _count_steps(job), check.validation_mean_accuracy, check.stage)


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


def _last_check(metrics: Path) -> CheckLine | None:
    """The last whole line of metrics.jsonl: the one after it may be half written."""
    for line in reversed(read_tail(metrics).splitlines()):
        with suppress(InputError):
            return read_line(line)
    return None


def _count_steps(job: Job) -> int | None:
    training = job.config.training
    if training.epochs is None:
        return training.steps
    try:
        split = read_split(job.folder)
    except InputError:
        return None
    return training.total_steps(sum(split.training_images.values()), len(split.training_images)) if split else None
