"""Gathering a report: what it says of a run is what the run and its model say."""

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parse_dg.cli import build_parser
from parse_dg.cli.train import configure
from parse_dg.deploy.compaction import compact
from parse_dg.deploy.model_file import load_model, save_model
from parse_dg.errors import InputError
from parse_dg.explain.classes import describe_classes
from parse_dg.explain.report.gather import TERMS, gather_report
from parse_dg.explain.report.page import Report, report_page
from parse_dg.runs.afterwards.opened import applications_at_start, evaluate_run, open_run
from parse_dg.runs.folder import read_config
from tests.conftest import FinishedRun
from tests.runs.helpers import hashes, without_digests


@pytest.fixture(scope="module")
def parse_report(parse_run: Path) -> Report:
    return gather_report(open_run(parse_run, device="cpu"), images=5)


@pytest.fixture
def copy(parse_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(parse_run, tmp_path / "copy"))


def edit(path: Path, change: Callable[[Any], None]) -> None:
    """Change what a file of a run says."""
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def test_accuracies_are_those_of_evaluation(parse_run: Path, parse_report: Report) -> None:
    expected = [
        (each.domain, each.images.partition(": ")[2], each.accuracy.correct, each.accuracy.images)
        for each in evaluate_run(open_run(parse_run, device="cpu"))
    ]
    found = [(each.domain, each.images, each.correct, each.total) for each in parse_report.scores]
    assert found == expected
    assert [each.role for each in parse_report.scores] == ["result", "source", "source", "source"]
    result = json.loads((parse_run / "result.json").read_text())
    assert parse_report.accuracy == result["target"]["accuracy"]
    assert f"{result['target']['correct']} of 40 images (all images)" in parse_report.headline
    assert parse_report.notes == ()


def test_confusions_count_every_image(parse_run: Path, parse_report: Report) -> None:
    for each in parse_report.scores:
        assert each.confusion is not None
        assert each.confusion.shape == (8, 8)
        assert each.confusion.sum() == each.total
        assert each.confusion.trace() == each.correct
    assert parse_report.scores[0].confusion is not None
    assert parse_report.scores[0].confusion.sum(1).tolist() == [5] * 8  # images of each true class


def test_galleries_show_right_and_wrong_images_and_say_so(parse_report: Report) -> None:
    titles = [gallery.title for gallery in parse_report.galleries]
    assert titles[0] == "sketch: wrong"
    assert set(titles) <= {"sketch: wrong", "sketch: right", "sources: wrong", "sources: right"}
    for gallery in parse_report.galleries:
        assert 0 < len(gallery.cases) <= 5
        for case in gallery.cases:
            assert (case["truth"] == case["predicted"]) == gallery.title.endswith("right")
            assert case["explanations"]
            assert case["title"].startswith("image ")
    wrong = parse_report.galleries[0].cases
    confusion = parse_report.scores[0].confusion
    assert confusion is not None
    mistaken = int((confusion.sum(1) > confusion.diagonal()).sum())  # classes of which some images are wrong
    assert len({case["truth"] for case in wrong}) == min(5, mistaken)
    assert len({case["title"] for case in wrong}) == 5


def test_classes_and_compaction_are_the_models(parse_run: Path, parse_report: Report) -> None:
    model = load_model(parse_run)
    assert parse_report.compositions == describe_classes(model, TERMS)
    _, expected = compact(model)
    (table,) = parse_report.compaction
    assert table.rows[0] == (
        "predicate applications",
        f"{expected.applications_before:,}",
        f"{expected.applications_after:,}",
    )
    started = applications_at_start(read_config(parse_run), model)
    assert f"In use at the start, before training: {started:,} applications." in table.notes
    images = sum(each.total for each in parse_report.scores)
    assert any(f"On the {images} images scored above, both models predict the same class on {images};" in note
               for note in table.notes)  # fmt: skip


def test_the_same_run_gives_the_same_page_and_is_not_touched(parse_run: Path, parse_report: Report) -> None:
    before = hashes(parse_run)
    again = gather_report(open_run(parse_run, device="cpu"), images=5)
    assert report_page(again) == report_page(parse_report)
    assert hashes(parse_run) == before
    assert str(parse_run.parent) not in report_page(again)


def test_the_commands_repeat_the_run(parse_run: Path, parse_report: Report) -> None:
    (_, first), (_, second) = parse_report.commands
    assert first == "parse-dg train --config config.json --out repeated"
    options = build_parser().parse_args(shlex.split(second)[1:])
    assert configure(options) == read_config(parse_run)


def test_where_all_source_images_train_none_are_shown(finished_run: FinishedRun) -> None:
    report = gather_report(open_run(finished_run("erm_plus_plus"), device="cpu"), images=1)
    assert [each.role for each in report.scores] == ["result"]
    assert all(gallery.title.startswith("sketch: ") for gallery in report.galleries)
    assert report.notes == (
        "Left out: images of the source domains, since all of them train and none is held out.",
    )
    assert report.curve is not None
    steps = [point.step for point in report.curve.points]
    assert steps == sorted(set(steps))  # the second stage goes on counting
    assert report.curve.chosen == steps[-1]


def test_without_the_images_it_says_what_the_run_recorded(copy: Path) -> None:
    edit(copy / "config.json", lambda config: config["data"].update(benchmark="/nowhere/at/all"))
    report = gather_report(open_run(without_digests(copy), device="cpu"))
    result = json.loads((copy / "result.json").read_text())
    assert report.galleries == ()
    assert [(s.domain, s.correct) for s in report.scores] == [
        ("sketch", result["target"]["correct"]),
        *((name, value["correct"]) for name, value in result["validation"].items()),
    ]
    assert all(each.confusion is None for each in report.scores)
    (note,) = report.notes
    assert note.startswith("Left out: images")
    assert "/nowhere/at/all" in note
    assert report.compositions  # the model needs no images
    assert "as recorded by the run" in report_page(report)


def test_other_images_than_then_are_not_looked_at(copy: Path) -> None:
    edit(copy / "split.json", lambda split: split["benchmark"].update(fingerprint="0" * 64))
    (note,) = gather_report(open_run(without_digests(copy), device="cpu")).notes
    assert "is a run on other images" in note


def test_another_model_file_is_named(copy: Path) -> None:
    small, _ = compact(load_model(copy))
    save_model(copy / "compact.safetensors", small.spec, dict(small.algorithm.state_dict()))
    report = gather_report(open_run(copy, model=copy / "compact.safetensors", device="cpu"), images=1)
    assert report.notes == (
        "The result is of the run's own weights; all that follows it is of compact.safetensors.",
    )
    assert "compact already" in report.compaction[0].notes[0]
    assert "(compact)" in dict(report.facts)["model"]


def test_a_result_that_no_longer_holds_is_said(copy: Path) -> None:
    right = json.loads((copy / "result.json").read_text())["target"]["correct"] + 3
    edit(copy / "result.json", lambda result: result["target"].update(correct=right, accuracy=right / 40))
    (note,) = gather_report(open_run(copy, device="cpu"), images=0).notes
    assert note.startswith(f"The run recorded {right} of 40 images")


def test_the_course_is_that_of_the_checks(parse_run: Path, parse_report: Report) -> None:
    assert parse_report.curve is not None
    lines = [json.loads(line) for line in (parse_run / "metrics.jsonl").read_text().splitlines()]
    assert [point.step for point in parse_report.curve.points] == [line["step"] for line in lines] == [2, 4]
    means = [point.mean for point in parse_report.curve.points]
    assert means == pytest.approx([np.mean([v["accuracy"] for v in line["validation"].values()]) for line in lines])


def test_what_cannot_be_reported_is_one_line(copy: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--images must be 0 or more, found -1"):
        gather_report(open_run(copy, device="cpu"), images=-1)
    with pytest.raises(InputError, match="is not a run"):
        gather_report(open_run(tmp_path, device="cpu"))
    edit(copy / "result.json", lambda result: result.update(protocol=3))
    with pytest.raises(InputError, match=r"result\.json is not what a run writes"):
        gather_report(open_run(copy, device="cpu"), images=0)
    (copy / "result.json").unlink()
    with pytest.raises(InputError, match="is not finished"):
        gather_report(open_run(copy, device="cpu"))
