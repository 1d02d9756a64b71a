"""Work on many files at once, in order, with few of them in memory."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from parse_dg.errors import InputError

S = TypeVar("S")
T = TypeVar("T")


def default_workers() -> int:
    """One thread for every core this process may use: decoding lets other threads run."""
    return max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def require_room(option: str, processes: int, *, devices: int = 0, force: bool = False) -> None:
    """Raise if there are more processes than devices and than cores: each has a core's work and its own memory."""
    room = max(devices, default_workers())
    if processes > room and not force:
        raise InputError(f"{option} must be at most {room} on this machine, found {processes}: --force starts more")


def map_ahead(
    function: Callable[[S], T], items: Iterable[S], workers: int | None = None, ahead: int | None = None
) -> Iterator[T]:
    """`map` by threads, in order, at most `ahead` items (by default four a thread) before the one that is given."""
    workers = workers or default_workers()
    limit = ahead or 4 * workers
    pool = ThreadPoolExecutor(workers, thread_name_prefix="ahead")
    pending: deque[Future[T]] = deque()
    try:
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) > limit:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:  # also when the caller stops early, or is interrupted: what has not begun is dropped
        pool.shutdown(cancel_futures=True)
