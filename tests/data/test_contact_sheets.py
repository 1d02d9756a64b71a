"""Contact sheets: one a domain, every image where its class is, and no name can break them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from parse_dg.data import contact_sheets
from parse_dg.data.benchmarks import DataConfig
from parse_dg.data.contact_sheets import LABEL, ROWS, SheetRow, contact_sheet, spread, write_contact_sheets
from parse_dg.data.images import read_file
from parse_dg.errors import InputError
from tests.data.intake.test_library import plant

COLOURS = ("red", "lime", "blue", "magenta", "cyan", "orange")


@pytest.fixture(autouse=True)
def data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PARSE_DG_DATA", str(tmp_path / "kept"))
    monkeypatch.chdir(tmp_path)


def sheet_row(name: str, count: int, *colours: str) -> SheetRow:
    return SheetRow(name, count, [np.array(Image.new("RGB", (8, 8), colour)) for colour in colours])


def draw(title: str, rows: Sequence[SheetRow]) -> np.ndarray:
    return np.array(contact_sheet(title, rows, len(rows), 40))


def where(sheet: np.ndarray, colour: str) -> tuple[int, int, int, int]:
    """The box of a colour (left, top, right, bottom), which it must fill."""
    found = (sheet == np.array(Image.new("RGB", (1, 1), colour))[0, 0]).all(2)
    rows, columns = found.any(1).nonzero()[0], found.any(0).nonzero()[0]
    box = int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1
    assert found[box[1] : box[3], box[0] : box[2]].all()
    return box


def ink(sheet: np.ndarray, right: int, top: int, bottom: int) -> int:
    """How many dark pixels there are left of `right`, between two heights: text."""
    return int((sheet[top:bottom, :right].max(2) < 140).sum())


def test_a_row_a_class_and_a_column_an_image() -> None:
    sheet = draw("photo", [sheet_row("dog", 189, *COLOURS[:3]), sheet_row("cat", 70, *COLOURS[3:5])])
    boxes = [[where(sheet, c) for c in COLOURS[:3]], [where(sheet, c) for c in COLOURS[3:5]]]
    for row in boxes:
        assert all(right - left == bottom - top == 40 for left, top, right, bottom in row)
        left, top, _, bottom = row[0]
        assert {box[1] for box in row} == {top}
        assert row == sorted(row)
        assert ink(sheet, left - 5, top, bottom) > 30  # its name
    assert boxes[0][0][0] == boxes[1][0][0]
    assert boxes[0][0][3] < boxes[1][0][1]
    assert ink(sheet, 300, 0, boxes[0][0][1] - 5) > 50  # the title


def test_an_image_is_the_right_way_round() -> None:
    image = np.array(Image.new("RGB", (40, 40), "red"))
    image[:10, 20:] = (0, 255, 0)  # upper right
    sheet = draw("photo", [SheetRow("dog", 1, [image])])
    box = where(sheet, "lime")
    assert (box[2] - box[0], box[3] - box[1]) == (20, 10)
    assert (sheet[box[1] + 30, box[0] - 10] == (255, 0, 0)).all()


def test_a_choice_is_spread_evenly() -> None:
    assert (spread(0, 12), spread(3, 12), spread(12, 12)) == ([], [0, 1, 2], list(range(12)))
    assert spread(13, 4) == [0, 4, 8, 12]
    assert spread(345, 12) == [0, 31, 63, 94, 125, 156, 188, 219, 250, 281, 313, 344]


def texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is written on the sheets that follow."""
    written: list[str] = []
    original = contact_sheets.ImageDraw.ImageDraw.text

    def text(self: object, place: object, words: str, *rest: object, **settings: object) -> None:
        written.append(words)
        original(self, place, words, *rest, **settings)  # type: ignore[arg-type]

    monkeypatch.setattr(contact_sheets.ImageDraw.ImageDraw, "text", text)
    return written


def test_many_classes_are_a_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = texts(monkeypatch)
    root = plant(tmp_path / "own", ["a", "b"], [f"class {n:02d}" for n in range(30)], images=3)
    write_contact_sheets(config(root), tmp_path / "sheets", 2)
    assert written.count("12 of 30 classes") == 2
    chosen = [f"class {n:02d}" for n in spread(30, ROWS)]
    assert [word for word in written if word.startswith("class ")] == 2 * chosen
    assert written.count("3 images") == 2 * ROWS


@pytest.mark.parametrize("name", ["", "žirafa ñandú", "猫", "a\nb\tc", "\x00\x1b[2J", "\udce9", "x" * 10_000])
def test_no_name_breaks_a_sheet(name: str) -> None:
    sheet = draw(name, [sheet_row(name, 1, "red"), sheet_row("dog", 2, "lime")])
    assert where(sheet, "red")[0] == where(sheet, "lime")[0] < LABEL + 100
    assert sheet.shape[1] < 800


def coloured(root: Path, domains: list[str]) -> Path:
    """Domains of one class and one image, each of another colour."""
    for domain, colour in zip(domains, COLOURS, strict=False):
        (root / domain / "thing").mkdir(parents=True)
        Image.new("RGB", (9, 9), colour).save(root / domain / "thing" / "1.png")
    return root


def config(data: Path | str, pixels: int = 32) -> DataConfig:
    return DataConfig(benchmark=str(data), store="never", image_size=pixels)


def area(path: Path, colour: str) -> int:
    """How many pixels of a sheet have a colour."""
    with Image.open(path) as sheet:
        assert (sheet.format, sheet.mode) == ("PNG", "RGB")
        pixels = np.array(sheet)
    return int((pixels == np.array(Image.new("RGB", (1, 1), colour))[0, 0]).all(2).sum())


ODD = {
    "plain": ["day", "night"],
    "one name once cleaned": ["a b", "a_b", "a?b"],
    "letters of other scripts": ["猫", "犬", "ñandú"],
    "like our numbers": ["1_a b", "a_b", "a b", "2_a_b"],
    "long": ["x" * 250, "x" * 249 + "y", "é" * 125],
}


@pytest.mark.parametrize("case", ODD)
def test_every_domain_has_a_sheet_of_its_own(case: str, tmp_path: Path) -> None:
    domains = sorted(ODD[case])
    root = coloured(tmp_path / "own", domains)
    sheets = write_contact_sheets(config(root), tmp_path / "sheets", 8)
    assert len({sheet.name.casefold() for sheet in sheets}) == len(domains)
    assert sorted(path.name for path in (tmp_path / "sheets").iterdir()) == sorted(sheet.name for sheet in sheets)
    for number, sheet in enumerate(sheets):
        assert not sheet.name.startswith(".")
        assert [area(sheet, colour) > 0 for colour in COLOURS] == [n == number for n in range(len(COLOURS))]


def test_only_what_is_shown_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = plant(tmp_path / "own", ["a", "b"], [f"class{n:02d}" for n in range(30)], images=3)
    write_contact_sheets(config(root), tmp_path / "sheets", 1)  # indexed
    read: list[object] = []

    def note(path: Path) -> bytes:
        read.append(path)
        return read_file(path)

    monkeypatch.setattr("parse_dg.data.domain.read_file", note)
    write_contact_sheets(config(root), tmp_path / "sheets", 2)
    assert len(read) == 2 * ROWS * 2


@pytest.mark.parametrize(
    ("images", "pixels", "name"),
    [(0, 32, "--images"), (13, 32, "--images"), (8, 15, "--pixels"), (8, 513, "--pixels")],
)
def test_numbers_out_of_range(images: int, pixels: int, name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"{name} must be from 1"):
        write_contact_sheets(config(coloured(tmp_path / "own", ["a", "b"]), pixels), tmp_path / "sheets", images)
    assert not (tmp_path / "sheets").exists()
