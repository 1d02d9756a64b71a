"""Heat maps of primitives over classes and domains, for a page."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parse_dg.errors import InputError
from parse_dg.explain.explanation import read_images
from parse_dg.explain.figures.page import SMALL, WIDTHS
from parse_dg.explain.figures.primitives import ClassBlock, ReadImage, primitives_figure
from tests.explain.figures.test_explanation import CORNERS, drawn, noise, read_picture
from tests.explain.figures.test_page import assert_all_text_inside, smallest_text, words_of
from tests.explain.test_explanation import peaks, placed_model

__all__ = ["drawn"]
DOMAINS = ("photo", "cartoon", "sketch")


def blocks(*names: str, missing: int | None = None) -> list[ClassBlock]:
    """A class each, with an image of every domain, except perhaps one."""
    model = placed_model(peaks(CORNERS))
    found = []
    for number, name in enumerate(names):
        images = noise(len(DOMAINS), 3, 64, 64, seed=number)
        rows = [
            ReadImage(image, read.descriptors)
            for image, read in zip(images, read_images(model, images), strict=True)
        ]
        found.append(ClassBlock(name, tuple(None if row == missing else read for row, read in enumerate(rows))))
    return found


def draw(path: Path, *names: str, primitives: tuple[int, ...] = (3, 0), **options: Any) -> None:
    missing = options.pop("missing", None)
    primitives_figure(path, blocks(*names, missing=missing), DOMAINS, primitives, unseen="sketch", **options)


@pytest.mark.parametrize("width", WIDTHS)
def test_what_is_written(width: str, tmp_path: Path, drawn: list[Any]) -> None:
    draw(tmp_path / "one.svg", "bird", "dog", width=width, names={3: "tail"})
    words = words_of(tmp_path / "one.svg")
    assert [words.count(name) for name in ("bird", "dog")] == [1, 1]
    assert [words.count(name) for name in ("image", "p3 tail", "p0")] == [2, 2, 2]
    assert {"photo", "cartoon", "sketch"} <= set(words)
    assert words.count("never seen") == words.count("sketch")
    assert words.count("1.00") == 2 * 2 * len(DOMAINS)  # the presence of every primitive that is shown
    assert smallest_text(tmp_path / "one.svg") >= SMALL
    assert_all_text_inside(drawn[0])


def test_images_heat_and_centres_are_where_they_belong(tmp_path: Path, drawn: list[Any]) -> None:
    draw(tmp_path / "one.png", "bird", "dog")
    read_picture(tmp_path / "one.png")
    axes = np.array(drawn[0].axes).reshape(2, len(DOMAINS), 3)
    for block, row in zip(blocks("bird", "dog"), axes, strict=True):
        for read, (image, *heats) in zip(block.images, row, strict=True):
            assert read is not None
            assert np.array_equal(image.images[0].get_array(), read.image.permute(1, 2, 0).numpy())
            for k, heat in zip((3, 0), heats, strict=True):
                line, column = CORNERS[k]
                expected = (column / 8 * 63, line / 8 * 63)
                *_, cross = heat.lines
                assert (cross.get_xdata()[0], cross.get_ydata()[0]) == pytest.approx(expected, abs=1e-3)
                brightest = np.unravel_index(np.asarray(heat.images[1].get_array()).argmax(), (64, 64))
                assert (brightest[1], brightest[0]) == pytest.approx(expected, abs=1)
    tops = [box.get_position().y1 for box in axes[0, :, 0]]
    assert tops == sorted(tops, reverse=True)  # domains from the top, in their order


def test_all_primitives_fit_on_a_page_and_few_into_a_column(tmp_path: Path) -> None:
    draw(tmp_path / "one.png", "bird", primitives=tuple(range(6)), width="column")
    many = tuple([0] * 16)
    draw(tmp_path / "two.png", "bird", primitives=many)
    with pytest.raises(
        InputError, match=r"16 primitives do not fit beside each other: at this width at most \d do"
    ):
        draw(tmp_path / "three.png", "bird", primitives=many, width="column")


def test_what_is_too_high_for_a_page_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"30 classes, 3 domains and 2 primitives would be \d+ inches high"):
        draw(tmp_path / "one.png", *[f"class {n}" for n in range(30)], width="column")
    assert list(tmp_path.iterdir()) == []
