"""Downloads from a server on this machine that misbehaves in every way that servers do."""

import base64
import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from filelock import FileLock

from parse_dg.data import download as module
from parse_dg.data.download import Downloaded, download
from parse_dg.errors import InputError

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


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    made = Server(("127.0.0.1", 0), Handler)
    made.answers, made.requests, made.gone = [good()], [], threading.Event()
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.gone.set()
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "data.tar"


def fetch(server: Server, path: Path, **settings: Any) -> Downloaded:
    return download(server.url(), path, **({"timeout": 5.0, "pause": 0.0} | settings))


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


def assert_done(result: Downloaded, path: Path) -> None:
    assert result == Downloaded(path, len(CONTENT), SHA256)
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
    with pytest.raises(InputError, match=message) as caught:
        fetch(server, path, **settings)
    assert "\n" not in str(caught.value)
    assert not path.exists()
    return str(caught.value)


# All is well


@pytest.mark.parametrize(
    "known",
    [
        {},
        {"bytes": len(CONTENT)},
        {"sha256": SHA256},
        {"md5": MD5},
        {"bytes": len(CONTENT), "sha256": SHA256.upper(), "md5": MD5},
    ],
)
def test_a_file_arrives(known: dict[str, Any], server: Server, path: Path) -> None:
    assert_done(fetch(server, path, **known), path)
    assert len(server.requests) == 1
    assert "Range" not in server.requests[0]
    assert server.requests[0]["User-Agent"].startswith("parse-dg/")


def test_a_finished_file_is_not_fetched_again(server: Server, path: Path) -> None:
    fetch(server, path)
    for known in ({}, {"bytes": len(CONTENT), "sha256": SHA256}, {"md5": MD5}):
        assert_done(fetch(server, path, **known), path)
    assert len(server.requests) == 1


def test_progress_is_reported(server: Server, path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    fetch(server, path, progress=lambda *report: seen.append(report))
    fetched = [done for what, done, total in seen if what == "downloading data.tar" and total == len(CONTENT)]
    checked = [done for what, done, total in seen if what == "checking data.tar" and total == len(CONTENT)]
    assert len(fetched) + len(checked) == len(seen)
    assert fetched == sorted(fetched)
    assert fetched[-1] == checked[-1] == len(CONTENT)


def test_an_empty_file(server: Server, path: Path) -> None:
    server.answers = [fixed(b"")]
    assert fetch(server, path).bytes == 0
    assert path.read_bytes() == b""


@pytest.mark.parametrize("known", [{}, {"bytes": len(CONTENT)}])
def test_a_length_that_is_not_told(known: dict[str, Any], server: Server, path: Path) -> None:
    server.answers = [chunked(CONTENT)]
    seen: list[int] = []
    assert_done(fetch(server, path, progress=lambda what, done, total: seen.append(total), **known), path)
    assert min(seen) > 0


def test_redirects_are_followed(server: Server, path: Path) -> None:
    def moved(handler: Handler) -> None:
        handler.start(302, Location=server.url("elsewhere"), Content_Length=0)

    server.answers = [moved, good(upto=1000), moved, good()]
    assert_done(fetch(server, path), path)
    assert [request.get("Range") for request in server.requests] == [None, None, "bytes=1000-", "bytes=1000-"]


def test_odd_letters_in_an_address(server: Server, path: Path) -> None:
    assert_done(download(server.url("ä b/c%20d.tar?x=1&y=[2]"), path, timeout=5.0), path)


# Resuming


def test_an_interrupted_download_is_resumed(server: Server, path: Path) -> None:
    leave_part(server, path, 100_000)
    kept = path.with_name("data.tar.part").stat().st_size
    assert_done(fetch(server, path), path)
    assert len(server.requests) == 1
    assert server.requests[0]["Range"] == f"bytes={kept}-"
    assert server.requests[0]["If-Range"] == ETAG


def test_a_connection_that_ends_early_is_resumed_at_once(server: Server, path: Path) -> None:
    server.answers = [good(upto=n) for n in range(30_000, 300_000, 30_000)] + [good()]
    assert_done(fetch(server, path), path)
    assert [request.get("Range") for request in server.requests][:3] == [None, "bytes=30000-", "bytes=60000-"]
    assert len(server.requests) == 10  # more than the retries: each got further


def test_a_stalled_connection_is_given_up_and_resumed(server: Server, path: Path) -> None:
    server.answers = [stuck(70_000), good()]
    assert_done(fetch(server, path, timeout=0.3), path)
    assert server.requests[1]["Range"] == "bytes=70000-"  # nothing that had arrived was lost


def test_a_server_that_does_not_answer(server: Server, path: Path) -> None:
    server.answers = [lambda handler: handler.server.gone.wait(20) and None]
    message = refuses(server, path, "timed out, 5 times; the same command again resumes$", timeout=0.05)
    assert server.url() in message
    assert len(server.requests) == 5


def test_several_failures_in_a_row_are_the_end(server: Server, path: Path) -> None:
    leave_part(server, path, 100_000)
    kept = path.with_name("data.tar.part").stat().st_size
    server.answers = [fixed(b"", 503)]
    message = (
        r"answered 503 .*, 5 times; the same command again resumes \([0-9,]+ bytes are kept in data.tar.part\)"
    )
    refuses(server, path, message)
    assert path.with_name("data.tar.part").stat().st_size == kept
    server.answers = [good()]
    assert_done(fetch(server, path), path)
    assert server.requests[-1]["Range"] == f"bytes={kept}-"


def test_pauses_double(server: Server, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(module.time, "sleep", pauses.append)
    server.answers = [fixed(b"", 503), fixed(b"", 429), fixed(b"", 500), good(upto=1000), good()]
    assert_done(fetch(server, path, pause=1.0), path)
    assert pauses == [1, 2, 4, 1]


def test_nobody_is_listening(server: Server, path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot download http://127.0.0.1:1/x: .*refused, 5 times"):
        download("http://127.0.0.1:1/x", path, pause=0.0)


def test_a_reset_connection_is_resumed(server: Server, path: Path) -> None:
    def reset(handler: Handler) -> None:
        handler.connection.close()

    def nonsense(handler: Handler) -> None:
        handler.wfile.write(b"this is not HTTP\r\n\r\n")

    server.answers = [reset, nonsense, good()]
    assert_done(fetch(server, path), path)


def test_a_server_that_ignores_ranges_starts_over(server: Server, path: Path) -> None:
    leave_part(server, path, 100_000)
    server.answers = [fixed()]
    assert_done(fetch(server, path), path)
    assert "Range" in server.requests[0]


def test_a_server_that_ignores_ranges_and_hangs_up_is_not_asked_for_ever(server: Server, path: Path) -> None:
    server.answers = [fixed(CONTENT[:1000], Content_Length=len(CONTENT))]
    refuses(server, path, "the connection ended after 1,000 of 300,000 bytes, 5 times")
    assert len(server.requests) == 6  # the first got further


@pytest.mark.parametrize(
    "wrong",
    [
        {"Content_Range": "bytes 7-299999/300000"},
        {"Content_Range": "bytes 0-299999/300000"},
        {"Content_Range": f"bytes {{start}}-399999/{400_000}"},
        {"Content_Range": "pages 1-2/3"},
        {},
        {"Content_Range": "bytes {start}-299999/300000", "ETag": '"v2"'},
    ],
)
def test_a_wrong_part_is_not_appended(wrong: dict[str, str], server: Server, path: Path) -> None:
    leave_part(server, path, 100_000)
    start = path.with_name("data.tar.part").stat().st_size
    server.answers = [fixed(CONTENT, 206, **{k: v.format(start=start) for k, v in wrong.items()}), good()]
    assert_done(fetch(server, path), path)
    assert [("Range" in request) for request in server.requests] == [True, False]


def test_a_server_that_never_sends_the_right_part_is_not_asked_for_ever(server: Server, path: Path) -> None:
    begin, wrong = good(upto=1000), fixed(CONTENT, 206, Content_Range="bytes 7-299999/300000")
    server.answers = [lambda handler: (wrong if "Range" in handler.headers else begin)(handler)]
    refuses(server, path, ", 5 times")
    assert len(server.requests) < 10


def test_a_whole_part_that_nobody_asked_for_is_not_appended(server: Server, path: Path) -> None:
    path.parent.mkdir()
    path.with_name("data.tar.part").write_bytes(b"of what?")
    server.answers = [fixed(CONTENT, 206, Content_Range="bytes 0-299999/300000"), good()]
    assert_done(fetch(server, path), path)


def test_a_part_that_nobody_asked_for(server: Server, path: Path) -> None:
    server.answers = [fixed(CONTENT[5:], 206, Content_Range="bytes 5-299999/300000"), good()]
    assert_done(fetch(server, path), path)


def test_a_part_longer_than_the_file_is_dropped(server: Server, path: Path) -> None:
    leave_part(server, path, 100_000)
    path.with_name("data.tar.part").write_bytes(bytes(400_000))
    assert_done(fetch(server, path), path)
    assert [request.get("Range") for request in server.requests] == ["bytes=400000-", None]


def test_a_part_that_is_whole_is_only_checked(server: Server, path: Path) -> None:
    leave_part(server, path, 100_000)
    path.with_name("data.tar.part").write_bytes(CONTENT)
    assert_done(fetch(server, path, sha256=SHA256), path)
    assert server.requests == []


def test_a_file_that_changed_meanwhile_is_fetched_anew(server: Server, path: Path) -> None:
    leave_part(server, path, 100_000)
    other = CONTENT[::-1]
    server.answers = [good(other, ETag='"v2"')]
    assert fetch(server, path).sha256 == hashlib.sha256(other).hexdigest()
    assert path.read_bytes() == other


def test_another_address_has_another_file(server: Server, path: Path) -> None:
    leave_part(server, path, 100_000)
    assert_done(download(server.url("other"), path, timeout=5.0), path)
    assert "Range" not in server.requests[0]


@pytest.mark.parametrize("notes", [None, "", "[]", "{}", '{"url": 3, "what": 4}', "\0"])
def test_a_part_of_which_nothing_is_known_is_dropped(notes: str | None, server: Server, path: Path) -> None:
    leave_part(server, path, 100_000)
    place = path.with_name("data.tar.part.json")
    place.unlink() if notes is None else place.write_text(notes)
    path.with_name("data.tar.part").write_bytes(bytes(1000))
    assert_done(fetch(server, path), path)
    assert "Range" not in server.requests[0]


def test_a_weak_etag_is_no_promise(server: Server, path: Path) -> None:
    date = "Wed, 01 Jan 2020 00:00:00 GMT"
    leave_part(server, path, 100_000, ETag='W/"v1"', Last_Modified=date)
    fetch(server, path)
    assert server.requests[0]["If-Range"] == date


def test_a_server_without_validators_must_keep_the_size(server: Server, path: Path) -> None:
    leave_part(server, path, 100_000)
    place = path.with_name("data.tar.part.json")
    place.write_text(json.dumps(json.loads(place.read_text()) | {"etag": None}))
    assert_done(fetch(server, path, sha256=SHA256), path)
    assert "If-Range" not in server.requests[0]
    assert "Range" in server.requests[0]


def test_a_chunked_answer_that_breaks_off_starts_over(server: Server, path: Path) -> None:
    """No length, no ETag: nothing says what the part is of."""
    server.answers = [chunked(CONTENT[:100_000], whole=False), chunked(CONTENT)]
    assert_done(fetch(server, path), path)
    assert [request.get("Range") for request in server.requests] == [None, None]


# What is checked


@pytest.mark.parametrize(
    ("known", "message"),
    [
        (
            {"sha256": "0" * 64},
            f"data.tar has sha256 {SHA256}, expected 0{{64}}: renamed to data.tar.damaged; the same",
        ),
        ({"md5": "1" * 32}, f"data.tar has md5 {MD5}, expected 1{{32}}"),
        ({"sha256": SHA256, "md5": "1" * 32}, "has md5"),
    ],
)
def test_a_wrong_checksum(known: dict[str, str], message: str, server: Server, path: Path) -> None:
    refuses(server, path, message, **known)
    assert [file.name for file in path.parent.iterdir()] == ["data.tar.damaged"]
    assert path.with_name("data.tar.damaged").read_bytes() == CONTENT
    refuses(server, path, r"renamed to data\.tar\.damaged-2", **known)
    assert len(server.requests) == 2
    assert_done_beside_damage(fetch(server, path, sha256=SHA256), path)


def assert_done_beside_damage(result: Downloaded, path: Path) -> None:
    assert result == Downloaded(path, len(CONTENT), SHA256)
    assert sorted(file.name for file in path.parent.iterdir()) == [
        "data.tar",
        "data.tar.damaged",
        "data.tar.damaged-2",
    ]


@pytest.mark.parametrize("known", [{"sha256": "0" * 64}, {"bytes": 5}, {"md5": "0" * 32}])
def test_a_finished_file_that_is_wrong(known: dict[str, Any], server: Server, path: Path) -> None:
    fetch(server, path)
    refuses(server, path, "renamed to data.tar.damaged; the same command again downloads it anew", **known)
    assert path.with_name("data.tar.damaged").read_bytes() == CONTENT


def test_a_mixed_file_is_noticed(server: Server, path: Path) -> None:
    """The server gives another file under the same ETag: only the checksum can tell."""
    leave_part(server, path, 100_000)
    server.answers = [good(CONTENT[::-1])]
    refuses(server, path, "has sha256", sha256=SHA256)


@pytest.mark.parametrize(
    "header",
    [
        {"x_goog_hash": f"crc32c=AAAAAA==,md5={MD5_64}"},
        {"x_goog_hash": f"md5={MD5_64}"},
        {"Content_MD5": MD5_64},
        {"Content_MD5": "no base64!"},
        {"x_goog_hash": "crc32c=AAAAAA=="},
    ],
)
def test_the_servers_own_checksum(header: dict[str, str], server: Server, path: Path) -> None:
    server.answers = [good(upto=50_000, **header), good()]
    assert_done(fetch(server, path), path)
    path.unlink()
    server.answers = [good(CONTENT[::-1], **header)]
    if MD5_64 in str(header):
        refuses(server, path, f"has md5 [0-9a-f]+, expected {MD5}: renamed")
    else:
        fetch(server, path)


def test_a_given_checksum_counts_more_than_the_servers(server: Server, path: Path) -> None:
    server.answers = [good(Content_MD5=base64.b64encode(bytes(16)).decode())]
    assert_done(fetch(server, path, sha256=SHA256), path)


def test_a_checksum_of_what_is_stored_packed_is_not_used(server: Server, path: Path) -> None:
    wrong = base64.b64encode(bytes(16)).decode()
    server.answers = [good(x_goog_hash=f"md5={wrong}", x_goog_stored_content_encoding="gzip")]
    assert_done(fetch(server, path), path)


def test_another_size_is_refused_before_it_is_fetched(server: Server, path: Path) -> None:
    message = "the server offers 300,000 bytes, expected 299,999; the file has changed there; fetch .* save it as"
    refuses(server, path, message, bytes=299_999)
    assert list(path.parent.iterdir()) == []


def test_more_than_expected_without_a_length(server: Server, path: Path) -> None:
    server.answers = [chunked(CONTENT)]
    refuses(server, path, "sends more than the 299,999 bytes expected; the file has changed", bytes=299_999)


def test_less_than_expected_without_a_length(server: Server, path: Path) -> None:
    server.answers = [chunked(CONTENT)]
    refuses(server, path, "ended after 300,000 of 300,001 bytes, 5 times", bytes=300_001)


# What comes instead of a file


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (PAGE, "text/html; charset=utf-8"),
        (PAGE, "application/octet-stream"),
        (b"\xef\xbb\xbf\n <HTML>", "text/plain"),
        (b"<script>", "text/html"),
    ],
)
def test_a_page_instead_of_the_file(body: bytes, kind: str, server: Server, path: Path) -> None:
    leave_part(server, path, 100_000)
    kept = path.with_name("data.tar.part").stat().st_size
    server.answers = [fixed(body, Content_Type=kind)]
    refuses(
        server, path, f"sent a web page instead of the file; open the address in a browser, save .* as {path} and"
    )
    assert len(server.requests) == 1
    assert path.with_name("data.tar.part").stat().st_size == kept


def test_google_drive_is_named(server: Server, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GOOGLE", ("127.0.0.1",))
    server.answers = [fixed(PAGE, Content_Type="text/html")]
    refuses(server, path, "Google Drive sent a page instead of the file: over its quota, or not public; open the")


def test_a_page_is_fine_where_one_is_wanted(server: Server, tmp_path: Path) -> None:
    server.answers = [fixed(PAGE, Content_Type="text/html")]
    assert fetch(server, tmp_path / "licence.html").bytes == len(PAGE)


def test_an_archive_that_is_called_a_page(server: Server, path: Path) -> None:
    server.answers = [fixed(Content_Type="text/html")]
    assert_done(fetch(server, path), path)


@pytest.mark.parametrize(("status", "words"), [(404, "Not Found"), (403, "Forbidden"), (410, "Gone")])
def test_what_is_not_there_is_asked_for_once(status: int, words: str, server: Server, path: Path) -> None:
    server.answers = [fixed(b"no", status)]
    refuses(
        server, path, f"answered {status} {words}; if the address has moved, fetch the file by hand and save it as"
    )
    assert len(server.requests) == 1


def test_an_answer_without_content(server: Server, path: Path) -> None:
    server.answers = [lambda handler: handler.start(204)]
    refuses(server, path, "answered 204 No Content, 5 times")


@pytest.mark.parametrize("place", ["", "ftp://127.0.0.1/x", "file:///etc/passwd"])
def test_redirects_that_lead_nowhere(place: str, server: Server, path: Path) -> None:
    server.answers = [lambda handler: handler.start(302, Location=place or server.url(), Content_Length=0)]
    refuses(server, path, "redirect|unknown url type: ftp")


@pytest.mark.parametrize(
    "url",
    ["", "data.tar", "ftp://a/b", "file:///etc/passwd", "http://", "http://[::1", "https://a:b/c", "http:///x"],
)
def test_addresses_that_are_none(url: str, path: Path) -> None:
    with pytest.raises(InputError, match="expected an address that starts with http:// or https://"):
        download(url, path)
    assert not path.parent.exists()


# The disk


def test_a_full_disk_is_noticed_before(server: Server, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.shutil, "disk_usage", lambda place: SimpleNamespace(free=299_999))
    refuses(server, path, f"300,000 bytes are missing, {path.parent} has 299,999 free; make room")


def test_a_resumed_file_needs_less_room(server: Server, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_part(server, path, 100_000)
    monkeypatch.setattr(module.shutil, "disk_usage", lambda place: SimpleNamespace(free=299_999))
    assert_done(fetch(server, path), path)


def test_a_folder_that_cannot_be_written_to(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"cannot write .*/file/data.tar \(.*\): mend that"):
        fetch(server, tmp_path / "file" / "data.tar")


def test_a_folder_in_place_of_the_file(server: Server, path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(InputError, match=r"cannot read .*data.tar \(Is a directory\): expected a file"):
        fetch(server, path)


def test_two_processes_do_not_write_at_once(server: Server, path: Path) -> None:
    path.parent.mkdir()
    with FileLock(path.with_name("data.tar.part.lock")):
        refuses(server, path, "another process is downloading .*data.tar: wait until it has finished")
    assert_done(fetch(server, path), path)
