"""Archives of data sets, unpacked without trusting them: tar (plain, gzip, bzip2, xz) and zip.

An archive comes from somewhere else. No member may be written outside the folder, none may be anything but a file
or a folder, and what is unpacked has to fit. Everything is written to a temporary folder that is renamed when it
is complete, so that a refused, damaged or interrupted archive leaves nothing.
"""

import bz2
import gzip
import io
import lzma
import stat
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from parse_dg.data.intake.archive_writer import CHUNK, DAMAGE, ArchiveLimits, ArchiveWriter
from parse_dg.data.listing import Problem, Progress
from parse_dg.errors import InputError
from parse_dg.files import attempting, locked, whole_folder

LONGEST_HEADER = 1 << 24  # of a tar; real ones have a few hundred bytes
NEITHER = "is neither a plain file nor a folder"

_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_COMPRESSIONS: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\0": lzma.open}


def is_archive(path: Path) -> bool:
    """Whether a file is a tar or a zip, judged by its first bytes and not by its name."""
    return _kind(path) is not None


def extract(
    archives: Sequence[Path], folder: Path, progress: Progress | None = None, *, limits: ArchiveLimits | None = None
) -> tuple[Problem, ...]:
    """Unpacks one archive, or several that are parts of one data set, into `folder`, which must not exist yet.

    Returns what was passed over: the files that macOS adds, and bytes after the end of a tar. Archives in archives
    stay files. Progress is in bytes of the archives. Files get the mode 0644 and folders 0755, less the umask.
    """
    kinds = [_known_kind(archive) for archive in archives]
    folder = folder.resolve()  # a link to another disk: unpack there
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise InputError(f"{folder} exists already: expected a new or an empty folder to unpack into")
    sizes = [archive.stat().st_size for archive in archives]
    lock = folder.with_name(f"{folder.name}.unpacking.lock")
    busy = InputError(f"another process is unpacking into {folder}: wait until it has finished")
    with attempting(f"write next to {folder}", "choose another folder"):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with locked(lock, busy, remove=True), whole_folder(folder) as temporary:
            writer = ArchiveWriter(temporary, limits or ArchiveLimits())
            writer.expect(sum(map(_least, archives, kinds)))
            for number, (archive, kind) in enumerate(zip(archives, kinds, strict=True)):
                unpack = _unpack_zip if kind == "zip" else _unpack_tar
                with writer.opened(archive):
                    for read in chain(unpack(archive, writer), [sizes[number]]):
                        if progress:
                            done = sum(sizes[:number]) + min(read, sizes[number])
                            progress(f"unpacking {archive.name}", done, sum(sizes))
    return tuple(writer.problems)


def _kind(path: Path) -> str | None:
    """What kind of archive it is, "zip" or "tar"; None for anything else, also for what cannot be read."""
    if not path.is_file():  # a pipe would have to be waited for
        return None
    try:
        with path.open("rb") as file:
            if file.read(4) in _ZIP:
                return "zip"
        with _decompressed(path, tarfile.BLOCKSIZE) as (_, stream):
            tarfile.TarInfo.frombuf(stream.read(tarfile.BLOCKSIZE), "utf-8", "surrogateescape")
            return "tar"
    except (OSError, *DAMAGE):
        return None


def _known_kind(path: Path) -> str:
    if not path.is_file():
        raise InputError(f"archive {path} does not exist")
    kind = _kind(path)
    if kind is None:
        with path.open("rb") as file:
            page = file.read(256).lstrip().lower().startswith((b"<!doctype", b"<html"))
        found = "a web page, so its download went wrong" if page else "something else or damaged from its start"
        raise InputError(f"{path} must be a .tar, .tar.gz, .tar.bz2, .tar.xz or .zip archive, found {found}")
    return kind


def _least(path: Path, kind: str) -> int:
    """How much an archive unpacks to, at least: known for a zip, about its own size for a tar."""
    if kind != "zip":
        return path.stat().st_size
    try:
        with zipfile.ZipFile(path) as archive:
            return sum(info.file_size for info in archive.infolist())
    except (OSError, *DAMAGE):
        return 0  # it will be named when it is unpacked


class _Stream(io.BufferedReader):
    """The bytes of a tar, unpacked. A header that claims to be very long is not read into memory."""

    last = b""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or not 0 <= size <= LONGEST_HEADER:
            raise tarfile.ReadError(f"a header claims {size} bytes")
        self.last = super().read(size)
        return self.last


@contextmanager
def _decompressed(path: Path, ahead: int = CHUNK) -> Iterator[tuple[io.FileIO, _Stream]]:
    """A file as it is, and what it unpacks to, read `ahead` bytes at a time."""
    with ExitStack() as stack:
        raw = stack.enter_context(path.open("rb", buffering=0))
        head = raw.read(8)
        raw.seek(0)
        unpack = next((unpack for magic, unpack in _COMPRESSIONS.items() if head.startswith(magic)), None)
        inner = stack.enter_context(unpack(raw)) if unpack else raw
        yield raw, stack.enter_context(closing(_Stream(inner, ahead)))


def _unpack_tar(path: Path, writer: ArchiveWriter) -> Iterator[int]:
    """Unpacks member after member; yields how many bytes of the archive have been read."""
    with _decompressed(path) as (raw, stream), tarfile.TarFile(fileobj=stream, errorlevel=2) as tar:
        member = tar.next()
        while member is not None:
            source = partial(tar.extractfile, member)
            writer.write(member.name, member.size, _wrong_in_tar(member), member.isdir(), source)
            yield raw.tell()
            member = _next_member(tar, stream)
        if any(any(chunk) for chunk in iter(lambda: stream.read(CHUNK), b"")):  # read to the end: it has a checksum
            writer.problems.append(Problem(str(path), "what follows the end of the tar was passed over"))


def _wrong_in_tar(member: tarfile.TarInfo) -> str:
    """Why a member is not unpacked, if it is not."""
    if member.issym() or member.islnk():
        return f"is a link to {member.linkname!r}: expected files and folders only"
    return "" if member.isdir() or (member.isreg() and not member.issparse()) else NEITHER


def _next_member(tar: tarfile.TarFile, stream: _Stream) -> tarfile.TarInfo | None:
    """The member after the last one read, None at the end mark.

    `TarFile.next` takes a damaged header, and the lack of an end mark, for the end: half a data set would pass for
    a whole one. It also keeps every member in memory.
    """
    try:
        stream.seek(tar.offset)
        return tarfile.TarInfo.fromtarfile(tar)
    except tarfile.HeaderError as error:
        if stream.last == bytes(tarfile.BLOCKSIZE):
            return None
        raise tarfile.ReadError(f"after this member: {error}") from error


def _unpack_zip(path: Path, writer: ArchiveWriter) -> Iterator[int]:
    read = 0
    with zipfile.ZipFile(path) as archive:
        declared = sum(info.file_size for info in archive.infolist())
        if declared > writer.limits.bytes:
            raise writer.refuse(f"unpacks to {declared:,} bytes, more than the {writer.limits.bytes:,} allowed")
        for info in archive.infolist():
            name, source = info.orig_filename, partial(archive.open, info)
            writer.write(name, info.file_size, _wrong_in_zip(info), name.endswith(("/", "\\")), source)
            read += info.compress_size
            yield read


def _wrong_in_zip(info: zipfile.ZipInfo) -> str:
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind == stat.S_IFLNK:
        return "is a link: expected files and folders only"
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return NEITHER
    return "is encrypted: unpack the archive by hand, with its password" if info.flag_bits & 1 else ""
