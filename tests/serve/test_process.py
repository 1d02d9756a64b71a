"""`parse-dg serve` as a process: it says where it listens, ends cleanly, and finishes what it began."""

import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from parse_dg.serve.server import bind
from tests.parts import refusal
from tests.serve.conftest import encoded, read_all, running
from tests.serve.process import serving
from tests.serve.test_batcher import wait_for

BEGUN = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\nContent-Length: 9\r\n\r\n"


@pytest.mark.parametrize(
    ("number", "host"),
    [(signal.SIGTERM, "0.0.0.0"), pytest.param(signal.SIGINT, "127.0.0.1", marks=pytest.mark.slow)],
)
def test_it_says_where_it_listens_warns_and_ends_cleanly(parse_run: Path, number: int, host: str) -> None:
    warning = "parse-dg: warning: other machines can reach this service, and there is no authentication"
    with serving(parse_run, "--host", host) as process:
        assert process.said == (
            f"serving {parse_run.name}/model.safetensors at http://127.0.0.1:{process.port}/ (Ctrl-C ends it)\n"
        )
        named = {"host": "any.name"} if host == "0.0.0.0" else {}
        with httpx.Client(base_url=f"http://127.0.0.1:{process.port}", trust_env=False) as client:
            assert client.get("/health", headers=named).json()["status"] == "ok"
            code, out, err = process.end(number)  # with a connection that is open, but idle
        assert (code, out.splitlines()[1:]) == (0, ["stopped"])
        assert [line.startswith(warning) for line in err.splitlines()] == [True] * len(named)


@pytest.mark.slow
def test_what_was_begun_is_finished(erm_run: Path) -> None:
    """Requests in all stages when the signal comes: those that have arrived are answered."""
    large = encoded(Image.new("RGB", (4900, 4900), "teal"), compress_level=1)  # takes a while to decode
    with serving(erm_run, "--timeout", 3) as process, ThreadPoolExecutor(8) as pool:

        def ask(data: bytes) -> int:
            with httpx.Client(trust_env=False, timeout=60) as client:
                address = f"http://127.0.0.1:{process.port}/predict"
                return client.post(address, files={"image": data}).status_code

        asked = [pool.submit(ask, large) for _ in range(6)]
        slow = socket.create_connection(("127.0.0.1", process.port))
        slow.sendall(BEGUN)
        with httpx.Client(trust_env=False) as client:
            health = f"http://127.0.0.1:{process.port}/health"
            wait_for(lambda: arrived(client.get(health).json()) == 6, 60)
        started = time.monotonic()
        code, out, err = process.end()
        assert (code, err, out.splitlines()[1:]) == (0, "", ["stopped"])
        assert time.monotonic() - started < 20
        assert [each.result() for each in asked] == [200] * 6
        assert slow.recv(100).startswith(b"HTTP/1.1 408 ")
        slow.close()


def test_an_upload_that_does_not_end_does_not_keep_it(erm_run: Path, caplog: pytest.LogCaptureFixture) -> None:
    with running(erm_run, grace=2) as service:
        slow = socket.create_connection(("127.0.0.1", service.port))
        slow.sendall(BEGUN)
        service.health()
        started = time.monotonic()
    assert time.monotonic() - started < 15
    assert read_all(slow) == b""
    slow.close()
    assert caplog.messages == []


def arrived(health: dict[str, Any]) -> int:
    return int(health["images"] + health["queue"]["waiting"])


def test_a_port_that_is_taken_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        said = refusal(bind, "127.0.0.1", port)
    where = f"cannot listen at 127.0.0.1 port {port} (address already in use)"
    assert said == f"{where}: choose another with --host or --port"
