"""RandAugment (2, 9): does training wait for it? One run, then several at once on one device.

The limit is the same training on one batch that stays in the device's memory: what the device can do when nothing
is read and nothing augmented. Runs at once are processes, as a sweep starts them, on one GPU; the steps of all of
them are added up. CPU time is that of the whole process, with the threads that read.
"""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from queue import Empty
from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.data_path import CLASSES, Steps, temporary_data, training_batches
from benchmarks.report import Row, Side, Skipped
from benchmarks.setting import QUICK, Setting
from benchmarks.step import resnet
from benchmarks.timing import Budget, Call, in_turns
from parse_dg.algorithms import BuildContext
from parse_dg.algorithms.erm import ErmConfig
from parse_dg.data.augment.batches import AugmentConfig, randaugmented
from parse_dg.data.augment.randaugment import randaugment
from parse_dg.data.benchmarks import DataConfig, open_benchmark
from parse_dg.data.domain import Benchmark
from parse_dg.devices import synchronise

TITLE = "RandAugment (2, 9): training from the store, one run and several at once"
RANDAUGMENT = AugmentConfig(randaugment_ops=2, randaugment_magnitude=9)
RUNS = 4, 8
IMAGES = 50
"""Of every class and domain."""
PATIENCE = 60.0
"""Seconds in which all runs must be ready for their next turn."""


def rows(setting: Setting) -> Iterator[Row | Skipped]:
    with temporary_data(setting, IMAGES) as config:
        benchmark = open_benchmark(config)
        yield _against_plain(setting, benchmark)
        for frozen in (False, True):
            yield _alone(setting, benchmark, frozen=frozen)
        if setting.on_gpu:
            yield from _together(setting, config)
        else:
            yield Skipped("several runs at once", "needs a GPU that they share")


def _steps(setting: Setting, benchmark: Benchmark, *, frozen: bool = True) -> Steps:
    algorithm = ErmConfig().build(BuildContext(resnet(setting, frozen=frozen), len(CLASSES)))
    return Steps(setting, benchmark, algorithm, RANDAUGMENT)


def _against_plain(setting: Setting, benchmark: Benchmark) -> Row:
    """On a GPU launches that do all operations at once ÷ the plain code, operation by operation."""
    batch = next(training_batches(setting, benchmark, RANDAUGMENT))
    images, draws = batch.images, batch.draws
    assert draws is not None

    def plain() -> Tensor:
        assert draws.randaugment is not None
        return randaugment(images, RANDAUGMENT.randaugment_magnitude, draws.randaugment)

    def fused() -> Tensor:
        return randaugmented(images, RANDAUGMENT, draws)

    differ = int((fused() != plain()).flatten(1).any(1).sum())
    laps = in_turns(setting.device, setting.budget(seconds=1.0), plain, fused)
    return Row(
        what="RandAugment of a batch: operation by operation ÷ as it is done on this device",
        first=Side.timed("operation by operation", laps[0]),
        second=Side.timed("as it is done here", laps[1]),
        note=f"{differ} of {len(images)} images differ",
    )


def _alone(setting: Setting, benchmark: Benchmark, *, frozen: bool) -> Row:
    steps = _steps(setting, benchmark, frozen=frozen)
    quick = setting.sizes is QUICK or not setting.on_gpu
    budget = Budget(rounds=2, least=2, seconds=0, lap=0) if quick else Budget(rounds=12, seconds=3.0, lap=0.4)
    alone, fed = in_turns(setting.device, budget, steps.on_constant, steps.from_store)
    used = _cpu(setting, steps.from_store, 2 if quick else 100)
    return Row(
        what=f"ERM, {'frozen' if frozen else 'moving'} BatchNorm: from the store ÷ on one constant batch, one run",
        first=Side.timed("constant batch", alone),
        second=Side.timed("from the store", fed),
        goal=setting.goal("at least", 0.95) if setting.on_gpu else None,
        note=f"{used:.2f} ms of CPU time a step from the store (goal: at most 3)",
        parts={"CPU time of a step from the store": used},
    )


def _cpu(setting: Setting, call: Call, count: int) -> float:
    """Milliseconds of CPU time that a call costs, in all threads of this process."""
    synchronise(setting.device)
    start = time.process_time()
    for _ in range(count):
        call()
    used = time.process_time() - start
    synchronise(setting.device)
    return 1e3 * used / count


class Turn(NamedTuple):
    """What one run did in its turn."""

    turn: int
    rate: float
    """Steps a second."""
    cpu: float
    """Milliseconds of CPU time a step."""


def _together(setting: Setting, config: DataConfig) -> Iterator[Row | Skipped]:
    """Every run is a process that takes part in some of the turns: all on a constant batch, all from the store."""
    turns = [(runs, stored) for runs in reversed(RUNS) for stored in (False, True, False, True)]
    context = get_context("spawn")
    barrier, results = context.Barrier(max(RUNS)), context.Queue()
    processes = [
        context.Process(target=_take_part, args=(n, setting, config, turns, barrier, results), daemon=True)
        for n in range(max(RUNS))
    ]
    for process in processes:
        process.start()
    found: list[Turn] = []
    waited = time.perf_counter()
    try:
        while len(found) < sum(runs for runs, _ in turns):
            if time.perf_counter() - waited > PATIENCE or not all(process.is_alive() for process in processes):
                yield Skipped("several runs at once", "one of them ended early or did not answer in time")
                return
            with suppress(Empty):
                found.append(results.get(timeout=0.5))
                waited = time.perf_counter()
    finally:
        for process in processes:
            process.terminate()
    for runs in RUNS:
        yield _row(setting, runs, turns, found)


def _row(setting: Setting, runs: int, turns: list[tuple[int, bool]], found: list[Turn]) -> Row:
    def rates(stored: bool) -> list[float]:
        numbers = [n for n, turn in enumerate(turns) if turn == (runs, stored)]
        return [sum(each.rate for each in found if each.turn == n) for n in numbers]

    used = sorted(each.cpu for each in found if turns[each.turn] == (runs, True))[runs]
    return Row(
        what=f"ERM, frozen BatchNorm: from the store ÷ on one constant batch, {runs} runs at once",
        first=Side(name="constant batch", values=[1e3 / rate for rate in rates(False)]),
        second=Side(name="from the store", values=[1e3 / rate for rate in rates(True)]),
        goal=setting.goal("at least", 0.95),
        note=f"{max(rates(True)):.1f} steps a second of all; {used:.2f} ms of CPU time a step",
        parts={"CPU time of a step from the store": used},
    )


def _take_part(
    number: int,
    setting: Setting,
    config: DataConfig,
    turns: list[tuple[int, bool]],
    barrier: Barrier,
    results: "Queue[Turn]",
) -> None:
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // max(RUNS)))
    steps = _steps(setting, open_benchmark(config))
    for _ in range(5):
        steps.on_constant()
        steps.from_store()
    seconds = 0.2 if setting.sizes is QUICK else 3.0
    for turn, (runs, stored) in enumerate(turns):
        synchronise(setting.device)
        barrier.wait(PATIENCE)
        if number >= runs:
            continue
        call, done = steps.from_store if stored else steps.on_constant, 0
        start, cpu = time.perf_counter(), time.process_time()
        while time.perf_counter() - start < seconds:
            call()
            done += 1
        cpu = time.process_time() - cpu
        synchronise(setting.device)
        results.put(Turn(turn, done / (time.perf_counter() - start), 1e3 * cpu / done))
    time.sleep(PATIENCE)  # until it is ended: what it has said must be taken first
