"""Clients that take and do not give back: they are cut off, and others are answered meanwhile."""

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from parse_dg.serve.server import bind
from tests.serve import conftest
from tests.serve.conftest import Running, encoded, error_of, picture, png, running
from tests.serve.process import serving
from tests.serve.test_batcher import wait_for

ASK = b"GET /viewer.js HTTP/1.1\r\nHost: localhost\r\n\r\n"


@contextmanager
def never_reading(
    port: int, count: int, request: bytes = ASK, source: str = "127.0.0.2", times: int = 1
) -> Iterator[None]:
    """Connections that ask for something and read nothing of it."""
    with ExitStack() as stack:
        for _ in range(count):
            one = stack.enter_context(socket.socket())
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.settimeout(20)
            one.bind((source, 0))
            one.connect(("127.0.0.1", port))
            for _ in range(times):
                one.sendall(request)
                time.sleep(0.05)
        yield


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a client does not read stays with the service, not in the system's memory."""

    def narrow(host: str, port: int) -> socket.socket:
        held = bind(host, port)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        return held

    monkeypatch.setattr(conftest, "bind", narrow)


def connections(service: Running) -> int:
    return len(service.server.server_state.connections)


def test_one_address_cannot_take_all_connections(erm_run: Path) -> None:
    with running(erm_run, connections=12, per_address=4) as service, never_reading(service.port, 12, b""):
        answer = service.client.get("/health")
        assert answer.status_code == 200
        with socket.create_connection(("127.0.0.1", service.port), 20, ("127.0.0.2", 0)) as one:
            said = one.recv(9999)
        assert said.startswith(b"HTTP/1.1 503 ")
        assert b"too many connections from one address" in said


@pytest.mark.usefixtures("short")
def test_who_does_not_read_makes_room(erm_run: Path) -> None:
    """Also where all come from one address, as behind a proxy."""
    with running(erm_run, connections=6) as service, never_reading(service.port, 6, source="127.0.0.1"):
        time.sleep(1.5)
        assert [service.client.get("/health").status_code for _ in range(3)] == [200] * 3


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("times", [1, 6], ids=["within the buffer", "beyond it"])
def test_who_does_not_read_is_cut_off(erm_run: Path, times: int) -> None:
    with running(erm_run, timeout=1.0) as service, never_reading(service.port, 3, times=times):
        wait_for(lambda: connections(service) == 3)
        wait_for(lambda: connections(service) == 0, 10)


def test_requests_behind_one_another_are_not_answered(parse_service: Running) -> None:
    said = parse_service.send(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" * 5, wait=5)
    assert said.count(b"HTTP/1.1 200") == 1


@pytest.mark.slow
def test_it_ends_soon_and_silently_whoever_does_not_read(erm_run: Path) -> None:
    with serving(erm_run) as process, never_reading(process.port, 40, ASK * 300):
        time.sleep(0.5)
        started = time.monotonic()
        code, out, err = process.end()
        assert (code, err, out.splitlines()[1:]) == (0, "", ["stopped"])
        assert time.monotonic() - started < 9


COMMENTS = {
    "header": b"P6\n" + b"#" * 4_000_000 + b"\n9 9\n255\n" + bytes(243),
    "pixels": b"P3\n9 9\n255\n" + b"#\n" * 1_000_000 + b"7 " * 243,
}


@pytest.mark.parametrize("kind", COMMENTS)
def test_comments_of_a_ppm_are_bounded(kind: str, parse_service: Running) -> None:
    started = time.monotonic()
    answer = parse_service.client.post("/predict", content=COMMENTS[kind], headers={"content-type": "image/x-ppm"})
    assert answer.status_code == 400
    assert "comments" in error_of(answer)
    assert time.monotonic() - started < 1
    fine = encoded(picture(), "PPM").replace(b"P6\n", b"P6\n# made by hand\n")
    assert parse_service.client.post("/predict", files={"image": fine}).status_code == 200


def test_decoding_for_one_address_leaves_threads_for_others(erm_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from parse_dg.serve import service as module

    plain = module.decode_upload

    def slow(data: bytes, *how: object, **more: object) -> object:
        if data == png(1):
            time.sleep(0.4)
        return plain(data, *how, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "decode_upload", slow)

    def greedy(address: str) -> int:
        with httpx.Client(transport=httpx.HTTPTransport(local_address="127.0.0.2")) as client:
            return client.post(address, files={"image": png(1)}, timeout=60).status_code

    with running(erm_run) as service, ThreadPoolExecutor(16) as pool:
        asked = [pool.submit(greedy, f"http://127.0.0.1:{service.port}/predict") for _ in range(16)]
        wait_for(lambda: service.health()["queue"]["waiting"] > 8)
        started = time.monotonic()
        assert service.client.post("/predict", files={"image": png(2)}).status_code == 200
        assert time.monotonic() - started < 0.35
        assert {each.result() for each in asked} == {200}
