"""What a client may ask of the service, and the words in which it is refused."""

import asyncio
import ipaddress
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import ceil
from weakref import WeakValueDictionary

from parse_dg.config import Config, Count, NotNegative, Positive
from parse_dg.data.limits import MAX_PIXELS

MEBIBYTE = 2**20
CLIENTS = 4096
"""How many clients are remembered for the rate; of more, those that asked last."""


@dataclass(frozen=True, kw_only=True)
class ServiceLimits(Config):
    """Everything that bounds what the service takes on."""

    max_bytes: Count = 10 * MEBIBYTE
    """Of one upload, all of the request's body."""
    max_pixels: Count = MAX_PIXELS
    """Of one image; what claims more is refused before any pixel is decoded."""
    rate: NotNegative = 0.0
    """Uploads a second from one address; 0 for any number."""
    max_batch: Count = 32
    """Images in one pass of the network."""
    timeout: Positive = 30.0
    """Seconds in which a request's headers, and then its body, must have arrived, and in which a client must go on
    reading its answer."""
    connections: Count = 256
    """Open at once; further ones are told to come back."""
    per_address: Count = 128
    """Connections from one address at once; a proxy before the service counts as one."""
    grace: Positive = 10.0
    """Seconds in which the service finishes what it began when it is told to stop."""

    def check(self) -> None:
        self.require(self.max_pixels <= MAX_PIXELS, "max_pixels", f"1 to {MAX_PIXELS:,}")


class RefusedError(Exception):
    """A request that is answered with an error of its own: a status from 400 on and one line."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class RateLimiter:
    """A bucket of tokens for each client: an upload takes one, `rate` a second come back, at most a second's worth.

    An address of IPv6 counts as its network of 64 bits, which one client usually has to itself.
    """

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self.size = max(1.0, rate)
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens, and when they were counted

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, address: str) -> None:
        """Raise a `RefusedError` if this client has asked too often."""
        if not self.rate:
            return
        client, now = client_of(address), self._clock()
        tokens, then = self._buckets.pop(client, (self.size, now))
        tokens = min(self.size, tokens + (now - then) * self.rate)
        allowed = tokens >= 1
        self._buckets[client] = (tokens - allowed, now)
        if len(self._buckets) > CLIENTS:
            self._buckets.popitem(last=False)
        if not allowed:
            seconds = ceil((1 - tokens) / self.rate)
            message = f"at most {self.rate:g} uploads a second from one address: try again in {seconds} s"
            raise RefusedError(429, message, retry_after=str(seconds))


class Turns:
    """Lets each client do only so much at once; what else it asks for waits, and nobody waits for another."""

    def __init__(self, each: int) -> None:
        self._each = each
        self._gates: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()  # of those who ask

    def turn(self, address: str) -> asyncio.Semaphore:
        """Within, it is the turn of one of this client's requests."""
        return self._gates.setdefault(client_of(address), asyncio.Semaphore(self._each))


def client_of(address: str) -> str:
    """What counts as one client: an address, or its network where it is of IPv6."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False))


@dataclass
class Budget:
    """So much of something that all requests share, of which each holds a part for a while."""

    limit: int
    refusal: str = ""
    used: int = field(default=0, init=False)
    _changed: threading.Condition = field(default_factory=threading.Condition, init=False)

    def check(self, more: int = 1) -> None:
        """Raise a `RefusedError` unless so much is left."""
        if self.used + more > self.limit:
            raise RefusedError(503, f"{self.refusal}: try again in a moment", retry_after="1")

    @contextmanager
    def holding(self) -> Iterator[Callable[[int], None]]:
        """Takes more and more, or refuses; what one has taken is given back at the end."""
        held = 0

        def take(more: int) -> None:
            nonlocal held
            with self._changed:
                self.check(more)
                self.used += more
                held += more

        try:
            yield take
        finally:
            with self._changed:
                self.used -= held
                self._changed.notify_all()


class DecodingRoom(Budget):
    """So many pixels that are decoded at once; a thread that wants more waits, and one image always has room."""

    def check(self, more: int = 1) -> None:
        """Wait until so much is left, or all."""
        self._changed.wait_for(lambda: self.used == 0 or self.used + more <= self.limit)
