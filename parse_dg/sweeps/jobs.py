"""What a sweep is made of: jobs, each one run in a folder of its own, and what can run them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from parse_dg.runs.config import RunConfig


class Job(NamedTuple):
    """One run."""

    config: RunConfig
    folder: Path
    """Where its results are, or will be."""


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
    """One line, for a person."""


@runtime_checkable
class Launcher(Protocol):
    """Where jobs run: processes of this machine, or a cluster."""

    name: str

    @property
    def slots(self) -> int:
        """How many jobs it takes at a time."""
        ...

    def start(self, job: Job) -> None:
        """Begin a job."""
        ...

    def wait(self, seconds: float) -> Sequence[Outcome]:
        """What has ended; at most this long is waited for the first."""
        ...

    def stop(self) -> None:
        """End everything that still runs; what is saved stays saved."""
        ...
