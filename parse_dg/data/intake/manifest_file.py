"""A manifest as a file of JSON lines: the first describes the data set, each one after it an image.

Nothing in it is executed, and nothing is taken on trust when it is read: a manifest that is cut short, edited or
damaged is refused with the line. Names are written in ASCII with escapes, so that a name on disk that is no UTF-8
comes back as it was.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from parse_dg.data.images import read_file
from parse_dg.data.listing import Problem
from parse_dg.data.manifest import Manifest, ManifestImage
from parse_dg.errors import InputError
from parse_dg.files import write_file
from parse_dg.jsonable import Jsonable
from parse_dg.wording import printable

FORMAT = 1  # raised when an older reader could no longer understand the file

_encode = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode
_DIGEST = re.compile("[0-9a-f]{64}")
_TYPES = (str, int, int, str, int, int, int, str)  # of the eight values of an image


@dataclass(frozen=True, kw_only=True)
class ManifestHeader(Jsonable):
    """The first line of the file."""

    format: int
    name: str
    root: str
    layout: str
    domains: tuple[str, ...]
    classes: tuple[str, ...]
    unreadable: tuple[tuple[str, str], ...]
    skipped: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    keep_truncated: bool
    counts: Mapping[str, int]
    fingerprint: str
    checksum: str  # of all of the file but itself, so that a change is noticed that no other check can see

    @property
    def images(self) -> int:
        return sum(self.counts.values())


_SAME = ("name", "layout", "domains", "classes", "notes", "keep_truncated")  # to a manifest and its header


def write_manifest(manifest: Manifest, path: Path) -> None:
    """Write the manifest. An `OSError` is left to the caller, who knows which setting names the folder."""
    lines = [_encode(image).encode() for image in manifest.images]
    same = (*_SAME, "unreadable", "skipped", "counts", "fingerprint")
    values = {name: getattr(manifest, name) for name in same}
    header = ManifestHeader(format=FORMAT, root=str(manifest.root), checksum="", **values)
    first = header.to_dict() | {"checksum": _checksum(header, lines)}
    write_file(path, b"\n".join([_encode(first).encode(), *lines, b""]), shared=True)


def _checksum(header: ManifestHeader, lines: Sequence[bytes]) -> str:
    data = header.to_dict()
    del data["checksum"]
    digest = hashlib.sha256(_encode(data).encode())
    for line in lines:
        digest.update(b"\n" + line)
    return digest.hexdigest()


def read_manifest(path: Path) -> Manifest:
    """The manifest of a file, every value of it checked."""
    lines = read_file(path).split(b"\n")
    if lines.pop():
        raise _error(path, len(lines) + 1, "it is cut short, expected the end of a line")
    header = _header(path, lines[0])
    images: dict[tuple[str, int], ManifestImage] = {}
    files: dict[str, ManifestImage] = {}
    for number, line in enumerate(lines[1:], 2):
        image = _image(path, number, line, len(header.domains), len(header.classes))
        same = files.setdefault(image.path, image)  # a file may have several classes, and no more than that
        if (image.path, image.label) in images or image._replace(label=same.label, id=same.id) != same:
            raise _error(path, number, f"{printable(image.path)} is there twice")
        images[image.path, image.label] = image
    unreadable, skipped = (tuple(Problem(*each) for each in some) for some in (header.unreadable, header.skipped))
    manifest = Manifest(
        root=Path(header.root), images=tuple(images.values()), unreadable=unreadable, skipped=skipped,
        **{name: getattr(header, name) for name in _SAME},
    )  # fmt: skip
    if header.counts != manifest.counts:
        raise _error(path, 1, f"its counts are not those of the {len(images)} images below")
    if header.fingerprint != manifest.fingerprint:
        raise _error(path, 1, "its fingerprint is not that of the images below")
    if header.checksum != _checksum(header, lines[1:]):
        raise _error(path, 1, "its checksum is not that of the file: it was changed after it was written")
    return manifest


def read_header(path: Path) -> ManifestHeader:
    """What a manifest says of its data set, by its first line alone: quick, and not checked against the images."""
    line = read_file(path, first_line=True)
    if not line.endswith(b"\n"):
        raise _error(path, 1, "it is cut short, expected the end of a line")
    header = _header(path, line)
    if header.counts.keys() != set(header.domains) or min(header.counts.values()) < 0:
        raise _error(path, 1, "its counts are not those of its domains")
    return header


def _error(path: Path, line: int, what: str) -> InputError:
    return InputError(f"{printable(str(path))}, line {line}: {what}; index the data set again")


def _json(path: Path, number: int, line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _error(path, number, f"no JSON ({printable(str(error))[:80]})") from error


def _image(path: Path, number: int, line: bytes, domains: int, classes: int) -> ManifestImage:
    values = _json(path, number, line)
    if not isinstance(values, list) or tuple(map(type, values)) != _TYPES:
        raise _error(path, number, f"expected a list of {', '.join(ManifestImage._fields)}")
    image = ManifestImage(*values)
    place = PurePath(image.path)
    if not place.parts or place.anchor or ".." in place.parts or "\0" in image.path:
        raise _error(path, number, f"expected a path inside the root, found {printable(image.path)[:200]}")
    if not (0 <= image.domain < domains and 0 <= image.label < classes):
        found = f"{image.domain} and {image.label}"[:40]
        raise _error(path, number, f"expected a domain below {domains} and a label below {classes}, found {found}")
    if min(image.width, image.height, image.bytes) < 1 or not _DIGEST.fullmatch(image.digest):
        raise _error(path, number, "expected a width, a height, bytes above zero and a SHA-256")
    return image


def _header(path: Path, line: bytes) -> ManifestHeader:
    data = _json(path, 1, line)
    if not isinstance(data, dict) or "format" not in data:
        raise _error(path, 1, "expected the description of a data set: it is no manifest")
    if data["format"] != FORMAT:
        found = printable(str(data["format"]))[:20]
        raise _error(path, 1, f"it has format {found}, this version reads format {FORMAT}")
    try:
        header = ManifestHeader.from_dict(data)
    except InputError as error:
        raise _error(path, 1, printable(str(error))) from error
    for name in ("domains", "classes"):
        if not 0 < len(names := getattr(header, name)) == len(set(names)):
            raise _error(path, 1, f"{name} must be names, none of them twice")
    if not _DIGEST.fullmatch(header.fingerprint):
        raise _error(path, 1, "fingerprint must be a SHA-256")
    return header
