"""Downloads that can be trusted: resumed where they stopped, checked when they are whole.

While a file NAME is being fetched, NAME.part holds what has arrived and NAME.part.json where it comes from. NAME
itself appears only when it is complete and its checksum, where one is known, is right. Everything that goes wrong
is one line that says what to do; mostly, to give the same command again.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple
from urllib import parse

from parse_dg.data.intake.http_transfer import AttemptError, Transfer
from parse_dg.data.listing import Progress
from parse_dg.errors import InputError
from parse_dg.files import attempting, locked

CHUNK = 1 << 20
RETRIES = 4
"""Attempts after the first that may fail without getting any further."""


class Downloaded(NamedTuple):
    """A file that is complete, and right as far as that is known."""

    path: Path
    bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class _Expected:
    """What is known of a file beforehand; None where nothing is."""

    bytes: int | None
    sha256: str | None
    md5: str | None


def download(
    url: str,
    path: Path,
    *,
    bytes: int | None = None,
    sha256: str | None = None,
    md5: str | None = None,
    progress: Progress | None = None,
    timeout: float = 60.0,
    pause: float = 1.0,
) -> Downloaded:
    """Fetches `url` (http or https) to `path`, unless it is there already.

    `bytes`, `sha256` and `md5` are what the file must have; without a checksum the server's MD5 is used, if it
    gives one. A connection that stands still for `timeout` seconds is given up and resumed, after a pause that
    doubles from `pause` seconds.
    """
    _check_address(url)
    expected = _Expected(bytes=bytes, sha256=sha256, md5=md5)
    if path.exists():
        return _check(path, path, expected, progress)
    with _alone(path):
        address = parse.quote(url, safe="%/:=&?~#+!$,;'@()*[]")
        transfer = Transfer(address, path, bytes, progress, timeout)
        _complete(transfer, pause)
        if sha256 is None and md5 is None:
            expected = replace(expected, md5=transfer.source().md5)
        try:
            done = _check(transfer.part, path, expected, progress)
        except InputError:
            transfer.notes.unlink(missing_ok=True)
            raise
        transfer.part.rename(path)
        transfer.notes.unlink(missing_ok=True)
    return done._replace(path=path)


def _check_address(url: str) -> None:
    try:
        parts = parse.urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # of a port that is no number, or a bracket that is not closed
        valid = False
    if not valid:
        raise InputError(f"cannot download {url!r}: expected an address that starts with http:// or https://")


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """While this process, and no other, writes `path`; errors of the disk are the user's to mend."""
    busy = InputError(f"another process is downloading {path}: wait until it has finished")
    with attempting(f"write {path}", "mend that, and the same command again resumes"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path.with_name(f"{path.name}.part.lock"), busy, remove=True):
            yield


def _complete(transfer: Transfer, pause: float) -> None:
    """Attempts until the part is complete; gives up when several in a row got no further."""
    furthest, failures = transfer.size(), 0
    while True:
        try:
            return transfer.attempt()
        except AttemptError as error:
            if error.fresh:
                transfer.part.unlink(missing_ok=True)
            failures = 0 if transfer.size() > furthest else failures + 1
            furthest = max(furthest, transfer.size())
            if failures > RETRIES:
                raise transfer.fail(f"{error}, {failures} times") from error
            time.sleep(pause * 2 ** max(failures - 1, 0))


# What has arrived


def _check(file: Path, path: Path, expected: _Expected, progress: Progress | None) -> Downloaded:
    """Size and checksums of `file`; one that is not as expected is renamed to `path`.damaged."""

    def report(done: int) -> None:
        if progress:
            progress(f"checking {path.name}", done, size)

    try:
        size = file.stat().st_size
        found: dict[str, object] = {"bytes": size}
        if expected.bytes in (None, size):  # else it need not be read
            found |= _digests(file, ("sha256", "md5") if expected.md5 else ("sha256",), report)
    except OSError as error:
        raise InputError(f"cannot read {file} ({error.strerror}): expected a file") from error
    for name, value in asdict(expected).items():
        if value is not None and str(value).lower() != str(found[name]):
            damaged = _damaged(path)
            file.rename(damaged)
            raise InputError(
                f"{path} has {name} {found[name]}, expected {value}: renamed to {damaged.name}; "
                "the same command again downloads it anew"
            )
    return Downloaded(file, size, str(found["sha256"]))


def _digests(file: Path, names: Sequence[str], report: Callable[[int], None]) -> dict[str, str]:
    digests = {name: hashlib.new(name, usedforsecurity=False) for name in names}
    done = 0
    with file.open("rb") as content:
        while chunk := content.read(CHUNK):
            for digest in digests.values():
                digest.update(chunk)
            done += len(chunk)
            report(done)
    return {name: digest.hexdigest() for name, digest in digests.items()}


def _damaged(path: Path) -> Path:
    """A name that is free: nothing is overwritten."""
    names = (f"{path.name}.damaged" + (f"-{number}" if number > 1 else "") for number in range(1, 1 << 20))
    return next(place for name in names if not (place := path.with_name(name)).exists())
