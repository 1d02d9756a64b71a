"""Folders of images, as torchvision's ImageFolder finds them (.gif and .heic too); what is passed over is named.

Hidden files and folders are not looked at. A link is followed if it stays inside the folder the user gave, so that
nothing outside it can be drawn in by an archive, and only if it does not lead back to where it was met.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from parse_dg.data.listing import Problem

EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp", ".gif", ".heic", ".heif")
"""What the name of an image ends with, capitals or not; the content decides what it is."""


class Folder(NamedTuple):
    """A folder that was reached from the root."""

    path: str  # relative to the root, with forward slashes; empty for the root itself
    reached: tuple[str, ...]  # where it and the folders above it really are, links resolved

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class FolderReader:
    """Reads below `root`, never leaves `boundary`, and keeps account of what it passed over."""

    def __init__(self, root: Path, boundary: Path) -> None:
        self.root = root
        self.problems: list[Problem] = []
        self.top = Folder("", (os.path.realpath(root),))
        self._boundary = os.path.realpath(boundary)

    def levels(
        self, depth: int, enter: Callable[[Folder], bool]
    ) -> Iterator[tuple[Folder, list[Folder], list[str]]]:
        """Folders down to a depth, the nearest first, with what is directly inside; of that, `enter` says which."""
        level = [self.top]
        for _ in range(depth + 1):
            found = [(place, *self.children(place)) for place in level]
            yield from found
            level = [child for _, folders, _ in found for child in folders if enter(child)]

    def folders(self, folder: Folder) -> list[Folder]:
        """The folders directly inside `folder`, sorted by name."""
        return self.children(folder)[0]

    def children(self, folder: Folder) -> tuple[list[Folder], list[str]]:
        """The folders and the names of the files directly inside `folder`, each sorted by name."""
        try:
            with os.scandir(self.root / folder.path) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            self._pass_over(folder.path, f"folder cannot be read: {error.strerror}")
            return [], []
        folders, files = [], []
        for entry in found:
            if entry.name.startswith(".") or entry.name == "__MACOSX":
                continue
            path = f"{folder.path}/{entry.name}" if folder.path else entry.name
            real = os.path.join(folder.reached[-1], entry.name)  # noqa: PTH118 - one for every image
            if entry.is_symlink():
                real = os.path.realpath(entry.path)
                if reason := self._refused(real, folder):
                    self._pass_over(path, reason)
                    continue
            if entry.is_dir():
                folders.append(Folder(path, (*folder.reached, real)))
            elif entry.is_file():
                files.append(entry.name)
            else:
                self._pass_over(path, "not a file")
        return folders, files

    def images(self, folder: Folder) -> list[str]:
        images, waiting = [], [folder]
        while waiting:
            current = waiting.pop()
            folders, files = self.children(current)
            waiting += reversed(folders)
            for file in files:
                path = f"{current.path}/{file}"
                if file.lower().endswith(EXTENSIONS):
                    images.append(path[len(folder.path) + 1 :])
                else:
                    self._pass_over(path, "not an image by its name")
        return images

    def _refused(self, real: str, folder: Folder) -> str | None:
        if not os.path.exists(real):  # noqa: PTH110
            return "link leads nowhere"
        if not _inside(real, self._boundary):
            return "link leads out of the folder"
        return "link leads back to a folder it lies in" if any(_inside(p, real) for p in folder.reached) else None

    def _pass_over(self, path: str, reason: str) -> None:
        self.problems.append(Problem(path, reason))


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
