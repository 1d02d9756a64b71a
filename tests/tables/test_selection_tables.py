"""Tables of selected models: what is averaged, what is missing, and what every format says."""

import csv
import io
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from parse_dg.errors import InputError
from parse_dg.tables.estimate import p_value
from parse_dg.tables.selection import SELECTIONS, Record
from parse_dg.tables.selection_tables import selection_tables

DOMAINS = ("art", "photo", "sketch")


def result(target: str, trial: int, accuracy: float, **other: Any) -> Record:
    """A run of one check, which any selection but leave-one-domain-out has to take."""
    domains = other.get("domains", DOMAINS)
    fields: dict[str, Any] = {"data_set": "PACS", "algorithm": "ERM", "domains": domains, "held_out": (target,)}
    fields |= {"trial": trial, "hyperparameters": "0", "step": 300}
    return Record(**fields | {"in_part": {target: accuracy}, "out_part": dict.fromkeys(domains, 0.5)} | other)


def full(values: Sequence[Sequence[float]], **other: Any) -> list[Record]:
    """By trial, then by target."""
    return [
        result(target, trial, accuracy, **other)
        for trial, row in enumerate(values)
        for target, accuracy in zip(DOMAINS, row, strict=True)
    ]


def test_cells_are_over_trials_and_the_average_over_targets_first() -> None:
    values = [(0.1, 0.5, 0.6), (0.3, 0.9, 0.9)]
    for records in (full(values), full(values)[::-1]):
        (table,) = selection_tables(records, "training-domain").tables
        assert table.domains == DOMAINS
        assert table.trials == (0, 1)
        assert table.cells["ERM"]["art"].values == {0: 0.1, 1: 0.3}
        assert table.average["ERM"].values == pytest.approx({0: 0.4, 1: 0.7})
        assert str(table.average["ERM"]) == "55.0 ± 10.6"


def test_random_tables_agree_with_loops() -> None:
    draw = random.Random(0)
    for count in (1, 2, 3, 5):
        values = [[draw.random() for _ in DOMAINS] for _ in range(count)]
        (table,) = selection_tables(full(values), "oracle").tables
        columns = [[row[number] for row in values] for number in range(3)] + [[sum(row) / 3 for row in values]]
        for column, estimate in zip(columns, [*table.cells["ERM"].values(), table.average["ERM"]], strict=True):
            mean = sum(column) / count
            deviation = math.sqrt(sum((value - mean) ** 2 for value in column) / count)
            assert estimate.mean == pytest.approx(mean)
            error = pytest.approx(deviation / math.sqrt(count), abs=1e-12) if count > 1 else None
            assert estimate.error == error


def test_a_missing_trial_is_named_and_its_trial_not_averaged() -> None:
    records = [r for r in full([(0.1, 0.5, 0.6), (0.3, 0.9, 0.9)]) if (r.held_out, r.trial) != (("photo",), 1)]
    tables = selection_tables(records, "oracle")
    (text,) = tables.text()
    assert text.rows == (("ERM", "20.0 ± 7.1", "50.0 (1 of 2 trials)", "75.0 ± 10.6", "40.0 (1 of 2 trials)"),)
    assert (
        text.notes[2] == "Missing: ERM: photo (trial 1). This selection needs a run with the target alone held out."
    )


def test_an_algorithm_without_a_data_set_is_missing_in_the_averages() -> None:
    records = full([(0.1, 0.2, 0.3)]) + full([(0.6, 0.6, 0.6)], data_set="VLCS", algorithm="DANN")
    tables = selection_tables(records, "oracle")
    assert [list(table.cells) for table in tables.tables] == [["ERM"], ["DANN"]]
    averages = tables.text()[-1]
    assert averages.rows == (("DANN", "missing", "60.0", "missing"), ("ERM", "20.0", "missing", "missing"))
    assert averages.notes[2].startswith("Missing: DANN on PACS; ERM on VLCS.")


def test_leave_one_domain_out_of_runs_with_one_domain_held_out_says_what_it_needs() -> None:
    (text,) = selection_tables(full([(0.1, 0.2, 0.3)]), "leave-one-domain-out").text()
    assert text.rows == (("ERM", "missing", "missing", "missing", "missing"),)
    assert "runs with the target and each of the other domains held out" in text.notes[2]


def test_runs_of_one_data_set_must_have_the_same_domains() -> None:
    records = [result("art", 0, 0.5), result("art", 1, 0.5, domains=("art", "photo"))]
    with pytest.raises(
        InputError, match="runs on PACS must have the same domains, found art, photo, sketch and art, p"
    ):
        selection_tables(records, "oracle")


def test_runs_scored_on_different_shares_are_not_mixed() -> None:
    with pytest.raises(InputError, match=r"same share of the target's images, found 0\.8, 1"):
        selection_tables([result("art", 0, 0.5), result("art", 1, 0.5, share=1.0)], "oracle")


@pytest.mark.parametrize("name", SELECTIONS)
def test_every_table_says_its_selection_and_what_its_numbers_are(name: str) -> None:
    records = full([(0.1, 0.2, 0.3)] * 2) + full([(0.1, 0.2, 0.3)] * 3, data_set="VLCS")
    tables = selection_tables(records, name)
    assert len(tables.text()) == 3
    for table, trials in zip(tables.text(), ("over 2 trials", "over 3 trials", "over trials"), strict=True):
        for text in (" ".join(table.notes), table.markdown(), table.latex().replace("\\%", "%")):
            assert SELECTIONS[name].summary in text
            assert "Accuracy in % on the scored part of the target, 80% of its images" in text
            assert f"standard error {trials}" in text
    assert ("labels of the target" in " ".join(note for table in tables.text() for note in table.notes)) == (
        name == "oracle"
    )


def test_markdown() -> None:
    (table,) = selection_tables(full([(0.1, 0.2, 0.3), (0.3, 0.4, 0.5)]), "oracle").text()
    lines = table.markdown().splitlines()
    assert lines[:5] == [
        "**PACS**",
        "",
        "| algorithm | art | photo | sketch | Avg |",
        "|---|---:|---:|---:|---:|",
        "| ERM | 20.0 ± 7.1 | 30.0 ± 7.1 | 40.0 ± 7.1 | 30.0 ± 7.1 |",
    ]
    assert lines[6].startswith("Accuracy in %")
    assert lines[8].startswith("Model selection: oracle")


def test_latex() -> None:
    records = full([(0.1, 0.2, 0.3), (0.3, 0.4, 0.5)], data_set="My_Data", algorithm="A&B")
    records += [replace(record, algorithm="no_relations+ema") for record in records]
    (table,) = selection_tables(records, "training-domain").text()
    lines = table._replace(bold=frozenset(), notes=("A note.", "Another_one.")).latex().splitlines()
    assert lines[0] == r"\begin{table}"
    assert lines[2:] == [
        r"\caption{Accuracy (\%) on each target of My\_Data (mean $\pm$ standard error over 2 trials). "
        "Models are chosen by training-domain selection.}",
        r"\label{tab:my-data}",
        r"\begin{tabular}{lcccc}",
        r"\toprule",
        r"algorithm & art & photo & sketch & Avg \\",
        r"\midrule",
        r"A\&B & 20.0 $\pm$ 7.1 & 30.0 $\pm$ 7.1 & 40.0 $\pm$ 7.1 & 30.0 $\pm$ 7.1 \\",
        r"No Relations+EMA & 20.0 $\pm$ 7.1 & 30.0 $\pm$ 7.1 & 40.0 $\pm$ 7.1 & 30.0 $\pm$ 7.1 \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\par\medskip",
        r"\begin{minipage}{\linewidth}\footnotesize",
        r"A note. \par",
        r"Another\_one.",
        r"\end{minipage}",
        r"\end{table}",
    ]


def test_csv_is_unrounded_and_a_line_a_cell() -> None:
    records = full([(0.1, 0.2, 0.3), (0.3, 0.4, 0.7)])[:-1] + full([(0.125, 0.25, 0.375)], data_set="VLCS")
    rows = list(csv.DictReader(io.StringIO(selection_tables(records, "oracle").csv())))
    assert [(row["data"], row["target"], row["trials"], row["missing_trials"]) for row in rows] == [
        ("PACS", "art", "2", "0"),
        ("PACS", "photo", "2", "0"),
        ("PACS", "sketch", "1", "1"),
        ("PACS", "average", "1", "1"),
        ("VLCS", "art", "1", "0"),
        ("VLCS", "photo", "1", "0"),
        ("VLCS", "sketch", "1", "0"),
        ("VLCS", "average", "1", "0"),
        ("average", "average", "", ""),
    ]
    assert [float(row["accuracy"]) for row in rows] == pytest.approx(
        [0.2, 0.3, 0.3, 0.2, 0.125, 0.25, 0.375, 0.25, 0.225]
    )
    assert float(rows[0]["standard_error"]) == pytest.approx(0.1 / 2**0.5)
    assert {(row["selection"], row["share_of_target"]) for row in rows} == {("oracle", "0.8")}


def test_the_spread_is_said_and_shown() -> None:
    records = full([(0.1, 0.5, 0.6), (0.3, 0.9, 0.9)]) + full([(0.1, 0.2, 0.3)], data_set="VLCS")
    tables = replace(selection_tables(records, "oracle"), spread="std")
    pacs, vlcs, averages = tables.text()
    assert pacs.rows[0][1] == "20.0 ± 14.1"
    assert "mean ± sample standard deviation over 2 trials" in pacs.notes[0]
    assert vlcs.rows[0][1] == "10.0"
    assert "sample standard deviation over trials" in averages.notes[0]
    rows = list(csv.DictReader(io.StringIO(tables.csv())))
    assert float(rows[0]["standard_deviation"]) == pytest.approx(0.2 / 2**0.5)
    assert float(rows[0]["standard_error"]) == pytest.approx(0.1 / 2**0.5)
    assert rows[4]["standard_deviation"] == ""


def test_the_best_means_are_bold_where_there_is_a_choice() -> None:
    records = full([(0.1, 0.5, 0.6)]) + full([(0.3, 0.5, 0.2)], algorithm="DANN")
    (text,) = selection_tables(records, "oracle").text()
    assert text.bold == {(0, 1), (0, 2), (1, 2), (1, 3), (1, 4)}
    assert "bold: the best mean of each column." in text.notes[0]
    (alone,) = selection_tables(full([(0.1, 0.5, 0.6)]), "oracle").text()
    assert alone.bold == frozenset()
    assert "bold" not in alone.notes[0]


def test_runs_with_two_domains_held_out_count_where_they_take_part() -> None:
    pair = replace(result("art", 0, 0.4), held_out=("art", "photo"), in_part={"art": 0.4, "photo": 0.4})
    records = [*full([(0.1, 0.2, 0.3)]), pair]
    assert "3 runs, 1 a cell." in selection_tables(records, "training-domain").text()[0].notes[0]
    assert (
        "4 runs, 2 a cell; 1 for ERM on sketch."
        in (selection_tables(records, "leave-one-domain-out").text()[0].notes[0])
    )
    assert "0 runs, 0 a cell." in selection_tables([pair], "training-domain").text()[0].notes[0]


def test_commands_stand_below_the_table_whose_cells_they_fill() -> None:
    records = full([(0.1, 0.2, 0.3)])[:-1] + full([(0.6, 0.6, 0.6)], data_set="VLCS", algorithm="DANN")
    fill = {
        ("PACS", "ERM", "sketch"): ("one", "two"),
        ("PACS", "DANN", "art"): ("three",),
        ("VLCS", "ERM", "art"): ("four",),
    }
    tables = replace(selection_tables(records, "oracle"), fill=fill)
    assert [table.commands for table in tables.text()] == [("one", "two"), (), ("three", "four")]
    rows = list(csv.DictReader(io.StringIO(tables.csv())))
    assert [row["to_fill"] for row in rows][:4] == ["", "", "one; two", ""]


def test_rows_are_compared_pair_by_pair_with_the_one_that_is_named() -> None:
    """Six pairs: of the 64 choices of signs two are as far from 0 as +6 × 0.1, and 2 of 2 with one alone."""
    records = full([(0.1, 0.2, 0.3), (0.3, 0.4, 0.5)])
    better = [replace(r, algorithm="B", in_part={k: v + 0.1 for k, v in r.in_part.items()}) for r in records]
    (table,) = replace(selection_tables([*records, *better], "oracle"), against="ERM").text()
    assert table.notes[1].startswith(
        "Against ERM, paired over targets and seeds: B +10.0 (6 pairs, p = 0.031). p: "
    )
    assert [p_value(pairs) for pairs in ([0.1], [0.1, -0.1], [0.0] * 3)] == [1.0, 1.0, 1.0]
    assert p_value([0.1] * 20) < 1e-3
