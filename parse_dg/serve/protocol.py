"""HTTP as uvicorn speaks it, with bounds that uvicorn leaves open.

A connection has a limited time to bring a request's headers. After an answer that came before the end of a body, it
has as long to bring the rest, which is thrown away, so that the client gets to read the answer. There is a limited
number of connections, and what is no HTTP is answered with one line of JSON.
"""

import asyncio
from http import HTTPStatus

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from parse_dg.serve.guard import error_body
from parse_dg.serve.limits import ServiceLimits


class BoundedProtocol(H11Protocol):
    """One connection."""

    limits = ServiceLimits()
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            self._refuse(503, "too many connections: try again in a moment", (("retry-after", "1"),))
        self._watch()

    def data_received(self, data: bytes) -> None:
        if not self.transport.is_closing():
            super().data_received(data)
            self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_timer()

    def shutdown(self) -> None:
        """The service stops: a body that is still on its way has half of the grace to arrive."""
        super().shutdown()
        self.loop.call_later(self.limits.grace / 2, self._give_up)

    def _give_up(self) -> None:
        if self.cycle is not None and self.cycle.more_body:
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """What cannot be understood is answered, if it still can be, and is the end of the connection."""
        self._refuse(400, "this is no HTTP/1.1 request that can be read, or its headers are too long")

    def _watch(self) -> None:
        """The timer runs while nobody is working on a request: it is for the client to bring something."""
        working = self.cycle is not None and not self.cycle.response_complete
        if working:
            self._stop_timer()
        elif self._timer is None:
            self._timer = self.loop.call_later(self.limits.timeout, self._late)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

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


def bounded(limits: ServiceLimits) -> type[BoundedProtocol]:
    """The protocol with these limits, as uvicorn takes it."""
    return type("BoundedProtocol", (BoundedProtocol,), {"limits": limits})
