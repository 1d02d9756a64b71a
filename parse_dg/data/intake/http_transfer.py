"""A file fetched over HTTP, one request after another: each asks for what is missing and appends what arrives.

What has arrived lies in NAME.part, and what the server said of the file in NAME.part.json: the rest is asked for on
the condition that it is still the same file.
"""

import base64
import http.client
import json
import re
import shutil
from dataclasses import asdict, dataclass
from email.message import Message
from pathlib import Path
from typing import NoReturn, cast
from urllib import error as url_error, parse, request

from parse_dg._version import __version__
from parse_dg.data.listing import Progress
from parse_dg.errors import InputError
from parse_dg.files import write_json
from parse_dg.wording import first_line

CHUNK = 1 << 20
PASSING = (408, 425, 429, 500, 502, 503, 504)  # answers that may be different a moment later
GOOGLE = ("drive.google.com", "drive.usercontent.google.com", "docs.google.com")


@dataclass(frozen=True, kw_only=True)
class RemoteFile:
    """What a server said of a file: kept beside the part, so that the rest is of the same file."""

    url: str
    etag: str | None = None
    modified: str | None = None
    bytes: int | None = None
    md5: str | None = None


class AttemptError(Exception):
    """An attempt that failed and may be repeated; `fresh` where the part is of no use."""

    def __init__(self, reason: str, *, fresh: bool = False) -> None:
        super().__init__(reason)
        self.fresh = fresh


class Transfer:
    """One file on its way: where it comes from, where it goes, and what is asked of the server."""

    def __init__(
        self, url: str, path: Path, expected_bytes: int | None, progress: Progress | None, timeout: float
    ) -> None:
        self.url, self.path, self.expected_bytes = url, path, expected_bytes
        self.progress, self.timeout = progress, timeout
        self.part, self.notes = (path.with_name(f"{path.name}.part{ending}") for ending in ("", ".json"))
        self._opener = request.build_opener(_NoFTP)

    def size(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def source(self) -> RemoteFile:
        """What the part is of; notes that cannot be read, or are of another address, say nothing."""
        try:
            kept = RemoteFile(**json.loads(self.notes.read_text()))
        except (OSError, ValueError, TypeError):
            return RemoteFile(url=self.url)
        return kept if kept.url == self.url else RemoteFile(url=self.url)

    def fail(self, reason: str, advice: str = "") -> InputError:
        kept = f" ({self.size():,} bytes are kept in {self.part.name})" if self.size() else ""
        advice = advice or f"the same command again resumes{kept}"
        return InputError(f"cannot download {self.url}: {reason}; {advice}")

    def _changed(self, reason: str) -> InputError:
        advice = f"the file has changed there; fetch the one that is expected by hand and save it as {self.path}"
        return self.fail(reason, advice)

    def attempt(self) -> None:
        """Asks for what is missing and appends it; raises `AttemptError` where another attempt may help."""
        source = self.source()
        known = source.etag or source.modified or source.bytes  # else the rest might be of another file
        start = self.size() if known else 0
        if start and source.bytes == start:
            return
        with self._ask(source, start) as answer:
            head = _read(answer)
            if start and answer.status == 206:
                self._resume(answer.headers, source, start)
            elif answer.status == 200:
                self._expect_file(answer.headers, head)
                source, start = self._begin(answer.headers), 0
            else:
                raise AttemptError(f"the server answered {answer.status} {answer.reason}")
            self._receive(answer, head, source, start)

    def _ask(self, source: RemoteFile, start: int) -> http.client.HTTPResponse:
        headers = {"User-Agent": f"parse-dg/{__version__}"}
        if start:
            headers["Range"] = f"bytes={start}-"
            if validator := source.etag or source.modified:
                headers["If-Range"] = validator
        try:
            answer = self._opener.open(request.Request(self.url, headers=headers), timeout=self.timeout)
        except url_error.HTTPError as error:
            with error:
                raise self._refused(error) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise AttemptError(first_line(getattr(error, "reason", error))) from error
        return cast("http.client.HTTPResponse", answer)

    def _refused(self, error: url_error.HTTPError) -> Exception:
        if error.code == 416:
            return AttemptError("the server has less than was already fetched", fresh=True)
        reason = f"the server answered {error.code} {first_line(error.reason)}"
        if error.code in PASSING:
            return AttemptError(reason)
        return self.fail(reason, f"if the address has moved, fetch the file by hand and save it as {self.path}")

    def _resume(self, headers: Message, source: RemoteFile, start: int) -> None:
        found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", headers.get("Content-Range", "").strip())
        total = source.bytes if source.bytes is not None else self.expected_bytes
        if not found or int(found[1]) != start or (total is not None and found[2] not in ("*", str(total))):
            raise AttemptError("the server sent another part than was asked for", fresh=True)
        for before, now in zip((source.etag, source.modified), _validators(headers), strict=True):
            if before and now and before != now:
                raise AttemptError("the file has changed on the server", fresh=True)

    def _begin(self, headers: Message) -> RemoteFile:
        """A file from its first byte: whatever was fetched before is dropped."""
        length = headers.get("Content-Length", "")
        size = int(length) if length.isdigit() else None
        if size is not None and self.expected_bytes not in (None, size):
            raise self._changed(f"the server offers {size:,} bytes, expected {self.expected_bytes:,}")
        etag, modified = _validators(headers)
        source = RemoteFile(url=self.url, etag=etag, modified=modified, bytes=size, md5=_server_md5(headers))
        self.part.unlink(missing_ok=True)
        write_json(self.notes, asdict(source))
        return source

    def _expect_file(self, headers: Message, head: bytes) -> None:
        """Refuses a web page in place of the file, which is how some hosts say no."""
        start = head[:256].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
        claimed = headers.get_content_type() in ("text/html", "application/xhtml+xml")
        page = start.startswith((b"<!doctype html", b"<html")) or (claimed and start.startswith(b"<"))
        if not page or self.path.suffix in (".html", ".htm"):
            return
        by_hand = f"open the address in a browser, save the file as {self.path} and give the same command again"
        drive = "Google Drive sent a page instead of the file: over its quota, or not public"
        google = parse.urlsplit(self.url).hostname in GOOGLE
        raise self.fail(drive if google else "the server sent a web page instead of the file", by_hand)

    def _receive(self, answer: http.client.HTTPResponse, chunk: bytes, source: RemoteFile, done: int) -> None:
        """Appends what arrives to the part, as soon as it arrives; `chunk` is what has arrived already."""
        total = source.bytes if source.bytes is not None else self.expected_bytes
        free = shutil.disk_usage(self.path.parent).free
        if total is not None and total - done > free:
            raise self.fail(
                f"{total - done:,} bytes are missing, {self.path.parent} has {free:,} free", "make room"
            )
        with self.part.open("ab") as part:
            while chunk:
                if total is not None and done + len(chunk) > total:
                    raise self._changed(f"the server sends more than the {total:,} bytes expected")
                part.write(chunk)
                done += len(chunk)
                if self.progress:
                    self.progress(f"downloading {self.path.name}", done, done if total is None else total)
                chunk = b"" if done == source.bytes else _read(answer)
        if total is not None and done < total:
            raise AttemptError(f"the connection ended after {done:,} of {total:,} bytes")


class _NoFTP(request.FTPHandler):
    """Redirects lead to http and https alone: urllib's own would also follow them to ftp."""

    def ftp_open(self, req: request.Request) -> NoReturn:
        raise url_error.URLError("unknown url type: ftp")


def _read(answer: http.client.HTTPResponse) -> bytes:
    """What has arrived, without waiting for more: a stall then loses nothing."""
    try:
        return answer.read1(CHUNK)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise AttemptError(first_line(error)) from error


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
