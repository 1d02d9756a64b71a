"""Archives: unpacked whole, or refused with nothing written anywhere."""

import gzip
import io
import os
import shutil
import stat
import struct
import tarfile
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from filelock import FileLock

from parse_dg.data import archives
from parse_dg.data.archives import Limits, extract, is_archive
from parse_dg.data.listing import Problem
from parse_dg.errors import InputError

KINDS = ("tar", "tar.gz", "tar.bz2", "tar.xz", "zip")
NOISE = np.random.default_rng(0).bytes(5000)
FILES = {
    "PACS/photo/dog/1.jpg": NOISE[:700],
    "PACS/photo/dog/2.jpg": b"",
    "PACS/art painting/žirafa/1.jpg": NOISE,
    "PACS/read.me": b"read me\n" * 400,
}


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Path]:
    """A folder that only `there/data` may be written to; the umask is the usual one."""
    before = os.umask(0o022)
    folder = tmp_path / "there"
    folder.mkdir()
    yield folder
    os.umask(before)


def member(name: str, content: bytes = b"", **settings: Any) -> tuple[tarfile.TarInfo, io.BytesIO]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for setting, value in settings.items():
        setattr(info, setting, value)
    return info, io.BytesIO(content)


def write_tar(path: Path, *members: tuple[tarfile.TarInfo, io.BytesIO], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for info, content in members:
            tar.addfile(info, content if info.size else None)
    return path


def write_zip(path: Path, *members: tuple[str | zipfile.ZipInfo, bytes], packed: bool = True) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


def write(path: Path, files: Mapping[str, bytes] = FILES) -> Path:
    """An archive of the kind that the name says."""
    if path.suffix == ".zip":
        return write_zip(path, *files.items())
    mode = "w:" + path.suffix[1:] if path.suffix != ".tar" else "w"
    return write_tar(path, *(member(name, content) for name, content in files.items()), mode=mode)


def zip_info(name: str, mode: int = 0) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo("placeholder")
    info.filename = name  # the constructor would tidy it up
    info.external_attr = mode << 16
    return info


def attempt(archive: Path, folder: Path) -> str | None:
    """The message of the refusal, None where there is none."""
    try:
        extract([archive], folder)
    except InputError as error:
        return str(error)
    return None


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(archive: Path, there: Path, message: str, **settings: Any) -> None:
    """Asserts that an archive is refused by a single line that names it, and that nothing is left."""
    with pytest.raises(InputError, match=message) as caught:
        extract([archive], there / "data", **settings)
    assert "\n" not in str(caught.value)
    assert str(archive) in str(caught.value)
    assert "nothing was unpacked" in str(caught.value)
    assert list(there.iterdir()) == []
    assert {path.name for path in there.parent.iterdir()} == {"there", archive.name}


# What comes out


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


def test_parts_of_one_data_set(tmp_path: Path, there: Path) -> None:
    names = list(FILES)
    parts = [write(tmp_path / f"pacs-{n}.tar", {name: FILES[name]}) for n, name in enumerate(names)]
    parts.append(write(tmp_path / "pacs-4.zip", {names[0]: FILES[names[0]]}))  # the same file once more
    seen: list[tuple[str, int, int]] = []
    extract(parts, there / "data", lambda *report: seen.append(report))
    assert tree(there / "data") == FILES
    total = sum(part.stat().st_size for part in parts)
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
    assert seen[-1] == ("unpacking pacs-4.zip", total, total)


def test_permissions_and_owners_are_not_kept(tmp_path: Path, there: Path) -> None:
    folder = member("a", type=tarfile.DIRTYPE, mode=0o777)
    file = member("a/b/c", b"x", mode=0o6777, uid=12345)
    os.umask(0)
    extract([write_tar(tmp_path / "a.tar", folder, file)], there / "tar")
    extract([write_zip(tmp_path / "a.zip", (zip_info("a/b/c", stat.S_IFREG | 0o4755), b"x"))], there / "zip")
    for kind in ("tar", "zip"):
        assert stat.S_IMODE((there / kind).stat().st_mode) == 0o755
        assert stat.S_IMODE((there / kind / "a").stat().st_mode) == 0o755
        assert stat.S_IMODE((there / kind / "a/b").stat().st_mode) == 0o755
        assert stat.S_IMODE((there / kind / "a/b/c").stat().st_mode) == 0o644
        assert (there / kind / "a/b/c").stat().st_uid == os.getuid()


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_names_are_tidied_up(kind: str, tmp_path: Path, there: Path) -> None:
    archive = write(tmp_path / f"a.{kind}", {"./a/./b//c": b"1", "a\\d\\e": b"2", "a/B": b"3", "A/b": b"4"})
    extract([archive], there / "data")
    assert tree(there / "data") == {"a/b/c": b"1", "a/d/e": b"2", "a/B": b"3", "A/b": b"4"}


def test_folders_without_files_are_made(tmp_path: Path, there: Path) -> None:
    tar = write_tar(
        tmp_path / "a.tar",
        member("./", type=tarfile.DIRTYPE),
        member("e/f", type=tarfile.DIRTYPE),
        member("g", b"1"),
    )
    extract([tar], there / "tar")
    extract([write_zip(tmp_path / "a.zip", ("e/f/", b""), ("h\\", b""), ("g", b"1"))], there / "zip")
    assert (there / "tar/e/f").is_dir()
    assert (there / "zip/e/f").is_dir()
    assert (there / "zip/h").is_dir()


def test_what_macos_adds_is_passed_over(tmp_path: Path, there: Path) -> None:
    junk = {
        "__MACOSX/a/._1.jpg": b"x",
        "a/.DS_Store": b"x",
        "a/._1.jpg": b"x",
        "a/1.jpg": b"1",
        "a/__MACOSX.jpg": b"2",
    }
    for kind in ("tar", "zip"):
        archive = write(tmp_path / f"a.{kind}", junk)
        expected = Problem(str(archive), "3 members that macOS adds were passed over")
        assert extract([archive], there / kind) == (expected,)
        assert tree(there / kind) == {"a/1.jpg": b"1", "a/__MACOSX.jpg": b"2"}


def test_an_archive_in_an_archive_stays_a_file(tmp_path: Path, there: Path) -> None:
    inner = write(tmp_path / "inner.zip").read_bytes()
    extract([write(tmp_path / "outer.tar.gz", {"inner.zip": inner})], there / "data")
    assert tree(there / "data") == {"inner.zip": inner}


def test_names_that_are_not_utf8_survive(tmp_path: Path, there: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.GNU_FORMAT, encoding="latin-1") as tar:
        tar.addfile(*member("žir".replace("ž", "\xe9") + ".jpg", b"1"))
    extract([tmp_path / "a.tar"], there / "data")
    assert [path.read_bytes() for path in (there / "data").iterdir()] == [b"1"]


def test_long_names(tmp_path: Path, there: Path) -> None:
    name = "/".join(["x" * 200] * 4) + ".jpg"
    for kind in ("tar", "zip"):
        extract([write(tmp_path / f"a.{kind}", {name: b"1"})], there / kind)
        assert tree(there / kind) == {name: b"1"}
    (tmp_path / "a.tar").unlink()
    shutil.rmtree(there)
    there.mkdir()
    refused(write(tmp_path / "a.zip", {"x" * 300: b"1"}), there, r"cannot be unpacked \(File name too long\)")


def test_memory_is_constant(tmp_path: Path, there: Path) -> None:
    content = np.random.default_rng(0).bytes(24 << 20)
    packed = [write(tmp_path / f"a.{kind}", {"a": content}) for kind in ("tar", "zip")]
    tracemalloc.start()
    try:
        for archive in packed:
            extract([archive], there / archive.suffix[1:])
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


# What is an archive


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["data", "picture.jpg", "wrong.zip"])
def test_an_archive_is_known_by_its_content(kind: str, name: str, tmp_path: Path, there: Path) -> None:
    path = write(tmp_path / f"a.{kind}").rename(tmp_path / name)
    assert is_archive(path)
    extract([path], there / "data")
    assert tree(there / "data") == FILES


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hello",
        bytes(10240),
        NOISE,
        gzip.compress(b"no tar"),
        b"\x1f\x8b",
        b"BZh9",
        b"\xfd7zXZ\0\0",
        b"<html>",
    ],
)
def test_what_is_no_archive(content: bytes, tmp_path: Path, there: Path) -> None:
    path = tmp_path / "a.tar.gz"
    path.write_bytes(content)
    assert not is_archive(path)
    found = "a web page" if content == b"<html>" else "something else"
    with pytest.raises(InputError, match=rf"a.tar.gz must be a .tar, .* or .zip archive, found {found}"):
        extract([path], there / "data")
    assert list(there.iterdir()) == []


def test_folders_missing_files_and_pipes_are_no_archives(tmp_path: Path, there: Path) -> None:
    os.mkfifo(tmp_path / "pipe.tar")
    for path in (tmp_path, tmp_path / "missing.zip", tmp_path / "pipe.tar"):
        assert not is_archive(path)
        with pytest.raises(InputError, match=f"archive {path} does not exist"):
            extract([path], there / "data")


# What is refused


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("/etc/evil", "has an absolute path"),
        ("../evil", "leads out of the folder"),
        ("a/../../evil", "leads out"),
        ("a/..", "leads out"),
        ("..", "leads out"),
        ("..\\evil", "leads out"),
        ("a\\..\\..\\evil", "leads out"),
        ("C:\\evil", "absolute path"),
        ("c:evil", "absolute path"),
        ("C:/evil", "absolute path"),
        ("\\\\server\\share\\evil", "absolute path"),
        ("a\nb", "has a control character in its name"),
        ("a\x1b[2Jb", "control character"),
        ("a\x00b", "control character"),
        ("a\x7fb", "control character"),
    ],
)
@pytest.mark.parametrize("kind", ["tar", "tar.gz", "zip"])
def test_names_that_lead_elsewhere(kind: str, name: str, reason: str, tmp_path: Path, there: Path) -> None:
    archive = tmp_path / f"a.{kind}"
    if kind == "zip":
        write_zip(archive, ("good", b"1"), (zip_info(name), b"evil"))
    else:
        bad = member("placeholder", b"evil", pax_headers={"path": name})
        write_tar(archive, member("good", b"1"), bad, mode="w:gz" if kind == "tar.gz" else "w")
    refused(archive, there, reason)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (
            {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"},
            "is a link to '/etc/passwd': expected files and folders",
        ),
        ({"type": tarfile.SYMTYPE, "linkname": "good"}, "is a link to 'good'"),
        ({"type": tarfile.LNKTYPE, "linkname": "good"}, "is a link to 'good'"),
        ({"type": tarfile.FIFOTYPE}, "is neither a plain file nor a folder"),
        ({"type": tarfile.CHRTYPE}, "is neither a plain file nor a folder"),
        ({"type": tarfile.BLKTYPE}, "is neither a plain file nor a folder"),
        ({"type": b"V"}, "is neither a plain file nor a folder"),
    ],
)
def test_tars_hold_files_and_folders_only(
    settings: dict[str, Any], reason: str, tmp_path: Path, there: Path
) -> None:
    refused(
        write_tar(tmp_path / "a.tar", member("good", b"1"), member("bad", **settings)), there, f"'bad' {reason}"
    )


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        (stat.S_IFLNK, "is a link"),
        (stat.S_IFIFO, "is neither"),
        (stat.S_IFCHR, "is neither"),
        (stat.S_IFSOCK, "is n"),
    ],
)
def test_zips_hold_files_and_folders_only(mode: int, reason: str, tmp_path: Path, there: Path) -> None:
    archive = write_zip(tmp_path / "a.zip", ("good", b"1"), (zip_info("bad", mode | 0o777), b"/etc/passwd"))
    refused(archive, there, f"member 'bad' {reason}")


def test_a_link_cannot_be_written_through(tmp_path: Path, there: Path) -> None:
    link = member("a", type=tarfile.SYMTYPE, linkname=str(tmp_path))
    refused(write_tar(tmp_path / "a.tar", link, member("a/evil", b"evil")), there, "is a link")


def test_sparse_files_are_refused(tmp_path: Path, there: Path) -> None:
    sparse = member("bad", b"12345678", pax_headers={"GNU.sparse.map": "0,8", "GNU.sparse.size": "16"})
    refused(write_tar(tmp_path / "a.tar", sparse), there, "member 'bad' is neither a plain file nor a folder")


@pytest.mark.parametrize("kind", ["tar", "zip"])
@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (("a", "a/b"), "member 'a/b' needs a folder where the archive has a file"),
        (("a/b", "a"), "member 'a' is a file where the archive has a folder"),
        (("a", "a/b/c"), "member 'a/b/c' needs a folder"),
        (("a", "a"), "member 'a' comes twice, with different content"),
        (("a", "./a"), "comes twice"),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_names_that_clash(kind: str, names: tuple[str, str], reason: str, tmp_path: Path, there: Path) -> None:
    if kind == "zip":
        archive = write_zip(tmp_path / "a.zip", (names[0], b"first"), (names[1], b"second"))
    else:
        archive = write_tar(tmp_path / "a.tar", member(names[0], b"first"), member(names[1], b"second"))
    refused(archive, there, reason)


def test_a_file_in_place_of_the_folder_itself(tmp_path: Path, there: Path) -> None:
    refused(write(tmp_path / "a.tar", {"./.": b"1"}), there, "'./.' is a file where the archive has a folder")


def test_a_folder_where_a_file_is(tmp_path: Path, there: Path) -> None:
    tar = write_tar(tmp_path / "a.tar", member("a", b"1"), member("a", type=tarfile.DIRTYPE))
    refused(tar, there, "needs a folder where")


@pytest.mark.parametrize("second", [b"other", b"sam", b"samee"])
def test_parts_that_contradict_each_other(second: bytes, tmp_path: Path, there: Path) -> None:
    parts = [write(tmp_path / "0.tar", {"a": b"same"}), write(tmp_path / "1.tar", {"a": second})]
    with pytest.raises(InputError, match=r"1\.tar: member 'a' comes twice, with different content"):
        extract(parts, there / "data")
    assert list(there.iterdir()) == []


def test_encrypted_zips(tmp_path: Path, there: Path) -> None:
    archive = write_zip(tmp_path / "a.zip", ("a", b"secret"))
    content = bytearray(archive.read_bytes())
    content[6] |= 1  # of the local header
    content[content.index(b"PK\x01\x02") + 8] |= 1
    archive.write_bytes(content)
    refused(archive, there, "member 'a' is encrypted: unpack the archive by hand, with its password")


def test_unknown_compression(tmp_path: Path, there: Path) -> None:
    archive = write_zip(tmp_path / "a.zip", ("a", b"x" * 100))
    content = bytearray(archive.read_bytes())
    for place in (8, content.index(b"PK\x01\x02") + 10):
        content[place : place + 2] = struct.pack("<H", 97)
    archive.write_bytes(content)
    refused(archive, there, r"member 'a' is damaged or cut off \(That compression method is not supported\)")


def test_a_long_name_is_shortened_in_messages(tmp_path: Path, there: Path) -> None:
    refused(write(tmp_path / "a.tar", {"../" + "x" * 5000: b"1"}), there, r"x{50}\.\.\.'")


# How much


@pytest.mark.parametrize("kind", KINDS)
def test_the_size_is_limited(kind: str, tmp_path: Path, there: Path) -> None:
    archive = write(tmp_path / f"a.{kind}", {"a": NOISE, "b": NOISE[::-1], "c": b"1"})
    extract([archive], there / "data", limits=Limits(bytes=10_001))
    shutil.rmtree(there / "data")
    refused(archive, there, "(of 1 bytes makes|to 10,001 bytes,) more than the 10,000", limits=Limits(bytes=10_000))


@pytest.mark.parametrize("kind", KINDS)
def test_the_number_of_members_is_limited(kind: str, tmp_path: Path, there: Path) -> None:
    archive = write(tmp_path / f"a.{kind}", {str(n): b"" for n in range(6)})
    refused(archive, there, "member '5' is one of more than 5 members", limits=Limits(members=5))


@pytest.mark.parametrize("kind", ["tar.gz", "tar.xz", "zip"])
def test_a_bomb_is_refused_by_its_ratio(kind: str, tmp_path: Path, there: Path) -> None:
    archive = write(tmp_path / f"a.{kind}", {"good": NOISE, "bomb": bytes(24 << 20)})
    refused(archive, there, "member 'bomb' unpacks to more than 200 times its packed size")


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "zip"])
def test_small_files_may_be_as_empty_as_they_like(kind: str, tmp_path: Path, there: Path) -> None:
    archive = write(tmp_path / f"a.{kind}", {str(n): bytes(2 << 20) for n in range(6)})
    extract([archive], there / "data")
    assert len(tree(there / "data")) == 6


def disk(monkeypatch: pytest.MonkeyPatch, *free: int) -> None:
    """What the disk has free, one answer after the other."""
    answers = iter(free)
    monkeypatch.setattr(archives.shutil, "disk_usage", lambda path: SimpleNamespace(free=next(answers)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_disk_is_noticed_before(
    kind: str, tmp_path: Path, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = write(tmp_path / f"a.{kind}")
    disk(monkeypatch, 900)
    with pytest.raises(InputError, match=f"need [0-9,]+ bytes unpacked, {there} has 900 free"):
        extract([archive], there / "data")
    assert list(there.iterdir()) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_disk_that_fills_up_is_noticed(
    kind: str, tmp_path: Path, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = write(tmp_path / f"a.{kind}", {"a": NOISE, "b": NOISE})
    disk(monkeypatch, 1 << 30, 5000, 4999)
    refused(archive, there, "member 'b' of 5,000 bytes does not fit on the disk, 4,999 are free")


def test_a_write_that_fails(tmp_path: Path, there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any) -> Any:
        raise OSError(28, "No space left on device")

    archive = write(tmp_path / "a.tar")
    monkeypatch.setattr(archives.os, "fdopen", full)
    refused(archive, there, r"1.jpg' cannot be unpacked \(No space left on device\)")


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(
    ("claim", "found"), [(10, "Bad CRC|declares 10"), (900, "declares 900 bytes and holds 500|dam")]
)
def test_a_zip_that_lies_about_a_size(claim: int, found: str, packed: bool, tmp_path: Path, there: Path) -> None:
    archive = write_zip(tmp_path / "a.zip", ("a", NOISE[:500]), packed=packed)
    content = bytearray(archive.read_bytes())
    for place in (22, content.index(b"PK\x01\x02") + 24):
        content[place : place + 4] = struct.pack("<I", claim)
    archive.write_bytes(content)
    refused(archive, there, f"member 'a' .*({found})")


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


# Damage


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


def test_a_damaged_header_is_not_the_end(tmp_path: Path, there: Path) -> None:
    archive = write(tmp_path / "a.tar", {"a": b"1", "b": b"2", "c": b"3"})
    content = bytearray(archive.read_bytes())
    content[1024] ^= 1  # of the header of b
    archive.write_bytes(content)
    refused(
        archive, there, r"member 'a' is damaged or cut off \(after this member: bad checksum\): download it again"
    )


def test_a_missing_end_mark_is_a_cut(tmp_path: Path, there: Path) -> None:
    archive = write(tmp_path / "a.tar", {"a": b"1", "b": b"2"})
    archive.write_bytes(archive.read_bytes()[:2048])
    refused(archive, there, r"member 'b' is damaged or cut off \(after this member: empty header\)")


def test_a_wrong_checksum_at_the_end_of_a_gzip(tmp_path: Path, there: Path) -> None:
    archive = write(tmp_path / "a.tar.gz")
    content = bytearray(archive.read_bytes())
    content[-8:-4] = struct.pack("<I", zlib.crc32(b"another"))
    archive.write_bytes(content)
    refused(archive, there, "CRC check failed")


def test_what_follows_the_end_of_a_tar_is_told(tmp_path: Path, there: Path) -> None:
    """Two tars, one behind the other in a file: the second is not unpacked, and that is not kept quiet."""
    archive = write(tmp_path / "a.tar", {"a": b"1"})
    archive.write_bytes(archive.read_bytes() + write(tmp_path / "b.tar", {"b": b"2"}).read_bytes())
    expected = Problem(str(archive), "what follows the end of the tar was passed over")
    assert extract([archive], there / "data") == (expected,)
    assert tree(there / "data") == {"a": b"1"}


# Whole or not there


def interrupted(at: int) -> Callable[[str, int, int], None]:
    calls = iter(range(1000))

    def report(what: str, done: int, total: int) -> None:
        if next(calls) == at:
            raise KeyboardInterrupt

    return report


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("at", [0, 3])
def test_an_interruption_leaves_nothing(kind: str, at: int, tmp_path: Path, there: Path) -> None:
    archive = write(tmp_path / f"a.{kind}")
    with pytest.raises(KeyboardInterrupt):
        extract([archive], there / "data", interrupted(at))
    assert list(there.iterdir()) == []
    extract([archive], there / "data")
    assert tree(there / "data") == FILES


def test_nothing_can_be_read_before_all_is_there(tmp_path: Path, there: Path) -> None:
    seen = []
    extract([write(tmp_path / "a.tar")], there / "data", lambda *report: seen.append((there / "data").exists()))
    assert not any(seen)
    assert (there / "data").exists()


def test_what_a_killed_process_left_is_removed(tmp_path: Path, there: Path) -> None:
    (there / "data.unpacking/old").mkdir(parents=True)
    (there / "data.unpacking/old/file").write_text("half")
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


def test_an_empty_folder_a_link_and_a_deep_one_are_fine(tmp_path: Path, there: Path) -> None:
    archive = write(tmp_path / "a.tar")
    (there / "empty").mkdir()
    (there / "link").symlink_to(there / "elsewhere")
    for name in ("empty", "link", "very/deep"):
        extract([archive], there / name)
        assert tree(there / name) == FILES
    assert (there / "link").is_symlink()


def test_a_folder_that_cannot_be_written_to(tmp_path: Path, there: Path) -> None:
    (there / "file").touch()
    with pytest.raises(InputError, match=r"cannot write next to .*/file/data \(.*\): choose another folder"):
        extract([write(tmp_path / "a.tar")], there / "file" / "data")
