"""Right against wrong images of one class, with what collapsed, for a page."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from parse_dg.explain.explanation import read_images
from parse_dg.explain.figures.errors import ErrorBlock, ImageGroup, JudgedImage, errors_figure
from parse_dg.explain.figures.page import BLUE, SMALL, VERMILION
from tests.explain.figures.test_explanation import CORNERS, drawn, noise, read_picture
from tests.explain.figures.test_page import assert_all_text_inside, smallest_text, words_of
from tests.explain.test_explanation import peaks, placed_model

__all__ = ["drawn"]
PRESENT = torch.tensor([True, True, True, True, True, False])
APART = torch.arange(6)
TOGETHER = torch.tensor([0, 1, 0, 3, 0, 5])
"""p2 and p4 are where p0 is."""


def judged(predicted: str, place: torch.Tensor, collapse: float) -> JudgedImage:
    image = noise(1, 3, 64, 64)
    (read,) = read_images(placed_model(peaks(CORNERS)), image)
    return JudgedImage(
        image=image[0],
        descriptors=read.descriptors,
        predicted=predicted,
        probability=0.8,
        present=PRESENT,
        place=place,
        collapse=collapse,
    )


def block(name: str = "glider", said: str = "wader") -> ErrorBlock:
    return ErrorBlock(
        name=name,
        right=ImageGroup(images=(judged(name, APART, 0.0),) * 2, count=120, collapse=0.11),
        wrong=ImageGroup(images=(judged(said, TOGETHER, 0.5),) * 2, count=34, collapse=0.42),
        primitives=(3, 1),
    )


@pytest.mark.parametrize(("width", "count"), [("column", 1), ("page", 2)])
def test_what_is_written(width: str, count: int, tmp_path: Path, drawn: list[Any]) -> None:
    errors_figure(tmp_path / "one.svg", [block()] * count, domain="sketch", width=width)
    words = words_of(tmp_path / "one.svg")
    assert words.count("true class: glider (sketch, never seen)") == count
    assert words.count("right: 120, mean collapse 0.11") == count
    assert words.count("wrong: 34, mean collapse 0.42") == count
    for line, times in {"pred.: glider": 2, "pred.: wader": 2, "true: glider": 4, "collapse 0.50": 2}.items():
        assert words.count(line) == times * count, line
    assert words.count("5 at 5 places") == 2 * count
    assert words.count("5 at 3 places") == 2 * count
    assert words.count("3") == 2 * count  # of so many that coincide
    assert smallest_text(tmp_path / "one.svg") >= SMALL
    assert_all_text_inside(drawn[0])


def test_what_coincides_is_marked(tmp_path: Path, drawn: list[Any]) -> None:
    errors_figure(tmp_path / "one.png", [block()], domain="sketch")
    read_picture(tmp_path / "one.png")
    axes = np.array(drawn[0].axes).reshape(4, 3)  # an image, and the heat maps of two primitives
    for column, colours in enumerate([[BLUE] * 5, [BLUE] * 5, [BLUE, BLUE, VERMILION], [BLUE, BLUE, VERMILION]]):
        assert [line.get_markerfacecolor() for line in axes[column, 0].lines] == colours
    together = axes[2, 0].lines[-1]
    middle = np.mean([(CORNERS[k][1] / 8 * 63, CORNERS[k][0] / 8 * 63) for k in (0, 2, 4)], axis=0)
    assert (together.get_xdata()[0], together.get_ydata()[0]) == pytest.approx(tuple(middle), abs=1e-3)
    assert [text.get_text() for text in axes[2, 0].texts] == ["3"]
    rings = [axes[column, 1].lines[-1].get_markeredgecolor() for column in range(4)]
    assert rings == [BLUE] * 4  # p3 is alone
