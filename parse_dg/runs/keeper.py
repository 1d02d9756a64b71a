"""When checkpoints of a run are written: at intervals, and before it stops; the next attempt resumes from them."""

import logging
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from io import FileIO
from pathlib import Path
from typing import Any

from parse_dg.config import to_dict
from parse_dg.errors import InputError
from parse_dg.files import attempting
from parse_dg.runs.config import RunConfig
from parse_dg.runs.folder import writing_to
from parse_dg.runs.two_stage import Steering
from parse_dg.training.checkpoint import Checkpoint, joined, read_checkpoint, write_checkpoint
from parse_dg.training.resume import fitting, require_fit, restore_trainer, save_trainer
from parse_dg.training.team import ALONE, Team
from parse_dg.training.trainer import Trainer
from parse_dg.wording import short

EVERY = 60.0
"""Seconds between two checkpoints."""
FIRST = 10.0
"""Seconds until the first of an attempt; from one to the next they double, up to `EVERY`."""
SHARE = 20
"""Training goes on for at least this many times as long as the last checkpoint took to write."""

IMPATIENT = 1.0
"""Seconds after which a second Ctrl-C is meant."""

METRICS = "metrics.jsonl"

log = logging.getLogger(__name__)


class Keeper:
    """The checkpoints of one run."""

    def __init__(
        self,
        folder: Path,
        config: RunConfig,
        every: float = EVERY,
        team: Team = ALONE,
        trainer: Trainer | None = None,
    ):
        """`every` so many seconds, or less often if that would slow training; 0: after every step. The first ones
        come earlier, so that a run that is killed again and again moves forward.

        Of a team the first process writes; the others are where it is. What does not fit `trainer` is not resumed
        from.
        """
        self.folder, self.every, self.team = folder, every, team
        self.config = to_dict(config)
        self.saved = _read(folder, self.config, trainer)
        nothing: dict[str, Any] = {"seconds": 0.0, "metrics": 0, "steering": None}
        known = self.saved.data["run"] if self.saved else nothing
        self.spent: float = known["seconds"]
        """Seconds of earlier attempts that are not lost."""
        self.metrics_length: int = known["metrics"]
        """How many bytes of metrics.jsonl are of steps that need not be made again."""
        self.steering: dict[str, Any] | None = known["steering"]
        """Where a run of two stages stood."""
        self.began = self.written = time.monotonic()
        self.cost = 0.0

    @property
    def seconds(self) -> float:
        return self.spent + time.monotonic() - self.began

    def restore(self, trainer: Trainer) -> None:
        """Bring the trainer that was saved to where it stood; any that is made later starts from the beginning."""
        if self.saved is not None:
            restore_trainer(trainer, self.saved.part("trainer"))
            log.info("%s goes on from step %d", self.folder, trainer.step)
            self.saved = None

    def due(self, *, last: bool = False) -> bool:
        """Whether it is time for another; after the `last` step earlier, as the target's score may take a while."""
        now = time.monotonic()
        first = FIRST if last else max(FIRST, self.written - self.began)
        wait = max(min(self.every, first), SHARE * self.cost) if self.every else 0.0
        return self.team.first and now - self.written >= wait

    def save(self, trainer: Trainer, metrics: FileIO, steering: Steering | None) -> None:
        started = time.monotonic()
        with writing_to(self.folder):
            os.fsync(metrics.fileno())  # a checkpoint never knows of lines that a power cut takes
            kept = (self.folder / METRICS).read_bytes()
        run = {"config": self.config, "seconds": self.seconds, "steering": steering and steering.state()}
        run |= {"metrics": len(kept), "metrics_sha256": sha256(kept).hexdigest()}
        write_checkpoint(self.folder, joined({"run": Checkpoint({}, run), "trainer": save_trainer(trainer)}))
        self.written = time.monotonic()
        self.cost = self.written - started


@contextmanager
def postponed_stop(team: Team = ALONE) -> Iterator[Callable[[], bool]]:
    """Within, SIGINT and SIGTERM are only noted, so that the step can be finished and saved; says whether there was
    one. What stops a machine sends several at once, so only a SIGINT that comes a while after takes effect at once.
    In a team, which would have to agree on a step, the first does.
    """
    noted: list[float] = []
    before: dict[int, Any] = {}

    def note(number: int, _: object) -> None:
        noted.append(time.monotonic())
        if number == signal.SIGINT and noted[-1] - noted[0] > IMPATIENT:
            raise KeyboardInterrupt

    if team.size == 1 and threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(noted)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _read(folder: Path, config: dict[str, Any], trainer: Trainer | None) -> Checkpoint | None:
    """The newest checkpoint that fits the run, if metrics.jsonl has the lines it knows of."""

    def check(saved: Checkpoint) -> None:
        with fitting():
            run = saved.part("run").data
            other, seconds, length = run["config"] != config, run["seconds"], run["metrics"]
            if type(seconds) is not float or not 0 <= seconds < math.inf or type(length) is not int or length < 0:
                raise ValueError(f"{short(seconds)} seconds and {short(length)} bytes of metrics.jsonl")
            if trainer and not other:
                steering = Steering(0)
                if run["steering"] is not None:
                    steering.restore(run["steering"])
                require_fit(trainer, saved.part("trainer"), same_images=steering.stage == 1)
        if other:
            found = f"the checkpoint in {folder} is of another configuration than its config.json"
            raise InputError(f"{found}: delete the checkpoint to start the run again")

    saved = read_checkpoint(folder, check)
    if saved is None:
        return None
    metrics, expected = folder / METRICS, saved.data["run"]["metrics"]
    with attempting(f"read {metrics}"):
        found = metrics.read_bytes()[:expected] if metrics.exists() else b""
    digest, wrong = sha256(found).hexdigest(), None
    if len(found) < expected:
        wrong = f"has lost lines ({len(found)} of {expected} bytes)"
    elif saved.data["run"].get("metrics_sha256", digest) != digest:
        wrong = "is not what was written"
    if wrong:
        log.warning("%s %s: the run starts again", metrics, wrong)
    return None if wrong else saved
