"""Runs followed in TensorBoard or Weights & Biases, beside metrics.jsonl, which every run writes.

A tracker is told every line of metrics.jsonl, and the result. Nothing of a run depends on it: one that fails is
left behind.
"""

import hashlib
import importlib
import json
import logging
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from parse_dg.errors import InputError, require_known
from parse_dg.jsonable import flat
from parse_dg.runs.metrics import CheckLine, StepCounter
from parse_dg.runs.result import RunResult
from parse_dg.wording import first_line

log = logging.getLogger(__name__)

PROJECT = "parse-dg"
"""The project in Weights & Biases, unless WANDB_PROJECT names another."""
UPLOAD_SECONDS = 20
"""How long the end of a run waits for what is still to be uploaded; the rest stays on the disk for `wandb sync`."""


@runtime_checkable
class Tracker(Protocol):
    """Where a run can be followed."""

    def record(self, line: CheckLine) -> None:
        """A check was made."""

    def finish(self, result: RunResult | None) -> None:
        """The run has ended: with its result, or with None where it was broken off."""


class Tracking:
    """The trackers of a run, closed with it: at the end of the `with` block they are told its `result`, which stays
    None where it is broken off. None can stop a run: one that fails is a warning, once, and then left behind.
    """

    def __init__(self) -> None:
        self.trackers: dict[str, Tracker] = {}
        self.result: RunResult | None = None

    def open(
        self, names: Iterable[str], folder: Path, config: Mapping[str, Any], earlier: Sequence[CheckLine] = ()
    ) -> None:
        """Follow the run in `folder`, whose config.json holds `config`, with the trackers of these names.

        `earlier` are the lines of metrics.jsonl that a resumed run goes on from: what was tracked after them is
        replaced, so that no step is drawn twice. Raises if a name is unknown, a package is missing or nobody is
        logged in.
        """
        for name in require_trackers(names):
            with self._guarded(name):
                self.trackers[name] = TRACKERS[name][0](folder, config, earlier)

    def record(self, line: CheckLine) -> None:
        for name, tracker in [*self.trackers.items()]:
            with self._guarded(name):
                tracker.record(line)

    def __enter__(self) -> "Tracking":
        return self

    def __exit__(self, *error: object) -> None:
        for name, tracker in [*self.trackers.items()]:
            with self._guarded(name):
                tracker.finish(self.result)

    @contextmanager
    def _guarded(self, name: str) -> Iterator[None]:
        """Within, whatever a package, a disk or a network comes up with; what the user can mend is raised."""
        try:
            yield
        except InputError:
            raise
        except Exception as error:
            self.trackers.pop(name, None)
            said = "%s no longer follows the run, which goes on; metrics.jsonl has it all: %s"
            log.warning(said, name, first_line(error))


def require_trackers(names: Iterable[str]) -> list[str]:
    """The names, each once; raises if one is unknown or its package is missing."""
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        require_known("tracker", name, TRACKERS)
        _imported(name)
    return wanted


class TensorBoard:
    """Events in FOLDER/tensorboard, shown by `tensorboard --logdir FOLDER`."""

    def __init__(self, folder: Path, config: Mapping[str, Any], earlier: Sequence[CheckLine]) -> None:
        self.steps = StepCounter(earlier)
        writer = _imported("tensorboard").SummaryWriter
        self.writer: Any = writer(str(folder / "tensorboard"), purge_step=self.steps.last + 1 if earlier else 0)

    def record(self, line: CheckLine) -> None:
        step = self.steps.of(line)
        for tag, value in scalars(line).items():
            self.writer.add_scalar(tag, value, step)
        self.writer.flush()  # however the run ends, this check is kept

    def finish(self, result: RunResult | None) -> None:
        if result is not None and result.target is not None:
            tag = f"result, accuracy on the target/{result.target.domain}, {result.target.part}"
            self.writer.add_scalar(tag, result.target.accuracy, self.steps.last)
        self.writer.close()


class WeightsAndBiases:
    """A run of Weights & Biases, its files in FOLDER/wandb; WANDB_MODE, WANDB_ENTITY and their kin are heeded."""

    def __init__(self, folder: Path, config: Mapping[str, Any], earlier: Sequence[CheckLine]) -> None:
        self.steps = StepCounter()
        wandb = _imported("wandb")
        settings = wandb.Settings(silent=True, console="off", finish_timeout=UPLOAD_SECONDS)
        _require_login(wandb, settings)
        known = flat(config)
        held_out = known["data.target"] or "no domain"
        self.run: Any = wandb.init(
            project=os.environ.get("WANDB_PROJECT") or PROJECT,
            id=run_id(folder, config),
            resume="allow" if earlier else None,  # None: what an attempt before this one left is replaced
            reinit="create_new",  # a run that somebody else has open in this process is left alone
            name=f"{known['algorithm.name']}, {held_out} held out, seed {known['seed']}",
            config=known,
            dir=str(folder),
            settings=settings,
        )
        for line in earlier:  # what a killed process did not get away; W&B passes over steps that it has
            self.record(line)

    def record(self, line: CheckLine) -> None:
        self.run.log(scalars(line), step=self.steps.of(line), commit=True)

    def finish(self, result: RunResult | None) -> None:
        if result is not None:
            self.run.summary.update(flat(result.to_dict()))
        self.run.finish(exit_code=1 if result is None else 0)


TRACKERS: dict[str, tuple[Callable[[Path, Mapping[str, Any], Sequence[CheckLine]], Tracker], str]] = {
    "tensorboard": (TensorBoard, "torch.utils.tensorboard"),
    "wandb": (WeightsAndBiases, "wandb"),
}
"""Every tracker by name, which is also that of the extra that brings its package, and the module that it needs."""


def scalars(line: CheckLine) -> dict[str, float]:
    """The numbers of a check, each under a name that says what it is."""
    found: dict[str, float | None] = {f"training loss/{term}": value for term, value in line.training_loss.items()}
    for what, accuracies in (("validation", line.validation), ("recorded", line.scores)):
        for images, value in accuracies.items():
            found[f"{what} accuracy/{images}"] = value.accuracy
            found[f"{what} loss/{images}"] = value.loss if math.isfinite(value.loss) else None
    found["validation accuracy, mean/over domains"] = line.validation_mean_accuracy
    found |= {f"rate/{group}": value for group, value in line.rates.items()}
    stage = "" if line.stage is None else f"stage {line.stage}, "
    return {stage + name: value for name, value in found.items() if value is not None}


def run_id(folder: Path, config: Mapping[str, Any]) -> str:
    """The same whenever the run in this folder is resumed; another for other folders and configurations."""
    known = json.dumps([str(folder.resolve()), config], sort_keys=True)
    return hashlib.sha256(known.encode()).hexdigest()[:16]


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(TRACKERS[name][1])
    except ImportError as error:
        mended = f"pip install 'parse-dg[{name}]'"
        raise InputError(f"tracking with {name} needs a package that cannot be imported: {mended}") from error


def _require_login(wandb: Any, settings: Any) -> None:
    """Raise where W&B would ask for a key in the middle of everything."""
    if wandb.run is not None:
        return
    mode = wandb.setup(settings).settings.mode
    if mode in ("online", "shared", "run") and not wandb.login(prompt=False, verify=False):
        raise InputError("tracking with wandb needs an account: run `wandb login`, or set WANDB_MODE=offline")
