"""`parse-dg describe`: what is printed of the sentences of a trained GVRT."""

import json
from pathlib import Path

import pytest
from PIL import Image

from parse_dg.runs.afterwards.describe import describe_domain, describe_files
from parse_dg.runs.afterwards.opened import open_run
from tests.cli.conftest import Run, assert_refused
from tests.conftest import FinishedRun


@pytest.fixture
def gvrt_run(finished_run: FinishedRun) -> Path:
    return finished_run("gvrt")


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "a [bold] picture.png"
    Image.new("RGB", (80, 70), "orange").save(path)
    return path


def test_images_of_the_target_in_text(run: Run, gvrt_run: Path) -> None:
    said = run("describe", gvrt_run, "--count", 3)
    assert (said.code, said.err) == (0, "")
    blocks = said.out.rstrip("\n").split("\n\n")
    assert said.out.endswith("\n")
    expected = describe_domain(open_run(gvrt_run, device="cpu"), None, 3)
    assert len(blocks) == 3
    for block, each in zip(blocks, expected, strict=True):
        assert block.splitlines() == [
            f"sketch, image {each.index}",
            f"  true class: {each.truth}",
            f"  predicted class: {each.predicted}",
            f"  generated: {each.sentence}",
            f"  caption of the data set: {each.captions[0]}",
        ]


def test_a_file_in_text_argued_for_a_class(run: Run, gvrt_run: Path, picture: Path) -> None:
    (plain,) = describe_files(open_run(gvrt_run, device="cpu"), [picture])
    other = "wader" if plain.predicted != "wader" else "digger"
    (argued,) = describe_files(open_run(gvrt_run, device="cpu"), [picture], other)
    said = run("describe", gvrt_run, picture, "--as", other)
    assert said.code == 0
    assert said.out.splitlines() == [
        str(picture),
        f"  predicted class: {plain.predicted}",
        f"  generated, for {other}: {argued.sentence}",
    ]


def test_json(run: Run, gvrt_run: Path, picture: Path) -> None:
    said = run("describe", gvrt_run, "--domain", "photo", "--format", "json")
    found = json.loads(said.out)
    assert len(found) == 8
    first = describe_domain(open_run(gvrt_run, device="cpu"), "photo", 1)[0]
    assert found[0] == {
        "file": None,
        "domain": "photo",
        "index": first.index,
        "truth": "strider",
        "predicted": first.predicted,
        "argued": first.predicted,
        "sentence": first.sentence,
        "captions": list(first.captions),
    }
    (of_file,) = json.loads(run("describe", gvrt_run, picture, "--format", "json").out)
    assert (of_file["file"], of_file["truth"], of_file["captions"]) == (str(picture), None, [])


def test_refusals_are_one_line(run: Run, gvrt_run: Path, erm_run: Path, picture: Path) -> None:
    assert_refused(run("describe", erm_run), "is a run of erm", "gvrt")
    assert_refused(run("describe", gvrt_run, picture, "--count", 2), "image files, or --domain and --count")
    assert_refused(run("describe", gvrt_run, picture, "--domain", "photo"), "not both")
    assert_refused(run("describe", gvrt_run, "--as", "bird"), "unknown class 'bird'", "strider")
    assert_refused(run("describe", picture.parent), "is not a run")
    assert_refused(run("describe", gvrt_run, gvrt_run / "config.json"), "cannot read", "config.json")
