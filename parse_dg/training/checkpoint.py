"""Checkpoints: written whole, verified when read, the one before kept until then.

A checkpoint is one `.safetensors` file: tensors, and in its header plain JSON data and a SHA-256 of both and of the
format. Nothing in it is executed when it is read. One that is damaged or does not fit the run is named, and the one
before it is used.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from parse_dg.errors import InputError
from parse_dg.files import attempting, sync, whole_file
from parse_dg.wording import first_line

FORMAT = 1
METADATA = "parse_dg_checkpoint"
CURRENT, PREVIOUS = "checkpoint.safetensors", "checkpoint.previous.safetensors"

log = logging.getLogger(__name__)


class Checkpoint(NamedTuple):
    """The state of a run: tensors, and plain data beside them."""

    tensors: dict[str, Tensor]
    data: dict[str, Any]
    """Plain JSON."""

    def part(self, name: str) -> "Checkpoint":
        """What was joined under a name."""
        start = f"{name}/"
        tensors = {key.removeprefix(start): value for key, value in self.tensors.items() if key.startswith(start)}
        return Checkpoint(tensors, self.data[name])


def joined(parts: Mapping[str, Checkpoint]) -> Checkpoint:
    """Several in one, each under its name."""
    tensors = {f"{name}/{key}": value for name, part in parts.items() for key, value in part.tensors.items()}
    return Checkpoint(tensors, {name: part.data for name, part in parts.items()})


def require_numbers(what: str, whole: Iterable[object], others: Iterable[object] = ()) -> None:
    """Raise unless these are whole numbers, and those are numbers with a point."""
    if {*map(type, whole)} - {int} or {*map(type, others)} - {float}:
        raise ValueError(f"{what} of something else than numbers")


class _DamagedError(Exception):
    """What is wrong with a file, in a few words."""


class UnfitError(InputError):
    """A whole checkpoint that is not one of this run."""


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint; whatever interrupts, a whole one is there under one of its two names."""
    tensors = {name: value.detach().cpu().contiguous() for name, value in checkpoint.tensors.items()}
    data = json.dumps(checkpoint.data)  # a loss may be no number: Python reads its own NaN
    header = {"format": FORMAT, "data": data, "sha256": digest_of(tensors, f"{FORMAT} {data}")}
    advice = "what was saved before is kept; make room, and start the same command again"
    with attempting(f"write the checkpoint to {folder}", advice, also=SafetensorError):
        with whole_file(folder / CURRENT) as temporary:
            save_file(tensors, temporary, {METADATA: json.dumps(header)})
            sync(temporary)
            if (folder / CURRENT).exists():
                (folder / CURRENT).replace(folder / PREVIOUS)
        sync(folder)


def read_checkpoint(folder: Path, check: Callable[[Checkpoint], object] | None = None) -> Checkpoint | None:
    """The newest whole checkpoint in a folder that passes a `check`; None if there is none.

    The check raises an `UnfitError`; where whole ones are there and none passes, so does this.
    """
    unfit: UnfitError | None = None
    for name in (CURRENT, PREVIOUS):
        path = folder / name
        if not path.exists():
            continue
        try:
            found = _read(path)
            if check is not None:
                check(found)
            return found
        except UnfitError as error:
            unfit = unfit or error
            log.warning("%s: %s", path, error)
        except _DamagedError as damage:
            other = "the one before it is used" if name == CURRENT else "the run starts again"
            log.warning("%s is damaged (%s): %s", path, damage, other)
    if unfit:
        raise unfit
    return None


def remove_checkpoints(folder: Path) -> None:
    """A finished run needs none."""
    for name in (CURRENT, PREVIOUS, f"{CURRENT}.writing"):
        (folder / name).unlink(missing_ok=True)


def _read(path: Path) -> Checkpoint:
    if not path.is_file():
        raise _DamagedError("it is not a file")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        header = json.loads(metadata[METADATA])
        found, data, digest = header["format"], header["data"], header["sha256"]
        plain, whole = json.loads(data), digest == digest_of(tensors, f"{found} {data}")
        earlier = found == FORMAT and digest == digest_of(tensors, data)  # did not cover the format
    except (SafetensorError, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _DamagedError(first_line(error)) from error
    if whole and found != FORMAT:
        raise InputError(f"{path} has format {found}, this version reads format {FORMAT}: update parse-dg")
    if not (whole or earlier):
        raise _DamagedError("its content is not what was written")
    return Checkpoint(tensors, plain)


def digest_of(tensors: Mapping[str, Tensor], data: str) -> str:
    """The SHA-256 of a text, and of the names, types, shapes and values of tensors on the CPU."""
    digest = hashlib.sha256(data.encode())
    for name, value in sorted(tensors.items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
