"""Thousands of damaged inputs: no other error than ours, no hang, the file named, the rest usable."""

import queue
import re
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from parse_dg.data.framing import Framing
from parse_dg.data.images import ImageError, decode
from parse_dg.data.intake.lists import read_list
from parse_dg.data.intake.manifest_file import read_manifest, write_manifest
from parse_dg.data.listing import ListedImage, Listing, Problem
from parse_dg.data.manifest import Manifest, index
from parse_dg.errors import InputError
from tests.data.intake.damage import ROWS, Case, broken_manifests, encoded, image_cases, list_cases, picture

pytestmark = pytest.mark.slow

Item = TypeVar("Item")
Result = TypeVar("Result")

IMAGES, LISTS = image_cases(), list_cases()
PATIENCE = 10
"""Seconds for one case: most take a millisecond."""


def watched(function: Callable[[Item], Result], items: Sequence[Item], name: Callable[[Item], str]) -> list[Result]:
    """The function of every item, in a thread that is left behind if it hangs: the item that did is named."""
    done: queue.Queue[Any] = queue.Queue()

    def work() -> None:
        for item in items:
            try:
                done.put(function(item))
            except BaseException as error:
                done.put(error)

    threading.Thread(target=work, daemon=True).start()
    results: list[Result] = []
    for item in items:
        try:
            result = done.get(timeout=PATIENCE)
        except queue.Empty:
            pytest.fail(f"{name(item)!r} hangs")
        if isinstance(result, BaseException):
            raise AssertionError(f"{name(item)!r}: {type(result).__name__}: {result}") from result
        results.append(result)
    return results


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All images in one folder."""
    folder = tmp_path_factory.mktemp("images")
    for case in IMAGES:
        (folder / case.name).write_bytes(case.data)
    return folder


def attempt(case: Case, folder: Path, keep_truncated: bool) -> str | None:
    """Why an image cannot be used; None where it was decoded."""
    try:
        found = decode(folder / case.name, Framing(size=16), keep_truncated)
    except ImageError as error:
        message, reason = str(error), error.reason
    else:
        assert found.shape == (16, 16, 3)
        assert found.dtype == np.uint8
        return None
    assert "\n" not in message
    assert len(reason) < 150
    assert case.name in message or ascii(case.name)[1:-1] in message
    return reason


@pytest.fixture(scope="module")
def reasons(folder: Path) -> dict[str, str | None]:
    """Why each image cannot be used, by name; found one by one."""
    start, before = time.monotonic(), list(warnings.filters)
    found = watched(lambda case: attempt(case, folder, False), IMAGES, lambda case: case.name)
    assert time.monotonic() - start < 60
    assert list(warnings.filters) == before
    return dict(zip((case.name for case in IMAGES), found, strict=True))


def test_every_image_is_used_or_refused_as_it_must_be(reasons: dict[str, str | None]) -> None:
    known = [case for case in IMAGES if case.usable is not None]
    assert [(c.name, reasons[c.name]) for c in known if c.usable != (reasons[c.name] is None)] == []
    undecided = [reasons[case.name] is None for case in IMAGES if case.usable is None]
    assert 0.1 < np.mean(undecided) < 0.9  # damage is neither harmless nor always fatal


def test_with_truncated_files_kept_nothing_else_breaks(reasons: dict[str, str | None], folder: Path) -> None:
    found = watched(lambda case: attempt(case, folder, True), IMAGES, lambda case: case.name)
    pairs = zip(IMAGES, found, strict=True)
    assert [case.name for case, reason in pairs if reason is not None and reasons[case.name] is None] == []
    cut = [case.name for case in IMAGES if reasons[case.name] == "it is cut short"]
    kept = sum(reason is None for reason in found) - sum(reason is None for reason in reasons.values())
    assert len(cut) / 2 < kept <= len(cut) + 40  # some that are cut in the header are no image then either


def test_indexing_keeps_every_good_image_and_names_every_bad_one(
    reasons: dict[str, str | None], folder: Path
) -> None:
    for number in range(20):
        (folder / f"good {number}.png").write_bytes(encoded(picture(number), "PNG"))
    names = [case.name for case in IMAGES]
    for number in range(20):
        names.insert(number * 100, f"good {number}.png")
    listed = tuple(ListedImage(name, number * 2 // len(names), 0, name) for number, name in enumerate(names))
    listing = Listing("a test", folder, ("first", "second"), ("only",), listed)
    start = time.monotonic()
    (manifest,) = watched(lambda each: index("damaged", each, workers=2), [listing], lambda each: "the folder")
    assert time.monotonic() - start < 60
    used = [name for name in names if reasons.get(name) is None]
    assert [image.path for image in manifest.images] == used
    assert dict(manifest.unreadable) == {
        name: reason for name in names if (reason := reasons.get(name)) is not None
    }
    sizes = {image.path: (image.width, image.height) for image in manifest.images}
    assert all(sizes[f"good {number}.png"] == (32, 24) for number in range(20))
    assert sizes["turned6.jpg"] == (24, 32)


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    folder = tmp_path_factory.mktemp("few")
    listed = []
    for number, name in enumerate(["a/ü.png", "a/2.png", "b/3.png", "b/4 5.png"]):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(encoded(picture(number), "PNG"))
        listed.append(ListedImage(name, number // 2, number % 2, str(number)))
    skipped = (Problem("x.txt", "no image"),)
    return index("few", Listing("a test", folder, ("a", "b"), ("cat", "dog"), tuple(listed), skipped, ("Note.",)))


@pytest.fixture(scope="module")
def broken(manifest: Manifest, tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    path = tmp_path_factory.mktemp("whole") / "manifest.jsonl"
    write_manifest(manifest, path)
    return broken_manifests(path.read_bytes())


def read(reader: Callable[[Path], Result], case: Case, folder: Path) -> Result | str:
    """What is read of a case; or why it is refused, on one line that names the file."""
    path = folder / case.name
    path.write_bytes(case.data)
    try:
        return reader(path)
    except InputError as error:
        message = str(error)
        assert str(path) in message
        assert "\n" not in message
        assert len(message) < len(str(path)) + 350
        return message


def test_a_broken_manifest_is_refused_or_says_what_it_said(
    manifest: Manifest, broken: list[Case], tmp_path: Path
) -> None:
    found = watched(lambda case: read(read_manifest, case, tmp_path), broken, lambda case: f"{case.data[:80]!r}")
    said = [each for each in found if isinstance(each, str)]
    assert all(each == manifest for each in found if not isinstance(each, str))
    assert all(re.search(r"line \d+: |it is empty", message) for message in said)
    assert len(said) > 0.95 * len(broken)
    assert len(broken) > 500


def test_a_list_is_read_as_it_was_meant_or_refused(tmp_path: Path) -> None:
    every = watched(lambda case: read(read_list, case, tmp_path), LISTS, lambda case: case.name)
    for case, found in zip(LISTS, every, strict=True):
        if isinstance(found, str):
            assert case.usable is not True, f"{case.data[:200]!r}: {found}"
        else:
            assert case.usable is not False, case.data[:200]
            check(found, case, tmp_path)


def check(listing: Listing, case: Case, folder: Path) -> None:
    """What was read is in order, and the very rows if the list is whole."""
    order = [(image.domain, image.label) for image in listing.images]
    assert order == sorted(order)
    assert {domain for domain, _ in order} == set(range(len(listing.domains)))
    assert {label for _, label in order} == set(range(len(listing.classes)))
    assert list(listing.domains) == sorted(set(listing.domains))
    assert all(".." not in Path(image.path).parts and image.path[0] != "/" for image in listing.images)
    if case.usable:
        assert listing.root == folder
        rows = [(i.path, listing.domains[i.domain], listing.classes[i.label]) for i in listing.images]
        assert rows == sorted(ROWS, key=lambda row: row[1:])
        assert [image.id for image in listing.images] == [row[0] for row in rows]
