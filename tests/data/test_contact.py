"""Contact sheets: every image is where its class is, and no name can break them."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from parse_dg.data import contact
from parse_dg.data.contact import COLUMNS, LABEL, ROWS, contact_sheet, spread
from parse_dg.errors import InputError

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


def test_the_background_is_light_and_images_have_a_line_around_them(tmp_path: Path) -> None:
    sheet = draw(tmp_path / "a.png", "sketch", ["dog"], [[flat("white"), flat("lime")]], cell=40)
    assert sheet[[0, -1]].min() > 240
    left, top, right, bottom = where(sheet, "lime")
    around = [sheet[top - 1, left], sheet[bottom, left], sheet[top, left - 1], sheet[top, right]]
    assert all(pixel.min() > 200 and pixel.max() < 230 for pixel in around)


@pytest.mark.parametrize("side", [1, 5, 40, 300])
def test_images_of_any_size(side: int, tmp_path: Path) -> None:
    sheet = draw(tmp_path / "a.png", "photo", ["dog"], [[flat("red", side)]], cell=40)
    left, top, right, bottom = where(sheet, "red")
    assert (right - left, bottom - top) == (40, 40)


def test_an_image_is_the_right_way_round(tmp_path: Path) -> None:
    image = flat("red", 40).copy()
    image[:10, 20:] = (0, 255, 0)  # upper right
    sheet = draw(tmp_path / "a.png", "photo", ["dog"], [[image]], cell=40)
    box = where(sheet, "lime")
    assert (box[2] - box[0], box[3] - box[1]) == (20, 10)
    assert (sheet[box[1] + 30, box[0] - 10] == (255, 0, 0)).all()


def test_read_only_and_strided_images(tmp_path: Path) -> None:
    image = np.broadcast_to(np.array([255, 0, 0], np.uint8), (8, 8, 3))
    sheet = draw(tmp_path / "a.png", "photo", ["dog"], [[image, flat("lime", 16)[::2, ::-2]]], cell=40)
    assert where(sheet, "red")[2] < where(sheet, "lime")[0]


# Many, few, none


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


def test_a_choice_that_was_made_before_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = texts(monkeypatch)
    draw(tmp_path / "a.png", "real", ["a", "b"], [[flat("red")], [flat("lime")]], counts=[1, 2], of=200)
    assert written[:2] == ["real", "2 of 200 classes"]


@pytest.mark.parametrize(
    ("counts", "subtitle"),
    [([1700, 348], "2 classes, 2,048 images"), (None, "2 classes"), ([0, 1], "2 classes, 1 image")],
)
def test_how_many_there_are(
    counts: list[int] | None, subtitle: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = texts(monkeypatch)
    draw(tmp_path / "a.png", "art", ["dog", "cat"], [[flat("red")], [flat("lime")]], counts=counts)
    assert written[1] == subtitle
    assert ("348 images" in written) == (counts == [1700, 348])


def test_classes_without_images_and_no_classes_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = texts(monkeypatch)
    sheet = draw(tmp_path / "a.png", "photo", ["dog", "cat"], [[], [flat("red")]], cell=40)
    assert written.count("no images") == 1
    assert where(sheet, "red")
    assert draw(tmp_path / "b.png", "photo", ["dog"], [[]]).shape[0] > 100
    assert draw(tmp_path / "c.png", "photo", [], []).shape[2] == 3


# Names


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "žirafa ñandú",
        "猫",
        "شجرة",
        "🦒🦒",
        "a\nb\tc",
        "\x00\x1b[2J",
        "\udce9",
        "e\u0301\u0301",
        "x" * 10_000,
        "🏳️‍🌈" * 90,
    ],
)
def test_no_name_breaks_a_sheet(name: str, tmp_path: Path) -> None:
    sheet = draw(tmp_path / "a.png", name, [name, "dog"], [[flat("red")], [flat("lime")]], counts=[1, 2], cell=40)
    assert where(sheet, "red")[0] == where(sheet, "lime")[0] < LABEL + 100
    assert sheet.shape[1] < 800


def test_accents_are_left_out_and_long_names_shortened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = texts(monkeypatch)
    names = ["žirafa", "a" * 80, "line\nbreak"]
    draw(tmp_path / "a.png", "Ñandú " * 60, names, [[flat("red")]] * 3)
    assert "zirafa" in written
    assert "line?break" in written
    assert written[0].startswith("Nandu Nandu")
    assert written[0].endswith("...")
    shortened = next(word for word in written if word.startswith("aaa"))
    assert shortened.endswith("...")
    assert 10 < len(shortened) < 40


def test_text_is_inside_the_sheet(tmp_path: Path) -> None:
    """A long title above a single narrow image: the sheet is as wide as its title."""
    sheet = draw(tmp_path / "a.png", "a rather long title of a domain", ["d"], [[flat("red")]], cell=16)
    dark = (sheet.max(2) < 140).any(0).nonzero()[0]
    assert dark[-1] < sheet.shape[1] - 20


# The file


def test_the_folder_is_made_and_an_old_sheet_replaced(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "sheet.png"
    draw(path, "photo", ["dog"], [[flat("red")]])
    sheet = draw(path, "photo", ["dog"], [[flat("lime")]])
    assert where(sheet, "lime")
    assert [file.name for file in path.parent.iterdir()] == ["sheet.png"]
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Image.Image, "save", full)
    with pytest.raises(InputError, match=r"cannot write the contact sheet .*a.png \(No space left on device\)"):
        contact_sheet("photo", ["dog"], [[flat("red")]], tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("rows", "counts"), [(1, None), (3, None), (2, [1]), (2, [1, 2, 3])])
def test_rows_and_counts_must_fit(rows: int, counts: list[int] | None, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a contact sheet of 2 classes needs as many rows and counts"):
        contact_sheet("photo", ["dog", "cat"], [[flat("red")]] * rows, tmp_path / "a.png", counts=counts)
