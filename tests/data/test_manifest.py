"""The manifest: every file opened once, in order, and the same wherever it lies."""

import hashlib
import os
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from parse_dg.data import manifest as module
from parse_dg.data.intake.own import list_own
from parse_dg.data.listing import Listing, Problem
from parse_dg.data.manifest import Manifest, index, signature, verify
from tests.data.intake.test_library import plant
from tests.parts import refusal

DOMAINS, CLASSES = ("art", "photo"), ("cat", "dog", "emu")


def build(root: Path) -> Listing:
    """Two domains, three classes, two images of each, on disk."""
    listing = list_own(plant(root, DOMAINS, CLASSES))
    return replace(listing, skipped=(Problem("readme.txt", "no image"),), notes=("A note.",))


@pytest.fixture
def listing(tmp_path: Path) -> Listing:
    return build(tmp_path / "data")


@pytest.fixture
def manifest(listing: Listing) -> Manifest:
    return index("mine", listing, workers=2)


def test_everything_that_was_listed_is_in_the_manifest(listing: Listing, manifest: Manifest) -> None:
    assert (manifest.name, manifest.root, manifest.layout) == ("mine", listing.root, listing.layout)
    assert (manifest.domains, manifest.classes) == (DOMAINS, CLASSES)
    assert (manifest.skipped, manifest.notes, manifest.unreadable) == (listing.skipped, listing.notes, ())
    assert [image[:4] for image in manifest.images] == [tuple(image) for image in listing.images]
    for image in manifest.images:
        data = (listing.root / image.path).read_bytes()
        assert (image.bytes, image.digest) == (len(data), hashlib.sha256(data).hexdigest())
        assert (image.width, image.height) == (8, 6)
    assert manifest.counts == {"art": 6, "photo": 6}


def test_what_cannot_be_read_is_named_and_the_rest_kept(listing: Listing) -> None:
    (listing.root / "art/cat/1.png").write_bytes(b"")
    (listing.root / "photo/dog/0.png").unlink()
    cut = (listing.root / "photo/emu/1.png").read_bytes()[:100]
    (listing.root / "photo/emu/1.png").write_bytes(cut)
    manifest = index("mine", listing)
    assert manifest.unreadable == (
        Problem("art/cat/1.png", "it is empty"),
        Problem("photo/dog/0.png", "no such file or directory"),
        Problem("photo/emu/1.png", "it is cut short"),
    )
    assert len(manifest.images) == 9
    assert manifest.counts == {"art": 5, "photo": 4}
    kept = index("mine", listing, keep_truncated=True)
    assert kept.keep_truncated
    assert "photo/emu/1.png" in {image.path for image in kept.images}


def test_a_domain_of_which_nothing_can_be_read_is_refused(listing: Listing) -> None:
    for image in listing.images[6:]:
        (listing.root / image.path).write_bytes(b"nothing")
    expected = r"no image of domain 'photo' of mine can be read, the first is .*photo/cat/0.png: it is no JPEG"
    assert re.search(expected, refusal(index, "mine", listing))


@pytest.mark.parametrize("workers", [1, 3])
def test_the_order_does_not_depend_on_the_threads(
    workers: int | None, listing: Listing, manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = module.read_file

    def uneven(path: Path) -> bytes:
        time.sleep(0.01 * (1 - int(path.stem)))  # the first of each class is slow
        return read(path)

    monkeypatch.setattr(module, "read_file", uneven)
    assert index("mine", listing, workers=workers) == manifest


def test_the_fingerprint_is_of_the_files_not_of_where_they_are(manifest: Manifest, tmp_path: Path) -> None:
    moved = index("other name", build(tmp_path / "elsewhere"))
    assert moved.fingerprint == manifest.fingerprint
    assert len(manifest.fingerprint) == 64


def test_the_fingerprint_changes_with_everything_it_is_of(manifest: Manifest) -> None:
    first, *rest = manifest.images
    others = [
        replace(manifest, domains=("art", "sketch")),
        replace(manifest, classes=("cat", "dog", "fox")),
        replace(manifest, images=(*rest, first)),
        replace(manifest, images=tuple(rest)),
        *(
            replace(manifest, images=(first._replace(**change), *rest))
            for change in ({"path": "x"}, {"domain": 1}, {"label": 1}, {"digest": "0" * 64})
        ),
    ]
    assert len({manifest.fingerprint, *(other.fingerprint for other in others)}) == len(others) + 1


def test_a_signature_changes_with_the_files_and_the_list(listing: Listing, tmp_path: Path) -> None:
    before = signature(listing)
    assert signature(listing) == before
    first, *rest = listing.images
    assert signature(replace(listing, images=(first._replace(label=1), *rest))) != before
    assert signature(replace(listing, domains=("a", "b"))) != before
    path = listing.root / first.path
    content, status = path.read_bytes(), path.stat()
    path.write_bytes(content + b"x")
    longer = signature(listing)
    path.unlink()
    missing = signature(listing)
    path.write_bytes(content)
    assert len({before, longer, missing, signature(listing)}) == 4  # the last: written later
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert signature(listing) == before


def test_verifying_names_what_is_missing_or_changed(manifest: Manifest) -> None:
    steps: list[int] = []
    assert verify(manifest, lambda what, done, total: steps.append(done)) == ()
    assert steps == list(range(1, 13))
    first, second, third = (manifest.root / image.path for image in manifest.images[:3])
    size = first.stat().st_size
    first.write_bytes(first.read_bytes() + b"x")
    second.write_bytes(second.read_bytes()[:-1] + b"x")
    third.unlink()
    assert verify(manifest) == (
        Problem("art/cat/0.png", f"it has changed: {size + 1} bytes, {size} when it was indexed"),
        Problem("art/cat/1.png", "it has changed: other bytes than when it was indexed"),
        Problem("art/dog/0.png", "no such file or directory"),
    )
