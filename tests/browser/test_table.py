"""The widest table there is in a real browser: every column is seen, and on a phone it scrolls."""

from pathlib import Path
from typing import Any

from parse_dg.cli.show.compact import CompactionRow, view_tables
from parse_dg.tables.text_table import html_page

LARGE = CompactionRow(
    data="terraincognita",
    target="location_100",
    seed="0",
    model_parameters_before=49_565_892,
    model_parameters_after=23_640_892,
    lambda_parameters_before=26_035_200,
    lambda_parameters_after=110_200,
    reduction=0.996,
    applications_before=130_176,
    applications_after=1_240,
    applications_at_start=130_176,
    gflops_before=4.1371,
    gflops_after=4.1102,
    images=24_788,
    same_prediction=24_788,
    target_images=4_879,
    target_accuracy_before=0.5,
    target_accuracy_after=0.5,
    seconds_a_step=0.213,
    seconds_an_epoch=123.0,
)
TABLES = "() => [...document.querySelectorAll('.wide')].map(e => [e.scrollWidth, e.clientWidth])"


def test_every_column_at_1280_pixels_and_a_scroll_below(page: Any, tmp_path: Path) -> None:
    (tmp_path / "table.html").write_text(html_page(view_tables([LARGE], 0.0)), encoding="utf-8")
    page.goto((tmp_path / "table.html").as_uri())
    assert all(whole <= seen for whole, seen in page.evaluate(TABLES))
    page.set_viewport_size({"width": 360, "height": 740})
    assert all(whole > seen for whole, seen in page.evaluate(TABLES))
    assert page.evaluate("() => document.documentElement.scrollWidth") == 360
