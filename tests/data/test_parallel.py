"""Work ahead: in order, never far ahead, and over when the caller is."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, islice

import pytest

from parse_dg.data.parallel import map_ahead


@contextmanager
def time_limit(seconds: float = 20) -> Iterator[None]:
    """What hangs fails: the main thread is interrupted, whatever it waits for."""

    def stop(*_: object) -> None:
        pytest.fail(f"still waiting after {seconds} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def threads(prefix: str) -> list[threading.Thread]:
    """The threads whose names begin like this."""
    return [thread for thread in threading.enumerate() if thread.name.startswith(prefix)]


@pytest.fixture(autouse=True)
def never_hangs() -> Iterator[None]:
    with time_limit():
        yield
    assert not threads("ahead"), "a thread is left over"


class Items:
    """Numbers, which know how many of them were asked for."""

    def __init__(self, total: int):
        self.total, self.taken = total, 0

    def __iter__(self) -> Iterator[int]:
        for number in range(self.total):
            self.taken += 1
            yield number


def test_results_come_in_order_whichever_is_done_first() -> None:
    done: list[int] = []

    def slow_at_first(number: int) -> int:
        time.sleep(0.03 if number % 4 == 0 else 0)
        done.append(number)
        return number * number

    assert list(map_ahead(slow_at_first, range(24), workers=4, ahead=8)) == [n * n for n in range(24)]
    assert done != sorted(done)


@pytest.mark.parametrize(("workers", "ahead"), [(1, 1), (3, 2), (7, 7)])
def test_at_most_so_many_are_ahead_of_the_one_that_is_given(workers: int, ahead: int) -> None:
    items = Items(30)
    results = map_ahead(lambda number: number, items, workers, ahead)
    for given, result in enumerate(results, 1):
        assert result == given - 1
        assert items.taken == min(given + ahead, 30)


@pytest.mark.parametrize("bad", [0, 7, 19])
@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_an_error_comes_in_its_place(bad: int, kind: type[BaseException]) -> None:
    started: list[int] = []

    def fail_at(number: int) -> int:
        started.append(number)
        if number == bad:
            raise kind("this one")
        return number

    results = map_ahead(fail_at, range(20), workers=2, ahead=3)
    assert list(islice(results, bad)) == list(range(bad))
    with pytest.raises(kind, match="this one"):
        next(results)
    assert max(started) <= bad + 3
    assert list(results) == []


@pytest.mark.parametrize("end", ["close", "forget"])
def test_a_caller_that_stops_stops_the_work(end: str) -> None:
    started: list[int] = []

    def work(number: int) -> int:
        started.append(number)
        time.sleep(0.02)
        return number

    results = map_ahead(work, count(), workers=2, ahead=40)
    assert next(results) == 0
    if end == "close":
        results.close()  # type: ignore[attr-defined]
    del results
    assert not threads("ahead")
    assert len(started) < 10  # of the 41 that were waiting
