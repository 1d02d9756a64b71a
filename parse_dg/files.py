"""Where things are kept on this machine: what can be made again (the cache), and what cannot (the data folder)."""

import os
import shutil
from pathlib import Path

from parse_dg.errors import InputError


def cache_folder() -> Path:
    """Where decoded images are kept: $PARSE_DG_CACHE, else parse-dg in the user's cache folder."""
    return _folder("PARSE_DG_CACHE", "XDG_CACHE_HOME", ".cache")


def data_folder() -> Path:
    """Where data sets that were added are kept: $PARSE_DG_DATA, else parse-dg in the user's data folder."""
    return _folder("PARSE_DG_DATA", "XDG_DATA_HOME", ".local/share")


def make_folder(folder: Path, variable: str) -> None:
    """Make a folder of ours; where that cannot be done, name the environment variable that moves it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, variable, error) from error


def cannot_write(folder: Path, variable: str, error: OSError) -> InputError:
    """The error for a folder of ours that cannot be written to."""
    reason = error.strerror or str(error)
    return InputError(f"cannot write to {folder} ({reason}): set {variable} to another folder")


def free_bytes(folder: Path) -> int:
    """What is free on the disk that holds `folder`, or would hold it."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def _folder(variable: str, base_variable: str, fallback: str) -> Path:
    chosen, base = os.environ.get(variable), os.environ.get(base_variable)
    try:
        if chosen:
            return Path(chosen).expanduser()
        return (Path(base) if base else Path.home() / fallback) / "parse-dg"
    except RuntimeError as error:
        raise InputError(f"no home folder is known for this user: set {variable} to a folder") from error
