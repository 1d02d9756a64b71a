"""What is said of a data set: counts beside the published ones, and every file that needs a word, by name."""

from dataclasses import replace
from pathlib import Path

import pytest

from parse_dg.data.intake.report import NAMED, describe_data
from parse_dg.data.listing import Problem
from parse_dg.data.manifest import Manifest, ManifestImage


def image(path: str, domain: int = 0, label: int = 0, digest: str | None = None) -> ManifestImage:
    return ManifestImage(path, domain, label, path, 8, 6, 100, digest or f"digest of {path}")


def manifest(*images: ManifestImage, name: str = "mine") -> Manifest:
    return Manifest(name, Path("/data"), "folders", ("day", "night"), ("cat", "owl"), images)


def test_of_an_unknown_data_set_nothing_is_published() -> None:
    report = describe_data(manifest(image("a"), image("b", 1), image("c", 1)))
    assert [tuple(vars(row).values()) for row in report.domains] == [("day", 1, None), ("night", 2, None)]
    assert (report.differences, report.remarks, report.changed) == ((), (), ())
    assert report.changed_in_words == ""


def test_of_many_files_some_are_named_and_all_are_counted() -> None:
    problems = tuple(Problem(f"{n}.png", "it is empty") for n in range(1234))
    (remark,) = describe_data(replace(manifest(image("a")), unreadable=problems)).remarks
    assert remark.startswith("1,234 files unreadable and left out: 0.png (it is empty); 1.png (it is empty); ")
    assert remark.endswith(f"; {NAMED - 1}.png (it is empty) and {1234 - NAMED:,} more")
    (remark,) = describe_data(replace(manifest(image("a")), skipped=problems)).remarks
    named = "; ".join(f"{n}.png" for n in range(8))
    assert remark == f"1,234 files passed over, it is empty: {named} and 1,226 more"
    (remark,) = describe_data(replace(manifest(image("a")), unreadable=problems[:NAMED])).remarks
    assert remark.endswith("(it is empty)")


def test_what_is_passed_over_is_grouped_by_its_reason() -> None:
    skipped = (Problem("a.txt", "no image"), Problem("b", "a link"), Problem("c.txt", "no image"))
    found = replace(manifest(image("a")), skipped=skipped, notes=("A note.",))
    assert describe_data(found).remarks == (
        "2 files passed over, no image: a.txt; c.txt",
        "1 file passed over, a link: b",
        "A note.",
    )


def test_duplicates_by_how_much_they_matter() -> None:
    found = manifest(
        *(image("day/cat/1", 0, 0, "x"), image("day/cat/2", 0, 0, "x")),
        *(image("day/cat/3", 0, 0, "y"), image("day/owl/3", 0, 1, "y")),
        *(image("day/cat/4", 0, 0, "z"), image("night/owl/4", 1, 1, "z"), image("night/owl/5", 1, 1, "z")),
    )
    assert describe_data(found).remarks == (
        "3 images more than once (1 in two domains, so that a target has images of a source; 1 in two classes of a "
        "domain; 1 twice in one class), such as day/cat/4 = night/owl/4 = night/owl/5",
    )


def test_a_file_of_two_classes_is_no_duplicate() -> None:
    found = manifest(image("day/1", 0, 0), image("day/1", 0, 1), image("night/1", 1))
    assert describe_data(found).remarks == ("1 file of several classes, an image of each: day/1 (cat, owl)",)


@pytest.mark.parametrize("name", ["new\nline.png", "\x1b[2J.png", "\udcff.png"])
def test_no_name_breaks_a_line(name: str) -> None:
    found = replace(
        manifest(image(name, 0, 0, "x"), image(name, 0, 1, "x"), image(f"{name}2", 1, 0, "x")),
        unreadable=(Problem(name, "it is empty"),),
        skipped=(Problem(name, "a link"),),
    )
    report = describe_data(found, (Problem(name, "it is gone"),))
    sentences = (*report.remarks, report.changed_in_words)
    assert len(sentences) == 5
    for sentence in sentences:
        assert sentence.isprintable()
        assert ".png" in sentence
