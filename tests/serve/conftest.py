"""What the tests of the service share: a real one on a free port of this machine, and images to send."""

import faulthandler
import io
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

from parse_dg.data.framing import Framing
from parse_dg.data.images import open_bytes
from parse_dg.deploy.predictor import Predictor, load
from parse_dg.explain.faces import faces_of
from parse_dg.runs.afterwards.opened import open_run
from parse_dg.serve.limits import ServiceLimits
from parse_dg.serve.server import Server, bind, build_server, model_name


@dataclass
class Running:
    """A service that answers."""

    client: httpx.Client
    port: int
    server: Server
    predictor: Predictor

    def health(self) -> dict[str, Any]:
        return self.client.get("/health").json()

    def send(self, request: bytes, wait: float = 20) -> bytes:
        """Everything that is answered to these bytes until the connection is closed, or nothing more comes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=wait) as connection:
            connection.sendall(request)
            return read_all(connection)


def read_all(connection: socket.socket) -> bytes:
    found = b""
    try:
        while chunk := connection.recv(65536):
            found += chunk
    except (TimeoutError, ConnectionError):
        pass
    return found


@contextmanager
def running(run: Path, **limits: Any) -> Iterator[Running]:
    """The service of a run, in a thread of its own, which ends with the block."""
    with started(run, **limits) as (service, thread):
        yield service
    if thread.is_alive():
        faulthandler.dump_traceback(sys.__stderr__)
    assert not thread.is_alive()


@contextmanager
def started(run: Path, token: str | None = None, **limits: Any) -> Iterator[tuple[Running, threading.Thread]]:
    """The service of a run and its thread, which is told to end and waited for."""
    held, ready = bind("127.0.0.1", 0), threading.Event()
    port = held.getsockname()[1]
    predictor = load(run, "cpu")
    known = {"faces": faces_of(open_run(run, device="cpu")), "folder": run}
    how = (held, ServiceLimits(**limits), ready.set, "", token)
    server = build_server(predictor, model_name(run), *how, **known)
    thread = threading.Thread(target=server.run, args=([held],), daemon=True)
    thread.start()
    try:
        assert ready.wait(30)
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as client:
            yield Running(client, port, server, predictor), thread
    finally:
        server.should_exit = True
        thread.join(60)
        held.close()


@pytest.fixture(scope="session")
def parse_service(parse_run: Path) -> Iterator[Running]:
    """A service of PARSE with the usual limits; how one ends is tested where tests have their own."""
    with started(parse_run) as (service, _):
        yield service


@pytest.fixture(scope="session")
def erm_service(erm_run: Path) -> Iterator[Running]:
    """A service of ERM with the usual limits."""
    with started(erm_run) as (service, _):
        yield service


def picture(seed: int = 0, size: tuple[int, int] = (90, 70)) -> Image.Image:
    """An image that no compression makes small."""
    values = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), np.uint8)
    return Image.fromarray(values)


def encoded(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def png(seed: int = 0, size: tuple[int, int] = (90, 70)) -> bytes:
    """The bytes of a file, another for every seed."""
    return encoded(picture(seed, size))


def squares(data: list[bytes], size: int) -> np.ndarray:
    """The files as the network sees them."""
    return np.stack([Framing(size=size).square(open_bytes(each, Path("upload"))) for each in data])


def error_of(answer: httpx.Response) -> str:
    """The one line of a refusal."""
    assert answer.headers["content-type"] == "application/json"
    data = answer.json()
    assert data.keys() == {"error"}
    assert data["error"]
    assert "\n" not in data["error"]
    return str(data["error"])
