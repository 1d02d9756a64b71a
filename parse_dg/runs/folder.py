"""The folder of a run: what its files are, how they are read and written.

config.json         everything needed to repeat the run
split.json          which images of which domain were held out, and which of the target are scored
metrics.jsonl       a line for every check: loss terms, rates, accuracy on the held-out source images; of both
                    stages, where there are two
model.safetensors   the weights of the best check, or an average of weights where that is what is trained for
model_plain.safetensors   with averaging.also_plain: the weights that the same run without averaging would have kept
result.json         accuracy of those weights, on which images, selected how; of the plain ones `without_averaging`;
                    a digest of each file above, by which a run that is no longer whole is noticed
environment.json    versions, hardware and time; the one file that differs when a run is repeated

While it lasts there are also a checkpoint (training/checkpoint.py), from which the same command goes on, and
`.lock`, by which one process at a time is at it.
"""

import logging
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from safetensors import SafetensorError

from parse_dg.config import as_typed, from_dict, to_dict
from parse_dg.data.domain import Benchmark
from parse_dg.errors import BusyError, InputError, about
from parse_dg.files import (
    NotJsonError,
    attempting,
    is_locked,
    locked,
    make_folders,
    read_json,
    sha256_of,
    sync,
    write_json,
)
from parse_dg.jsonable import Jsonable, flat
from parse_dg.plugins import with_needs, without_needs
from parse_dg.runs.config import RunConfig
from parse_dg.runs.result import RunEnvironment, RunResult, SplitRecord
from parse_dg.training.checkpoint import CURRENT, PREVIOUS, remove_checkpoints
from parse_dg.wording import some

LOCK = ".lock"
LARGE = ("split.json", "model.safetensors", "model_plain.safetensors")
"""What a finished run may be kept without: its numbers are in the other files."""
FILES = ("config.json", "metrics.jsonl", *LARGE)
"""What a result has digests of: all that is the same when a run is repeated."""
MADE = (
    *("result.json", *FILES, "environment.json", CURRENT, PREVIOUS, "names.json", "report.html", "tensorboard"),
    *("compact.safetensors", "compact.json", "model.onnx", "model.pt2", "evaluated"),
)
"""What a run has, and what is made of it in its folder unless another place is chosen."""
TEMPORARY = re.compile(r".*\.writing|\.tmp\w{6}")
"""Files that are being written, by us and by safetensors."""
log = logging.getLogger(__name__)
R = TypeVar("R", bound=Jsonable)


@contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Make the folder, and keep other processes from the run in it; the system lets go when this one dies."""
    busy = BusyError(f"another process is at the run in {folder}: wait for it, or stop it")
    with ExitStack() as stack:
        with attempting(f"write to {folder}"):
            make_folders(folder)
            stack.enter_context(locked(folder / LOCK, busy))
            for path in folder.iterdir():  # of a process that was killed in the middle of a file
                if path.is_file() and TEMPORARY.fullmatch(path.name):
                    path.unlink()
        try:
            yield
        finally:
            if (folder / "result.json").exists():  # who gets hold of a lock now finds the result
                (folder / LOCK).unlink(missing_ok=True)


def writing_to(folder: Path) -> AbstractContextManager[None]:
    """Within, what cannot be written is one line for the user."""
    advice = "what was saved before is kept; once it can be written to, the same command goes on"
    return attempting(f"write to {folder}", advice, also=SafetensorError)


def read_finished(config: RunConfig, folder: Path, *, large: bool = True) -> RunResult | None:
    """The result of a finished run of this configuration in `folder`, if it is there and whole.

    `large=False`: its weights and its split may have been removed.
    """
    found = folder / "config.json"
    if not found.exists():
        ours = (LOCK, "config.json")  # what there may be, besides temporary files, before the configuration
        foreign = (path for path in folder.glob("*") if path.name not in ours and path.suffix != ".writing")
        if folder.exists() and (not folder.is_dir() or any(foreign)):
            raise InputError(f"{folder} exists and is not a run: choose another folder with --out")
        return None
    if (other := read_config(folder)) != config:
        raise OtherRunError(folder, other, config)
    try:
        return read_whole(folder, large=large)
    except DamagedRunError as error:
        log.warning("%s", error)
        return None


class OtherRunError(InputError):
    """A folder that holds a run of another configuration; says which fields differ."""

    def __init__(self, folder: Path, there: RunConfig, asked: RunConfig) -> None:
        one, other = (flat(to_dict(config)) for config in (there, asked))
        changed = [
            f"{name}={as_typed(one[name])}, now {as_typed(other[name])}" if name in one and name in other else name
            for name in sorted({*one, *other})
            if name not in one or name not in other or one[name] != other[name]
        ]
        found = f"{folder} holds a run of another configuration ({some(changed, 4, '; ')})"
        super().__init__(f"{found}: replace it with --overwrite, or choose another folder with --out")


def remove_other(config: RunConfig, folder: Path) -> None:
    """Remove a run of another configuration, with what was made of it; what else is in the folder stays."""
    if not (folder / "config.json").exists() or read_config(folder) == config:
        return
    with hold(folder), attempting(f"remove the run in {folder}"):
        for name in MADE:
            path = folder / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        write_json(folder / "config.json", with_needs(to_dict(config)))  # the folder is this run's from now on


class DamagedRunError(InputError):
    """A finished run whose files are not those that were written."""

    def __init__(self, path: Path, found: str) -> None:
        again = "`parse-dg train` with the same options makes the run again"
        super().__init__(f"{path} {found}: the run is not whole; {again}")


def finish(folder: Path, result: RunResult) -> RunResult:
    """Write the result with the digests of the other files, once all of them are on the disk."""
    names = [name for name in FILES if (folder / name).exists()]
    for name in names:
        sync(folder / name)
    sync(folder)
    result = replace(result, files={name: sha256_of(folder / name) for name in names})
    write_json(folder / "result.json", result.to_dict())
    return result


def read_whole(folder: Path, *, large: bool = False) -> RunResult | None:
    """The result of the run in `folder`, None if it is not finished; raises if a file is not what was written.

    Without `large` the large ones may have been removed. Of runs of earlier versions, without digests, nothing is
    known. What a killed process has left beside a whole run is removed.
    """
    try:
        result = read_result(folder)
    except NotJsonError as error:
        raise DamagedRunError(folder / "result.json", "is not valid JSON") from error
    digests = result.files if result else {}
    for name in FILES:
        path, digest = folder / name, digests.get(name)
        if digest is None or (name in LARGE and not large and not path.exists()):
            continue
        if not path.is_file():
            raise DamagedRunError(path, "is missing")
        with attempting(f"read {path}"):
            found = sha256_of(path)
        if found != digest:
            raise DamagedRunError(path, "is not what was written")
    if result:
        _remove_leftovers(folder)
    return result


def _remove_leftovers(folder: Path) -> None:
    """Remove the checkpoints and the lock of a finished run whose process was killed before it could."""
    left = any((folder / name).exists() for name in (LOCK, CURRENT, PREVIOUS))
    if left and not is_locked(folder / LOCK):
        with suppress(OSError):  # it may be kept where nothing can be written
            remove_checkpoints(folder)
            (folder / LOCK).unlink(missing_ok=True)


def read_result(folder: Path) -> RunResult | None:
    """The result of the run in `folder`, or None if it is not finished."""
    return read_file(RunResult, folder / "result.json")


def read_split(folder: Path) -> SplitRecord | None:
    """How the run in `folder` divided its benchmark; None if that is not written."""
    return read_file(SplitRecord, folder / "split.json")


def read_environment(folder: Path) -> RunEnvironment | None:
    """Where the run in `folder` was trained; None if that is not written."""
    return read_file(RunEnvironment, folder / "environment.json")


class TrainingTime(NamedTuple):
    """How long a run took, checks included, in seconds."""

    per_step: float
    per_epoch: float
    """For as many images as train."""


def training_time(folder: Path) -> TrainingTime | None:
    """How long the finished run in `folder` took; None if its folder does not say."""
    result, split, made = read_result(folder), read_split(folder), read_environment(folder)
    if not (result and split and made and result.steps > 0):
        return None
    images, batch = split.training_images, read_config(folder).training.batch_size(len(split.training_images))
    per_step = made.seconds / result.steps
    return TrainingTime(per_step, per_step * sum(images.values()) / batch)


def read_file(kind: type[R], path: Path, what: str = "what a run writes") -> R | None:
    """The content of a JSON file; None if it is not there."""
    if not path.exists():
        return None
    data = read_json(path)
    with about(f"{path} is not {what}"):
        return kind.from_dict(data)


def require_same_images(folder: Path, benchmark: Benchmark) -> None:
    """Raise if the run in `folder` was made of another version of the data set than is here now."""
    written = read_split(folder) or read_result(folder)
    known = written.benchmark.fingerprint if written else benchmark.fingerprint
    if known != benchmark.fingerprint:
        changed = f"had the fingerprint {known[:16]} then and has {benchmark.fingerprint[:16]} now"
        advice = "Bring the images back, or train again"
        raise InputError(f"{folder} is a run on other images: {benchmark.name} {changed}. {advice}")


def read_config(folder: Path) -> RunConfig:
    """The configuration of the run in `folder`."""
    path = folder / "config.json"
    if not path.is_file():
        raise InputError(f"{folder} is not a run: expected a folder with config.json")
    return parse_config(read_json(path), path)


def parse_config(data: Any, where: object) -> RunConfig:
    """The configuration that a config.json holds; `where` it was found is said in errors."""
    if isinstance(data, Mapping) and "selected_step" in data:
        raise InputError(f"{where} is the result of a run, not its configuration: give the config.json beside it")
    config = without_needs(data, where)
    with about(where):
        return from_dict(RunConfig, config)


def claim(folder: Path, config: RunConfig, split: SplitRecord, kept: int) -> None:
    """What a run's folder has from its beginning; of metrics.jsonl the first `kept` bytes, the rest is to come."""
    with writing_to(folder):
        (folder / "result.json").unlink(missing_ok=True)  # of a run that is no longer whole
        write_json(folder / "config.json", with_needs(to_dict(config)))
        write_json(folder / "split.json", split.to_dict())
        with (folder / "metrics.jsonl").open("ab") as metrics:
            metrics.truncate(kept)
