"""The curve as a picture: written whole, the same again, and with every line in its legend."""

from pathlib import Path

import pytest
from PIL import Image

from parse_dg.errors import InputError
from parse_dg.tables.curve import AccuracyPoint, Panel, draw_curves

LINES = {
    "sketch": [AccuracyPoint(8, 50.0, 1.0), AccuracyPoint(16, 60.0, None)],
    "Real & <World>": [AccuracyPoint(8, 55.0, 0.5), AccuracyPoint(16, 61.0, 0.1)],
    "Avg": [AccuracyPoint(8, 52.5, 0.7)],
}
PANELS = [
    Panel("parse on mine, 3 trials", LINES, {"Avg": AccuracyPoint(24, 66.7, None)}),
    Panel("another", LINES, {}),
]


def draw(path: Path) -> Path:
    draw_curves(PANELS, path, label="K, number of primitives", spread="standard error")
    return path


def test_a_png(tmp_path: Path) -> None:
    with Image.open(draw(tmp_path / "k.PNG")) as image:
        assert image.format == "PNG"
        assert image.width > 1.5 * image.height > 500
        assert len(image.convert("RGB").getcolors(1 << 24) or []) > 50  # something is drawn
    assert [path.name for path in tmp_path.iterdir()] == ["k.PNG"]


def test_an_svg_says_what_everything_is(tmp_path: Path) -> None:
    text = draw(tmp_path / "k.svg").read_text()
    assert text.count("the paper's") == 1  # beside the first panel alone
    for words in (
        *("parse on mine, 3 trials", "another", "sketch", "Real &amp; &lt;World&gt;", "mean over targets"),
        *("the paper's", "K, number of primitives", "accuracy on the target, %"),
        *("(mean ± standard error)", ">24<"),
    ):
        assert words in text, words
    assert draw(tmp_path / "again.svg").read_text() == text


@pytest.mark.parametrize(
    ("name", "message"),
    [("k.gif", r"k\.gif: .*ends in \.png or \.svg or \.pdf"), ("no/k.png", "in a folder that is there")],
)
def test_a_file_that_cannot_be_is_refused(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        draw(tmp_path / name)


def test_without_matplotlib_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"pip install 'parse-dg\[pictures\]'"):
        draw(tmp_path / "k.png")
