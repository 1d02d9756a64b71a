"""Contact sheets: every image is where its class is, and no name can break them."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from parse_dg.data import contact
from parse_dg.data.contact import COLUMNS, LABEL, ROWS, contact_sheet, spread

COLOURS = ("red", "lime", "blue", "magenta", "cyan", "orange")


def flat(colour: str | tuple[int, int, int], side: int = 8) -> np.ndarray:
    return np.array(Image.new("RGB", (side, side), colour))


def draw(path: Path, *arguments: object, **settings: object) -> np.ndarray:
    contact_sheet(*arguments, path, **settings)  # type: ignore[arg-type]
    with Image.open(path) as sheet:
        assert sheet.format == "PNG"
        assert sheet.mode == "RGB"
        return np.array(sheet)


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


def test_a_row_a_class_and_a_column_an_image(tmp_path: Path) -> None:
    rows = [[flat(c) for c in COLOURS[:3]], [flat(c) for c in COLOURS[3:5]]]
    sheet = draw(tmp_path / "a.png", "photo", ["dog", "cat"], rows, counts=[189, 70], cell=40)
    boxes = [[where(sheet, c) for c in COLOURS[:3]], [where(sheet, c) for c in COLOURS[3:5]]]
    for row in boxes:
        assert all(right - left == bottom - top == 40 for left, top, right, bottom in row)
        assert len({top for _, top, _, _ in row}) == 1
        assert [left for left, *_ in row] == sorted(left for left, *_ in row)
        left, top, _, bottom = row[0]
        assert ink(sheet, left - 5, top, bottom) > 30  # its name
    assert boxes[0][0][0] == boxes[1][0][0]
    assert boxes[0][0][3] < boxes[1][0][1]
    assert ink(sheet, 300, 0, boxes[0][0][1] - 5) > 50  # the title


def test_an_image_is_the_right_way_round(tmp_path: Path) -> None:
    image = flat("red", 40).copy()
    image[:10, 20:] = (0, 255, 0)  # upper right
    sheet = draw(tmp_path / "a.png", "photo", ["dog"], [[image]], cell=40)
    box = where(sheet, "lime")
    assert (box[2] - box[0], box[3] - box[1]) == (20, 10)
    assert (sheet[box[1] + 30, box[0] - 10] == (255, 0, 0)).all()


@pytest.mark.parametrize(
    ("count", "most", "expected"),
    [
        (0, 12, ()),
        (3, 12, (0, 1, 2)),
        (12, 12, tuple(range(12))),
        (13, 4, (0, 4, 8, 12)),
        (345, 12, (0, 31, 63, 94, 125, 156, 188, 219, 250, 281, 313, 344)),
    ],
)
def test_a_choice_is_spread_evenly(count: int, most: int, expected: tuple[int, ...]) -> None:
    assert spread(count, most) == expected


def texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is written on the sheets that follow."""
    written: list[str] = []
    original = contact.ImageDraw.ImageDraw.text

    def text(self: object, place: object, words: str, *rest: object, **settings: object) -> None:
        written.append(words)
        original(self, place, words, *rest, **settings)  # type: ignore[arg-type]

    monkeypatch.setattr(contact.ImageDraw.ImageDraw, "text", text)
    return written


def test_many_classes_and_images_are_a_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = texts(monkeypatch)
    rows = [[flat((n % 256, n // 256, 77))] * 20 for n in range(345)]
    sheet = draw(tmp_path / "a.png", "real", [f"class {n}" for n in range(345)], rows, counts=range(345), cell=24)
    assert "12 of 345 classes" in written
    assert [word for word in written if word.startswith("class ")] == [f"class {n}" for n in spread(345)]
    assert [word for word in written if word.endswith(" images")] == [f"{n} images" for n in spread(345)]
    assert sheet.shape[0] < 24 * 2 * ROWS + 200
    assert sheet.shape[1] < 24 * 2 * COLUMNS + LABEL
    for number in spread(345):
        assert (sheet == (number % 256, number // 256, 77)).all(2).sum() == COLUMNS * 24 * 24


@pytest.mark.parametrize("name", ["", "žirafa ñandú", "猫", "a\nb\tc", "\x00\x1b[2J", "\udce9", "x" * 10_000])
def test_no_name_breaks_a_sheet(name: str, tmp_path: Path) -> None:
    sheet = draw(tmp_path / "a.png", name, [name, "dog"], [[flat("red")], [flat("lime")]], counts=[1, 2], cell=40)
    assert where(sheet, "red")[0] == where(sheet, "lime")[0] < LABEL + 100
    assert sheet.shape[1] < 800
