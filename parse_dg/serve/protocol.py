"""HTTP as uvicorn speaks it, with bounds that uvicorn leaves open.

A connection has a limited time to bring a request's headers. After an answer that came before the end of a body, it
has as long to bring the rest, which is thrown away, so that the client gets to read the answer. There is a limited
number of connections, in all and from one address, and what is no HTTP is answered with one line of JSON. A client
has to go on reading: one that does not is cut off after a while, and sooner where its place is needed. It may send
its next request when it has the answer to the last; otherwise the connection ends with that answer.
"""

import asyncio
from http import HTTPStatus

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from parse_dg.serve.guard import error_body
from parse_dg.serve.limits import ServiceLimits, client_of

RETRY = (("retry-after", "1"),)
BRINGING, READING = "bringing", "reading"
"""Timers: one runs while nobody is working on a request and it is for the client to bring something, one while the
client does not read."""
UNREAD = 1.0
"""Seconds without reading after which a connection may be ended for the sake of another."""


class BoundedProtocol(H11Protocol):
    """One connection."""

    limits = ServiceLimits()
    address = ""
    _unread_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._timers: dict[str, asyncio.TimerHandle] = {}
        super().connection_made(transport)
        self.address = client_of(self.client[0] if self.client else "")
        every = [each for each in self.connections if isinstance(each, BoundedProtocol) and each.open]
        near = [each for each in every if each.address == self.address]
        if len(near) > self.limits.per_address and not _make_room(near):
            self._refuse(503, "too many connections from one address: try again in a moment", RETRY)
        elif len(every) > self.limits.connections and not _make_room(every):
            self._refuse(503, "too many connections: try again in a moment", RETRY)
        self._watch()

    def data_received(self, data: bytes) -> None:
        if not self.transport.is_closing():
            super().data_received(data)
            self._watch()
            if self._working and self.conn.their_state is h11.DONE and self.conn.trailing_data[0]:
                self.cycle.keep_alive = False

    def on_response_complete(self) -> None:
        self._unread_since = self.loop.time()
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop(BRINGING)
        self._stop(READING)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread_since = self.loop.time()
        self._timers[READING] = self.loop.call_later(self.limits.timeout, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop(READING)

    def _stop(self, name: str) -> None:
        if name in self._timers:
            self._timers.pop(name).cancel()

    @property
    def open(self) -> bool:
        """Whether the connection takes a place: it is not closing, or its client has not read all."""
        return not self.transport.is_closing() or self.transport.get_write_buffer_size() > 0

    @property
    def unread_for(self) -> float:
        """Seconds for which the client has not read what was sent; 0 where it has."""
        return self.loop.time() - self._unread_since if self.transport.get_write_buffer_size() else 0.0

    def shutdown(self) -> None:
        """The service stops: a body on its way has half of the grace to arrive, and an answer to be read."""
        super().shutdown()
        self.loop.call_later(self.limits.grace / 2, self._give_up)

    def _give_up(self) -> None:
        if not self._working or self.cycle.more_body or READING in self._timers:
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """What cannot be understood is answered, if it still can be, and is the end of the connection."""
        self._refuse(400, "this is no HTTP/1.1 request that can be read, or its headers are too long")

    @property
    def _working(self) -> bool:
        """Whether a request is not yet answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def _watch(self) -> None:
        if self._working:
            self._stop(BRINGING)
        elif BRINGING not in self._timers:
            self._timers[BRINGING] = self.loop.call_later(self.limits.timeout, self._late)

    def _late(self) -> None:
        """Too late. Also ends connections that are closing, but whose client never reads the last answer."""
        began = bool(self.conn.trailing_data[0])  # some of a request has come
        if began and not self.transport.is_closing() and self.conn.our_state is h11.IDLE:
            self._refuse(408, f"the request did not arrive within {self.limits.timeout:g} s")
            self.loop.call_later(1, self.transport.abort)
        else:
            self.transport.abort()

    def _refuse(self, status: int, message: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):  # an answer is on its way, or has gone
            self.transport.close()
            return
        body = error_body(message)
        own = (("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close"))
        answer = h11.Response(status_code=status, headers=[*own, *headers], reason=HTTPStatus(status).phrase)
        parts = [self.conn.send(event) or b"" for event in (answer, h11.Data(data=body), h11.EndOfMessage())]
        self.transport.write(b"".join(parts))
        self.transport.close()


def _make_room(connections: list[BoundedProtocol]) -> bool:
    """End the connection whose client has not read for longest, if one has not for a while."""
    worst = max(connections, key=lambda each: each.unread_for)
    if worst.unread_for < UNREAD:
        return False
    worst.transport.abort()
    return True


def bounded(limits: ServiceLimits) -> type[BoundedProtocol]:
    """The protocol with these limits, as uvicorn takes it."""
    return type("BoundedProtocol", (BoundedProtocol,), {"limits": limits})
