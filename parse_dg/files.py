"""Files and folders that are whole or not there, locks, and where things are kept on this machine.

What is written gets a temporary name beside its own and is renamed when it is complete and on the disk; if it fails
or is interrupted, the temporary is removed and what was there before is untouched. What has been renamed survives a
power cut.
"""

import hashlib
import io
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from parse_dg.errors import InputError
from parse_dg.wording import first_line

CHECKED_FOR = 86400.0
"""Seconds after which a large file is compared with its digest again."""


@contextmanager
def whole_file(path: Path, *, shared: bool = False) -> Iterator[Path]:
    """The temporary name to write a file under; it becomes `path`, with usual permissions, when the block ends.

    `shared`: several processes may write it at once, without a lock; each has a temporary of its own.
    """
    temporary = _temporary(path, shared)
    try:
        temporary.unlink(missing_ok=True)
        temporary.touch()
        mode = temporary.stat().st_mode
        yield temporary
        if temporary.stat().st_mode != mode:  # some libraries write for the user alone
            temporary.chmod(mode)
        sync(temporary)
        temporary.replace(path)
        sync(path.parent)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextmanager
def whole_folder(folder: Path, *, shared: bool = False) -> Iterator[Path]:
    """An empty folder to fill, under a temporary name; it becomes `folder`, which may be there if it is empty."""
    temporary = _temporary(folder, shared)
    shutil.rmtree(temporary, ignore_errors=True)  # of an interrupted process
    temporary.mkdir(mode=0o755)
    try:
        yield temporary
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _temporary(path: Path, shared: bool) -> Path:
    return path.with_name(f"{path.name}.{secrets.token_hex(4)}.writing" if shared else f"{path.name}.writing")


def write_file(path: Path, data: bytes, *, shared: bool = False) -> None:
    """Write a whole file; `shared` as for `whole_file`."""
    with whole_file(path, shared=shared) as temporary:
        temporary.write_bytes(data)


def write_all(file: io.FileIO, data: bytes) -> None:
    """Write to a file without a buffer, which may take less at a time."""
    while data:
        data = data[file.write(data) :]


def write_json(path: Path, data: Any, *, shared: bool = False) -> None:
    """Write a whole JSON file, for people to read; `shared` as for `whole_file`."""
    text = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False)
    write_file(path, text.encode() + b"\n", shared=shared)


def read_json(path: Path) -> Any:
    """The data of a JSON file."""
    with attempting(f"read {path}"):
        data = path.read_bytes()
    return parse_json(data, str(path))


class NotJsonError(InputError):
    """A text that is not JSON."""


def parse_json(text: str | bytes, what: str) -> Any:
    """The data of a JSON text; `what` is what an error calls it."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotJsonError(f"{what} is not valid JSON: {error}") from error


def sync(path: Path) -> None:
    """A file's content, or the names in a folder, survive a power cut from here on."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folders(folder: Path) -> None:
    """Make a folder and those above it, where they are missing; a power cut takes none of them."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in missing:
        sync(each.parent)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_as_written(mark: Path, files: Iterable[Path], digest: Callable[[], str]) -> bool:
    """Whether files still have the digest that a file `mark` holds; they have where there is no mark, which earlier
    versions did not write.

    They are read once a day and after a change, as reading takes a while: the mark's time is when they were. Where
    it cannot be written they are taken as they are.
    """
    if not mark.exists() or not os.access(mark, os.W_OK):
        return True
    checked = mark.stat().st_mtime
    if abs(time.time() - checked) < CHECKED_FOR and all(file.stat().st_mtime <= checked for file in files):
        return True
    if digest() != mark.read_text().strip():
        return False
    os.utime(mark)
    return True


@contextmanager
def attempting(action: str, advice: str = "", also: type[Exception] = OSError) -> Iterator[None]:
    """Within, a system's error (or `also`) is one line: `cannot ACTION (reason): ADVICE`."""
    try:
        yield
    except (OSError, also) as error:
        reason = getattr(error, "strerror", None) or first_line(error)
        said = f" ({reason}): {advice}" if advice else f": {reason}"
        raise InputError(f"cannot {action}{said}") from error


def require_writable(path: Path, what: str, suffixes: tuple[str, ...]) -> None:
    """Raise, before any work is done, unless a file with one of these endings can be written there."""
    named = path.suffix.lower() in suffixes and not path.is_dir()
    if not named or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        expected = f"a name that ends in {' or '.join(suffixes)}, in a folder that is there and can be written"
        raise InputError(f"cannot write {what} to {path}: expected {expected}")


@contextmanager
def locked(path: Path, busy: InputError | Callable[[], object], *, remove: bool = False) -> Iterator[None]:
    """Alone, by a lock file that the system lets go of when its process dies.

    If another process holds it, raise `busy`, or call it and wait. With `remove` the lock is gone afterwards.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        if isinstance(busy, InputError):
            raise busy from error
        busy()
        lock.acquire()
    try:
        yield
    finally:
        if remove:
            path.unlink(missing_ok=True)
        lock.release()


def is_locked(path: Path) -> bool:
    """Whether a process holds a lock; makes none where there is none."""
    import fcntl  # not on every system, and nothing else of the command line needs it

    try:
        with path.open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)  # let go as the file is closed
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def cache_folder() -> Path:
    """Where decoded images are kept: $PARSE_DG_CACHE, else parse-dg in the user's cache folder."""
    return _folder("PARSE_DG_CACHE", "XDG_CACHE_HOME", ".cache")


def data_folder() -> Path:
    """Where data sets that were added are kept: $PARSE_DG_DATA, else parse-dg in the user's data folder."""
    return _folder("PARSE_DG_DATA", "XDG_DATA_HOME", ".local/share")


def make_folder(folder: Path, variable: str) -> None:
    """Make a folder of ours; where that cannot be done, name the environment variable that moves it."""
    with attempting(f"write to {folder}", f"set {variable} to another folder"):
        folder.mkdir(parents=True, exist_ok=True)


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
