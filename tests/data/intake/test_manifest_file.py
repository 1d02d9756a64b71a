"""The file of a manifest, which is never taken on trust when it is read."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from parse_dg.data.intake.manifest_file import read_header, read_manifest, write_manifest
from parse_dg.data.listing import Problem
from parse_dg.data.manifest import Manifest, ManifestImage
from tests.parts import refusal

DOMAINS, CLASSES = ("art", "photo"), ("cat", "dog", "emu")


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    """Two domains, three classes, two images of each."""
    paths = [f"{domain}/{name}/{number}.png" for domain in DOMAINS for name in CLASSES for number in range(2)]
    digests = [hashlib.sha256(path.encode()).hexdigest() for path in paths]
    images = tuple(
        ManifestImage(path, n // 6, n // 2 % 3, path[4:-4], 8, 6, 100 + n, digests[n])
        for n, path in enumerate(paths)
    )
    unreadable, skipped = (Problem("art/cat/2.png", "it is empty"),), (Problem("readme.txt", "no image"),)
    root = tmp_path / "data"
    return Manifest("mine", root, "folders", DOMAINS, CLASSES, images, unreadable, skipped, ("A note.",))


@pytest.fixture
def written(manifest: Manifest, tmp_path: Path) -> Path:
    """The manifest as a file."""
    path = tmp_path / "manifest.jsonl"
    write_manifest(manifest, path)
    return path


def test_what_is_read_is_what_was_written(manifest: Manifest, written: Path) -> None:
    assert read_manifest(written) == manifest
    lines = written.read_text().splitlines()
    assert len(lines) == 13
    assert json.loads(lines[0])["counts"] == {"art": 6, "photo": 6}
    assert json.loads(lines[1]) == list(manifest.images[0])


def change(path: Path, line: int, values: dict[str, Any]) -> None:
    """Replaces values of the header (line 1) or of an image in a manifest."""
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    for name, value in values.items():
        lines[line - 1][name if line == 1 else ManifestImage._fields.index(name)] = value
    path.write_text("".join(json.dumps(text) + "\n" for text in lines))


@pytest.mark.parametrize(
    ("line", "values", "what"),
    [
        (1, {"format": 2}, "line 1: it has format 2, this version reads format 1"),
        (1, {"domains": ["art"]}, "line 8: expected a domain below 1 and a label below 3, found 1 and 0"),
        (1, {"domains": ["art", "art"]}, "line 1: domains must be names, none of them twice"),
        (1, {"keep_truncated": 1}, "line 1: keep_truncated must be true or false, found 1"),
        (1, {"counts": {"art": 6, "photo": 7}}, "line 1: its counts are not those of the 12 images below"),
        (1, {"fingerprint": "0" * 64}, "line 1: its fingerprint is not that of the images"),
        (1, {"name": "yours"}, "line 1: its checksum is not that of the file"),
        (1, {"layout": None}, "line 1: layout must be text"),
        (5, {"path": "../x.png"}, "line 5: expected a path inside the root, found ../x.png"),
        (5, {"path": "/etc/passwd"}, "line 5: expected a path inside the root, found /etc/passwd"),
        (5, {"path": "a\0b"}, r"line 5: expected a path inside the root, found 'a\\x00b'"),
        (5, {"path": "art/cat/0.png"}, "line 5: art/cat/0.png is there twice"),
        (5, {"label": -1}, "line 5: expected a domain below 2 and a label below 3, found 0 and -1"),
        (5, {"label": True}, "line 5: expected a list of path, domain"),
        (5, {"width": 0}, "line 5: expected a width"),
        (5, {"digest": "0" * 64}, "line 1: its fingerprint"),
        (5, {"width": 9}, "line 1: its checksum"),
    ],
)
def test_a_changed_value_is_refused_with_its_line(
    line: int, values: dict[str, Any], what: str, written: Path
) -> None:
    change(written, line, values)
    assert re.search(rf"manifest.jsonl, {what}.*; index the data set again", refusal(read_manifest, written))


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "it is empty"),
        (b"\n", "line 1: no JSON"),
        (b"{}\n", "line 1: expected the description of a data set"),
        (b"[" * 100_000 + b"\n", "line 1: no JSON"),
        (b'{"format": 1}', "line 1: it is cut short"),
    ],
)
def test_what_is_no_manifest_is_refused(data: bytes, what: str, tmp_path: Path) -> None:
    path = tmp_path / "manifest.jsonl"
    path.write_bytes(data)
    assert re.search(rf"manifest.jsonl(:|,) {what}", refusal(read_manifest, path))


def test_a_manifest_that_is_cut_short_is_refused(written: Path) -> None:
    data = written.read_bytes()
    for end in range(0, len(data), 97):
        written.write_bytes(data[:end])
        assert "manifest.jsonl" in refusal(read_manifest, written)


def test_a_summary_is_what_the_manifest_says(manifest: Manifest, written: Path) -> None:
    found = read_header(written)
    assert (found.name, found.root, found.fingerprint) == ("mine", str(manifest.root), manifest.fingerprint)
    assert (found.domains, found.classes, found.images) == (DOMAINS, CLASSES, 12)
