"""Downloads that can be trusted: resumed where they stopped, checked when they are whole.

While a file NAME is being fetched, NAME.part holds what has arrived and NAME.part.json where it comes from. NAME
itself appears only when it is complete and its checksum, where one is known, is right. Everything that goes wrong
is one line that says what to do; mostly, to give the same command again.
"""

import hashlib
import time
from collections.abc import Mapping
from itertools import chain, count
from pathlib import Path
from urllib import parse

from parse_dg.data.intake.http_transfer import CHUNK, AttemptError, Transfer
from parse_dg.data.listing import Progress
from parse_dg.errors import InputError
from parse_dg.files import attempting, locked

RETRIES = 4  # attempts after the first that may fail without getting any further


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
) -> None:
    """Fetches `url` (http or https) to `path`, unless it is there already.

    `bytes`, `sha256` and `md5` are what the file must have; without a checksum the server's MD5 is used, if it
    gives one. A connection that stands still for `timeout` seconds is given up and resumed, after a pause that
    doubles from `pause` seconds.
    """
    _check_address(url)
    known: dict[str, int | str | None] = {"bytes": bytes, "sha256": sha256, "md5": md5}
    if path.exists():
        return _check(path, path, known, progress)
    busy = InputError(f"another process is downloading {path}: wait until it has finished")
    with attempting(f"write {path}", "mend that, and the same command again resumes"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path.with_name(f"{path.name}.part.lock"), busy, remove=True):
            address = parse.quote(url, safe="%/:=&?~#+!$,;'@()*[]")
            transfer = Transfer(address, path, bytes, progress, timeout)
            _complete(transfer, pause)
            known["md5"] = md5 if sha256 or md5 else transfer.source().md5
            try:
                _check(transfer.part, path, known, progress)
            except InputError:
                transfer.notes.unlink(missing_ok=True)
                raise
            transfer.part.rename(path)
            transfer.notes.unlink(missing_ok=True)
    return None


def free_name(path: Path) -> Path:
    """The path if nothing is there, else the first of PATH-2, PATH-3, … that is free: nothing is overwritten."""
    others = (path.with_name(f"{path.name}-{number}") for number in count(2))
    return next(place for place in chain([path], others) if not place.exists())


def _check_address(url: str) -> None:
    try:
        parts = parse.urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # of a port that is no number, or a bracket that is not closed
        valid = False
    if not valid:
        raise InputError(f"cannot download {url!r}: expected an address that starts with http:// or https://")


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


def _check(file: Path, path: Path, known: Mapping[str, int | str | None], progress: Progress | None) -> None:
    """Raise unless `file` has the size and checksums that are known; it is then renamed to `path`.damaged."""
    digests = {name: hashlib.new(name, usedforsecurity=False) for name in ("sha256", "md5") if known[name]}
    done = 0
    with attempting(f"read {file}", "expected a file"), file.open("rb") as content:
        size = file.stat().st_size
        while digests and known["bytes"] in (None, size) and (chunk := content.read(CHUNK)):
            for digest in digests.values():
                digest.update(chunk)
            done += len(chunk)
            if progress:
                progress(f"checking {path.name}", done, size)
    found = {"bytes": str(size)} | {name: digest.hexdigest() for name, digest in digests.items()}
    for name, value in known.items():
        if value is not None and str(value).lower() != found[name]:
            damaged = free_name(path.with_name(f"{path.name}.damaged"))
            file.rename(damaged)
            raise InputError(
                f"{path} has {name} {found[name]}, expected {value}: renamed to {damaged.name}; "
                "the same command again downloads it anew"
            )
