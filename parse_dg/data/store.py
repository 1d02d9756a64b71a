"""Decoded images: every file opened once, resized, kept in the cache folder, and memory-mapped from then on.

A store is a folder named by the manifest's fingerprint, the size and the fit: one uint8 array (`.npy`) a domain,
its digest, and `index.json` once all are there. A domain is written under a temporary name and renamed when
complete, so that a build that is interrupted goes on with the next domain; a lock lets one process build while
others wait. A domain that is no longer what was written is decoded again.
"""

import errno
import logging
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import PIL
from jaxtyping import UInt8

from parse_dg.data.domain import ImageFiles
from parse_dg.data.framing import ImageFit
from parse_dg.data.listing import Progress, counted
from parse_dg.data.manifest import Manifest
from parse_dg.data.parallel import default_workers, map_ahead
from parse_dg.errors import InputError
from parse_dg.files import (
    attempting,
    cache_folder,
    free_bytes,
    is_as_written,
    locked,
    make_folder,
    sha256_of,
    whole_file,
    write_file,
    write_json,
)

log = logging.getLogger(__name__)

RESERVE = 2**30  # bytes of disk that a store leaves free
FULL = (errno.ENOSPC, errno.EDQUOT)  # what a disk says that is full, or full for this user

Stored = UInt8[np.ndarray, "N S S 3"]


class NoRoomError(Exception):
    """The store does not fit on the disk: says what it needs and what there is."""

    def __init__(self, folder: Path, needed: int, found: str):
        super().__init__(f"decoded images would take {gigabytes(needed)} and {folder} has {found}")


def gigabytes(size: int) -> str:
    """1500000000 → 1.50 GB."""
    return f"{size / 1e9:.2f} GB"


def store_bytes(images: int, size: int) -> int:
    """What a store of this many images takes."""
    return images * size * size * 3


def store_folder(manifest: Manifest, size: int, fit: ImageFit = "squash") -> Path:
    """Where the images of a manifest are kept at a size."""
    how = "" if fit == "squash" else f"-{fit}"
    return cache_folder() / f"images-{manifest.fingerprint[:24]}-{size}{how}"


def image_files(manifest: Manifest, fit: ImageFit = "squash") -> list[ImageFiles]:
    """The files of every domain, in the manifest's order."""
    names = [[(image.path, image.digest) for image in images] for images in manifest.by_domain]
    each = (tuple(zip(*some, strict=True)) or ((), ()) for some in names)
    return [ImageFiles(manifest.root, paths, manifest.keep_truncated, digests, fit) for paths, digests in each]


def open_store(
    manifest: Manifest, size: int, progress: Progress | None = None, fit: ImageFit = "squash"
) -> list[Stored]:
    """The images of every domain at size × size, decoded first if need be; `NoRoomError` if they do not fit."""
    folder = store_folder(manifest, size, fit)
    files = image_files(manifest, fit)

    def wait() -> None:
        if progress:
            progress("waiting for another process that decodes the same images", 0, 1)

    try:
        if _damaged(folder, files, size, progress):
            make_folder(folder, "PARSE_DG_CACHE")
            with locked(folder.with_name(f"{folder.name}.lock"), wait):
                damaged = _damaged(folder, files, size, progress)
                for path in filter(Path.exists, damaged):
                    log.warning("%s is damaged: its images are decoded again", path)
                    path.unlink()
                    _mark(path).unlink(missing_ok=True)
                if damaged:
                    _build(folder, manifest, files, size, progress)
    except OSError as error:
        if error.errno in FULL:  # there was room when it began: somebody else took it
            needed = store_bytes(len(manifest.images), size)
            raise NoRoomError(folder.parent, needed, f"no room left ({error.strerror})") from error
        with attempting(f"write to {folder}", "set PARSE_DG_CACHE to another folder"):
            raise
    found = [_read(folder / f"{number}.npy", len(each.paths), size) for number, each in enumerate(files)]
    if not all(array is not None for array in found):
        raise InputError(f"{folder} is damaged: remove it")
    return [array for array in found if array is not None]


def _damaged(folder: Path, files: list[ImageFiles], size: int, progress: Progress | None) -> list[Path]:
    """The files of a store that are not there, or not as they were written."""
    parts = {folder / f"{number}.npy": len(each.paths) for number, each in enumerate(files)}

    def digest(path: Path) -> str:
        if progress:
            progress(f"checking decoded images, {gigabytes(path.stat().st_size)}", 0, 1)
        return sha256_of(path)

    def is_whole(path: Path) -> bool:
        there = _read(path, parts[path], size) is not None
        return there and is_as_written(_mark(path), (path,), partial(digest, path))

    index = folder / "index.json"
    if not index.exists():
        return [index, *(path for path in parts if path.exists() and not is_whole(path))]
    with ThreadPoolExecutor(default_workers()) as pool:
        return [path for path, whole in zip(parts, pool.map(is_whole, parts), strict=True) if not whole]


def _build(folder: Path, manifest: Manifest, files: list[ImageFiles], size: int, progress: Progress | None) -> None:
    paths = {folder / f"{number}.npy": each for number, each in enumerate(files)}
    missing = {path: each for path, each in paths.items() if not path.exists()}
    for leftover in folder.glob("*.writing"):  # of an interrupted build
        leftover.unlink(missing_ok=True)
    total, waiting = len(manifest.images), sum(len(each.paths) for each in missing.values())
    needed, free = store_bytes(waiting, size), free_bytes(folder)
    if needed > max(0, free - RESERVE):  # nothing needs no room
        found = f"{gigabytes(free)} free ({gigabytes(RESERVE)} of it kept back)"
        raise NoRoomError(folder.parent, needed, found)
    what = f"decoding to {size} pixels, {gigabytes(store_bytes(total, size))}"
    for path, each in missing.items():
        decoded = map_ahead(partial(each.decode, size=size), range(len(each.paths)))
        images = counted(decoded, what, total, progress, before=total - waiting)
        _write(path, (len(each.paths), size, size, 3), images)
        write_file(_mark(path), sha256_of(path).encode())
        waiting -= len(each.paths)
    about = {"data_set": manifest.name, "domains": list(manifest.domains), "fingerprint": manifest.fingerprint}
    write_json(folder / "index.json", about | {"size": size, "pillow": PIL.__version__})


def _write(path: Path, shape: tuple[int, ...], images: Iterable[np.ndarray]) -> None:
    """Written from beginning to end, not through a map: a full disk is then an error and not a crash."""
    with whole_file(path) as temporary, temporary.open("wb") as file:
        header = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for image in images:
            file.write(image.tobytes())


def _mark(path: Path) -> Path:
    return path.with_suffix(".sha256")


def _read(path: Path, count: int, size: int) -> Stored | None:
    try:
        array: Stored = np.lib.format.open_memmap(path, mode="r")
    except Exception:  # numpy has no base class for what a broken header makes it raise
        return None
    return array if array.shape == (count, size, size, 3) and array.dtype == np.uint8 else None
