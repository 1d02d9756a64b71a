"""Pictures: written, not blank, with every mark where the grid says and every word from the explanation."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from parse_dg.data.framing import Picture
from parse_dg.deploy.model_file import load_model
from parse_dg.errors import InputError
from parse_dg.explain.explanation import Explanation, Relation, explain
from parse_dg.explain.figures import page as figures_page
from parse_dg.explain.figures.explanation import SHOWN_RELATIONS, explanation_figure, primitive_sheet
from parse_dg.model.primitives import PrimitiveDescriptors
from tests.explain.test_explanation import CELLS, peaks, placed_model

CORNERS = {0: (0, 0), 1: (0, 8), 2: (8, 0), 3: (8, 8), 4: (4, 4), 5: (2, 6)}
"""Cells of a 9 × 9 map."""
NAMES = {0: "head", 3: "tail"}


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)


def whole(image: Tensor) -> Picture:
    return Picture(image.permute(1, 2, 0).numpy())


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every figure that is made, to look at after it was saved."""
    made: list[Any] = []
    plain = figures_page.require_matplotlib()

    def keep(**options: Any) -> Any:
        made.append(plain(**options))
        return made[-1]

    monkeypatch.setattr(figures_page, "require_matplotlib", lambda: keep)
    return made


def read_picture(path: Path) -> np.ndarray:
    """The pixels of a PNG that is a picture of something."""
    with Image.open(path) as picture:
        assert picture.format == "PNG"
        pixels = np.asarray(picture.convert("RGB"), dtype=float)
    assert pixels.std() > 10
    assert len(np.unique(pixels[::7, ::7].reshape(-1, 3), axis=0)) > 10
    return pixels


def texts(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.texts]


def relation(predicate: str, *primitives: int, weight: float = 0.1, satisfaction: float = 0.5) -> Relation:
    name = f"{predicate}{primitives}"
    return Relation(name, f"words of {name}", predicate, primitives, weight, satisfaction)


def explanation_of(*relations: Relation, explained: str = "one") -> Explanation:
    """An explanation made by hand: primitives at `CORNERS`."""
    columns = torch.tensor([[cell[1], cell[0]] for cell in CORNERS.values()])
    return Explanation(
        predicted="one",
        scores={"one": 0.61, "two": 0.23},
        probabilities={"one": 0.77, "two": 0.08},
        relations=relations,
        explained=explained,
        descriptors=PrimitiveDescriptors(
            centre=(2 * columns / (CELLS - 1) - 1)[None],
            presence=torch.ones(1, len(CORNERS)),
            extent=torch.full((1, len(CORNERS), 2), 0.2),
            heatmap=peaks(CORNERS)[None].flatten(2).softmax(-1).reshape(1, len(CORNERS), CELLS, CELLS),
        ),
    )


def test_the_words_and_numbers_are_those_of_the_explanation(
    parse_run: Path, tmp_path: Path, drawn: list[Any]
) -> None:
    image = noise(3, 64, 64)
    explanation = explain(load_model(parse_run), image)
    names = dict.fromkeys(range(16), "head")
    explanation_figure(whole(image), explanation, tmp_path / "why.png", truth=explanation.predicted, names=names)
    height, width, _ = read_picture(tmp_path / "why.png").shape
    assert 1000 < width < 2000
    assert 400 < height < 1000
    written = texts(drawn[0].axes[1])
    assert written[-1].startswith("what the primitives sit on here: p")
    shown = explanation.relations[:SHOWN_RELATIONS]
    for r in shown:
        assert r.words in written
        assert f"{r.contribution:.3f} = {r.weight:.3f} × {r.satisfaction:.2f}" in written
    assert explanation.relations[SHOWN_RELATIONS].words not in written
    score = explanation.scores[explanation.predicted]
    assert f"score of “{explanation.predicted}” {score:.3f} = sum of weight × satisfaction" in written
    rest = score - sum(r.contribution for r in shown)
    others = len(explanation.relations) - SHOWN_RELATIONS
    assert f"and {others} weaker relations: {rest:.3f}" in written


KINDS = {
    "has": (1, 0),
    **dict.fromkeys(("above", "left", "h_align", "v_align", "near", "contains"), (2, 1)),
    **{"tri": (3, 2), "turn": (3, 2), "orient": (4, 2), "eqdist": (4, 2)},
}
"""Of every predicate of the paper, how many primitives and how many arrows are drawn."""


@pytest.mark.parametrize("predicate", KINDS)
def test_every_kind_of_relation_can_be_drawn(predicate: str, tmp_path: Path, drawn: list[Any]) -> None:
    arity, arrows = KINDS[predicate]
    kind = relation(predicate, *range(arity))
    explanation_figure(whole(noise(3, 64, 64)), explanation_of(kind), tmp_path / "why.png")
    labels = [text.get_text() for text in drawn[0].axes[0].texts]
    assert [label for label in labels if label] == [str(i) for i in range(arity)]
    assert labels.count("") == arrows


@pytest.mark.parametrize("shape", [(64, 64), (32, 96)], ids=["square", "wide"])
def test_a_centre_is_drawn_on_its_pixel(shape: tuple[int, int], tmp_path: Path, drawn: list[Any]) -> None:
    relations = [relation("has", i) for i in CORNERS]
    explanation_figure(whole(noise(3, *shape)), explanation_of(*relations), tmp_path / "why.png")
    height, width = shape
    discs = [line for line in drawn[0].axes[0].lines if line.get_markersize() == 11]
    found = {(float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in discs}
    # corners aligned: the first cell's centre is the first pixel's, the last cell's the last pixel's
    expected = {(column / 8 * (width - 1), row / 8 * (height - 1)) for row, column in CORNERS.values()}
    assert {(0.0, 0.0), (width - 1.0, height - 1.0), ((width - 1) / 2, (height - 1) / 2)} <= expected
    assert np.array(sorted(found)) == pytest.approx(np.array(sorted(expected)), abs=1e-4)
    labels = {text.get_text(): text.xy for text in drawn[0].axes[0].texts}
    assert tuple(labels["1"]) == pytest.approx((width - 1, 0), abs=1e-4)  # p1 is in the top right corner


def test_a_mark_lands_on_what_it_marks(tmp_path: Path) -> None:
    """Through to the pixels of the file: the disc of p5 covers the one bright spot of a dark image."""
    image = torch.zeros(3, 64, 64, dtype=torch.uint8)
    row, column = (round(63 * index / 8) for index in CORNERS[5])
    image[0, row - 3 : row + 4, column - 3 : column + 4] = 255  # a red square
    explanation_figure(whole(image), explanation_of(relation("has", 5)), tmp_path / "why.png")
    pixels = read_picture(tmp_path / "why.png")
    red = (pixels[..., 0] > 180) & (pixels[..., 1:].max(-1) < 60)
    black = pixels.max(-1) < 20
    disc = (pixels.min(-1) > 250) & _inside(black)
    assert disc.sum() > 50
    for axis in (0, 1):
        assert np.nonzero(disc)[axis].mean() == pytest.approx(np.nonzero(red)[axis].mean(), abs=4)


def _inside(black: np.ndarray) -> np.ndarray:
    """Where the dark image is: the box of the large black area."""
    rows, columns = black.sum(1) > 300, black.sum(0) > 300
    return rows[:, None] & columns[None]


@pytest.mark.parametrize("names", [None, NAMES], ids=["no names", "names"])
def test_a_sheet_has_a_row_an_image_and_a_column_a_primitive(
    names: dict[int, str] | None, tmp_path: Path, drawn: list[Any]
) -> None:
    images = {"photo": noise(2, 3, 64, 64), "sketch": noise(1, 3, 64, 64, seed=1)}
    primitive_sheet(placed_model(peaks(CORNERS)), images, tmp_path / "sheet.png", names)
    height, width, _ = read_picture(tmp_path / "sheet.png").shape
    assert 500 < width < 1000
    assert 250 < height < 600
    axes = np.array(drawn[0].axes).reshape(3, len(CORNERS) + 1)
    assert [axes[row, 0].get_ylabel() for row in range(3)] == ["photo", "", "sketch"]
    expected = [f"p{k}\n{names[k]}" if names and k in names else f"p{k}" for k in CORNERS]
    assert [axis.get_title() for axis in axes[0, 1:]] == expected
    for row, image in enumerate([*images["photo"], *images["sketch"]]):
        assert np.array_equal(axes[row, 0].images[0].get_array(), image.permute(1, 2, 0).numpy())


@pytest.mark.parametrize("shape", [(64, 64), (32, 96)], ids=["square", "wide"])
def test_the_heat_and_the_cross_are_on_the_primitive(
    shape: tuple[int, int], tmp_path: Path, drawn: list[Any]
) -> None:
    primitive_sheet(placed_model(peaks(CORNERS)), {"photo": noise(1, 3, *shape)}, tmp_path / "sheet.png")
    height, width = shape
    for axes, (row, column) in zip(drawn[0].axes[1:], CORNERS.values(), strict=True):
        x, y = column / 8 * (width - 1), row / 8 * (height - 1)
        *_, cross = axes.lines
        assert (cross.get_xdata()[0], cross.get_ydata()[0]) == pytest.approx((x, y), abs=1e-3)
        heat = np.asarray(axes.images[1].get_array())
        assert heat.shape == shape
        brightest = np.unravel_index(heat.argmax(), shape)
        assert abs(brightest[0] - y) <= 1
        assert abs(brightest[1] - x) <= 1


def test_without_matplotlib_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(InputError, match=r"pictures need matplotlib: install parse-dg\[pictures\]"):
        explanation_figure(whole(noise(3, 64, 64)), explanation_of(), tmp_path / "why.png")
    with pytest.raises(InputError, match=r"pictures need matplotlib: install parse-dg\[pictures\]"):
        primitive_sheet(placed_model(peaks(CORNERS)), {"photo": noise(1, 3, 64, 64)}, tmp_path / "sheet.png")
    assert list(tmp_path.iterdir()) == []
