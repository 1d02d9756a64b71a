"""Downloads: repeated until they are whole, checked, and one at a time."""

from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from parse_dg.data.intake.download import download
from parse_dg.errors import InputError
from tests.data.intake.server import (
    CONTENT,
    MD5,
    SHA256,
    Handler,
    Server,
    assert_done,
    fetch,
    fixed,
    good,
    leave_part,
    refuses,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "data.tar"


@pytest.mark.parametrize("known", [{}, {"bytes": len(CONTENT), "sha256": SHA256.upper(), "md5": MD5}])
def test_a_file_arrives(known: dict[str, Any], server: Server, path: Path) -> None:
    fetch(server, path, **known)
    assert_done(path)
    assert len(server.requests) == 1
    assert "Range" not in server.requests[0]
    assert server.requests[0]["User-Agent"].startswith("parse-dg/")


def test_a_finished_file_is_not_fetched_again(server: Server, path: Path) -> None:
    fetch(server, path)
    for known in ({}, {"bytes": len(CONTENT), "sha256": SHA256}, {"md5": MD5}):
        fetch(server, path, **known)
        assert_done(path)
    assert len(server.requests) == 1


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
    fetch(server, path)
    assert_done(path)
    assert server.requests[-1]["Range"] == f"bytes={kept}-"


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
        (
            {"sha256": "0" * 64},
            f"data.tar has sha256 {SHA256}, expected 0{{64}}: renamed to data.tar.damaged; the same",
        ),
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
    with pytest.raises(InputError, match="expected an address that starts with http:// or https://"):
        download(url, path)
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
