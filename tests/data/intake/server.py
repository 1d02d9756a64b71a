"""A server on this machine that misbehaves in every way that servers do, and downloads from it."""

import base64
import hashlib
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parse_dg.data.intake.download import download
from tests.parts import refusal

CONTENT = np.random.default_rng(0).bytes(300_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
MD5 = hashlib.md5(CONTENT).hexdigest()
MD5_64 = base64.b64encode(bytes.fromhex(MD5)).decode()
ETAG = '"v1"'
PAGE = b"<!DOCTYPE html><html><title>Quota exceeded</title></html>"

Answer = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """Answers by the next of the server's answers; the last one stays."""

    server: "Server"

    def do_GET(self) -> None:
        self.server.requests.append(dict(self.headers))
        answers = self.server.answers
        (answers.pop(0) if len(answers) > 1 else answers[0])(self)

    def start(self, status: int = 200, **headers: object) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()

    def log_message(self, *arguments: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    answers: list[Answer]
    requests: list[dict[str, str]]
    gone: threading.Event  # set at the end: wakes what pretends to be stuck

    def url(self, name: str = "data.tar") -> str:
        return f"http://127.0.0.1:{self.server_port}/{name}"

    def handle_error(self, *arguments: Any) -> None:
        """The client may leave in the middle."""


@contextmanager
def serving() -> Iterator[Server]:
    """A server that runs meanwhile."""
    made = Server(("127.0.0.1", 0), Handler)
    made.answers, made.requests, made.gone = [good()], [], threading.Event()
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield made
    finally:
        made.gone.set()
        made.shutdown()
        thread.join()
        made.server_close()


def fetch(server: Server, path: Path, **settings: Any) -> None:
    download(server.url(), path, **({"timeout": 5.0, "pause": 0.0} | settings))


def good(content: bytes = CONTENT, upto: int | None = None, **headers: object) -> Answer:
    """A server as it should be; with `upto`, it hangs up there."""
    headers = {"ETag": ETAG} | headers

    def answer(handler: Handler) -> None:
        start = int(handler.headers.get("Range", "bytes=0-")[6:-1])
        if handler.headers.get("If-Range", headers["ETag"]) != headers["ETag"]:
            start = 0
        end = len(content)
        if start >= end:
            return handler.start(416, Content_Range=f"bytes */{end}", Content_Length=0)
        if start:
            handler.start(
                206, Content_Length=end - start, Content_Range=f"bytes {start}-{end - 1}/{end}", **headers
            )
        else:
            handler.start(200, Content_Length=end, **headers)
        handler.wfile.write(content[start:upto])
        return None

    return answer


def fixed(body: bytes = CONTENT, status: int = 200, **headers: object) -> Answer:
    """The same answer, whatever is asked for."""

    def answer(handler: Handler) -> None:
        handler.start(status, **({"Content_Length": len(body)} | headers))
        handler.wfile.write(body)

    return answer


def stuck(upto: int, **headers: object) -> Answer:
    """Sends a while, then nothing more, and stays."""

    def answer(handler: Handler) -> None:
        handler.start(200, Content_Length=len(CONTENT), ETag=ETAG, **headers)
        handler.wfile.write(CONTENT[:upto])
        handler.wfile.flush()
        handler.server.gone.wait(20)

    return answer


def chunked(content: bytes, *, whole: bool = True) -> Answer:
    def answer(handler: Handler) -> None:
        handler.protocol_version = "HTTP/1.1"
        handler.close_connection = True
        handler.start(200, Transfer_Encoding="chunked", Connection="close")
        for start in range(0, len(content), 70_000):
            part = content[start : start + 70_000]
            handler.wfile.write(b"%x\r\n" % len(part) + part + b"\r\n")
        if whole:
            handler.wfile.write(b"0\r\n\r\n")

    return answer


def assert_done(path: Path) -> None:
    assert path.read_bytes() == CONTENT
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def leave_part(server: Server, path: Path, upto: int, **settings: Any) -> None:
    """The first part of a download that was interrupted."""

    def stop(what: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    server.answers = [good(upto=upto, **settings)]
    with pytest.raises(KeyboardInterrupt):
        fetch(server, path, progress=stop)
    assert 0 < path.with_name("data.tar.part").stat().st_size <= upto
    assert not path.exists()
    server.requests.clear()
    server.answers = [good()]


def refuses(server: Server, path: Path, message: str, **settings: Any) -> str:
    said = refusal(fetch, server, path, **settings)
    assert re.search(message, said)
    assert not path.exists()
    return said
