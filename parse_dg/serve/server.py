"""Starts the service and ends it: a socket, a model, an event loop."""

import asyncio
import gc
import logging
import signal
import socket
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path

import uvicorn

from parse_dg.deploy.predictor import Predictor
from parse_dg.errors import InputError
from parse_dg.explain.faces import PrimitiveFaces
from parse_dg.serve.app import build_app
from parse_dg.serve.guard import HEAD_BYTES, is_loopback
from parse_dg.serve.limits import ServiceLimits
from parse_dg.serve.protocol import bounded
from parse_dg.serve.service import Service

KEEP_ALIVE = 15
"""Seconds that a connection may stay open between two requests."""


class Server(uvicorn.Server):
    """uvicorn's server, which says when it is really listening, and nothing of what it gives up at its end."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        logging.getLogger("uvicorn.error").addFilter(_worth_saying)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then say so."""
        await super().startup(sockets)
        if self.started:
            self._ready()


def _worth_saying(record: logging.LogRecord) -> bool:
    """Not that requests are given up at the end, each with its traceback."""
    given_up = record.exc_info is not None and isinstance(record.exc_info[1], asyncio.CancelledError)
    return not given_up and not str(record.msg).startswith("Cancel ")


def bind(host: str, port: int) -> socket.socket:
    """A socket that holds the address, but does not listen yet: port 0 picks a free one."""
    if not 0 <= port <= 65535:
        raise InputError(f"port must be 0 to 65535, found {port}")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise InputError(f"host {host!r} is no address of this machine: expected such as 127.0.0.1") from error
    family, kind, protocol, _, address = found[0]
    held = socket.socket(family, kind, protocol)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # else it is refused a minute after its last use
    try:
        held.bind(address)
    except OSError as error:
        held.close()
        raise _cannot_listen(host, port, error) from error
    return held


def _cannot_listen(host: str, port: int, error: OSError) -> InputError:
    reason = (error.strerror or str(error)).lower()
    return InputError(f"cannot listen at {host} port {port} ({reason}): choose another with --host or --port")


def address_of(held: socket.socket) -> str:
    """The page's address; where all addresses of the machine are bound, that which works on it."""
    host, port = held.getsockname()[:2]
    if ip_address(host).is_unspecified:
        host = "127.0.0.1" if held.family == socket.AF_INET else "::1"
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def bound_to_this_machine(held: socket.socket) -> bool:
    """Whether no other machine can reach it."""
    return is_loopback(held.getsockname()[0])


def model_name(path: Path) -> str:
    """What a model is called in answers: its file and its run, but not where they are."""
    file = path / "model.safetensors" if path.is_dir() else path
    return f"{file.absolute().parent.name}/{file.name}"


def build_server(
    predictor: Predictor,
    name: str,
    held: socket.socket,
    limits: ServiceLimits,
    ready: Callable[[], None],
    host: str = "",
    token: str | None = None,
    faces: PrimitiveFaces | None = None,
    folder: Path | None = None,
) -> Server:
    """All parts together, on a socket from `bind`; `host` is another name that it may be addressed with. Names may
    be given to primitives, and are kept in `folder`, unless anybody who reaches the service could.
    """
    alone = bound_to_this_machine(held)
    service = Service(predictor, name, limits, faces, folder if alone or token else None)
    app = build_app(service, {host.lower()} - {""} if alone else None, token)
    config = uvicorn.Config(
        app,
        http=bounded(limits),
        ws="none",
        lifespan="on",
        log_config=None,
        log_level=logging.ERROR,
        access_log=False,
        proxy_headers=False,  # whoever asks would choose the address that the rate is counted for
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=max(1, round(limits.grace)),
        h11_max_incomplete_event_size=HEAD_BYTES,
    )
    return Server(config, ready)


def run(server: Server, held: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM; then finish what was begun, within the limits' grace."""
    gc.collect()
    gc.freeze()  # else all that was loaded is searched for garbage every few seconds, and everybody waits
    # Signals end the service, not the process: uvicorn repeats them at its end, when nothing is left to do.
    before = {number: signal.signal(number, server.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        server.run([held])
    except OSError as error:
        host, port = held.getsockname()[:2]
        raise _cannot_listen(host, port, error) from error
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        held.close()
        gc.unfreeze()
