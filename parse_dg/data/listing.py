"""The images of a data set as they are listed, before any is opened: which files, of which domain and class."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

T = TypeVar("T")
Progress = Callable[[str, int, int], None]  # called with what is being done, how many are done, how many there are


def counted(items: Iterable[T], what: str, total: int, progress: Progress | None, before: int = 0) -> Iterator[T]:
    """The items; `progress` is told of each one that is done."""
    for done, item in enumerate(items, before + 1):
        yield item
        if progress:
            progress(what, done, total)


class Problem(NamedTuple):
    """A file that cannot be used, and why, in a few words."""

    path: str
    reason: str


class ListedImage(NamedTuple):
    """A file that should hold an image."""

    path: str  # relative to the listing's root, with forward slashes
    domain: int
    label: int
    id: str  # what is shown: two renderings of one photo in two domains have the same id


@dataclass(frozen=True)
class Listing:
    """Every image of a data set: domain after domain, class after class, in the order of an ImageFolder."""

    layout: str  # which arrangement of folders (or list) was recognised, in words
    root: Path
    domains: tuple[str, ...]
    classes: tuple[str, ...]
    images: tuple[ListedImage, ...]
    skipped: tuple[Problem, ...] = ()
    """Files that were passed over, and why: links that lead out, names that are no images, published duplicates."""
    notes: tuple[str, ...] = ()  # what a user should know of this folder, a sentence each
