"""What a run cannot do without, asked for before it begins: classes and domains to learn from, and memory."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

from parse_dg.algorithms import ALGORITHMS
from parse_dg.data.domain import Benchmark
from parse_dg.data.loader import AHEAD
from parse_dg.data.splits import LeaveOneOut, Subset
from parse_dg.errors import FailedError, InputError
from parse_dg.runs.config import RunConfig
from parse_dg.wording import some

GIGABYTE = 10**9
CGROUP = Path("/sys/fs/cgroup/memory.max")


def require_trainable(config: RunConfig, benchmark: Benchmark, split: LeaveOneOut) -> None:
    """Raise where there would be nothing to learn: one class, none of the target's, or one domain for a method that
    compares them.
    """
    if len(present := _classes_of(split.training)) < 2:
        name, only = benchmark.name, benchmark.classes[min(present)]
        found = f"the images of {name} that train are all of one class, {only}"
        raise InputError(f"{found}, which any model gets right: expected two or more in the source domains")
    if split.target and not present & _classes_of([split.target]):
        target, known = split.target.domain.name, some([benchmark.classes[label] for label in sorted(present)])
        raise InputError(f"the target {target} has no image of a class that trains: expected some of {known}")
    if len(split.training) == 1 and config.algorithm.needs_domains:
        one, method = split.training[0].domain.name, config.algorithm.name
        able = ", ".join(name for name, each in ALGORITHMS.items() if not each.needs_domains)
        raise InputError(f"{method} compares source domains, and here is one, {one}: use one of {able}")


def _classes_of(subsets: Sequence[Subset]) -> set[int]:
    return {int(label) for subset in subsets for label in np.unique(subset.domain.labels[subset.indices])}


def cautions(benchmark: Benchmark, split: LeaveOneOut) -> Iterator[str]:
    """What a user should know before it is trained, a line each."""
    if len(split.training) == 1:
        name = split.training[0].domain.name
        yield (
            f"one source domain, {name}: what stays the same from domain to domain cannot be learnt from it, and "
            "validation says nothing of others; `parse-dg evaluate RUN --data FOLDER` scores images from elsewhere"
        )
    if split.target and (alone := _classes_of([split.target]) - _classes_of(split.training)):
        labels = split.target.domain.labels[split.target.indices]
        images, target = int(np.isin(labels, list(alone)).sum()), split.target.domain.name
        names = some([benchmark.classes[label] for label in sorted(alone)])
        yield (
            f"{images:,} of the {len(labels):,} images of the target {target} cannot be learnt: no source "
            f"domain has images of {names} that train; add some, or take these away"
        )


@contextmanager
def within_memory(
    config: RunConfig, benchmark: Benchmark, domains: int, device: torch.device, processes: int = 1
) -> Iterator[None]:
    """Refuse a run that cannot fit; within, running out of memory is one line with the settings that decide it.

    The system gives a process more than there is and kills it, or another, when it is used: too late for a line.
    """
    batch = "training.batch_per_domain" if config.training.batch is None else "training.batch"
    images = config.training.batch_size(domains) // processes
    bytes_per_value = AHEAD + (4 if device.type == "cpu" else 0)  # some read ahead, one as float32
    needed = {batch: (images * 3 * benchmark.image_size**2 * bytes_per_value, memory_of(torch.device("cpu")))}
    for name, count in config.algorithm.least_parameters(len(benchmark.classes)).items():
        needed[f"algorithm.{name}"] = (12 * count, memory_of(device))  # with gradient and what the optimiser keeps
    for name, (least, there) in needed.items():
        if least > there:
            found = f"{least / GIGABYTE:,.1f} GB of memory, and there are {there / GIGABYTE:,.1f} GB"
            raise InputError(f"{name} is too large: a run with it needs at least {found}")
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        known = isinstance(error, MemoryError | torch.OutOfMemoryError)  # PyTorch has no type for the CPU's
        if not known and not any(words in str(error) for words in ("can't allocate memory", "out of memory")):
            raise
        raise FailedError(f"out of memory on {device}: lower {' or '.join(needed)}") from error


def memory_of(device: torch.device) -> int:
    """All memory of a device in bytes; of the CPU, what this process may use of it."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = CGROUP.read_text().strip() if CGROUP.exists() else "max"
    return there if limit == "max" else min(there, int(limit))
