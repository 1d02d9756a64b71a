"""Archives: unpacked whole, or refused with nothing written anywhere."""

import gzip
import shutil
import stat
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock

from parse_dg.data.intake.archives import extract, is_archive
from parse_dg.errors import InputError
from tests.data.intake import packing
from tests.data.intake.packing import FILES, KINDS, NOISE, member, refused, tree, write, write_tar, write_zip


def attempt(archive: Path, folder: Path) -> str | None:
    """The message of the refusal, None where there is none."""
    try:
        extract([archive], folder)
    except InputError as error:
        return str(error)
    return None


@pytest.mark.parametrize("kind", KINDS)
def test_everything_is_unpacked(kind: str, tmp_path: Path, there: Path) -> None:
    archive = write(tmp_path / f"pacs.{kind}")
    seen: list[tuple[str, int, int]] = []
    assert extract([archive], there / "data", lambda *report: seen.append(report)) == ()
    assert tree(there) == {f"data/{name}": content for name, content in FILES.items()}
    assert {path.name for path in there.iterdir()} == {"data"}
    total = archive.stat().st_size
    assert all(what == f"unpacking pacs.{kind}" and 0 <= done <= total == of for what, done, of in seen)
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
    assert seen[-1][1] == total


def test_memory_is_constant(tmp_path: Path, there: Path) -> None:
    content = np.random.default_rng(0).bytes(12 << 20)
    packed = [write(tmp_path / f"a.{kind}", {"a": content}) for kind in ("tar", "zip")]
    tracemalloc.start()
    try:
        for archive in packed:
            extract([archive], there / archive.suffix[1:])
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("kind", "name"), [("zip", "data"), ("tar", "picture.jpg"), ("tar.xz", "wrong.zip")])
def test_an_archive_is_known_by_its_content(kind: str, name: str, tmp_path: Path, there: Path) -> None:
    path = write(tmp_path / f"a.{kind}").rename(tmp_path / name)
    assert is_archive(path)
    extract([path], there / "data")
    assert tree(there / "data") == FILES


@pytest.mark.parametrize(
    "content", [b"", bytes(10240), NOISE, gzip.compress(b"no tar", mtime=0), b"BZh9", b"<html>"]
)
def test_what_is_no_archive(content: bytes, tmp_path: Path, there: Path) -> None:
    path = tmp_path / "a.tar.gz"
    path.write_bytes(content)
    assert not is_archive(path)
    found = "a web page" if content == b"<html>" else "something else"
    with pytest.raises(InputError, match=rf"a.tar.gz must be a .tar, .* or .zip archive, found {found}"):
        extract([path], there / "data")
    assert list(there.iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}, "is a link to '/etc/passwd': expected files and"),
        ({"type": tarfile.SYMTYPE, "linkname": "good"}, "is a link to 'good'"),
        ({"type": tarfile.LNKTYPE, "linkname": "good"}, "is a link to 'good'"),
        ({"type": tarfile.FIFOTYPE}, "is neither a plain file nor a folder"),
        ({"type": b"V"}, "is neither a plain file nor a folder"),
    ],
)
def test_tars_hold_files_and_folders_only(
    settings: dict[str, Any], reason: str, tmp_path: Path, there: Path
) -> None:
    archive = write_tar(tmp_path / "a.tar", member("good", b"1"), member("bad", **settings))
    refused(archive, there, f"'bad' {reason}")


@pytest.mark.parametrize(("mode", "reason"), [(stat.S_IFLNK, "is a link"), (stat.S_IFIFO, "is neither")])
def test_zips_hold_files_and_folders_only(mode: int, reason: str, tmp_path: Path, there: Path) -> None:
    archive = write_zip(tmp_path / "a.zip", ("good", b"1"), (packing.zip_info("bad", mode | 0o777), b"/etc/passwd"))
    refused(archive, there, f"member 'bad' {reason}")


def test_sparse_files_are_refused(tmp_path: Path, there: Path) -> None:
    sparse = member("bad", b"12345678", pax_headers={"GNU.sparse.map": "0,8", "GNU.sparse.size": "16"})
    refused(write_tar(tmp_path / "a.tar", sparse), there, "member 'bad' is neither a plain file nor a folder")


def test_encrypted_zips(tmp_path: Path, there: Path) -> None:
    archive = write_zip(tmp_path / "a.zip", ("a", b"secret"))
    content = bytearray(archive.read_bytes())
    content[6] |= 1  # of the local header
    content[content.index(b"PK\x01\x02") + 8] |= 1
    archive.write_bytes(content)
    refused(archive, there, "member 'a' is encrypted: unpack the archive by hand, with its password")


def negative(archive: Path, kind: bytes = b"0") -> Path:
    """A tar whose second header has a size of -512, in base 256, and a right checksum."""
    write_tar(archive, member("a", b"1"), member("b", b"2"))
    content = bytearray(archive.read_bytes())
    header = content[1024:1536]
    header[124:136] = (-512).to_bytes(12, "big", signed=True)
    header[156:157] = kind
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    content[1024:1536] = header
    archive.write_bytes(content)
    return archive


@pytest.mark.parametrize("kind", [b"0", b"x", b"L", b"g"])
def test_a_negative_size(kind: bytes, tmp_path: Path, there: Path) -> None:
    refused(negative(tmp_path / "a.tar", kind), there, "damaged|more than the")


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_header_of_a_terabyte_is_not_read(kind: bytes, tmp_path: Path, there: Path) -> None:
    archive = write_tar(tmp_path / "a.tar", member("good", b"1"))
    info = tarfile.TarInfo("bad")
    info.type, info.size = kind, 1 << 40
    archive.write_bytes(archive.read_bytes()[:1024] + info.tobuf(tarfile.GNU_FORMAT) + bytes(20480))
    refused(archive, there, "a header claims 1099511627776 bytes")


def test_headers_nested_without_end(tmp_path: Path, there: Path) -> None:
    info = tarfile.TarInfo("bad")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 5
    deep = (info.tobuf(tarfile.GNU_FORMAT) + b"name".ljust(512, b"\0")) * 3000
    archive = write_tar(tmp_path / "a.tar", member("good", b"1"))
    archive.write_bytes(archive.read_bytes()[:1024] + deep + bytes(1024))
    refused(archive, there, r"damaged or cut off \(maximum recursion depth")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_part_of_an_archive_passes_for_the_whole(kind: str, tmp_path: Path, there: Path) -> None:
    """Cut at every place, roughly: refused, or whole (a plain tar may lack the zeros it is padded with)."""
    archive = write(tmp_path / f"a.{kind}")
    content = archive.read_bytes()
    end = len(content.rstrip(b"\0"))
    for cut in [*range(0, len(content), 211), *range(512, len(content), 512), len(content) - 1]:
        archive.write_bytes(content[:cut])
        message = attempt(archive, there / "data")
        if message is None:
            assert kind == "tar"
            assert cut > end
            assert tree(there / "data") == FILES
            shutil.rmtree(there / "data")
        else:
            assert str(archive) in message
            assert not (kind == "tar" and cut >= end + 1024)
            assert list(there.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_byte_is_found_or_does_not_matter(kind: str, tmp_path: Path, there: Path) -> None:
    """Nothing but an InputError is raised; where the format has checksums, no wrong content comes out."""
    archive = write(tmp_path / f"a.{kind}")
    content = archive.read_bytes()
    generator = np.random.default_rng(0)
    refusals = 0
    for place in generator.integers(0, len(content), 150):
        damaged = bytearray(content)
        damaged[place] ^= int(generator.integers(1, 256))
        archive.write_bytes(damaged)
        message = attempt(archive, there / "data")
        if message is None:
            if kind not in ("tar", "zip"):
                assert tree(there / "data") == FILES
            elif kind == "zip":  # names, dates and comments have no checksum
                assert sorted(tree(there / "data").values()) == sorted(FILES.values())
            shutil.rmtree(there / "data")
        else:
            refusals += 1
            assert "\n" not in message
            assert list(there.iterdir()) == []
    assert refusals > {"tar": 5, "zip": 60}.get(kind, 100)


def interrupted(at: int) -> Callable[[str, int, int], None]:
    calls = iter(range(1000))

    def report(what: str, done: int, total: int) -> None:
        if next(calls) == at:
            raise KeyboardInterrupt

    return report


@pytest.mark.parametrize("kind", ["tar", "zip"])
@pytest.mark.parametrize("at", [0, 3])
def test_an_interruption_leaves_nothing(kind: str, at: int, tmp_path: Path, there: Path) -> None:
    archive = write(tmp_path / f"a.{kind}")
    with pytest.raises(KeyboardInterrupt):
        extract([archive], there / "data", interrupted(at))
    assert list(there.iterdir()) == []
    extract([archive], there / "data")
    assert tree(there / "data") == FILES


def test_what_a_killed_process_left_is_removed(tmp_path: Path, there: Path) -> None:
    (there / "data.writing/old").mkdir(parents=True)
    (there / "data.writing/old/file").write_text("half")
    (there / "data.unpacking.lock").touch()
    extract([write(tmp_path / "a.tar")], there / "data")
    assert {path.name for path in there.iterdir()} == {"data"}
    assert tree(there / "data") == FILES


def test_two_processes_do_not_write_at_once(tmp_path: Path, there: Path) -> None:
    archive = write(tmp_path / "a.tar")
    with (
        FileLock(there / "data.unpacking.lock"),
        pytest.raises(InputError, match=f"another process is unpacking into {there / 'data'}: wait"),
    ):
        extract([archive], there / "data")
    extract([archive], there / "data")


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path, there: Path) -> None:
    (there / "data").mkdir()
    (there / "data/mine").write_text("mine")
    with pytest.raises(InputError, match="data exists already: expected a new or an empty folder to unpack into"):
        extract([write(tmp_path / "a.tar")], there / "data")
    assert tree(there) == {"data/mine": b"mine"}
