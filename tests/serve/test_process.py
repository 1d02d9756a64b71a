"""`parse-dg serve` as a process: it says where it listens, ends cleanly, and finishes what it began."""

import signal
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from tests.serve.conftest import encoded, read_all, running
from tests.serve.process import COMMAND, serving
from tests.serve.test_batcher import wait_for

BEGUN = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\nContent-Length: 9\r\n\r\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_it_says_where_it_listens_and_ends_cleanly(parse_run: Path, number: int) -> None:
    with serving(parse_run) as process:
        assert process.said == (
            f"serving {parse_run.name}/model.safetensors at http://127.0.0.1:{process.port}/ (Ctrl-C ends it)\n"
        )
        with httpx.Client(base_url=f"http://127.0.0.1:{process.port}", trust_env=False) as client:
            assert client.get("/health").json()["status"] == "ok"
            code, out, err = process.end(number)  # with a connection that is open, but idle
        assert (code, err) == (0, "")
        assert out.splitlines()[1:] == ["stopped"]


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


def test_a_port_that_is_taken_is_one_line(erm_run: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        command = [*COMMAND, str(erm_run), "--port", str(port)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"parse-dg: cannot listen at 127.0.0.1 port {port} (address already in use): choose another with --host "
        "or --port\n"
    )


def test_other_machines_are_warned_of(erm_run: Path) -> None:
    with serving(erm_run, "--host", "0.0.0.0") as process:
        answer = httpx.get(f"http://127.0.0.1:{process.port}/health", headers={"host": "any.name"})
        assert answer.status_code == 200
        code, out, err = process.end()
    assert code == 0
    assert f"http://127.0.0.1:{process.port}/" in out
    assert err.count("\n") == 1
    assert "parse-dg: warning: other machines can reach this service, and there is no authentication" in err
