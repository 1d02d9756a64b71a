"""The data sets of this machine: added whole or not at all, used by name or path, never taken from their owner."""

import errno
import json
import logging
import os
import re
import shutil
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from parse_dg.data.intake import archive_writer, library
from parse_dg.data.intake.library import add, added, check, domain_names, open_manifest, remove
from parse_dg.data.manifest import verify
from parse_dg.errors import InputError
from tests.cli.conftest import snapshot
from tests.data.intake.damage import encoded, picture
from tests.data.intake.packing import member, write, write_tar
from tests.parts import refusal

DOMAINS, CLASSES = ("day", "fog", "night"), ("cat", "owl")


def plant(
    root: Path,
    domains: Sequence[str] = DOMAINS,
    classes: Sequence[str] = CLASSES,
    images: int = 2,
    first: int = 0,
    side: tuple[int, int] = (8, 6),
) -> Path:
    """A folder domain/class/image, every image another."""
    number = first
    for domain in domains:
        for name in classes:
            (root / domain / name).mkdir(parents=True, exist_ok=True)
            for image in range(images):
                (root / domain / name / f"{image}.png").write_bytes(encoded(picture(number, side), "PNG"))
                number += 1
    return root


def pack(folder: Path, path: Path, inside: Sequence[str] = (".",)) -> Path:
    """An archive of a folder, or of some of what it holds; the name says which kind."""
    files = sorted(file for part in inside for file in (folder / part).rglob("*") if file.is_file())
    return write(path, {str(file.relative_to(folder)): file.read_bytes() for file in files})


def write_list(folder: Path, path: Path) -> Path:
    """The images of domain/class/image as a list."""
    names = ("path", "domain", "class")
    rows = [(os.path.relpath(file, path.parent), *file.parts[-3:-1]) for file in sorted(folder.glob("*/*/*"))]
    entries = [dict(zip(names, row, strict=True)) for row in rows]
    lines = [",".join(row) for row in (names, *rows)] if path.suffix == ".csv" else list(map(json.dumps, entries))
    path.write_text(json.dumps({"images": entries}) if path.suffix == ".json" else "\n".join([*lines, ""]))
    return path


@pytest.fixture(autouse=True)
def data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A data folder of its own for every test; it is not there yet."""
    monkeypatch.setenv("PARSE_DG_DATA", str(tmp_path / "kept"))
    return tmp_path / "kept"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return plant(tmp_path / "own")


def told(caplog: pytest.LogCaptureFixture) -> str:
    return "\n".join(record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING)


def test_a_folder_is_indexed_where_it_is(own: Path, data: Path) -> None:
    before = snapshot(own)
    manifest = add("mine", [own])
    assert snapshot(own) == before
    assert manifest.root == own
    assert (manifest.name, manifest.domains, manifest.classes) == ("mine", DOMAINS, CLASSES)
    assert manifest.counts == dict.fromkeys(DOMAINS, 4)
    assert sorted(snapshot(data)) == ["mine", "mine/manifest.jsonl"]
    assert open_manifest("mine") == manifest
    assert domain_names("mine") == DOMAINS
    assert added() == ["mine"]


def a_zip_by_another_name(own: Path, folder: Path) -> list[Path]:
    return [pack(own, folder / "own.zip").rename(folder / "download")]


def a_folder_of_parts(own: Path, folder: Path) -> list[Path]:
    (folder / "parts").mkdir()
    (folder / "parts" / ".DS_Store").write_bytes(b"x")
    pack(own, folder / "parts" / "day.tar", ["day"])
    pack(own, folder / "parts" / "fog.zip", ["fog"])
    pack(own, folder / "parts" / "night.tar.gz", ["night", "day/cat"])  # shares some files with the first
    return [folder / "parts"]


@pytest.mark.parametrize("given", [a_zip_by_another_name, a_folder_of_parts])
def test_archives_are_unpacked_into_the_data_folder(
    given: Callable[[Path, Path], list[Path]], own: Path, data: Path, tmp_path: Path
) -> None:
    by_hand = add("by-hand", [own])
    paths = given(own, tmp_path)
    manifest = add("mine", paths)
    assert manifest.fingerprint == by_hand.fingerprint
    assert manifest.root == data / "mine" / "files"
    assert snapshot(data / "mine" / "files") == snapshot(own)
    assert sorted(path.name for path in (data / "mine").iterdir()) == ["files", "manifest.jsonl"]
    shutil.rmtree(own)
    for path in paths:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert check("mine") == (manifest, ())


def test_an_archive_of_own_data_may_have_folders_around_it(own: Path, data: Path, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    own.rename(tmp_path / "deep" / "own")
    (tmp_path / "deep" / "README").write_text("of my own")
    manifest = add("mine", [pack(tmp_path, tmp_path / "own.zip", ["deep"])])
    assert manifest.root == data / "mine" / "files" / "deep" / "own"
    assert manifest.counts == dict.fromkeys(DOMAINS, 4)
    assert check("mine") == (manifest, ())
    flat = add("flat", [pack(tmp_path / "deep" / "own" / DOMAINS[0], tmp_path / "flat.tar")])
    assert flat.domains == ("flat",)


def test_an_archive_that_is_refused_is_named_not_where_it_was_unpacked(data: Path, tmp_path: Path) -> None:
    parts = pack(plant(tmp_path / "parts", ("train", "test")), tmp_path / "parts.zip")
    with pytest.raises(InputError, match=r"look like parts of a data set.*unpack it by hand") as caught:
        add("mine", [parts])
    assert str(parts) in str(caught.value)
    assert str(data) not in str(caught.value)
    assert not (data / "mine").exists()


@pytest.mark.parametrize(("name", "beside"), [("own.json", True), ("own.jsonl", False), ("OWN.CSV", False)])
def test_a_list_is_indexed_where_its_images_are(name: str, beside: bool, own: Path, tmp_path: Path) -> None:
    (tmp_path / "lists").mkdir()
    place = (own if beside else tmp_path / "lists") / name
    path = write_list(own, place.with_suffix(place.suffix.lower()))
    path = path.rename(place)
    manifest = add("mine", [path])
    assert manifest.layout.startswith("a list")
    assert manifest.counts == dict.fromkeys(DOMAINS, 4)
    assert [image.digest for image in manifest.images] == [image.digest for image in add("f", [own]).images]
    assert check("mine") == (manifest, ())


def test_what_a_killed_process_left_is_in_nobodys_way(own: Path, data: Path, tmp_path: Path) -> None:
    (data / "mine" / "files.writing" / "day").mkdir(parents=True)
    (data / "mine" / "files.unpacking.lock").touch()
    add("mine", [pack(own, tmp_path / "own.zip")])
    assert {path.name for path in (data / "mine").iterdir()} == {"files", "manifest.jsonl"}


def broken(folder: Path) -> list[Path]:
    whole = pack(plant(folder / "more", images=9), folder / "broken.tar.gz").read_bytes()
    (folder / "broken.tar.gz").write_bytes(whole[: len(whole) // 2])
    return [folder / "broken.tar.gz"]


def a_link(folder: Path) -> list[Path]:
    """An archive that would write through a link, to a place of its own choice."""
    link = member("day/cat/out", type=tarfile.SYMTYPE, linkname=str(folder))
    return [write_tar(folder / "link.tar", link, member("day/cat/out/stolen.png", b"abc"))]


def no_domains(folder: Path) -> list[Path]:
    (folder / "flat").mkdir()
    (folder / "flat" / "1.png").write_bytes(encoded(picture(), "PNG"))
    return [pack(folder / "flat", folder / "flat.zip")]


def an_unreadable_domain(folder: Path) -> list[Path]:
    for file in plant(folder / "half").glob("fog/*/*.png"):
        file.write_bytes(b"")
    return [folder / "half"]


def a_folder_and_an_archive(folder: Path) -> list[Path]:
    return [plant(folder / "one"), pack(folder / "one", folder / "one.zip")]


MISTAKES: list[tuple[Callable[[Path], list[Path]], str]] = [
    (broken, "broken.tar.gz.*damaged or cut off"),
    (a_link, "link.tar.*day/cat/out' is a link to"),
    (no_domains, "expected domain/class/image.*found images without a class folder"),
    (an_unreadable_domain, "fog/cat/0.png.*it is empty"),
    (lambda folder: [folder / "gone" / "away.zip"], "nothing at .*gone/away.zip"),
    (a_folder_and_an_archive, "one is not an archive: expected one folder, one list, or"),
]


@pytest.mark.parametrize(("mistake", "said"), MISTAKES)
def test_what_cannot_be_added_leaves_nothing(
    mistake: Callable[[Path], list[Path]], said: str, data: Path, tmp_path: Path
) -> None:
    paths = mistake(tmp_path)
    before = snapshot(tmp_path)
    assert re.search(said, refusal(add, "mine", paths))
    assert [name for name in snapshot(data) if name] == []
    assert {name: file for name, file in snapshot(tmp_path).items() if name != "kept"} == before
    assert added() == []


def disk_full_while_unpacking(patch: pytest.MonkeyPatch) -> None:
    def file(self: Any, path: Path, *rest: Any) -> None:
        if path.name == "1.png":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"half")

    patch.setattr(archive_writer.ArchiveWriter, "file", file)


def disk_full_at_the_end(patch: pytest.MonkeyPatch) -> None:
    def full(manifest: Any, path: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    patch.setattr(library, "write_manifest", full)


def too_small_a_disk(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(100, 90, 10))


def interrupted(patch: pytest.MonkeyPatch) -> None:
    def index(*arguments: Any, **settings: Any) -> None:
        raise KeyboardInterrupt

    patch.setattr(library, "index", index)


ACCIDENTS: dict[Callable[[pytest.MonkeyPatch], None], str] = {
    disk_full_while_unpacking: "No space left on device",
    disk_full_at_the_end: "set PARSE_DG_DATA to another folder",
    too_small_a_disk: "10 free",
    interrupted: "^$",
}


@pytest.mark.parametrize("accident", ACCIDENTS, ids=lambda case: case.__name__)
@pytest.mark.parametrize("before", ["nothing", "archive"])
def test_an_accident_leaves_what_was_there(
    accident: Callable[[pytest.MonkeyPatch], None], before: str, own: Path, data: Path, tmp_path: Path
) -> None:
    if before != "nothing":
        add("mine", [pack(own, tmp_path / "old.zip")])
    known = snapshot(data)
    other = pack(plant(tmp_path / "other", first=50), tmp_path / "other.zip")
    with pytest.MonkeyPatch.context() as patch:
        accident(patch)
        with pytest.raises((InputError, KeyboardInterrupt), match=ACCIDENTS[accident]):
            add("mine", [other], replace=True)
    assert snapshot(data) == known
    if before != "nothing":
        assert check("mine")[1] == ()
    assert add("mine", [other], replace=True).counts == dict.fromkeys(DOMAINS, 4)  # nothing is in the way


def test_a_name_is_given_once_unless_it_is_replaced(own: Path, data: Path, tmp_path: Path) -> None:
    archive = pack(own, tmp_path / "own.zip")
    first = add("mine", [archive])
    known = snapshot(data)
    assert "mine has been added before: `--replace`" in refusal(add, "mine", [archive])
    assert snapshot(data) == known
    for number in range(2):  # what was unpacked before is gone each time
        manifest = add("mine", [pack(plant(own, first=100 * number + 50), archive)], replace=True)
        assert manifest.fingerprint != first.fingerprint
        assert check("mine") == (manifest, ())
        (unpacked,) = (path for path in (data / "mine").iterdir() if path.is_dir())
        assert snapshot(unpacked) == snapshot(own)
    manifest = add("mine", [own], replace=True)
    assert sorted(snapshot(data)) == ["mine", "mine/manifest.jsonl"]
    assert open_manifest("mine").root == manifest.root == own


@pytest.mark.parametrize("name", ["", "..", "a/b", "/tmp/x", "blueprints", "by-path", "x" * 100, "-x", "ü", "x\n"])
def test_names_that_are_not_allowed(name: str, own: Path, tmp_path: Path) -> None:
    before = snapshot(tmp_path)
    for action in (lambda: add(name, [own]), lambda: remove(name)):
        assert re.search(r"cannot name a data set: expected pacs, vlcs,|is reserved: choose", refusal(action))
    assert snapshot(tmp_path) == before


def test_photographs_in_the_data_folder_are_not_touched(data: Path, tmp_path: Path) -> None:
    """PARSE_DG_DATA may be where somebody keeps photographs: what is removed with a data set must not be theirs."""
    plant(data / "birds")
    plant(data / "other" / "files")
    before = snapshot(data)
    with pytest.raises(InputError, match=r"birds holds day, which was not put there .*choose another name"):
        add("birds", [data / "birds"])
    with pytest.raises(InputError, match=r"0.png lies in the data folder .*elsewhere, or set PARSE_DG_DATA"):
        add("mine", [data / "birds"])
    assert "files/day/cat/0.png lies in the data folder" in refusal(add, "other", [data / "other" / "files"])
    with pytest.raises(InputError, match=r"birds/day/cat/0.png lies in the data folder"):
        add("mine", [write_list(data / "birds", tmp_path / "birds.csv")])
    assert "birds holds day" in refusal(remove, "birds")
    assert "birds holds day" in refusal(add, "birds", [plant(tmp_path / "elsewhere")])
    assert snapshot(data) == before
    assert open_manifest(str(data / "birds")).counts == dict.fromkeys(DOMAINS, 4)  # by its path it can be used


def test_a_path_is_indexed_once(own: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    manifest = open_manifest(str(own))
    assert (manifest.name, manifest.root) == ("own", own)
    monkeypatch.setattr(library, "index", lambda *a, **k: pytest.fail("indexed again"))
    monkeypatch.chdir(own)
    (tmp_path / "link").symlink_to(own)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (".", "../own", str(own) + "/", str(tmp_path / "link"), "~/own", "day/.."):
        assert open_manifest(name) == manifest
    assert added() == []


def test_a_path_is_indexed_again_when_its_files_change(
    own: Path, data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = open_manifest(str(own))
    (own / "day" / "cat" / "9.png").write_bytes(encoded(picture(99), "PNG"))
    (own / "fog" / "cat" / "0.png").unlink()
    (own / "fog" / "owl" / "0.png").write_bytes((own / "day" / "owl" / "0.png").read_bytes())
    assert told(caplog) == ""
    second = open_manifest(str(own))
    assert second.fingerprint != first.fingerprint
    assert verify(second) == ()
    assert f"{own} is not what it was when it was last used (1 new images, 1 gone, 1 changed)" in told(caplog)
    assert told(caplog).count("1 image more than once") == 1
    caplog.clear()
    assert open_manifest(str(own)) == second
    os.utime(own / "day" / "cat" / "0.png", (1, 1))  # only touched
    assert open_manifest(str(own)) == second
    assert told(caplog) == ""
    assert len(list(data.glob("by-path/*/*.jsonl"))) == 1


def test_a_damaged_manifest_of_a_path_is_made_again(own: Path, data: Path) -> None:
    manifest = open_manifest(str(own))
    (kept,) = data.glob("by-path/*/*.jsonl")
    for content in (b"", b"{", kept.read_bytes()[:-20]):
        kept.write_bytes(content)
        assert open_manifest(str(own)) == manifest
        assert open_manifest(str(own)) == manifest


def test_what_is_missing_changed_or_new_is_found(own: Path) -> None:
    (own / "night" / "owl" / "bad.png").write_bytes(b"")
    (own / "night" / "owl" / "notes.txt").write_text("x")
    manifest = add("mine", [own])
    assert check("mine") == (manifest, ())
    (own / "day" / "cat" / "0.png").unlink()
    (own / "day" / "cat" / "1.png").write_bytes(b"other")
    same_length = bytearray((own / "day" / "owl" / "0.png").read_bytes())
    same_length[-1] ^= 1
    (own / "day" / "owl" / "0.png").write_bytes(same_length)
    plant(own, ["dusk"], ["cat"], images=1)
    (own / "fog" / "cat" / "new.png").write_bytes(encoded(picture(77), "PNG"))
    _, changed = check("mine")
    assert [(problem.path, problem.reason.split(":")[0]) for problem in changed] == [
        ("day/cat/0.png", "no such file or directory"),
        ("day/cat/1.png", "it has changed"),
        ("day/owl/0.png", "it has changed"),
        ("dusk/cat/0.png", "it is new"),
        ("fog/cat/new.png", "it is new"),
    ]
