"""Ours beside theirs: every published value in its column, in every form, and nothing of ours changed."""

import csv
import io
from collections.abc import Sequence
from typing import Any

import pytest

from parse_dg.tables.comparison import compare, compare_csv, published_csv, published_tables
from parse_dg.tables.published import published
from parse_dg.tables.selection import Record
from parse_dg.tables.selection_tables import SelectionTables, selection_tables

PACS = ("sketch", "Art Painting", "photo", "cartoon")
"""Another order and another spelling than those of the papers."""


def tables(**data_sets: Sequence[str]) -> SelectionTables:
    """A run for every target of every data set: 0.5 on the first, 0.6 on the second, ..."""
    records = [
        Record(
            data_set=name.replace("_", "-"),
            algorithm="parse",
            domains=tuple(domains),
            held_out=(target,),
            trial=0,
            hyperparameters="0",
            step=1,
            in_part={target: 0.5 + number / 10},
            out_part=dict.fromkeys(domains, 0.5),
        )
        for name, domains in data_sets.items()
        for number, target in enumerate(domains)
    ]
    return selection_tables(records, "training-domain")


def rows_of(text: str) -> list[dict[str, Any]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_published_rows_are_below_ours_in_our_columns() -> None:
    ours = tables(pacs=PACS)
    (plain,), (table,) = ours.text(), compare(ours, published())
    assert table.title == plain.title
    assert table.header == ("algorithm", "source", *PACS, "Avg")
    assert table.names == 2
    assert table.rows[0] == ("parse", "ours", *plain.rows[0][1:])
    assert ("ERM", "domainbed", "79.3 ± 1.0", "84.7 ± 0.4", "97.2 ± 0.3", "80.8 ± 0.6", "85.5 ± 0.2") in table.rows
    assert ("PARSE", "paper", "–", "–", "–", "–", "86.7") in table.rows
    assert table.notes[: len(plain.notes)] == plain.notes


def test_notes_name_each_source_once_and_each_caveat() -> None:
    (table,) = compare(tables(pacs=PACS), published().of("paper,domainbed"))
    for source in ("paper: Nguyen", "domainbed: Gulrajani", "gvrt: Min", "swad: Cha"):
        assert sum(note.startswith(source) for note in table.notes) == 1, source
    text = "\n".join(table.notes)
    assert "arXiv:2007.01434" in text
    assert "± is the standard error over 3 trials" in text
    assert "paper, DANN, CDANN, GroupDRO, SagNet, CORAL: from domainbed." in text
    assert "paper, MixUp: digit for digit the row of MixStyle" in text
    assert "paper, ERM++: starts from AugMix weights" in text
    assert "47.6" not in text  # said of another data set
    (terra,) = compare(tables(terraincognita=("L100", "L38", "L43", "L46")), published())
    assert "paper, CORAL: TerraIncognita is 47.6 in DomainBed's own results." in terra.notes


def test_sources_that_are_not_asked_for_are_not_shown() -> None:
    (table,) = compare(tables(pacs=PACS), published().of("domainbed"))
    assert {row[1] for row in table.rows} == {"ours", "domainbed", "paper", "swad"}  # rows that they took from it
    (table,) = compare(tables(cub_dg=("Photo", "Cartoon", "Art", "Paint")), published().of("miro"))
    assert len(table.rows) == 1
    assert table.notes[-1] == "Nothing published is known here to compare cub-dg with."


SUITE = {
    "PACS": "ACPS",
    "VLCS": "CLSV",
    "OfficeHome": "ACPR",
    "TerraIncognita": ("L100", "L38", "L43", "L46"),
    "DomainNet": ("clip", "info", "paint", "quick", "real", "sketch"),
}


def test_averages_of_the_whole_suite_have_the_published_mean() -> None:
    *_, table = compare(tables(**SUITE), published())
    header = ["DomainNet", "OfficeHome", "PACS", "TerraIncognita", "VLCS"]
    assert table.header == ("algorithm", "source", *header, "Avg")
    assert ("PARSE", "paper", "44.4", "70.5", "86.7", "54.8", "76.9", "66.7") in table.rows
    erm = ("40.9 ± 0.1", "66.5 ± 0.3", "85.5 ± 0.2", "46.1 ± 1.8", "77.5 ± 0.4", "–")
    assert ("ERM", "domainbed", *erm) in table.rows


def test_every_value_is_in_the_csv_once() -> None:
    ours = tables(**SUITE)
    rows = rows_of(compare_csv(ours, published()))
    plain = rows_of(ours.csv())
    mine = [row for row in rows if row["source"] == "ours"]
    assert [{name: row[name] for name in plain[0]} for row in mine] == plain
    theirs = [row for row in rows if row["source"] != "ours"]
    keys = [(row["source"], row["algorithm"], row["data"], row["target"]) for row in theirs]
    assert len(set(keys)) == len(keys)
    known = sum(len(row.cells) for row in published().rows if row.data_set != "cub-dg")
    assert len(theirs) == known
    for row in theirs:
        value, _, error = row["printed"].partition(" ± ")
        assert float(row["accuracy"]) == pytest.approx(float(value) / 100)
        assert bool(row["error"]) == bool(row["error_is"]) == bool(error)
        assert float(row["error"] or 0) == pytest.approx(float(error or 0) / 100)
        assert row["table"]
        assert row["protocol"]


def test_a_standard_deviation_is_no_standard_error() -> None:
    rows = rows_of(published_csv(published(), "cub-dg"))
    (parse,) = [row for row in rows if (row["algorithm"], row["target"]) == ("PARSE", "Paint")]
    assert (parse["accuracy"], parse["standard_error"], parse["trials"]) == ("0.493", "", "3")
    assert (parse["printed"], parse["error"], parse["error_is"]) == ("49.3 ± 0.9", "0.009", "standard deviation")
    (erm,) = [
        r for r in rows_of(published_csv(published(), "pacs")) if r["algorithm"] == "ERM" and r["target"] == "photo"
    ]
    assert (erm["standard_error"], erm["error"], erm["error_is"]) == ("0.003", "0.003", "standard error")


def test_the_published_tables_alone() -> None:
    shown = published_tables(published())
    titles = ["PACS", "VLCS", "OfficeHome", "TerraIncognita", "DomainNet", "CUB-DG", "DomainBed, averages"]
    assert [table.title for table in shown] == titles
    (birds,) = published_tables(published(), "CUB-DG")
    assert birds.header == ("method", "source", "Photo", "Cartoon", "Art", "Paint", "Avg")
    assert ("ERM", "gvrt", "62.5", "53.2", "37.4", "29.0", "45.5") in birds.rows
    (suite,) = published_tables(published(), "domainbed")
    assert suite.header == ("method", "source", *titles[:5], "Avg")
    assert (
        "SWAD",
        "swad",
        "88.1 ± 0.1",
        *["79.1 ± 0.1", "70.6 ± 0.2", "50.0 ± 0.3", "46.5 ± 0.1", "66.9"],
    ) in suite.rows
