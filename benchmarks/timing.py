"""How long a call takes and how much memory it needs, measured so that two calls can be compared.

Calls that are compared take turns, so that whatever slows the machine for a while slows all of them. A GPU works
behind the host's back: there a lap is several consecutive calls between two synchronisations, timed with the host's
clock, launches included, which is what a user feels; the time between CUDA events is recorded beside it.
"""

import gc
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch.profiler import ProfilerActivity, profile

Call = Callable[[], object]

MEBIBYTE = 2**20
WARM_UPS = 3
WARM_UP_SECONDS = 2.0
"""On a CPU fewer warm-ups do, once they have taken this long."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How long a comparison may take."""

    rounds: int = 15
    """At most."""
    seconds: float = 1.0
    """No round begins after this many seconds for each call, once there are `least` rounds."""
    least: int = 3
    lap: float = 0.1
    """A lap repeats a shorter call until it takes about this many seconds."""
    warm_up: bool = True
    """False: a lap is one call, and nothing is called before the first."""


@dataclass(frozen=True)
class Laps:
    """Milliseconds a call, one entry a round."""

    host: list[float] = field(default_factory=list)
    gpu: list[float] = field(default_factory=list)
    """Between CUDA events; empty without a GPU."""

    @property
    def median(self) -> float:
        return statistics.median(self.host)


def in_turns(device: torch.device, budget: Budget, *calls: Call) -> list[Laps]:
    """The laps of every call; a round is one lap of each. What was measured before is cleared away first."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    counts = [_calls_a_lap(call, device, budget) for call in calls]
    laps = [Laps() for _ in calls]
    start = time.perf_counter()
    for done in range(budget.rounds):
        if done >= budget.least and time.perf_counter() - start > budget.seconds * len(calls):
            break
        for call, count, record in zip(calls, counts, laps, strict=True):
            _lap(call, count, device, record)
    return laps


def _calls_a_lap(call: Call, device: torch.device, budget: Budget) -> int:
    """Warm up, and see how many calls fill a lap."""
    if not budget.warm_up:
        return 1
    warm = Laps()
    while len(warm.host) < WARM_UPS:
        _lap(call, 1, device, warm)
        if device.type != "cuda" and sum(warm.host) > 1e3 * WARM_UP_SECONDS:
            break
    return max(1, round(budget.lap / (1e-3 * warm.host[-1])))


def _lap(call: Call, count: int, device: torch.device, record: Laps) -> None:
    """Call `count` times and record the mean."""
    if device.type != "cuda":
        start = time.perf_counter()
        for _ in range(count):
            call()
        record.host.append(1e3 * (time.perf_counter() - start) / count)
        return
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize(device)
    start = time.perf_counter()
    first.record()
    for _ in range(count):
        call()
    last.record()
    torch.cuda.synchronize(device)
    record.host.append(1e3 * (time.perf_counter() - start) / count)
    record.gpu.append(first.elapsed_time(last) / count)


def peak_memory(call: Call, device: torch.device) -> float:
    """The most memory in MiB that tensors held at a time during the call, above what they held before it."""
    if device.type == "cuda":
        return _peak_on_gpu(call, device) / MEBIBYTE
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # or the profiler announces its every start and stop
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        call()
    assert record.profiler is not None
    events = record.profiler.kineto_results.events()
    changes = sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]")
    held = peak = 0
    for _, change in changes:
        held += change
        peak = max(peak, held)
    return peak / MEBIBYTE


def _peak_on_gpu(call: Call, device: torch.device) -> int:
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    call()
    torch.cuda.synchronize(device)
    return torch.cuda.max_memory_allocated(device) - before
