"""Memory that a run cannot do without: asked for before it is taken, and named where it runs out all the same."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from parse_dg.data.domain import Benchmark
from parse_dg.data.loader import AHEAD
from parse_dg.errors import FailedError, InputError
from parse_dg.runs.config import RunConfig

GIGABYTE = 10**9
CGROUP = Path("/sys/fs/cgroup/memory.max")


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
