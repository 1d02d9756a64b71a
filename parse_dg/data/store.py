"""Decoded images: every file opened once, resized, kept in the cache folder, and memory-mapped from then on.

A store is a folder named by the manifest's fingerprint, the size and the fit: one uint8 array (`.npy`) a domain,
and `index.json` once all are there. A domain is written under a temporary name and renamed when complete, so that a
build that is interrupted goes on with the next domain; a lock lets one process build while others wait.
"""

import errno
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import numpy as np
import PIL
from jaxtyping import UInt8

from parse_dg.data.domain import ImageFiles
from parse_dg.data.framing import ImageFit
from parse_dg.data.listing import Progress, counted
from parse_dg.data.manifest import Manifest
from parse_dg.data.parallel import map_ahead
from parse_dg.errors import InputError
from parse_dg.files import cache_folder, cannot_write, free_bytes, locked, make_folder, whole_file, write_json

RESERVE = 2**30
"""Bytes of disk that a store leaves free."""
FULL = (errno.ENOSPC, errno.EDQUOT)
"""What a disk says that is full, or full for this user."""

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
    return [
        ImageFiles(
            manifest.root,
            tuple(image.path for image in images),
            manifest.keep_truncated,
            tuple(image.digest for image in images),
            fit,
        )
        for images in manifest.by_domain
    ]


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
        if not (folder / "index.json").exists():
            make_folder(folder, "PARSE_DG_CACHE")
            with locked(folder.with_name(f"{folder.name}.lock"), wait):
                if not (folder / "index.json").exists():
                    _build(folder, manifest, files, size, progress)
    except OSError as error:
        if error.errno in FULL:  # there was room when it began: somebody else took it
            needed = store_bytes(len(manifest.images), size)
            raise NoRoomError(folder.parent, needed, f"no room left ({error.strerror})") from error
        raise cannot_write(folder, "PARSE_DG_CACHE", error) from error
    return [_map(folder / f"{number}.npy", len(each.paths), size) for number, each in enumerate(files)]


def _build(folder: Path, manifest: Manifest, files: list[ImageFiles], size: int, progress: Progress | None) -> None:
    missing = [(n, each) for n, each in enumerate(files) if not (folder / f"{n}.npy").exists()]
    for leftover in folder.glob("*.writing"):  # of an interrupted build
        leftover.unlink(missing_ok=True)
    total, waiting = len(manifest.images), sum(len(each.paths) for _, each in missing)
    needed, free = store_bytes(waiting, size), free_bytes(folder)
    if needed > max(0, free - RESERVE):  # nothing needs no room
        found = f"{gigabytes(free)} free ({gigabytes(RESERVE)} of it kept back)"
        raise NoRoomError(folder.parent, needed, found)
    what = f"decoding to {size} pixels, {gigabytes(store_bytes(total, size))}"
    for number, each in missing:
        decoded = map_ahead(partial(each.decode, size=size), range(len(each.paths)))
        images = counted(decoded, what, total, progress, before=total - waiting)
        _write(folder / f"{number}.npy", (len(each.paths), size, size, 3), images)
        waiting -= len(each.paths)
    index = {"data_set": manifest.name, "fingerprint": manifest.fingerprint, "size": size}
    index |= {"domains": list(manifest.domains), "pillow": PIL.__version__}
    write_json(folder / "index.json", index)


def _write(path: Path, shape: tuple[int, ...], images: Iterable[np.ndarray]) -> None:
    """Written from beginning to end, not through a map: a full disk is then an error and not a crash."""
    with whole_file(path) as temporary, temporary.open("wb") as file:
        header = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for image in images:
            file.write(image.tobytes())


def _map(path: Path, count: int, size: int) -> Stored:
    expected = (count, size, size, 3)
    try:
        array = np.lib.format.open_memmap(path, mode="r")
        found = f"{array.dtype} {array.shape}"
    except Exception as error:  # numpy has no base class for what a broken header makes it raise
        array, found = None, f"no array ({' '.join(str(error).split())[:120]})"
    if array is None or array.shape != expected or array.dtype != np.uint8:
        raise InputError(f"{path} is damaged: expected uint8 {expected}, found {found}: remove {path.parent}")
    stored: Stored = array
    return stored
