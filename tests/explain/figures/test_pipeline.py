"""One image on its way through the network: every number in the figure is the model's."""

from pathlib import Path
from typing import Any

import pytest
import torch

from parse_dg.data.augment.batches import normalise, to_unit
from parse_dg.deploy.model_file import Model, load_model
from parse_dg.explain.explanation import explain
from parse_dg.explain.figures.page import FORMATS, SMALL, WIDTHS
from parse_dg.explain.figures.pipeline import SHOWN_RELATIONS, pipeline_figure, read_pipeline
from tests.explain.figures.test_explanation import CORNERS, drawn, noise, read_picture
from tests.explain.figures.test_page import assert_all_text_inside, smallest_text, words_of
from tests.explain.test_explanation import peaks, placed_model

__all__ = ["drawn"]
IMAGE = noise(3, 64, 64)


@pytest.fixture
def model(parse_run: Path) -> Model:
    return load_model(parse_run)


@pytest.mark.slow
@pytest.mark.parametrize("ending", FORMATS)
def test_every_format(model: Model, ending: str, tmp_path: Path) -> None:
    for name in ("one", "two"):
        pipeline_figure(tmp_path / f"{name}{ending}", read_pipeline(model, IMAGE, "an image"), width="column")
    assert (tmp_path / f"one{ending}").read_bytes() == (tmp_path / f"two{ending}").read_bytes()


@pytest.mark.parametrize("width", WIDTHS)
def test_the_numbers_are_the_models(model: Model, width: str, tmp_path: Path, drawn: list[Any]) -> None:
    explanation = explain(model, IMAGE)
    seen = read_pipeline(model, IMAGE, "an image", explanation.predicted)
    pipeline_figure(tmp_path / "one.svg", seen, width=width)
    words = words_of(tmp_path / "one.svg")
    shown = explanation.relations[:SHOWN_RELATIONS]
    for relation in shown:
        assert relation.words in words
        numbers = f"{relation.weight:.3f} × {relation.satisfaction:.2f} = {relation.contribution:.3f}"
        assert numbers in words
    score = explanation.scores[explanation.predicted]
    rest = score - sum(relation.contribution for relation in shown)
    assert f"{len(explanation.relations) - len(shown):,} weaker: {rest:.3f}; sum: {score:.3f}" in words
    for name, value in explanation.scores.items():
        assert words.index(f"{value:.2f}", words.index(name)) == words.index(name) + 1
    probability = explanation.probabilities[explanation.predicted]
    assert f"{explanation.predicted} (right), probability {probability:.2f}" in words
    assert "an image" in words
    panels = ["image", "feature map", "heat maps", "primitives", "relations", "class scores"]
    assert [word for word in words if word in panels] == panels
    assert smallest_text(tmp_path / "one.svg") >= SMALL
    assert_all_text_inside(drawn[0])


def test_the_feature_map_is_the_backbones(model: Model, tmp_path: Path, drawn: list[Any]) -> None:
    seen = read_pipeline(model, IMAGE, "an image")
    pipeline_figure(tmp_path / "one.svg", seen)
    with torch.no_grad():
        features = model.parse_network().backbone(normalise(to_unit(IMAGE[None])))[0]
    assert torch.allclose(torch.as_tensor(drawn[0].axes[1].images[0].get_array()), features.norm(dim=0), atol=1e-4)
    channels, height, width = features.shape
    assert f"{channels} × {height} × {width}; norm over channels" in words_of(tmp_path / "one.svg")


def test_primitives_are_marked_at_their_places(tmp_path: Path, drawn: list[Any]) -> None:
    pipeline_figure(tmp_path / "one.png", read_pipeline(placed_model(peaks(CORNERS)), IMAGE, "an image"))
    read_picture(tmp_path / "one.png")
    places = drawn[0].axes[2 + len(CORNERS)]  # after the image, the feature map and the heat maps
    marked = {text.get_text(): text.xy for text in places.texts}
    for k, (row, column) in CORNERS.items():
        assert marked[str(k)] == pytest.approx((column / 8 * 63, row / 8 * 63), abs=1e-3)
    assert places.get_xlim() == (-0.5, 63.5)  # extents do not make the image smaller
    assert len(places.patches) == len(CORNERS)
