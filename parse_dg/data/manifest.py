"""What is known of a data set on disk after every file was opened once; `manifest_file.py` keeps it."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from parse_dg.data.images import ImageError, open_bytes, read_file
from parse_dg.data.listing import ListedImage, Listing, Problem, Progress, counted
from parse_dg.data.parallel import map_ahead
from parse_dg.errors import InputError
from parse_dg.wording import printable


class ManifestImage(NamedTuple):
    """A file that holds an image."""

    path: str  # relative to the root, with forward slashes
    domain: int
    label: int
    id: str  # what is shown: two renderings of one photo in two domains have the same id
    width: int  # of the original, upright, in pixels; so is the height
    height: int
    bytes: int
    digest: str  # the SHA-256 of the file, in hexadecimal digits


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
    keep_truncated: bool = False  # whether files that end too early are among the images

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the domains, the classes and every file's place and content; the same wherever the root is."""
        rows = (f"{image.path}\0{image.domain}\0{image.label}\0{image.digest}\n" for image in self.images)
        return _hash(self.domains, self.classes, rows)

    @cached_property
    def by_domain(self) -> tuple[tuple[ManifestImage, ...], ...]:
        domains: list[list[ManifestImage]] = [[] for _ in self.domains]
        for image in self.images:
            domains[image.domain].append(image)
        return tuple(map(tuple, domains))

    @property
    def counts(self) -> dict[str, int]:
        return {name: len(images) for name, images in zip(self.domains, self.by_domain, strict=True)}

    @property
    def duplicates(self) -> list[list[ManifestImage]]:
        """Groups of files with the same content, in the order of their first; a file is no duplicate of itself."""
        groups: dict[str, list[ManifestImage]] = defaultdict(list)
        for image in self.images:
            groups[image.digest].append(image)
        return [group for group in groups.values() if len({image.path for image in group}) > 1]

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

    looked_at = map_ahead(look, listing.images, workers)  # by threads: Pillow and the hash let each other run
    found = list(counted(looked_at, f"reading {name}", len(listing.images), progress))
    images = tuple(image for image in found if isinstance(image, ManifestImage))
    unreadable = {problem.path: problem for problem in found if isinstance(problem, Problem)}
    root, problems = listing.root.absolute(), tuple(unreadable.values())
    about = (listing.layout, listing.domains, listing.classes)
    manifest = Manifest(name, root, *about, images, problems, listing.skipped, listing.notes, keep_truncated)
    empty = [number for number, count in enumerate(manifest.counts.values()) if not count]
    if empty or not images:
        whose = f"domain {listing.domains[empty[0]]!r} of {name}" if images else name
        first = next((unreadable[image.path] for image in listing.images if image.domain in empty), None)
        if first is None:
            raise InputError(f"{whose} has no images in {printable(str(root))}")
        path = printable(str(root / first.path))
        raise InputError(f"no image of {whose} can be read, the first is {path}: {first.reason}")
    return manifest


def verify(manifest: Manifest, progress: Progress | None = None) -> tuple[Problem, ...]:
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
    found = counted(map_ahead(check, files), f"checking {manifest.name}", len(files), progress)
    return tuple(problem for problem in found if problem is not None)


def signature(listing: Listing) -> str:
    """Hash of what is listed, and of every file's size and time of change: cheap, as no file is opened."""

    def row(image: ListedImage) -> str:
        try:
            status = (listing.root / image.path).stat()
            now: tuple[object, ...] = (status.st_size, status.st_mtime_ns)
        except (OSError, ValueError):
            now = ("missing",)
        return "\0".join(map(str, (*image, *now))) + "\n"

    return _hash(listing.domains, listing.classes, map(row, listing.images))


def _hash(domains: Sequence[str], classes: Sequence[str], rows: Iterable[str]) -> str:
    digest = hashlib.sha256(json.dumps([list(domains), list(classes)]).encode())
    for row in rows:
        digest.update(row.encode("utf-8", "surrogatepass"))  # a name on disk need not be UTF-8
    return digest.hexdigest()
