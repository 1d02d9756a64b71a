"""The compaction table: a row a run, the mean of each data set, and the same numbers in text, Markdown and CSV."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from parse_dg.cli.show.compact import CELLS, as_csv, as_markdown, table_row, table_rows, text_cells, view_tables
from parse_dg.runs.afterwards.compact import (
    ApplicationCounts,
    CompactionReport,
    Counts,
    DomainComparison,
    Figures,
    read_compaction,
)
from parse_dg.runs.folder import TrainingTime
from parse_dg.runs.result import BenchmarkVersion
from parse_dg.tables.published import published
from tests.parts import refusal

ROOT = Path(__file__).parents[3]


def outcome(
    data: str, target: str, seed: int, active: int, after: int, at_start: int | None = 400
) -> CompactionReport:
    """Two classes, 1,000 applications, 10 images of the target (5 right before) and 30 of a source."""
    of_target = DomainComparison(
        role="target",
        images=10,
        correct=Counts(before=5, after=after),
        accuracy=Figures(before=0.5, after=after / 10),
        same_prediction=9,
        largest_logit_difference=0.5,
    )
    whole = Counts(before=30, after=30)
    of_source = replace(of_target, role="source", images=30, correct=whole, same_prediction=30)
    return CompactionReport(
        benchmark=BenchmarkVersion(name=data, fingerprint="f"),
        target=target,
        seed=seed,
        threshold=0.1,
        applications=ApplicationCounts(before=1000, at_start=at_start, after=active),
        active_applications_per_class={"a": active, "b": active},
        lambda_parameters=Counts(before=2000, after=2 * active),
        reduction=1 - active / 1000,
        model_parameters=Counts(before=4_002_000, after=4_000_000 + 2 * active),
        gflops=Figures(before=4.000004, after=4 + 4 * active / 1e9),
        file_bytes=Counts(before=100, after=10),
        images=40,
        same_prediction=39,
        largest_logit_difference=0.5,
        domains={target: of_target, "source": of_source},
    )


def test_a_row_says_what_the_paper_says_and_what_was_measured() -> None:
    (row,) = text_cells(table_rows([outcome("pacs", "sketch", 3, 100, 4)]))
    assert dict(zip(CELLS, row, strict=True)) == {
        "data": "pacs",
        "target": "sketch",
        "seed": "3",
        "parameters": "4,002,000 → 4,000,200",
        "parameters of Λ": "2,000 → 200",
        "reduction of Λ": "90.0%",
        "applications": "1,000 → 100",
        "in use at the start": "400",
        "GFLOPs": "4.0000 → 4.0000",
        "same prediction": "39 of 40",
        "accuracy on target": "50.0% → 40.0%",
    }


def test_the_mean_is_over_the_runs_of_a_data_set() -> None:
    runs = [
        outcome("pacs", "sketch", 0, 100, 4),
        outcome("vlcs", "sun", 0, 30, 1),
        outcome("pacs", "photo", 0, 300, 5),
        outcome("office", "art", 0, 10, 0),
        outcome("vlcs", "sun", 1, 40, 2),
    ]
    rows = table_rows(runs)
    assert [(row.data, row.target, row.seed) for row in rows] == [
        ("pacs", "sketch", "0"),
        ("pacs", "photo", "0"),
        ("pacs", "mean of 2 runs", ""),
        ("vlcs", "sun", "0"),
        ("vlcs", "sun", "1"),
        ("vlcs", "mean of 2 runs", ""),
        ("office", "art", "0"),
    ]
    pacs, vlcs = rows[2], rows[5]
    assert (pacs.applications_before, pacs.applications_after) == (1000, 200)
    assert (pacs.lambda_parameters_after, pacs.model_parameters_after) == (400, 4_000_400)
    assert pacs.reduction == pytest.approx(0.8)
    assert pacs.target_accuracy_after == pytest.approx(0.45)
    assert vlcs.applications_after == 35
    assert vlcs.gflops_after == pytest.approx(4.00000014)


def test_markdown_has_a_line_a_row() -> None:
    lines = as_markdown(table_rows([outcome("pacs", "sketch", 0, 100, 4), outcome("pacs", "photo", 0, 302, 5)]))
    head, rule, *rows = lines.splitlines()
    assert head == "| " + " | ".join(CELLS) + " |"
    assert rule == "|---|---|---" + "|---:" * 8 + "|"
    assert len(rows) == 3
    assert rows[0].startswith("| pacs | sketch | 0 | 4,002,000 → 4,000,200 | 2,000 → 200 |")
    assert rows[2].startswith("| pacs | mean of 2 runs |  | 4,002,000 → 4,000,402 | 2,000 → 402 |")
    assert "| 1,000 → 201 |" in rows[2]  # of 100 and 302


def test_the_papers_figures_stand_below_ours_as_printed() -> None:
    """Table 2 (b) and that of appendix C: what they have of the data sets and targets that are there."""
    rows = [table_row(outcome("PACS", "art_painting", 0, 100, 4), TrainingTime(0.5, 90.0))]
    by_data, by_target = view_tables(rows, 0.0, published().of("paper"))
    ours, theirs = (dict(zip(by_data.header, row, strict=True)) for row in by_data.rows)
    assert (ours["s a step"], ours["s an epoch"], ours["runs"]) == ("0.5", "90", "1")
    assert {heading: cell for heading, cell in theirs.items() if cell not in ("–", "")} == {
        "data": "pacs (paper, table 2 (b))",
        "parameters of Λ": "0.91M → 0.002M",
        "reduction of Λ": "99.8%",
        "applications": "130,176 → 295",
        "GFLOPs": "4.113 → 4.112",
    }
    assert by_target.rows[1][:4] == ("pacs", "art_painting (paper)", "24.51M", "0.91M → 0.002M")
    assert any(note.startswith("paper: Nguyen & Nguyen 2026") for note in by_target.notes)
    birds = view_tables([table_row(outcome("cub-dg", "Art", 0, 9, 1))], 0.0, published())[0]
    assert [row[-3:] for row in birds.rows] == [("–", "–", "1"), ("–", "–", ""), ("0.8", "440", "")]


def test_csv_has_every_number_unrounded() -> None:
    text = as_csv(table_rows([outcome("pacs", "sketch", 0, 100, 4), outcome("pacs", "photo", 0, 301, 5)]))
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["target"] for row in rows] == ["sketch", "photo", "mean of 2 runs"]
    assert [row["applications_after"] for row in rows] == ["100", "301", "200.5"]
    assert [row["same_prediction"] for row in rows] == ["39", "39", "39"]
    assert rows[0]["gflops_before"] == "4.000004"
    assert float(rows[1]["reduction"]) == pytest.approx(0.699)
    assert {row["images"] for row in rows} == {"40"}
    assert {row["target_images"] for row in rows} == {"10"}


def test_the_published_reports_can_be_read() -> None:
    """They do not say what was in use at the start."""
    folders = [path.parent for path in (ROOT / "results").rglob("compact.json")]
    found = [report for report in map(read_compaction, folders) if report]
    assert len(found) == len(folders) >= 4
    assert all(report.applications.at_start is None or report.applications.at_start > 0 for report in found)


@pytest.mark.parametrize("damage", ["{", '{"target": "sketch"}', "a word for a number", "other images"])
def test_a_damaged_report_is_refused_in_one_line(damage: str, tmp_path: Path) -> None:
    report = outcome("pacs", "sketch", 3, 100, 4).to_dict()
    text = damage
    if damage == "a word for a number":
        text = json.dumps(report | {"reduction": "much"})
    elif damage == "other images":
        text = json.dumps(report)
        (tmp_path / "result.json").write_text((ROOT / "results/pacs/erm/photo/seed0/result.json").read_text())
    (tmp_path / "compact.json").write_text(text)
    assert str(tmp_path / "compact.json") in refusal(read_compaction, tmp_path)


def test_the_view_is_by_data_set_and_by_target() -> None:
    runs = [outcome("pacs", "sketch", seed, active, 4) for seed, active in ((0, 100), (1, 200))]
    rows = table_rows([*runs, outcome("vlcs", "sun", 0, 30, 1)])
    rows = [row for row in rows if row.seed]  # without the means
    data, target = view_tables(rows, 0.0)
    assert [(row[0], row[4], row[-1]) for row in data.rows] == [
        ("pacs", "1,000 → 150", "2"),
        ("vlcs", "1,000 → 30", "1"),
    ]
    assert (data.header[0], data.header[4]) == ("data", "applications")
    assert [(row[:2], row[-1]) for row in target.rows] == [(("pacs", "sketch"), "2"), (("vlcs", "sun"), "1")]
    assert target.names == 2
    for table in (data, target):
        assert table.notes[0].startswith("3 runs. Threshold 0 (lossless). Means over the runs of a row")
        assert all(len(row) == len(table.header) for row in table.rows)
