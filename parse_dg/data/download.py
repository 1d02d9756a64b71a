"""Downloads that can be trusted: resumed where they stopped, checked when they are whole.

While a file NAME is being fetched, NAME.part holds what has arrived and NAME.part.json where it comes from. NAME
itself appears only when it is complete and its checksum, where one is known, is right. Everything that goes wrong
is one line that says what to do; mostly, to give the same command again.
"""

import base64
import hashlib
import http.client
import json
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from email.message import Message
from pathlib import Path
from typing import NamedTuple, cast
from urllib import error as url_error
from urllib import parse, request

from filelock import FileLock, Timeout

from parse_dg._version import __version__
from parse_dg.data.listing import Progress
from parse_dg.errors import InputError

CHUNK = 1 << 20
RETRIES = 4
"""Attempts after the first that may fail without getting any further."""
PASSING = (408, 425, 429, 500, 502, 503, 504)
"""Answers that may be different a moment later."""
GOOGLE = ("drive.google.com", "drive.usercontent.google.com", "docs.google.com")


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


@dataclass(frozen=True, kw_only=True)
class _Source:
    """What a server said of a file: kept beside the part, so that the rest is of the same file."""

    url: str
    etag: str | None = None
    modified: str | None = None
    bytes: int | None = None
    md5: str | None = None


class _AttemptError(Exception):
    """An attempt that failed and may be repeated; `fresh` where the part is of no use."""

    def __init__(self, reason: str, *, fresh: bool = False) -> None:
        super().__init__(reason)
        self.fresh = fresh


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
        task = _Task(parse.quote(url, safe="%/:=&?~#+!$,;'@()*[]"), path, expected, progress, timeout)
        task.run(pause)
        if sha256 is None and md5 is None:
            expected = replace(expected, md5=task.source().md5)
        try:
            done = _check(task.part, path, expected, progress)
        except InputError:
            task.notes.unlink(missing_ok=True)
            raise
        task.part.rename(path)
        task.notes.unlink(missing_ok=True)
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
    lock = path.with_name(f"{path.name}.part.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock, timeout=0):
            try:
                yield
            finally:
                lock.unlink(missing_ok=True)
    except Timeout as error:
        raise InputError(f"another process is downloading {path}: wait until it has finished") from error
    except OSError as error:
        reason = error.strerror or _first_line(error)
        raise InputError(
            f"cannot write {path} ({reason}): mend that, and the same command again resumes"
        ) from error


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


# Fetching


@dataclass(frozen=True)
class _Task:
    """One download: its files, and what is asked of the server."""

    url: str
    path: Path
    expected: _Expected
    progress: Progress | None
    timeout: float
    opener: request.OpenerDirector = field(default_factory=lambda: _opener())

    @property
    def part(self) -> Path:
        return self.path.with_name(f"{self.path.name}.part")

    @property
    def notes(self) -> Path:
        return self.path.with_name(f"{self.path.name}.part.json")

    def size(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def source(self) -> _Source:
        """What the part is of; notes that cannot be read, or are of another address, say nothing."""
        try:
            kept = _Source(**json.loads(self.notes.read_text()))
        except (OSError, ValueError, TypeError):
            return _Source(url=self.url)
        return kept if kept.url == self.url else _Source(url=self.url)

    def fail(self, reason: str, advice: str = "") -> InputError:
        """The error: what went wrong, with which address, and what can be done."""
        kept = f" ({self.size():,} bytes are kept in {self.part.name})" if self.size() else ""
        advice = advice or f"the same command again resumes{kept}"
        return InputError(f"cannot download {self.url}: {reason}; {advice}")

    @property
    def changed(self) -> str:
        """What to do about a file that is not the expected one."""
        return f"the file has changed there; fetch the one that is expected by hand and save it as {self.path}"

    def run(self, pause: float) -> None:
        """Attempts until the part is complete; gives up when several in a row got no further."""
        furthest, failures = self.size(), 0
        while True:
            try:
                return self.attempt()
            except _AttemptError as error:
                if error.fresh:
                    self.part.unlink(missing_ok=True)
                failures = 0 if self.size() > furthest else failures + 1
                furthest = max(furthest, self.size())
                if failures > RETRIES:
                    raise self.fail(f"{error}, {failures} times") from error
                time.sleep(pause * 2 ** max(failures - 1, 0))

    def attempt(self) -> None:
        """Asks for what is missing and appends it; raises `_AttemptError` where another attempt may help."""
        source = self.source()
        known = source.etag or source.modified or source.bytes  # else the rest might be of another file
        start = self.size() if known else 0
        if start and source.bytes == start:
            return
        with self.ask(source, start) as answer:
            head = _read(answer)
            if start and answer.status == 206:
                self.resume(answer.headers, source, start)
            elif answer.status == 200:
                self.expect_file(answer.headers, head)
                source, start = self.begin(answer.headers), 0
            else:
                raise _AttemptError(f"the server answered {answer.status} {answer.reason}")
            self.receive(answer, head, source, start)

    def ask(self, source: _Source, start: int) -> http.client.HTTPResponse:
        """The server's answer, its content not read yet."""
        headers = {"User-Agent": f"parse-dg/{__version__}"}
        if start:
            headers["Range"] = f"bytes={start}-"
            if validator := source.etag or source.modified:
                headers["If-Range"] = validator
        try:
            answer = self.opener.open(request.Request(self.url, headers=headers), timeout=self.timeout)
        except url_error.HTTPError as error:
            with error:
                raise self.refused(error) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _AttemptError(_first_line(getattr(error, "reason", error))) from error
        return cast("http.client.HTTPResponse", answer)

    def refused(self, error: url_error.HTTPError) -> Exception:
        """What follows from an answer that is an error."""
        if error.code == 416:
            return _AttemptError("the server has less than was already fetched", fresh=True)
        reason = f"the server answered {error.code} {_first_line(error.reason)}"
        if error.code in PASSING:
            return _AttemptError(reason)
        return self.fail(reason, f"if the address has moved, fetch the file by hand and save it as {self.path}")

    def resume(self, headers: Message, source: _Source, start: int) -> None:
        """Checks that what comes continues the part."""
        found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", headers.get("Content-Range", "").strip())
        total = source.bytes if source.bytes is not None else self.expected.bytes
        if not found or int(found[1]) != start or (total is not None and found[2] not in ("*", str(total))):
            raise _AttemptError("the server sent another part than was asked for", fresh=True)
        for before, now in zip((source.etag, source.modified), _validators(headers), strict=True):
            if before and now and before != now:
                raise _AttemptError("the file has changed on the server", fresh=True)

    def begin(self, headers: Message) -> _Source:
        """A file from its first byte: whatever was fetched before is dropped."""
        length = headers.get("Content-Length", "")
        size = int(length) if length.isdigit() else None
        if size is not None and self.expected.bytes not in (None, size):
            raise self.fail(f"the server offers {size:,} bytes, expected {self.expected.bytes:,}", self.changed)
        etag, modified = _validators(headers)
        source = _Source(url=self.url, etag=etag, modified=modified, bytes=size, md5=_server_md5(headers))
        self.part.unlink(missing_ok=True)
        written = self.notes.with_name(f"{self.notes.name}.new")
        written.write_text(json.dumps(asdict(source)))
        written.rename(self.notes)
        return source

    def expect_file(self, headers: Message, head: bytes) -> None:
        """Refuses a web page in place of the file, which is how some hosts say no."""
        start = head[:256].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
        claimed = headers.get_content_type() in ("text/html", "application/xhtml+xml")
        page = start.startswith((b"<!doctype html", b"<html")) or (claimed and start.startswith(b"<"))
        if not page or self.path.suffix in (".html", ".htm"):
            return
        by_hand = f"open the address in a browser, save the file as {self.path} and give the same command again"
        if parse.urlsplit(self.url).hostname in GOOGLE:
            raise self.fail("Google Drive sent a page instead of the file: over its quota, or not public", by_hand)
        raise self.fail("the server sent a web page instead of the file", by_hand)

    def receive(self, answer: http.client.HTTPResponse, chunk: bytes, source: _Source, done: int) -> None:
        """Appends what arrives to the part, as soon as it arrives; `chunk` is what has arrived already."""
        total = source.bytes if source.bytes is not None else self.expected.bytes
        if total is not None and total - done > (free := shutil.disk_usage(self.path.parent).free):
            raise self.fail(
                f"{total - done:,} bytes are missing, {self.path.parent} has {free:,} free", "make room"
            )
        with self.part.open("ab") as part:
            while chunk:
                if total is not None and done + len(chunk) > total:
                    raise self.fail(f"the server sends more than the {total:,} bytes expected", self.changed)
                part.write(chunk)
                done += len(chunk)
                if self.progress:
                    self.progress(f"downloading {self.path.name}", done, done if total is None else total)
                chunk = b"" if done == source.bytes else _read(answer)
        if total is not None and done < total:
            raise _AttemptError(f"the connection ended after {done:,} of {total:,} bytes")


def _opener() -> request.OpenerDirector:
    """Follows redirects, but to http and https alone: urllib's own would also read ftp."""
    opener = request.OpenerDirector()
    for handler in (
        request.ProxyHandler,
        request.UnknownHandler,
        request.HTTPHandler,
        request.HTTPSHandler,
        request.HTTPDefaultErrorHandler,
        request.HTTPRedirectHandler,
        request.HTTPErrorProcessor,
    ):
        opener.add_handler(handler())
    return opener


def _read(answer: http.client.HTTPResponse) -> bytes:
    """What has arrived, without waiting for more: a stall then loses nothing."""
    try:
        return answer.read1(CHUNK)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _AttemptError(_first_line(error)) from error


def _validators(headers: Message) -> tuple[str | None, str | None]:
    """ETag and Last-Modified. A weak ETag does not promise the same bytes, so it counts for nothing."""
    etag = headers.get("ETag")
    return (None if etag is None or etag.startswith("W/") else etag), headers.get("Last-Modified")


def _server_md5(headers: Message) -> str | None:
    """The MD5 that some servers give with a file, in base64; not of one that is stored packed and sent unpacked."""
    if headers.get("x-goog-stored-content-encoding", "identity") != headers.get("Content-Encoding", "identity"):
        return None
    found = re.search(r"\bmd5=([\w+/]+=*)", ",".join(headers.get_all("x-goog-hash", [])))
    try:
        digest = base64.b64decode(found[1] if found else headers.get("Content-MD5", ""), validate=True)
    except ValueError:
        return None
    return digest.hex() if len(digest) == 16 else None


def _first_line(error: object) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
