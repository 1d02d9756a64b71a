"""What is known of a data set on disk after every file was opened once, kept as a file of JSON lines.

The first line describes the data set, each line after it one image. Nothing in it is executed, and nothing is taken
on trust when it is read: a manifest that is cut short, edited or damaged is refused with the line.
"""

import hashlib
import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from parse_dg.data.images import ImageError, open_bytes, printable, read_file
from parse_dg.data.listing import ListedImage, Listing, Problem, Progress
from parse_dg.data.parallel import map_ahead
from parse_dg.errors import InputError

FORMAT = 1
"""Raised when an older reader could no longer understand the file."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class ManifestImage(NamedTuple):
    """A file that holds an image."""

    path: str
    """Relative to the root, with forward slashes."""
    domain: int
    label: int
    id: str
    """What is shown: two renderings of one photo in two domains have the same id."""
    width: int
    """Of the original, upright, in pixels; so is the height."""
    height: int
    bytes: int
    digest: str
    """The SHA-256 of the file, in hexadecimal digits."""


class Duplicates(NamedTuple):
    """Several files with the very same bytes."""

    images: tuple[ManifestImage, ...]
    across_domains: bool
    """Then a target has images of a source: accuracy on it says too much."""
    across_classes: bool


@dataclass(frozen=True)
class Manifest:
    """Every image of a data set that can be used, in the order of its listing, and what cannot be used."""

    name: str
    root: Path
    layout: str
    domains: tuple[str, ...]
    classes: tuple[str, ...]
    images: tuple[ManifestImage, ...]
    unreadable: tuple[Problem, ...] = ()
    skipped: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    keep_truncated: bool = False
    """Whether files that end too early are among the images."""

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the domains, the classes and every file's place and content; the same wherever the root is."""
        rows = (f"{image.path}\0{image.domain}\0{image.label}\0{image.digest}\n" for image in self.images)
        return _hash(self.domains, self.classes, rows)

    @property
    def counts(self) -> dict[str, int]:
        """How many images each domain has."""
        found = Counter(image.domain for image in self.images)
        return {name: found[number] for number, name in enumerate(self.domains)}

    @property
    def class_counts(self) -> dict[str, int]:
        """How many images each class has, in all domains."""
        found = Counter(image.label for image in self.images)
        return {name: found[number] for number, name in enumerate(self.classes)}

    @property
    def duplicates(self) -> tuple[Duplicates, ...]:
        """Groups of files with the same content, in the order of their first; a file is no duplicate of itself."""
        groups: dict[str, list[ManifestImage]] = defaultdict(list)
        for image in self.images:
            groups[image.digest].append(image)
        return tuple(
            Duplicates(tuple(group), len({i.domain for i in group}) > 1, len({i.label for i in group}) > 1)
            for group in groups.values()
            if len({image.path for image in group}) > 1
        )

    @property
    def several_classes(self) -> dict[str, tuple[str, ...]]:
        """The files that are an image of more than one class (TerraIncognita has some), and those classes."""
        classes: dict[str, list[str]] = defaultdict(list)
        for image in self.images:
            classes[image.path].append(self.classes[image.label])
        return {path: tuple(names) for path, names in classes.items() if len(names) > 1}

    @property
    def files(self) -> int:
        """How many files there are: fewer than images where some have several classes."""
        return len({image.path for image in self.images})


def index(
    name: str,
    listing: Listing,
    *,
    keep_truncated: bool = False,
    progress: Progress | None = None,
    workers: int | None = None,
) -> Manifest:
    """Opens every listed file once, hashes and decodes it; what cannot be decoded is left out and named."""

    def look(listed: ListedImage) -> ManifestImage | Problem:
        path = listing.root / listed.path
        try:
            data = read_file(path)
            width, height = open_bytes(data, path, keep_truncated).size
        except ImageError as error:
            return Problem(listed.path, error.reason)
        return ManifestImage(*listed, width, height, len(data), hashlib.sha256(data).hexdigest())

    found = _each(look, listing.images, f"reading {name}", progress, workers)
    manifest = Manifest(
        name,
        listing.root.absolute(),
        listing.layout,
        listing.domains,
        listing.classes,
        tuple(image for image in found if isinstance(image, ManifestImage)),
        tuple(dict.fromkeys(problem for problem in found if isinstance(problem, Problem))),
        listing.skipped,
        listing.notes,
        keep_truncated,
    )
    _require_images(manifest, listing)
    return manifest


def _require_images(manifest: Manifest, listing: Listing) -> None:
    """Refuses a data set of which nothing, or a whole domain, can be read."""
    empty = [number for number, count in enumerate(manifest.counts.values()) if not count]
    if not empty and manifest.images:
        return
    whose = f"domain {manifest.domains[empty[0]]!r} of {manifest.name}" if manifest.images else manifest.name
    unreadable = dict(manifest.unreadable)
    lost = [image for image in listing.images if image.path in unreadable and image.domain in empty]
    if not lost:
        raise InputError(f"{whose} has no images in {printable(str(manifest.root))}")
    path = printable(str(manifest.root / lost[0].path))
    raise InputError(f"no image of {whose} can be read, the first is {path}: {unreadable[lost[0].path]}")


def verify(
    manifest: Manifest, progress: Progress | None = None, *, workers: int | None = None
) -> tuple[Problem, ...]:
    """The files that are no longer what they were when they were indexed; reads every file once."""

    def check(image: ManifestImage) -> Problem | None:
        try:
            data = read_file(manifest.root / image.path)
        except ImageError as error:
            return Problem(image.path, error.reason)
        if len(data) != image.bytes:
            return Problem(image.path, f"it has changed: {len(data):,} bytes, {image.bytes:,} when it was indexed")
        if hashlib.sha256(data).hexdigest() != image.digest:
            return Problem(image.path, "it has changed: other bytes than when it was indexed")
        return None

    files = tuple({image.path: image for image in manifest.images}.values())
    found = _each(check, files, f"checking {manifest.name}", progress, workers)
    return tuple(problem for problem in found if problem is not None)


def signature(listing: Listing) -> str:
    """Hash of what is listed, and of every file's size and time of change: cheap, as no file is opened."""

    def row(image: ListedImage) -> str:
        try:
            status = (listing.root / image.path).stat()
        except (OSError, ValueError):
            return "\0".join(map(str, image)) + "\0missing\n"
        return "\0".join(map(str, (*image, status.st_size, status.st_mtime_ns))) + "\n"

    return _hash(listing.domains, listing.classes, map(row, listing.images))


def _hash(domains: Sequence[str], classes: Sequence[str], rows: Iterable[str]) -> str:
    digest = hashlib.sha256(json.dumps([list(domains), list(classes)]).encode())
    for row in rows:
        digest.update(row.encode("utf-8", "surrogatepass"))  # a name on disk need not be UTF-8
    return digest.hexdigest()


def _each(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    what: str,
    progress: Progress | None,
    workers: int | None,
) -> list[Result]:
    """The function of every item, in order, by threads: Pillow and the hash let each other run."""
    results: list[Result] = []
    for result in map_ahead(function, items, workers):
        results.append(result)
        if progress:
            progress(what, len(results), len(items))
    return results


# The file. Names are written in ASCII with escapes: a name on disk that is no UTF-8 comes back as it was.

_encode = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode
_DIGEST = re.compile("[0-9a-f]{64}")
_TYPES = (str, int, int, str, int, int, int, str)
"""Of the eight values of an image."""


def write_manifest(manifest: Manifest, path: Path) -> None:
    """Write the manifest under a temporary name, then rename: the file is whole or not there.

    An `OSError` is left to the caller, who knows which setting names the folder.
    """
    lines = [_encode(image).encode() for image in manifest.images]
    header: dict[str, Any] = {
        "format": FORMAT,
        "name": manifest.name,
        "root": str(manifest.root),
        "layout": manifest.layout,
        "domains": manifest.domains,
        "classes": manifest.classes,
        "unreadable": manifest.unreadable,
        "skipped": manifest.skipped,
        "notes": manifest.notes,
        "keep_truncated": manifest.keep_truncated,
        "counts": manifest.counts,
        "fingerprint": manifest.fingerprint,
    }
    header["checksum"] = _checksum(header, lines)
    temporary = path.with_name(f"{path.name}.writing-{os.getpid()}")
    try:
        temporary.write_bytes(b"\n".join([_encode(header).encode(), *lines, b""]))
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def _checksum(header: dict[str, Any], lines: Sequence[bytes]) -> str:
    """Hash of the whole file but itself, so that a change is noticed that no other check can see."""
    digest = hashlib.sha256(_encode(header).encode())
    for line in lines:
        digest.update(b"\n" + line)
    return digest.hexdigest()


def read_manifest(path: Path) -> Manifest:
    """The manifest of a file, every value of it checked."""
    lines = read_file(path).split(b"\n")
    if lines.pop():
        raise _error(path, len(lines) + 1, "it is cut short, expected the end of a line")
    header = _header(path, lines[0])
    checksum = header.pop("checksum")
    images: dict[tuple[str, int], ManifestImage] = {}
    files: dict[str, ManifestImage] = {}
    for number, line in enumerate(lines[1:], 2):
        image = _image(path, number, line, len(header["domains"]), len(header["classes"]))
        same = files.setdefault(image.path, image)  # a file may have several classes, and no more than that
        if (image.path, image.label) in images or image._replace(label=same.label, id=same.id) != same:
            raise _error(path, number, f"{printable(image.path)} is there twice")
        images[image.path, image.label] = image
    manifest = Manifest(
        header["name"],
        Path(header["root"]),
        header["layout"],
        tuple(header["domains"]),
        tuple(header["classes"]),
        tuple(images.values()),
        tuple(Problem(*problem) for problem in header["unreadable"]),
        tuple(Problem(*problem) for problem in header["skipped"]),
        tuple(header["notes"]),
        header["keep_truncated"],
    )
    if header["counts"] != manifest.counts:
        raise _error(path, 1, f"its counts are not those of the {len(images)} images below")
    if header["fingerprint"] != manifest.fingerprint:
        raise _error(path, 1, "its fingerprint is not that of the images below")
    if checksum != _checksum(header, lines[1:]):
        raise _error(path, 1, "its checksum is not that of the file: it was changed after it was written")
    return manifest


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
    if not _lies_inside(image.path):
        raise _error(path, number, f"expected a path inside the root, found {printable(image.path)[:200]}")
    if not (0 <= image.domain < domains and 0 <= image.label < classes):
        found = f"{image.domain} and {image.label}"[:40]
        raise _error(path, number, f"expected a domain below {domains} and a label below {classes}, found {found}")
    if min(image.width, image.height, image.bytes) < 1 or not _DIGEST.fullmatch(image.digest):
        raise _error(path, number, "expected a width, a height, bytes above zero and a SHA-256")
    return image


def _lies_inside(path: str) -> bool:
    local = path.replace(os.sep, "/")
    outside = local.startswith("/") or os.path.splitdrive(path)[0] or ".." in local.split("/")
    return bool(local) and not outside and "\0" not in local


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _names(value: Any) -> bool:
    return _texts(value) and 0 < len(value) == len(set(value))


def _problems(value: Any) -> bool:
    return isinstance(value, list) and all(_texts(problem) and len(problem) == 2 for problem in value)


def _counts(value: Any) -> bool:
    return isinstance(value, dict) and all(type(count) is int for count in value.values())


def _is(kind: type) -> Callable[[Any], bool]:
    return lambda value: type(value) is kind


def _sha(value: Any) -> bool:
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


_HEADER: dict[str, Callable[[Any], bool]] = {
    "format": _is(int),
    "name": _is(str),
    "root": _is(str),
    "layout": _is(str),
    "domains": _names,
    "classes": _names,
    "unreadable": _problems,
    "skipped": _problems,
    "notes": _texts,
    "keep_truncated": _is(bool),
    "counts": _counts,
    "fingerprint": _sha,
    "checksum": _sha,
}
"""What the first line holds, and how each value is checked."""


def _header(path: Path, line: bytes) -> dict[str, Any]:
    header = _json(path, 1, line)
    if not isinstance(header, dict) or "format" not in header:
        raise _error(path, 1, "expected the description of a data set: it is no manifest")
    if header["format"] != FORMAT:
        found = printable(str(header["format"]))[:20]
        raise _error(path, 1, f"it has format {found}, this version reads format {FORMAT}")
    if set(header) != set(_HEADER):
        raise _error(path, 1, f"expected the entries {', '.join(_HEADER)}")
    for name, check in _HEADER.items():
        if not check(header[name]):
            raise _error(path, 1, f"its entry {name!r} is damaged")
    return header
