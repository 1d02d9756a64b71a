"""What a sweep will cost, before it runs: from finished runs of the same kind, or from a few steps that are timed.

Runs of one kind differ in seeds, in what is held out, in the optimiser and in how long they train. Where none of a
job's kind is finished, others of the same method on the same data set stand in. Only runs on the same device count.
Runs that share a device slow each other, so that an estimate is for runs in the company of those it is made from.
"""

import heapq
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from parse_dg.config import require
from parse_dg.devices import device_name, pick_device, synchronise
from parse_dg.errors import InputError
from parse_dg.runs.config import RunConfig
from parse_dg.runs.folder import read_config, read_environment, read_finished, read_result
from parse_dg.runs.run import build_trainer, count_steps, prepare
from parse_dg.sweeps.jobs import Job
from parse_dg.training.check import Check
from parse_dg.training.optimizer import OptimizerConfig
from parse_dg.wording import plural

log = logging.getLogger(__name__)

WARM_UP = 3
UNKNOWN = "nothing is known yet: no run of the same method and data set is finished on this device"


class RunTime(NamedTuple):
    """How long a run takes."""

    config: RunConfig
    device: str
    steps: int
    seconds: float
    measured: bool = False
    """Whether this is of a few steps; otherwise the run is finished."""


Key = tuple[object, ...]
Known = dict[Key, list[RunTime]]


class JobCost(NamedTuple):
    """The expected time of a job."""

    job: Job
    seconds: float | None
    how: str


@dataclass(frozen=True, kw_only=True)
class SweepCost:
    """What is left of a sweep to be run, and what that will take."""

    finished: int
    estimates: tuple[JobCost, ...]
    unit: str

    @property
    def unknown(self) -> int:
        return sum(estimate.seconds is None for estimate in self.estimates)

    @property
    def hours(self) -> float:
        """On one device, of the jobs of which something is known."""
        return sum(estimate.seconds or 0.0 for estimate in self.estimates) / 3600

    def wall_seconds(self, slots: int) -> float:
        """Until the last ends, if so many run at a time, each started when one before it has ended; of the jobs of
        which something is known.
        """
        require(slots >= 1, "slots", slots, "at least 1")
        ends = [0.0] * slots
        for estimate in self.estimates:
            heapq.heapreplace(ends, ends[0] + (estimate.seconds or 0.0))
        return max(ends)

    def lines(self, slots: int) -> list[str]:
        left = len(self.estimates)
        said = [f"{plural(self.finished + left, 'run')}: {self.finished} finished, {left} to do"]
        known = left - self.unknown
        if known:
            at_a_time = f", {duration(self.wall_seconds(slots))} with {slots} at a time"
            of = "" if not self.unknown else f" for {known} of them"
            said.append(f"estimated{of}: {self.hours:.2g} {self.unit}-hours{at_a_time}")
        groups: dict[str, list[float]] = {}
        for estimate in self.estimates:
            groups.setdefault(estimate.how, []).append(estimate.seconds or 0.0)
        for how, seconds in groups.items():
            each = "" if how == UNKNOWN else f" of {duration(fmean(seconds))} on average"
            said.append(f"{plural(len(seconds), 'run')}{each}: {how}")
        return said


def estimate_cost(
    jobs: Sequence[Job],
    *,
    below: Path | None = None,
    measure_steps: int = 0,
    told: Callable[[Job], None] = lambda job: None,
) -> SweepCost:
    """What the jobs that are not finished will take.

    Learnt from the jobs that are, and from every other finished run `below` a folder. With `measure_steps`, jobs of
    which nothing is known are timed for so many steps, one of each kind; `told` hears which, before it starts.
    """
    known: Known = {}
    others = sorted(path.parent for path in below.rglob("environment.json")) if below else []
    for run in read_timed([*(job.folder for job in jobs), *others]):
        _remember(known, run)
    left = [job for job in jobs if read_finished(job.config, job.folder, large=False) is None]
    devices = {name: _device(name) for name in {job.config.training.device for job in left}}
    estimates = []
    for job in left:
        of_kind, of_method = _keys(job.config, devices[job.config.training.device])
        if measure_steps and not _from_kin(job, known.get(of_kind), "of the same kind"):
            told(job)
            _remember(known, measure(job, measure_steps))
        found = _from_kin(job, known.get(of_kind), "of the same kind")
        other = _from_kin(job, known.get(of_method), f"of {job.config.method} with other settings")
        estimates.append(found or other or JobCost(job, None, UNKNOWN))
    on_cpu = bool(devices) and all(device.startswith("cpu") for device in devices.values())
    return SweepCost(finished=len(jobs) - len(left), estimates=tuple(estimates), unit="CPU" if on_cpu else "GPU")


def read_timed(folders: Iterable[Path]) -> Iterable[RunTime]:
    """How long each finished run took; folders without one, or with one that cannot be read, are passed over."""
    for folder in dict.fromkeys(folder.absolute() for folder in folders):
        if not (folder / "environment.json").exists():
            continue
        try:
            config, result, about = read_config(folder), read_result(folder), read_environment(folder)
        except InputError as error:
            log.info("%s is passed over: %s", folder, error)
            continue
        if result and about and about.seconds > 0:
            yield RunTime(config, about.device, result.steps, about.seconds)


def measure(job: Job, steps: int = 5) -> RunTime:
    """How long a job would take, from so many steps and one check of it; nothing is written but decoded images."""
    require(steps >= 1, "steps to measure", steps, "at least 1")
    config = job.config
    benchmark, split = prepare(config)
    device = pick_device(config.training.device)
    made = WARM_UP + steps + 1
    trainer = build_trainer(_brief(config, made, steps), benchmark, split, device, made)
    stamps: list[float] = []

    def stamp(step: int, check: Check | None) -> None:
        synchronise(device)
        stamps.append(time.perf_counter())

    trainer.fit(stamp)
    stamp(made, None)
    step = (stamps[-3] - stamps[WARM_UP - 1]) / steps
    check = max(0.0, stamps[-2] - stamps[-3] - step)  # the last step is the one with a check
    total = count_steps(config, split)
    checks = sum(config.training.checks_at(number) for number in range(1, total)) + 1
    seconds = (total * step + checks * check) * (2 if config.algorithm.trains_twice else 1)
    if config.averaging.kind == "swad":  # which ends with statistics of so many batches, and a check
        batch = max(0.0, stamps[-1] - stamps[-2] - check) / steps
        seconds += batch * config.averaging.statistics_batches + check
    return RunTime(config, device_name(device), total, seconds, measured=True)


def _brief(config: RunConfig, made: int, batches: int) -> RunConfig:
    """The same run with one check, after its last step, and nothing that is particular to a beginning."""
    return replace(
        config,
        algorithm=config.algorithm.without_beginning(),
        training=replace(config.training, check_every=made, check_from=0),
        averaging=replace(config.averaging, start=1, statistics_batches=batches),
    )


def duration(seconds: float) -> str:
    """45 s, 12 min, 3.4 hours, 2.5 days."""
    if seconds < 99.5:
        return f"{seconds:.0f} s" if seconds >= 1 else "under 1 s"
    if seconds < 99.5 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} hours" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} days"


def _keys(config: RunConfig, device: str) -> tuple[Key, Key]:
    kind = replace(
        config,
        seed=0,
        split=replace(config.split, seed=None, validation_domain=None),
        protocol=replace(config.protocol, selection="training-domain"),
        data=replace(config.data, target=""),
        optimizer=OptimizerConfig(),
        training=replace(config.training, steps=1, epochs=None, batch_per_domain=1, batch=None),
    )
    return (device, kind), (device, config.data.benchmark, config.method)


def _remember(known: Known, run: RunTime) -> None:
    for key in _keys(run.config, run.device):
        known.setdefault(key, []).append(run)


def _from_kin(job: Job, kin: Sequence[RunTime] | None, of: str) -> JobCost | None:
    """The mean of finished runs, or of measured ones if there are no others."""
    scales = [(run, scale) for run in kin or () if (scale := _scale(job.config, run)) is not None]
    scales = [(run, scale) for run, scale in scales if not run.measured] or scales
    if not scales:
        return None
    made_of = "timed steps of a run" if scales[0][0].measured else plural(len(scales), "finished run")
    scaled = any(abs(scale - 1) > 1e-9 for _, scale in scales)
    how = f"from {made_of} {of}" + (", by how many images are trained on" if scaled else "")
    return JobCost(job, fmean(run.seconds * scale for run, scale in scales), how)


def _scale(config: RunConfig, run: RunTime) -> float | None:
    """How much longer than a run this one trains; None where it cannot be said without opening the data."""
    mine, other = config.training, run.config.training
    if mine.epochs is not None:
        return None if other.epochs is None else mine.epochs / other.epochs
    if (mine.batch is None) != (other.batch is None):
        return None
    return mine.steps * mine.batch_size(1) / (run.steps * other.batch_size(1))


def _device(name: str) -> str:
    """What the device of this machine is called; one that is not here goes by its own name."""
    try:
        return device_name(pick_device(name))
    except InputError:
        return name
