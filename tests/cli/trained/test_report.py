"""`parse-dg report`: one file, or one line on why not."""

from html import escape
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.cli.conftest import Run, assert_refused, snapshot


def test_a_report_is_one_more_file_in_the_run(run: Run, parse_copy: Path) -> None:
    (parse_copy / "faces.json").unlink(missing_ok=True)
    before = snapshot(parse_copy)
    said = run("report", parse_copy, "--images", 2, "--device", "cpu")
    assert (said.code, said.err) == (0, "")
    path = parse_copy / "report.html"
    assert f"written to {path}: {path.stat().st_size:,} bytes" in said.out
    after = snapshot(parse_copy)
    page = after.pop("report.html").decode()
    assert b"data:image/png" in after.pop("faces.json")  # of the primitives, found once
    assert after == before
    assert "The primitives and their faces" in page
    assert page.count("data-card=") == 8
    assert page.startswith("<!DOCTYPE html>")
    assert "parse on blueprints, sketch held out, seed 0" in page
    assert len(page) < 1_000_000


def test_somebodys_own_images_by_names_that_are_html(run: Run, tmp_path: Path) -> None:
    classes = ("<img src=x onerror=alert(1)>", "</script><b>")
    for number, domain in enumerate(("day", "night", "fog & rain")):
        for label, name in enumerate(classes):
            for image in range(5):
                place = tmp_path / "own" / domain / name.replace("/", "\u2215") / f'"{image}<i>.png'
                place.parent.mkdir(parents=True, exist_ok=True)
                pixels = np.full((40, 30, 3), 40 * label + 50 * number + image, np.uint8)
                Image.fromarray(pixels).save(place)
    small = ("image_size=32", "steps=2", "check_every=1", "batch_per_domain=2", "device=cpu")
    settings = [f"{'data' if 'size' in each else 'training'}.{each}" for each in small]
    options = [word for each in settings for word in ("--set", each)]
    trained = run(
        *("train", "--data", "own", "--target", "fog & rain", "--recipe", "blueprints", "--out", "made"), *options
    )
    assert (trained.code, trained.err) == (0, "")
    assert run("report", "made", "--device", "cpu").code == 0
    page = (tmp_path / "made" / "report.html").read_text()
    assert "<img" not in page
    assert "<b>" not in page
    assert escape(classes[0]) in page
    assert r"fog & rain/\u003cimg src=x onerror=alert(1)>/\"0\u003ci>.png" in page  # a title


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        (("--out", "report.txt"), "expected a name that ends in .html"),
        (("--out", "nowhere/report.html"), "in a folder that is there"),
        (("--images", "-1"), "--images must be 0 or more"),
        (("--model", "none.safetensors"), "no model at none.safetensors"),
        (("--device", "abacus"), "device 'abacus' cannot be used"),
    ],
)
def test_mistakes_are_one_line(run: Run, parse_run: Path, options: tuple[str, ...], fragment: str) -> None:
    before = snapshot(parse_run)
    assert_refused(run("report", parse_run, *options), fragment)
    assert snapshot(parse_run) == before


def test_what_is_no_run_is_refused(run: Run, tmp_path: Path) -> None:
    assert_refused(run("report", tmp_path), "is not a run: expected a folder with config.json")
    assert_refused(run("report", tmp_path / "missing"), "is not a run: expected a folder with config.json")
    assert list(tmp_path.iterdir()) == []
