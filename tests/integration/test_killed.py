"""A training run is killed (SIGKILL) at 20 random moments and started again each time: it ends with the same bytes.

Half of the moments are any, the others fall into the writing of a checkpoint, at a random place of the file.
"""

import multiprocessing
import os
import random
import signal
import time
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file as plain_save_file

from parse_dg.config import from_dict, to_dict
from parse_dg.runs.config import RunConfig
from parse_dg.runs.run import execute
from parse_dg.training import checkpoint
from parse_dg.training.checkpoint import CURRENT
from tests.conftest import Tiny
from tests.runs.helpers import checks, quiet, repeated

KILLS = 20
SWAD = {
    "averaging__kind": "swad",
    "averaging__n_converge": 2,
    "averaging__n_tolerance": 3,
    "averaging__statistics_batches": 5,
}
RUNS: dict[str, dict[str, Any]] = {
    "parse": {"training__steps": 80},
    "dann": {"training__steps": 120},
    "erm+swad": {"training__steps": 120, **SWAD},
    "erm_plus_plus": {"training__steps": 60, "algorithm__linear_steps": 20, "averaging__start": 30},
}

PROCESSES = multiprocessing.get_context("forkserver")  # everything is imported there: a process starts at once
PROCESSES.set_forkserver_preload(["tests.integration.test_killed"])


def train(config: dict[str, Any], folder: Path, writing: int, place: float, ready: Event) -> None:
    """What the process does: it kills itself in its `writing`th checkpoint, when so much of the file is written."""
    torch.set_num_threads(1)
    writings = iter(range(1, 1_000_000))

    def save_file(tensors: dict[str, torch.Tensor], path: Path, metadata: dict[str, str]) -> None:
        plain_save_file(tensors, path, metadata)
        if next(writings) == writing:
            whole = path.read_bytes()
            path.write_bytes(whole[: int(place * len(whole))])
            os.kill(os.getpid(), signal.SIGKILL)

    checkpoint.save_file = save_file  # type: ignore[assignment]
    ready.set()
    execute(from_dict(RunConfig, config), folder, quiet, checkpoint_every=0)


def killed(config: RunConfig, folder: Path, dice: random.Random, in_writing: bool) -> bool:
    """Start the run, or go on with it, and kill it at a random moment; False: it was finished before."""
    writing, place = (dice.randint(1, 4), dice.random()) if in_writing else (0, 0.0)
    ready = PROCESSES.Event()
    process = PROCESSES.Process(target=train, args=(to_dict(config), folder, writing, place, ready))
    process.start()
    assert ready.wait(120)
    if not in_writing:
        time.sleep(dice.uniform(0.02, 0.4))
        process.kill()
    process.join(120)
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_killed_twenty_times_a_run_ends_with_the_same_bytes(name: str, tiny: Tiny, tmp_path: Path) -> None:
    config = tiny(name.partition("+")[0], training__check_every=10, **RUNS[name])
    execute(config, tmp_path / "whole", quiet, checkpoint_every=1e9)
    dice, folder = random.Random(name), tmp_path / "killed"
    kills = torn = 0
    while kills < KILLS and killed(config, folder, dice, in_writing=kills % 2 == 1):
        kills += 1
        torn += (folder / f"{CURRENT}.writing").exists()
    assert kills == KILLS, f"it was finished after {kills}: make it longer"
    assert torn >= KILLS // 2 - 2
    reached = len(checks(folder))
    execute(config, folder, quiet, checkpoint_every=0)
    assert repeated(folder) == repeated(tmp_path / "whole")
    assert len(checks(folder)) > reached > 0
