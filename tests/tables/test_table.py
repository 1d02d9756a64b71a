"""The table of the Blueprints benchmark, and tables as Markdown and comma-separated values."""

from benchmarks.blueprints import accuracy_table
from parse_dg.runs.result import RunResult
from tests.runs.helpers import result_of


def result(method: str, domain: str, seed: int, target: float, validation: float = 0.9) -> RunResult:
    return result_of(method, domain, seed, target, validation_mean_accuracy=validation)


def test_runs_are_averaged_over_seeds_and_domains_and_the_best_are_bold() -> None:
    """The mean of targets is over domains inside a seed, then over seeds: seed 2 of parse lacks a domain."""
    runs = [
        result("erm", "photo", 0, 0.9, 0.7),
        result("erm", "sketch", 0, 0.2, 0.7),
        result("parse", "photo", 0, 0.8, 0.6),
        result("parse", "photo", 1, 0.6, 0.6),
        result("parse", "photo", 2, 0.7, 0.1),
        result("parse", "sketch", 0, 0.5, 0.6),
        result("parse", "sketch", 1, 0.7, 0.6),
        result("coral", "photo", 0, 0.5),
    ]
    for order in (runs, [*runs[:2], *runs[6:1:-1], runs[7]]):
        assert accuracy_table(order, ("photo", "sketch")).splitlines() == [
            "| method | photo | sketch | mean of targets | source validation |",
            "|---|---:|---:|---:|---:|",
            "| erm | **90.0** | 20.0 | 55.0 | **70.0** |",
            "| parse | 70.0 ± 10.0 | **60.0 ± 14.1** | **65.0 ± 0.0** | 60.0 ± 0.0 |",
            "| coral | 50.0 | missing | missing | missing |",
        ]
