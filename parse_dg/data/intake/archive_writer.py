"""Writing what an archive holds below one folder, and refusing what should not be written.

A member may lead out of the folder, be a link, come twice, or unpack to more than there is room for. The first that
does is refused by name, and with it the whole archive.
"""

import io
import lzma
import os
import re
import shutil
import struct
import tarfile
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parse_dg.data.listing import Problem
from parse_dg.errors import InputError
from parse_dg.wording import first_line

CHUNK = 1 << 20
_DAMAGED_FORMAT = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError)
DAMAGE = (*_DAMAGED_FORMAT, OverflowError, RecursionError, MemoryError, NotImplementedError, ValueError)
"""What reading damaged or malicious bytes can raise, besides an OSError without a number."""


@dataclass(frozen=True, kw_only=True)
class ArchiveLimits:
    """What an archive may hold at most."""

    bytes: int = 200 << 30  # of all members together, unpacked
    members: int = 5_000_000
    ratio: int = 200  # unpacked / packed, of an archive that unpacks to more than `ratio_from`
    ratio_from: int = 10 << 20


HEADER = 512  # bytes that a member counts at least: what it takes in a tar, however small it is


class ArchiveWriter:
    """Writes members below one folder, one archive after another."""

    def __init__(self, root: Path, limits: ArchiveLimits) -> None:
        self.root, self.limits = root, limits
        self.bytes = self.members = self.junk = self.unpacked = self.most = 0
        self.archive, self.member = Path(), ""
        self.problems: list[Problem] = []

    @contextmanager
    def opened(self, archive: Path) -> Iterator[None]:
        """While members of `archive` are written: whatever is raised names it, and the member."""
        self.archive, self.member, self.junk, self.unpacked = archive, "", 0, 0
        self.most = max(self.limits.ratio_from, self.limits.ratio * archive.stat().st_size)
        try:
            yield
        except InputError:
            raise
        except (OSError, *DAMAGE) as error:
            if isinstance(error, OSError) and error.errno is not None:  # others are of bz2 and gzip, on damage
                raise self.refuse(f"cannot be unpacked ({error.strerror})") from error
            raise self.refuse(f"is damaged or cut off ({first_line(error)}): download it again") from error
        if self.junk:
            self.problems.append(Problem(str(archive), f"{self.junk} members that macOS adds were passed over"))

    def refuse(self, reason: str) -> InputError:
        """The error that the current member (or the archive, before there is one) `reason`."""
        shown = repr(self.member if len(self.member) <= 120 else self.member[:117] + "...")
        member = f": member {shown}" if self.member else ""
        return InputError(f"archive {self.archive}{member} {reason}; nothing was unpacked")

    def expect(self, size: int) -> None:
        """Refuses, before anything is unpacked, what cannot fit on the disk."""
        if size > (free := shutil.disk_usage(self.root).free):
            raise InputError(f"the archives need {size:,} bytes unpacked, {self.root.parent} has {free:,} free")

    def place(self, name: str, size: int) -> Path | None:
        """Where a member goes; None for one that macOS added. Counts it."""
        self.member = name
        self.members += 1
        self.bytes += size
        self.unpacked += HEADER + size
        if self.members > self.limits.members:
            raise self.refuse(f"is one of more than {self.limits.members:,} members")
        if size < 0 or self.bytes > self.limits.bytes:
            raise self.refuse(f"of {size:,} bytes makes more than the {self.limits.bytes:,} allowed")
        if self.unpacked > self.most:
            raise self.refuse(f"makes the archive unpack to more than {self.limits.ratio} times its size")
        if size > (free := shutil.disk_usage(self.root).free):
            raise self.refuse(f"of {size:,} bytes does not fit on the disk, {free:,} are free")
        if any(unicodedata.category(letter) == "Cc" for letter in name):
            raise self.refuse("has a control character in its name")
        slashed = name.replace("\\", "/")  # as some programs on Windows write it
        if slashed.startswith("/") or re.match("[A-Za-z]:", slashed):
            raise self.refuse("has an absolute path, expected one inside the archive")
        parts = [part for part in slashed.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise self.refuse("has a path that leads out of the folder")
        if "__MACOSX" in parts or (parts and (parts[-1] == ".DS_Store" or parts[-1].startswith("._"))):
            self.junk += 1
            return None
        return self.root.joinpath(*parts)

    def write(self, name: str, size: int, wrong: str, folder: bool, source: Callable[[], Any]) -> None:
        """Write a member, unless macOS added it; refuse it if something is `wrong` with it."""
        place = self.place(name, size)
        if place is None:
            return
        if wrong:
            raise self.refuse(wrong)
        if folder:
            self.folder(place)
        else:
            with source() as content:
                self.file(place, content, size)

    def folder(self, path: Path) -> None:
        if path.is_dir():
            return
        self.folder(path.parent)  # not by mkdir's parents, which get another mode
        try:
            path.mkdir(mode=0o755)
        except (FileExistsError, NotADirectoryError):
            raise self.refuse("needs a folder where the archive has a file") from None

    def file(self, path: Path, source: io.BufferedIOBase, size: int) -> None:
        if path == self.root or path.is_dir():
            raise self.refuse("is a file where the archive has a folder")
        chunks = self._chunks(source, size)
        self.folder(path.parent)
        if path.exists():  # parts of one data set may share files
            with path.open("rb") as file:
                if not all(file.read(len(chunk)) == chunk for chunk in chunks) or file.read(1):
                    raise self.refuse("comes twice, with different content")
            return
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "wb") as file:
            file.writelines(chunks)

    def _chunks(self, source: io.BufferedIOBase, size: int) -> Iterator[bytes]:
        done = 0
        while chunk := source.read(CHUNK):
            done += len(chunk)
            if done > size:
                break
            yield chunk
        if done != size:
            raise self.refuse(f"declares {size:,} bytes and holds {'more' if done > size else f'{done:,}'}")
