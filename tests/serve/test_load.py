"""The load benchmark, once, briefly: its numbers mean nothing, but they are all there and fit together."""

import statistics
from pathlib import Path

import pytest

from benchmarks.serve_load import measure, table


@pytest.mark.slow
def test_the_service_under_a_little_load(parse_run: Path) -> None:
    found = measure(parse_run, parse_run, clients=4, seconds=1, images=32)
    assert found["errors"] == {}
    assert found["answers"] > 0
    assert found["images_per_second"] == pytest.approx(found["answers"] / found["seconds"], rel=0.1)
    assert 0 < found["p50_ms"] <= found["p99_ms"]
    assert 1 <= found["images_per_pass"] <= 4
    for name, ratio in found["service_over_direct"].items():
        turns = zip(found["turns"]["service"], found["turns"][name], strict=True)
        assert ratio["median"] == pytest.approx(statistics.median(a / b for a, b in turns), rel=0.05)
        assert ratio["low"] <= ratio["median"] <= ratio["high"]
    assert table(found).row_count == 15
