"""Tables: means and sample deviations over seeds, what is missing, what is best."""

import csv
import io
import math

import pytest

from benchmarks.blueprints import Cell, accuracy_table
from parse_dg.runs.result import RunResult
from parse_dg.tables.text_table import csv_table, markdown_table
from tests.runs.helpers import result_of

DOMAINS = ("photo", "sketch")


def result(method: str, domain: str, seed: int, target: float, validation: float = 0.9) -> RunResult:
    return result_of(method, domain, seed, target, validation_mean_accuracy=validation)


def test_a_cell_is_mean_and_sample_deviation_in_per_cent() -> None:
    # mean 0.6; squared differences 0.01 + 0 + 0.01, divided by 3 - 1
    assert str(Cell((0.5, 0.6, 0.7))) == f"60.0 ± {100 * math.sqrt(0.02 / 2):.1f}"
    assert str(Cell((0.5, 0.6, 0.7))) == "60.0 ± 10.0"
    assert str(Cell((0.5, 0.7))) == "60.0 ± 14.1"


def test_runs_are_gathered_by_method_target_and_seed() -> None:
    table = accuracy_table(
        [
            result("erm", "photo", 0, 0.5),
            result("erm", "photo", 1, 0.7),
            result("erm", "sketch", 0, 0.3),
            result("erm", "sketch", 1, 0.1),
            result("parse", "photo", 0, 0.9),
        ],
        DOMAINS,
    )
    assert table.domains == DOMAINS
    assert list(table.rows) == ["erm", "parse"]
    assert table.rows["erm"]["photo"] == Cell((0.5, 0.7))
    assert table.rows["erm"]["sketch"] == Cell((0.3, 0.1))
    assert table.rows["parse"]["photo"] == Cell((0.9,))


def test_the_average_is_over_domains_within_a_seed_then_over_seeds() -> None:
    runs = [
        result("erm", "photo", 0, 0.5, 0.8),
        result("erm", "photo", 1, 0.7, 0.9),
        result("erm", "sketch", 0, 0.3, 0.6),
        result("erm", "sketch", 1, 0.1, 0.5),
    ]
    for order in (runs, runs[::-1]):
        table = accuracy_table(order, DOMAINS)
        assert table.average["erm"].values == pytest.approx((0.4, 0.4))
        assert table.validation["erm"].values == pytest.approx((0.7, 0.7))
        assert str(table.average["erm"]) == "40.0 ± 0.0"


def test_a_seed_that_lacks_a_domain_is_not_averaged() -> None:
    runs = [result("erm", "photo", 0, 0.5), result("erm", "photo", 1, 0.7, 0.1), result("erm", "sketch", 0, 0.3)]
    table = accuracy_table(runs, DOMAINS)
    assert table.rows["erm"]["photo"] == Cell((0.5, 0.7))
    assert table.average["erm"].values == pytest.approx((0.4,))
    assert table.validation["erm"].values == pytest.approx((0.9,))


def test_a_method_that_lacks_a_domain_has_a_missing_cell_and_no_average() -> None:
    table = accuracy_table([result("erm", "photo", 0, 0.5)], DOMAINS)
    assert str(table.rows["erm"]["sketch"]) == "missing"
    assert str(table.average["erm"]) == "missing"
    assert str(table.validation["erm"]) == "missing"


def test_the_table_in_markdown_with_the_best_of_each_column_in_bold() -> None:
    runs = [
        result("erm", "photo", 0, 0.9, 0.7),
        result("erm", "sketch", 0, 0.2, 0.7),
        result("parse", "photo", 0, 0.8, 0.6),
        result("parse", "photo", 1, 0.6, 0.6),
        result("parse", "sketch", 0, 0.5, 0.6),
        result("parse", "sketch", 1, 0.7, 0.6),
    ]
    assert accuracy_table(runs, DOMAINS).markdown().splitlines() == [
        "| method | photo | sketch | mean of targets | source validation |",
        "|---|---:|---:|---:|---:|",
        "| erm | **90.0** | 20.0 | 55.0 | **70.0** |",
        "| parse | 70.0 ± 14.1 | **60.0 ± 14.1** | **65.0 ± 0.0** | 60.0 ± 0.0 |",
    ]


def test_a_table_in_markdown_has_names_to_the_left_and_numbers_to_the_right() -> None:
    rows = [["photo", "0", "1.5"], ["sketch", "1", "2.0"]]
    assert markdown_table(["target", "seed", "x"], rows, names=2).splitlines() == [
        "| target | seed | x |",
        "|---|---|---:|",
        "| photo | 0 | 1.5 |",
        "| sketch | 1 | 2.0 |",
    ]
    assert markdown_table(["method", "x"], [], names=1).splitlines() == ["| method | x |", "|---|---:|"]


def test_a_table_in_csv_is_read_back() -> None:
    text = csv_table(["name", "x"], [["a, b", 0.1], ['"c"', 3]])
    assert text.splitlines() == ["name,x", '"a, b",0.1', '"""c""",3']
    assert list(csv.reader(io.StringIO(text))) == [["name", "x"], ["a, b", "0.1"], ['"c"', "3"]]
