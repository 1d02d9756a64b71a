"""Downloads: the rest of the same file or nothing, repeated until they are whole, checked, and one at a time."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from filelock import FileLock

from parse_dg.data.intake import http_transfer
from parse_dg.data.intake.download import download
from parse_dg.errors import InputError
from tests.data.intake.server import (
    CONTENT,
    ETAG,
    MD5,
    MD5_64,
    PAGE,
    SHA256,
    Handler,
    Server,
    assert_done,
    chunked,
    fetch,
    fixed,
    good,
    leave_part,
    refuses,
    stuck,
)
from tests.parts import refusal


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "data.tar"


@pytest.mark.parametrize("known", [{}, {"bytes": len(CONTENT), "sha256": SHA256.upper(), "md5": MD5}])
def test_a_file_arrives_and_is_not_fetched_again(known: dict[str, Any], server: Server, path: Path) -> None:
    for _ in range(2):
        fetch(server, path, **known)
        assert_done(path)
    assert len(server.requests) == 1
    assert "Range" not in server.requests[0]
    assert server.requests[0]["User-Agent"].startswith("parse-dg/")


def test_progress_is_reported(server: Server, path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    fetch(server, path, sha256=SHA256, progress=lambda *report: seen.append(report))
    fetched = [done for what, done, total in seen if what == "downloading data.tar" and total == len(CONTENT)]
    checked = [done for what, done, total in seen if what == "checking data.tar" and total == len(CONTENT)]
    assert len(fetched) + len(checked) == len(seen)
    assert fetched == sorted(fetched)
    assert fetched[-1] == checked[-1] == len(CONTENT)


def test_a_connection_that_ends_early_is_resumed_at_once(server: Server, path: Path) -> None:
    server.answers = [good(upto=n) for n in range(30_000, 300_000, 30_000)] + [good()]
    fetch(server, path)
    assert_done(path)
    assert [request.get("Range") for request in server.requests][:3] == [None, "bytes=30000-", "bytes=60000-"]
    assert len(server.requests) == 10  # more than the retries: each got further


def test_a_server_that_does_not_answer(server: Server, path: Path) -> None:
    server.answers = [lambda handler: handler.server.gone.wait(20) and None]
    message = refuses(server, path, "timed out, 5 times; the same command again resumes$", timeout=0.05)
    assert server.url() in message
    assert len(server.requests) == 5


def test_several_failures_in_a_row_are_the_end_and_then_it_is_resumed(server: Server, path: Path) -> None:
    leave_part(server, path, 100_000)
    kept = path.with_name("data.tar.part").stat().st_size
    server.answers = [fixed(b"", 503)]
    refuses(
        server, path, r"answered 503 .*, 5 times; the same command again resumes \([0-9,]+ bytes are kept in data"
    )
    assert path.with_name("data.tar.part").stat().st_size == kept
    server.answers = [good()]
    fetch(server, path)
    assert_done(path)
    assert server.requests[-1]["Range"] == f"bytes={kept}-"
    assert server.requests[-1]["If-Range"] == ETAG


def test_a_reset_connection_is_resumed(server: Server, path: Path) -> None:
    def reset(handler: Handler) -> None:
        handler.connection.close()

    def nonsense(handler: Handler) -> None:
        handler.wfile.write(b"this is not HTTP\r\n\r\n")

    server.answers = [reset, nonsense, good()]
    fetch(server, path)
    assert_done(path)


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"sha256": "0" * 64}, f"tar has sha256 {SHA256}, expected 0{{64}}: renamed to data.tar.damaged; the same"),
        ({"md5": "1" * 32}, f"data.tar has md5 {MD5}, expected 1{{32}}"),
    ],
)
def test_a_wrong_checksum(known: dict[str, str], message: str, server: Server, path: Path) -> None:
    refuses(server, path, message, **known)
    assert [file.name for file in path.parent.iterdir()] == ["data.tar.damaged"]
    assert path.with_name("data.tar.damaged").read_bytes() == CONTENT
    refuses(server, path, r"renamed to data\.tar\.damaged-2", **known)
    assert len(server.requests) == 2
    fetch(server, path, sha256=SHA256)
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize("url", ["", "data.tar", "file:///etc/passwd", "http://", "http://[::1", "https://a:b/c"])
def test_addresses_that_are_none(url: str, path: Path) -> None:
    assert "expected an address that starts with http:// or https://" in refusal(download, url, path)
    assert not path.parent.exists()


def test_a_folder_that_cannot_be_written_to(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"cannot write .*/file/data.tar \(.*\): mend that"):
        fetch(server, tmp_path / "file" / "data.tar")


def test_two_processes_do_not_write_at_once(server: Server, path: Path) -> None:
    path.parent.mkdir()
    with FileLock(path.with_name("data.tar.part.lock")):
        refuses(server, path, "another process is downloading .*data.tar: wait until it has finished")
    fetch(server, path)
    assert_done(path)


def test_a_length_that_is_not_told(server: Server, path: Path) -> None:
    server.answers = [chunked(CONTENT)]
    seen: list[int] = []
    fetch(server, path, progress=lambda what, done, total: seen.append(total))
    assert_done(path)
    assert min(seen) > 0


def test_redirects_are_followed(server: Server, path: Path) -> None:
    def moved(handler: Handler) -> None:
        handler.start(302, Location=server.url("elsewhere"), Content_Length=0)

    server.answers = [moved, good(upto=1000), moved, good()]
    fetch(server, path)
    assert_done(path)
    assert [request.get("Range") for request in server.requests] == [None, None, "bytes=1000-", "bytes=1000-"]


def test_a_stalled_connection_is_given_up_and_resumed(server: Server, path: Path) -> None:
    server.answers = [stuck(70_000), good()]
    fetch(server, path, timeout=0.3)
    assert_done(path)
    assert server.requests[1]["Range"] == "bytes=70000-"  # nothing that had arrived was lost


def test_a_server_that_ignores_ranges_starts_over(server: Server, path: Path) -> None:
    leave_part(server, path, 100_000)
    server.answers = [fixed()]
    fetch(server, path)
    assert_done(path)
    assert "Range" in server.requests[0]


WRONG = [{"Content_Range": f"bytes {what}"} for what in ("7-299999/300000", "{start}-399999/400000")]
WRONG += [{}, {"Content_Range": "bytes {start}-299999/300000", "ETag": '"v2"'}]


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_part_is_not_appended(wrong: dict[str, str], server: Server, path: Path) -> None:
    leave_part(server, path, 100_000)
    start = path.with_name("data.tar.part").stat().st_size
    server.answers = [fixed(CONTENT, 206, **{k: v.format(start=start) for k, v in wrong.items()}), good()]
    fetch(server, path)
    assert_done(path)
    assert [("Range" in request) for request in server.requests] == [True, False]


def test_a_part_longer_than_the_file_is_dropped(server: Server, path: Path) -> None:
    leave_part(server, path, 100_000)
    path.with_name("data.tar.part").write_bytes(bytes(400_000))
    fetch(server, path)
    assert_done(path)
    assert [request.get("Range") for request in server.requests] == ["bytes=400000-", None]


def test_a_file_that_changed_meanwhile_is_fetched_anew(server: Server, path: Path) -> None:
    leave_part(server, path, 100_000)
    other = CONTENT[::-1]
    server.answers = [good(other, ETag='"v2"')]
    fetch(server, path)
    assert path.read_bytes() == other


def test_another_address_has_another_file(server: Server, path: Path) -> None:
    leave_part(server, path, 100_000)
    download(server.url("other"), path, timeout=5.0)
    assert_done(path)
    assert "Range" not in server.requests[0]


def test_a_chunked_answer_that_breaks_off_starts_over(server: Server, path: Path) -> None:
    """No length, no ETag: nothing says what the part is of."""
    server.answers = [chunked(CONTENT[:100_000], whole=False), chunked(CONTENT)]
    fetch(server, path)
    assert_done(path)
    assert [request.get("Range") for request in server.requests] == [None, None]


@pytest.mark.parametrize(
    "header",
    [
        {"x_goog_hash": f"crc32c=AAAAAA==,md5={MD5_64}"},
        {"Content_MD5": MD5_64},
        {"Content_MD5": "no base64!"},
        {"x_goog_hash": "crc32c=AAAAAA=="},
    ],
)
def test_the_servers_own_checksum(header: dict[str, str], server: Server, path: Path) -> None:
    server.answers = [good(upto=50_000, **header), good()]
    fetch(server, path)
    assert_done(path)
    path.unlink()
    server.answers = [good(CONTENT[::-1], **header)]
    if MD5_64 in str(header):
        refuses(server, path, f"has md5 [0-9a-f]+, expected {MD5}: renamed")
    else:
        fetch(server, path)


def test_another_size_is_refused_before_it_is_fetched(server: Server, path: Path) -> None:
    message = "the server offers 300,000 bytes, expected 299,999; the file has changed there; fetch .* save it as"
    refuses(server, path, message, bytes=299_999)
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("body", "kind"), [(b"\xef\xbb\xbf\n <HTML>", "text/plain"), (b"<script>", "text/html; charset=utf-8")]
)
def test_a_page_instead_of_the_file(body: bytes, kind: str, server: Server, path: Path) -> None:
    leave_part(server, path, 100_000)
    kept = path.with_name("data.tar.part").stat().st_size
    server.answers = [fixed(body, Content_Type=kind)]
    refuses(server, path, f"sent a web page instead of the file; open the address in a browser, save .* as {path}")
    assert len(server.requests) == 1
    assert path.with_name("data.tar.part").stat().st_size == kept


def test_google_drive_is_named(server: Server, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_transfer, "GOOGLE", ("127.0.0.1",))
    server.answers = [fixed(PAGE, Content_Type="text/html")]
    refuses(server, path, "Google Drive sent a page instead of the file: over its quota, or not public; open the")


def test_what_is_not_there_is_asked_for_once(server: Server, path: Path) -> None:
    server.answers = [fixed(b"no", 404)]
    refuses(server, path, "answered 404 Not Found; if the address has moved, fetch the file by hand and save it as")
    assert len(server.requests) == 1


@pytest.mark.parametrize("place", ["", "ftp://127.0.0.1/x", "file:///etc/passwd"])
def test_redirects_that_lead_nowhere(place: str, server: Server, path: Path) -> None:
    server.answers = [lambda handler: handler.start(302, Location=place or server.url(), Content_Length=0)]
    refuses(server, path, "redirect|unknown url type: ftp")


def test_a_full_disk_is_noticed_before(server: Server, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_transfer.shutil, "disk_usage", lambda place: SimpleNamespace(free=299_999))
    refuses(server, path, f"300,000 bytes are missing, {path.parent} has 299,999 free; make room")
