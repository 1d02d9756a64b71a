"""Where the members of archives go, how much of them there may be, and what is refused."""

import os
import shutil
import stat
import struct
import tarfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from parse_dg.data.intake import archive_writer
from parse_dg.data.intake.archive_writer import ArchiveLimits
from parse_dg.data.intake.archives import extract
from parse_dg.data.listing import Problem
from parse_dg.errors import InputError
from tests.data.intake.packing import KINDS, NOISE, member, refused, tree, write, write_tar, write_zip, zip_info


def test_permissions_and_owners_are_not_kept(tmp_path: Path, there: Path) -> None:
    folder = member("a", type=tarfile.DIRTYPE, mode=0o777)
    file = member("a/b/c", b"x", mode=0o6777, uid=12345)
    os.umask(0)
    extract([write_tar(tmp_path / "a.tar", folder, file)], there / "tar")
    extract([write_zip(tmp_path / "a.zip", (zip_info("a/b/c", stat.S_IFREG | 0o4755), b"x"))], there / "zip")
    for kind in ("tar", "zip"):
        modes = [stat.S_IMODE((there / kind / place).stat().st_mode) for place in ("", "a", "a/b", "a/b/c")]
        assert modes == [0o755, 0o755, 0o755, 0o644]
        assert (there / kind / "a/b/c").stat().st_uid == os.getuid()


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_names_are_tidied_up(kind: str, tmp_path: Path, there: Path) -> None:
    archive = write(tmp_path / f"a.{kind}", {"./a/./b//c": b"1", "a\\d\\e": b"2", "a/B": b"3", "A/b": b"4"})
    extract([archive], there / "data")
    assert tree(there / "data") == {"a/b/c": b"1", "a/d/e": b"2", "a/B": b"3", "A/b": b"4"}


def test_what_macos_adds_is_passed_over(tmp_path: Path, there: Path) -> None:
    junk = dict.fromkeys(("__MACOSX/a/._1.jpg", "a/.DS_Store", "a/._1.jpg"), b"x")
    junk |= {"a/1.jpg": b"1", "a/__MACOSX.jpg": b"2"}
    for kind in ("tar", "zip"):
        archive = write(tmp_path / f"a.{kind}", junk)
        expected = Problem(str(archive), "3 members that macOS adds were passed over")
        assert extract([archive], there / kind) == (expected,)
        assert tree(there / kind) == {"a/1.jpg": b"1", "a/__MACOSX.jpg": b"2"}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("/etc/evil", "has an absolute path"),
        ("../evil", "leads out of the folder"),
        ("a/../../evil", "leads out"),
        ("a\\..\\..\\evil", "leads out"),
        ("c:evil", "absolute path"),
        ("\\\\server\\share\\evil", "absolute path"),
        ("a\nb", "has a control character in its name"),
    ],
)
@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_names_that_lead_elsewhere(kind: str, name: str, reason: str, tmp_path: Path, there: Path) -> None:
    archive = tmp_path / f"a.{kind}"
    if kind == "zip":
        write_zip(archive, ("good", b"1"), (zip_info(name), b"evil"))
    else:
        bad = member("placeholder", b"evil", pax_headers={"path": name})
        write_tar(archive, member("good", b"1"), bad)
    refused(archive, there, reason)


@pytest.mark.parametrize("kind", ["tar", "zip"])
@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (("a", "a/b"), "member 'a/b' needs a folder where the archive has a file"),
        (("a/b", "a"), "member 'a' is a file where the archive has a folder"),
        (("a", "a"), "member 'a' comes twice, with different content"),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_names_that_clash(kind: str, names: tuple[str, str], reason: str, tmp_path: Path, there: Path) -> None:
    files = list(zip(names, (b"first", b"second"), strict=True))
    archive = tmp_path / f"a.{kind}"
    write_zip(archive, *files) if kind == "zip" else write_tar(archive, *(member(*file) for file in files))
    refused(archive, there, reason)


@pytest.mark.parametrize("kind", KINDS)
def test_the_size_is_limited(kind: str, tmp_path: Path, there: Path) -> None:
    archive = write(tmp_path / f"a.{kind}", {"a": NOISE, "b": NOISE[::-1], "c": b"1"})
    extract([archive], there / "data", limits=ArchiveLimits(bytes=10_001))
    shutil.rmtree(there / "data")
    said = "(of 1 bytes makes|to 10,001 bytes,) more than the 10,000"
    refused(archive, there, said, limits=ArchiveLimits(bytes=10_000))


@pytest.mark.parametrize("kind", KINDS)
def test_the_number_of_members_is_limited(kind: str, tmp_path: Path, there: Path) -> None:
    archive = write(tmp_path / f"a.{kind}", {str(n): b"" for n in range(6)})
    refused(archive, there, "member '5' is one of more than 5 members", limits=ArchiveLimits(members=5))


@pytest.mark.parametrize("kind", ["tar.gz", "tar.xz", "zip"])
def test_a_bomb_is_refused_by_its_ratio(kind: str, tmp_path: Path, there: Path) -> None:
    small, empty = {f"small{n}": bytes(1 << 16) for n in range(32)}, {f"empty{n}": b"" for n in range(500)}
    for ratio, start, files in (
        (200, 20, {"good": NOISE, "bomb": bytes(3 << 20)}),
        (200, 20, small),
        (3, 17, empty),
    ):
        archive = write(tmp_path / f"a.{kind}", files)
        said = rf"member '(bomb|small\d+|empty\d+)' makes the archive unpack to more than {ratio} times its size"
        refused(archive, there, said, limits=ArchiveLimits(ratio=ratio, ratio_from=1 << start))


def disk(monkeypatch: pytest.MonkeyPatch, *free: int) -> None:
    """What the disk has free, one answer after the other."""
    answers = iter(free)
    monkeypatch.setattr(archive_writer.shutil, "disk_usage", lambda path: SimpleNamespace(free=next(answers)))


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
