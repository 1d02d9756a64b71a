"""The page of a figure: its size, its bytes, its text, whatever the names are and matplotlib is set to."""

import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from parse_dg.errors import InputError
from parse_dg.explain.figures.page import FORMATS, SMALL, WIDTHS, Sheet, check_place, figure_file, shorten

HOSTILE = ("$x_$", "a_{b}^c", r"\frac{1}{2}", "<b>&amp;", "100%", "两只鸟", "x" * 300, "line\nbreak", "\x1b[1m")
"""Names that mean something to somebody."""


def draw(path: Path, text: str = "words", width: float = 3.3, fit: float = 3.0) -> None:
    with figure_file(path, width, 1.0) as figure:
        sheet = Sheet(figure)
        sheet.text(0.1, 0.2, shorten(text, fit))
        sheet.line(0.1, 0.5, 1.0, 0.5, arrow=True)
        sheet.bar(0.1, 0.7, 1.0, 0.1, "#0072B2")
        sheet.axes(2.0, 0.2, 0.5, 0.5).imshow([[0, 1], [2, 3]])


def words_of(svg: Path) -> list[str]:
    """The texts of an SVG file."""
    found = re.findall(r"<text[^>]*>([^<]*)</text>", svg.read_text())
    return [text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&") for text in found]


def smallest_text(svg: Path) -> float:
    """In points."""
    return min(float(size) for size in re.findall(r"font(?:-size)?: (?:\w+ )*([\d.]+)px", svg.read_text()))


def assert_all_text_inside(figure: Any) -> None:
    """No text is cut off at the edge of the figure."""
    from matplotlib.text import Text

    box = figure.bbox
    for text in figure.findobj(Text):
        if text.get_text().strip() and text.get_visible():
            extent = text.get_window_extent()
            said = text.get_text()
            assert extent.x0 >= box.x0 - 1, said
            assert extent.x1 <= box.x1 + 1, said
            assert extent.y0 >= box.y0 - 1, said
            assert extent.y1 <= box.y1 + 1, said


@pytest.mark.parametrize("ending", FORMATS)
def test_the_same_figure_is_the_same_bytes(ending: str, tmp_path: Path) -> None:
    draw(tmp_path / f"one{ending}")
    draw(tmp_path / f"two{ending}")
    first = (tmp_path / f"one{ending}").read_bytes()
    assert first == (tmp_path / f"two{ending}").read_bytes()
    assert first.startswith({".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}[ending])
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"one{ending}", f"two{ending}"]


def test_an_svg_has_text_and_no_date(tmp_path: Path) -> None:
    draw(tmp_path / "one.svg", "some words")
    assert words_of(tmp_path / "one.svg") == ["some words"]
    assert "<dc:date>" not in (tmp_path / "one.svg").read_text()
    assert smallest_text(tmp_path / "one.svg") >= SMALL


@pytest.mark.parametrize("ending", [".pdf", ".svg"])
@pytest.mark.parametrize("name", HOSTILE)
def test_any_name_can_be_drawn(name: str, ending: str, tmp_path: Path) -> None:
    draw(tmp_path / f"one{ending}", name, fit=1.0)
    assert (tmp_path / f"one{ending}").stat().st_size > 500


@pytest.mark.parametrize("width", WIDTHS.values())
def test_a_figure_is_as_wide_as_it_says(width: float, tmp_path: Path) -> None:
    draw(tmp_path / "one.png", width=width)
    draw(tmp_path / "one.svg", width=width)
    with Image.open(tmp_path / "one.png") as picture:
        assert picture.size == (round(300 * width), 300)
        assert round(picture.info["dpi"][0]) == 300
    assert f'width="{72 * width:g}pt"' in (tmp_path / "one.svg").read_text()


def test_what_is_too_long_is_cut(tmp_path: Path) -> None:
    with figure_file(tmp_path / "one.png", 3, 1):
        assert shorten("short", 1) == "short"
        cut = shorten("a rather long name of a class", 1)
        assert cut.endswith("…")
        assert "a rather long name".startswith(cut[:-1])
        assert len(shorten("iiiiiiiiiiiiiiiiiiiiiiii", 0.5)) > len(shorten("WWWWWWWWWWWWWWWWWWWWWWWW", 0.5))
        assert shorten("W", 0.01) == "W…"
        assert shorten("a\nb", 1) == "'a\\nb'"
        assert shorten("", 1) == ""


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    def fail() -> None:
        with figure_file(tmp_path / "one.png", 3, 1):
            raise RuntimeError("while drawing")

    with pytest.raises(RuntimeError, match="while drawing"):
        fail()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("one.jpg", r"cannot write a figure to .*one\.jpg: expected a name that ends in \.png or \.svg or \.pdf"),
        ("missing/one.png", r"in a folder that is there"),
    ],
)
def test_where_no_figure_can_be(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        check_place(tmp_path / name)
