"""`parse-dg data`: what each command says and leaves behind, and one line for every mistake."""

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from parse_dg.data.public.catalogue import DATA_SETS, Address
from tests.cli.conftest import Run, assert_refused, snapshot, table
from tests.data.intake.damage import encoded, picture
from tests.data.intake.server import Server, fixed, good, serving
from tests.data.intake.test_library import CLASSES, DOMAINS, a_link, broken, pack, plant, write_list

PACS = DATA_SETS["pacs"]


@pytest.fixture(autouse=True)
def data(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder of its own for every test."""
    folder = tmp_path_factory.mktemp("kept")
    monkeypatch.setenv("PARSE_DG_DATA", str(folder))
    return folder


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return plant(tmp_path / "own")


def test_a_folder_is_added_and_described(run: Run, own: Path, data: Path) -> None:
    said = run("data", "add", "mine", own)
    assert (said.code, said.err) == (0, "")
    assert table(said.out) == [["domain", "images"], *([name, "4"] for name in DOMAINS), ["all", "12"]]
    assert "mine: folders: domain/class/image" in said.out
    assert "2 classes; images of 8 × 6 pixels; fingerprint " in said.out
    assert "12 of 12 images are not square: training squashes them, unless --set data.fit=crop" in said.out
    assert f"added: its manifest is {data / 'mine' / 'manifest.jsonl'}" in said.out
    assert_refused(run("data", "add", "mine", own), "mine has been added before: `--replace` indexes it anew")
    assert run("data", "add", "mine", own, "--replace").code == 0


def test_a_tiny_pacs_names_every_domain_that_differs(run: Run, tmp_path: Path) -> None:
    root = plant(tmp_path / "PACS", PACS.domains, PACS.classes, images=1)
    said = run("data", "add", "pacs", root)
    assert said.code == 0
    assert table(said.out)[1] == ["art_painting", "7", "2,048"]
    for domain, count in zip(PACS.domains, PACS.expected[0].counts, strict=True):
        assert f"- {domain}: 7 images found, {count:,} expected" in said.out
    assert "- 28 images in all, 9,991 published" in said.out
    assert "the published ones" not in said.out


def test_what_is_wrong_with_some_files_is_said_and_the_rest_added(run: Run, own: Path) -> None:
    whole = (own / "day" / "cat" / "0.png").read_bytes()
    (own / "day" / "cat" / "0.png").write_bytes(whole[:60])
    (own / "day" / "cat" / "1.png").write_bytes(b"")
    (own / "fog" / "cat" / "text.jpg").write_text("text")
    (own / "fog" / "cat" / "folder.jpg").mkdir()
    (own / "fog" / "cat" / "nowhere.jpg").symlink_to(own / "gone")
    (own / "fog" / "cat" / "new\nline.png").write_bytes(b"")
    (own / "fog" / "cat" / "notes.txt").write_text("text")
    (own / "fog" / "cat" / ("ü" * 123 + ".gif")).write_bytes(encoded(picture(70), "GIF"))
    (own / "night" / "cat" / "copy.png").write_bytes((own / "fog" / "owl" / "1.png").read_bytes())
    said = run("data", "add", "mine", own)
    assert said.code == 0
    assert table(said.out)[1:] == [["day", "2"], ["fog", "5"], ["night", "5"], ["all", "12"]]
    for line in (
        "- 4 files unreadable and left out: day/cat/0.png (it is cut short); day/cat/1.png (it is empty); "
        r"'fog/cat/new\nline.png' (it is empty); fog/cat/text.jpg (it is no JPEG",
        "- 1 image more than once (1 in two domains, so that a target has images of a source), such as fog/owl/1",
        "- 1 file passed over, link leads nowhere: fog/cat/nowhere.jpg",
        "- 1 file passed over, not an image by its name: fog/cat/notes.txt",
    ):
        assert line in said.out
    kept = run("data", "add", "mine", own, "--replace", "--keep-truncated")
    assert ["day", "3"] in table(kept.out)


def test_mistakes_in_adding(run: Run, own: Path, data: Path, tmp_path: Path) -> None:
    assert_refused(run("data", "add", "mine", "nowhere"), "nothing at nowhere: expected a folder, a .tar or .zip")
    assert_refused(run("data", "add", "mine", own, own), f"{own} is not an archive: expected one folder, one list")
    assert_refused(run("data", "add", "pacs", own), "expected folders of the domains art_painting, cartoon,", "fog")
    assert_refused(run("data", "add", "mine", own, "--duplicates", "x.txt"), "--duplicates x.txt: expected")
    assert_refused(run("data", "add", "mine", *broken(tmp_path)), "broken.tar.gz", "damaged or cut off")
    assert_refused(run("data", "add", "mine", *a_link(tmp_path)), "link.tar", "is a link to")
    (tmp_path / "bad.csv").write_text("path,domain\n")
    assert_refused(run("data", "add", "mine", tmp_path / "bad.csv"), "bad.csv, line 1: expected the columns path,")
    (tmp_path / "new\nline").mkdir()
    assert_refused(run("data", "add", "mine", tmp_path / "new\nline"), r"new\nline; found no folder")
    for name in ("", "../x", "x" * 100, "a\nb"):
        assert_refused(run("data", "add", name, own), "cannot name a data set: expected pacs,")
    assert_refused(run("data", "add", "blueprints", own), "the name 'blueprints' is reserved: choose another")
    assert snapshot(data) == {}


def test_what_is_here_and_what_could_be(run: Run, own: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "500")  # so that a path and what is said of it stand on one line
    run("data", "add", "pacs", plant(own.parent / "PACS", PACS.domains, PACS.classes, images=1))
    run("data", "add", "mine", own)
    (data / "damaged").mkdir()
    (data / "damaged" / "manifest.jsonl").write_text("[bold]")
    said = run("data", "list")
    assert said.code == 0
    rows = {row[0]: row[1:] for row in table(said.out) if not row[0].endswith("again")}
    assert list(rows) == [
        *("name", "blueprints", "damaged", "mine", "pacs"),
        *("vlcs", "officehome", "terraincognita", "domainnet", "cub-dg"),
    ]
    assert rows["mine"] == ["day, fog, night", "2", "12", str(own)]
    assert rows["pacs"][2] == "28"
    assert rows["vlcs"][2:] == ["10,729 published", "not here yet"]
    assert f"{data / 'damaged' / 'manifest.jsonl'}, line 1: it is cut short" in said.out


def test_a_data_set_that_is_as_it_was(run: Run, own: Path) -> None:
    run("data", "add", "mine", own)
    said = run("data", "check", "mine")
    assert (said.code, said.err) == (0, "")
    assert "all 12 files are there and unchanged (size and SHA-256)" in said.out


def test_files_that_are_missing_changed_or_new_are_named(run: Run, own: Path) -> None:
    run("data", "add", "mine", own)
    (own / "day" / "cat" / "0.png").unlink()
    (own / "fog" / "cat" / "0.png").write_bytes(b"other")
    (own / "night" / "cat" / "9.png").write_bytes(encoded(picture(9), "PNG"))
    said = run("data", "check", "mine")
    assert_refused(
        said,
        "mine is not what was added: 3 files changed: day/cat/0.png (no such file or directory); ",
        "fog/cat/0.png (it has changed: 5 bytes, ",
        "night/cat/9.png (it is new: ",
        "`parse-dg data add mine PATH --replace`",
    )
    assert "are there and unchanged" not in said.out
    assert ["all", "12"] in table(said.out)
    assert run("data", "add", "mine", own, "--replace").code == 0
    assert run("data", "check", "mine").code == 0


def test_a_path_can_be_checked(run: Run, own: Path, tmp_path: Path) -> None:
    for name in ("own", own, "./own/", write_list(own, tmp_path / "own.jsonl")):
        said = run("data", "check", name)
        assert (said.code, said.err) == (0, "")
        assert "all 12 files are there and unchanged" in said.out


@pytest.mark.parametrize("name", ["mine", "own"])
def test_contact_sheets_of_every_domain(name: str, run: Run, own: Path) -> None:
    """By the name that it was added as, or by its path."""
    run("data", "add", "mine", own)
    said = run("data", "show", name)
    assert said.code == 0
    folder = Path("contact_sheets") / name
    assert said.out.splitlines() == [f"contact sheet: {folder / domain}.png" for domain in DOMAINS]
    for domain in DOMAINS:
        with Image.open(folder / f"{domain}.png") as sheet:
            sheet.load()
            assert sheet.size[1] > len(CLASSES) * 112


def test_mistakes_in_showing(run: Run, own: Path, tmp_path: Path) -> None:
    assert_refused(run("data", "show", "cats"), "no data set 'cats'")
    assert_refused(run("data", "show", own, "--images", "0"), "--images must be from 1 to 12, found 0")
    assert_refused(run("data", "show", own, "--pixels", "4"), "--pixels must be from 16 to 512, found 4")
    (tmp_path / "file").write_text("")
    assert_refused(run("data", "show", own, "--out", "file"), "cannot write contact sheets to file")
    assert not (tmp_path / "contact_sheets").exists()


def test_a_data_set_is_forgotten(run: Run, own: Path, data: Path, tmp_path: Path) -> None:
    run("data", "add", "mine", pack(own, tmp_path / "own.tar"))
    assert_refused(run("data", "remove", "yours"), "no data set 'yours': here are blueprints, mine;")
    assert_refused(run("data", "remove", "../own"), "cannot name a data set")
    assert_refused(run("data", "remove", "blueprints"), "the name 'blueprints' is reserved")
    said = run("data", "remove", "mine")
    assert said.code == 0
    assert "mine is forgotten" in said.out
    assert snapshot(data) == {}
    assert len(list(own.rglob("*.png"))) == 12


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server on this machine; what fails there is tried again at once."""
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    with serving() as made:
        yield made


@pytest.fixture
def archive(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A tiny PACS, as it would be published."""
    folder = tmp_path_factory.mktemp("published")
    return pack(plant(folder / "PACS", PACS.domains, PACS.classes, images=1), folder / "PACS.zip").read_bytes()


def publish(monkeypatch: pytest.MonkeyPatch, *addresses: Address) -> None:
    monkeypatch.setitem(DATA_SETS, "pacs", replace(PACS, addresses=addresses))


def test_a_data_set_is_downloaded_checked_and_added(
    run: Run, server: Server, archive: bytes, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sha256 = hashlib.sha256(archive).hexdigest()
    publish(monkeypatch, Address(server.url("PACS.zip"), "PACS.zip", len(archive), sha256))
    server.answers = [good(archive)]
    said = run("data", "download", "pacs")
    assert (said.code, said.err) == (0, "")
    assert ["all", "28", "9,991"] in table(said.out)
    assert (data / "pacs" / "downloads" / "PACS.zip").read_bytes() == archive
    assert run("data", "check", "pacs").code == 0
    assert_refused(run("data", "download", "pacs"), "pacs is here already: `parse-dg data check pacs` looks at it")
    assert len(server.requests) == 1
    run("data", "remove", "pacs")
    assert snapshot(data) == {}


def test_a_download_goes_on_where_it_stopped(
    run: Run, server: Server, archive: bytes, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(monkeypatch, Address(server.url("PACS.zip"), "PACS.zip", sha256=hashlib.sha256(archive).hexdigest()))
    server.answers = [good(archive, upto=1000), fixed(b"", 404)]
    said = run("data", "download", "pacs")
    assert_refused(said, "the server answered 404", "By hand: open the address in a browser, save the archive")
    assert (data / "pacs" / "downloads" / "PACS.zip.part").read_bytes() == archive[:1000]
    assert "pacs" not in [row[0] for row in table(run("data", "list").out) if row[-1] != "not here yet"]
    server.answers = [good(archive)]
    assert run("data", "download", "pacs").code == 0
    assert server.requests[-1]["Range"] == "bytes=1000-"
    assert run("data", "check", "pacs").code == 0


def test_what_cannot_be_downloaded(run: Run, data: Path) -> None:
    assert_refused(run("data", "download", "cats"), "unknown data set 'cats': valid are pacs, vlcs,")
    assert_refused(run("data", "download", "blueprints"), "unknown data set 'blueprints'")
    (data / "pacs").mkdir()
    (data / "pacs" / "my photo.jpg").write_bytes(b"")
    assert_refused(run("data", "download", "pacs"), "holds my photo.jpg, which was not put there")


def test_the_terminal_gets_one_line_and_no_traceback(own: Path, data: Path, tmp_path: Path) -> None:
    """As a user sees it: warnings on standard error, a terminal that knows no letters but the plain ones."""
    (own / "day" / "cat" / "0.png").write_bytes(b"")
    (own / "day" / "cat" / os.fsdecode(b"\xff.png")).write_bytes(b"")
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "COLUMNS": "200"}

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "parse_dg", "data", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    said = call("check", "own")
    assert (said.returncode, "Traceback" in said.stderr) == (0, False)
    expected = (
        rf"parse-dg: {own}: 2 files unreadable and left out: day/cat/0.png (it is empty); 'day/cat/\udcff.png'"
    )
    assert said.stderr.startswith(expected)
    assert said.stderr.count("\n") == 1
    assert "8 \\xd7 6 pixels" in said.stdout
