"""Explanations: relations that add up to the score, and sentences that are true of where things are."""

import math
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from parse_dg.algorithms import BuildContext
from parse_dg.algorithms.parse import ParseConfig
from parse_dg.config import change
from parse_dg.data.augment.batches import normalise, to_unit
from parse_dg.data.benchmarks import open_benchmark
from parse_dg.data.loader import evaluation_batches, load_images
from parse_dg.data.splits import whole
from parse_dg.deploy.compaction import compact
from parse_dg.deploy.model_file import Model, ModelSpec, load_model
from parse_dg.deploy.predictor import load
from parse_dg.errors import InputError
from parse_dg.explain.explanation import Relation, explain, in_words, read_image, read_images
from parse_dg.model.backbones.backbone import Backbone, BackboneConfig
from parse_dg.model.composition import CompositionConfig
from parse_dg.model.paper_predicates import PAPER
from parse_dg.model.predicates import PredicatesConfig
from parse_dg.model.primitives import PrimitivesConfig
from tests.conftest import Tiny
from tests.parts import model_of, refusal

CELLS = 9
"""Side of the hand-placed maps: column c is at x = 2c/8 - 1."""
BLANK = torch.zeros(3, 64, 64, dtype=torch.uint8)

Cell = tuple[int, int]
"""Row and column of a map."""


class Placed(Backbone):
    """A backbone that has already decided: the same maps for every image, a channel a primitive."""

    def __init__(self, maps: Tensor):
        super().__init__(channels=len(maps), freeze_batchnorm=False)
        self.maps = maps

    def forward(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return self.maps.expand(len(images), -1, -1, -1)


def peaks(cells: Mapping[int, Cell], strength: float = 40.0) -> Tensor:
    """Maps whose whole weight is on one cell each; `strength` decides presence too."""
    maps = torch.full((len(cells), CELLS, CELLS), -60.0)
    for primitive, (row, column) in cells.items():
        maps[primitive, row, column] = strength
    return maps


def placed_model(maps: Tensor, classes: tuple[str, ...] = ("one", "two"), **predicates: object) -> Model:
    """PARSE with all applications equally weighted over primitives whose places are given."""
    settings: dict[str, object] = {"gate": False, "edge_softness": 0.0, "edge_fade": 0.0, **predicates}
    config = ParseConfig(
        primitives=PrimitivesConfig(count=len(maps), presence_bias=0.0),
        predicates=PredicatesConfig(**settings),  # type: ignore[arg-type]
        composition=CompositionConfig(start="zeros"),
    )
    spec = ModelSpec(backbone=BackboneConfig(), algorithm=config, classes=classes, image_size=64)
    model = Model(spec, config.build(BuildContext(Placed(maps), len(classes))).eval())
    projection = model.parse_network().bottleneck.projection
    with torch.no_grad():
        projection.weight.copy_(torch.eye(len(maps))[:, :, None, None])
    return model


def at(cell: Cell) -> tuple[float, float]:
    """(x, y) of a cell, written out."""
    return 2 * cell[1] / (CELLS - 1) - 1, 2 * cell[0] / (CELLS - 1) - 1


def relations_of(model: Model, predicate: str) -> list[Relation]:
    found = [relation for relation in explain(model, BLANK).relations if relation.predicate == predicate]
    assert found
    return found


def said(pattern: str, relation: Relation) -> tuple[int, ...]:
    """The numbers of a sentence, which must be of exactly this form; `#` stands for a primitive."""
    match = re.fullmatch(pattern.replace("#", r"p(\d+)"), relation.words)
    assert match, relation.words
    return tuple(int(number) for number in match.groups())


# --- sums -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def images(tiny: Tiny) -> Tensor:
    """Three images of every domain."""
    domains = open_benchmark(tiny().data).domains
    return torch.cat([load_images(whole(domain), np.array([1, 17, 33]))[0] for domain in domains])


def test_contributions_sum_to_the_score_of_every_class(parse_run: Path, images: Tensor) -> None:
    model = load_model(parse_run)
    for number, image in enumerate(images):
        for name in model.spec.classes if number < 3 else (None,):
            explanation = explain(model, image, name)
            total = math.fsum(relation.contribution for relation in explanation.relations)
            assert total == pytest.approx(explanation.scores[explanation.explained], abs=1e-6)
            assert math.fsum(r.weight for r in explanation.relations) == pytest.approx(1, abs=1e-5)
            assert all(r.weight > 0 and 0 <= r.satisfaction <= 1 for r in explanation.relations)
            assert explanation.explained == (name or explanation.predicted)


def test_an_explanation_repeats_what_the_model_says(parse_run: Path, images: Tensor) -> None:
    model = load_model(parse_run)
    with torch.no_grad():
        output = model.parse_network()(normalise(to_unit(images)))
    predictions = set()
    for row, image in enumerate(images):
        explanation = explain(model, image)
        assert tuple(explanation.scores) == tuple(explanation.probabilities) == model.spec.classes
        scores, probabilities = list(explanation.scores.values()), list(explanation.probabilities.values())
        assert scores == pytest.approx(output.structure.scores[row].tolist(), abs=1e-5)
        assert probabilities == pytest.approx(output.logits[row].softmax(0).tolist(), abs=1e-5)
        assert sum(probabilities) == pytest.approx(1, abs=1e-5)
        assert explanation.probabilities[explanation.predicted] == max(probabilities)
        assert explanation.descriptors.centre.shape == (1, 16, 2)
        torch.testing.assert_close(explanation.descriptors.centre, output.descriptors.centre[row : row + 1])
        predictions.add(explanation.predicted)
    assert predictions <= set(model.spec.classes)


@pytest.fixture(scope="module")
def thousand(tiny: Tiny) -> Tensor:
    """1,024 images, 256 of every domain."""
    domains = open_benchmark(tiny(data__blueprints__images_per_class=32).data).domains
    return torch.cat([images for domain in domains for images, _ in evaluation_batches(whole(domain), 128)])


def started_model(tiny: Tiny) -> Model:
    """PARSE as it starts, on eight primitives: every class on a few random relations of every family."""
    run = change(tiny(), {"algorithm.primitives.count": 8, "algorithm.composition.start_entries": 6})
    return model_of(run.algorithm, tuple("abcdefgh"), backbone=run.backbone, seed=7)


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "count", "rounding"), [(torch.float32, 1024, 1e-6), (torch.float64, 128, 1e-12)])
def test_contributions_sum_to_the_score_of_a_thousand_images(
    dtype: torch.dtype, count: int, rounding: float, tiny: Tiny, thousand: Tensor
) -> None:
    """To the score that is told, and to the network's own as far as it does not round its sum."""
    model = started_model(tiny)
    network = model.parse_network().to(dtype)
    seen, scores = 0, set()
    for images in torch.split(thousand[:count], 128):
        with torch.no_grad():
            output = network(normalise(to_unit(images).to(dtype)))
        for row, reading in enumerate(read_images(model, images)):
            explanation = reading.explain()
            explained = model.spec.classes.index(explanation.explained)
            assert explained == int(output.logits[row].argmax())
            total = math.fsum(relation.contribution for relation in explanation.relations)
            assert abs(total - explanation.scores[explanation.explained]) <= 1e-12
            assert abs(total - float(output.structure.scores[row, explained])) <= rounding
            assert len(explanation.relations) > 50
            scores.add(total)
            seen += 1
    assert seen == count
    assert len(scores) > 0.9 * count


def test_images_read_together_are_read_as_one_by_one(parse_run: Path, images: Tensor) -> None:
    model = load_model(parse_run)
    for image, together in zip(images, read_images(model, images), strict=True):
        alone, explanation = explain(model, image), together.explain()
        assert explanation.predicted == alone.predicted
        assert explanation.scores == pytest.approx(alone.scores, abs=1e-5)
        assert {r.name for r in explanation.relations} == {r.name for r in alone.relations}
        assert explanation.descriptors.heatmap.shape == alone.descriptors.heatmap.shape
        torch.testing.assert_close(explanation.descriptors.centre, alone.descriptors.centre)


def test_the_relations_are_those_of_the_explained_class(parse_run: Path, images: Tensor) -> None:
    model = load_model(parse_run)
    structure = model.parse_network().structure
    active = structure.composition.active()
    names = structure.vocabulary.names(structure.composition.columns[active.columns])
    for number, name in enumerate(model.spec.classes):
        expected = {n: w for n, w in zip(names, active.weights[number].tolist(), strict=True) if w > 0}
        found = {relation.name: relation.weight for relation in explain(model, images[0], name).relations}
        assert found == expected


@pytest.mark.parametrize("name", ["nobody", ""])
def test_a_class_that_is_not_there(name: str, parse_run: Path, images: Tensor) -> None:
    assert "strider, glider" in refusal(explain, load_model(parse_run), images[0], of=name)


def test_only_parse_explains(erm_run: Path, images: Tensor) -> None:
    assert "needs a model of parse, found one of erm" in refusal(explain, load_model(erm_run), images[0])


def test_a_compact_model_explains_itself_the_same_way(parse_run: Path, images: Tensor) -> None:
    full = load_model(parse_run)
    small, _ = compact(full)
    for image in images[::5]:
        one, other = explain(full, image), explain(small, image)
        assert one.relations == other.relations
        assert one.scores == other.scores


# --- sentences against places ---------------------------------------------------------------------

LAYOUT: dict[int, Cell] = {0: (1, 4), 1: (6, 4), 2: (1, 7), 3: (6, 0), 4: (7, 4)}
"""p0 is above p1 in line with it, left of p2 and level with it; p3 is left of p1 and level with it;
p4 is near p1."""


@pytest.fixture(scope="module")
def laid_out() -> Model:
    return placed_model(peaks(LAYOUT))


def test_places_are_told_with_the_relations(laid_out: Model) -> None:
    explanation = explain(laid_out, BLANK)
    assert [place.primitive for place in explanation.places] == list(LAYOUT)
    for place, cell in zip(explanation.places, LAYOUT.values(), strict=True):
        assert (place.x, place.y) == pytest.approx(at(cell), abs=1e-6)
        assert (place.width, place.height) == pytest.approx((0.002, 0.002), abs=1e-6)  # the least there is
        assert place.presence == pytest.approx(1)
    told = explanation.to_dict()
    assert len(told["relations"]) == len(explanation.relations)
    for relation in told["relations"]:
        assert [place["primitive"] for place in relation["places"]] == relation["primitives"]
        x, y = at(LAYOUT[relation["primitives"][-1]])
        assert (relation["places"][-1]["x"], relation["places"][-1]["y"]) == pytest.approx((x, y), abs=1e-6)


def test_what_is_not_listed_is_summed(laid_out: Model) -> None:
    explanation = explain(laid_out, BLANK, "two")
    told = explanation.to_dict(top=3)
    assert told["relations"] == explanation.to_dict()["relations"][:3]
    rest = told["rest"]
    assert rest["count"] == len(explanation.relations) - 3
    listed = math.fsum(relation["contribution"] for relation in told["relations"])
    assert listed + rest["contribution"] == pytest.approx(explanation.scores["two"], abs=1e-12)
    assert math.fsum(r["weight"] for r in told["relations"]) + rest["weight"] == pytest.approx(1, abs=1e-5)
    assert explanation.to_dict()["rest"] == {"count": 0, "weight": 0.0, "contribution": 0.0}


def test_images_in_any_form_are_read_as_they_are_predicted(parse_run: Path, images: Tensor, tmp_path: Path) -> None:
    predictor = load(parse_run, "cpu")
    pixels = images[2].permute(1, 2, 0).numpy()
    large = Image.fromarray(pixels).resize((150, 90))
    large.save(tmp_path / "large.png")
    for forms in (
        (images[2], pixels, Image.fromarray(pixels)),
        (tmp_path / "large.png", str(tmp_path / "large.png"), large, np.array(large)),
    ):
        expected = explain(predictor.model, forms[0])
        (predicted,) = predictor.predict([forms[0]], top=1)
        assert expected.predicted == predicted.predicted
        assert expected.probabilities[expected.predicted] == pytest.approx(predicted.probability, abs=1e-5)
        for form in forms:
            assert explain(predictor, form).scores == expected.scores
            assert read_image(predictor.model, form).explain().relations == expected.relations


def test_an_image_that_is_none(laid_out: Model, tmp_path: Path) -> None:
    assert "no such file or directory" in refusal(explain, laid_out, tmp_path / "missing.png")
    with pytest.raises(InputError, match="expected RGB of shape H × W × 3"):
        explain(laid_out, np.zeros((64, 64, 3), np.int64))


def test_a_damaged_model_explains_nothing() -> None:
    model = placed_model(peaks(LAYOUT))
    with torch.no_grad():
        model.parse_network().bottleneck.projection.weight.fill_(math.nan)
    assert "logits that are not finite" in refusal(explain, model, BLANK)


def test_is_there() -> None:
    maps = peaks({0: (0, 0), 1: (4, 4), 2: (8, 8), 3: (2, 2)})
    maps[1, 4, 4] = -2.0
    maps[2, 8, 8] = 0.0
    found = {said("# is there", r): r.satisfaction for r in relations_of(placed_model(maps), "has")}
    assert found[(0,)] == pytest.approx(1)
    assert found[(1,)] == pytest.approx(1 / (1 + math.exp(2)))
    assert found[(2,)] == pytest.approx(0.5)


@pytest.mark.parametrize(("predicate", "words", "axis"), [("above", "# above #", 1), ("left", "# left of #", 0)])
def test_above_is_higher_up_and_left_is_further_left(
    predicate: str, words: str, axis: int, laid_out: Model
) -> None:
    pairs = set()
    for relation in relations_of(laid_out, predicate):
        i, j = said(words, relation)
        assert (i, j) == relation.primitives
        ahead = at(LAYOUT[j])[axis] - at(LAYOUT[i])[axis]  # y grows downwards
        assert relation.satisfaction == pytest.approx(1 / (1 + math.exp(-5.0 * ahead)), abs=1e-5)
        assert (relation.satisfaction > 0.5 + 1e-5) == (ahead > 0)
        assert (relation.satisfaction < 0.5 - 1e-5) == (ahead < 0)
        pairs.add((i, j))
    assert pairs == {(i, j) for i in LAYOUT for j in LAYOUT if i != j}


def test_the_examples_of_the_layout(laid_out: Model) -> None:
    found = {relation.words: relation.satisfaction for relation in explain(laid_out, BLANK).relations}
    for true, false in (
        ("p0 above p1", "p1 above p0"),
        ("p0 left of p2", "p2 left of p0"),
        ("p3 left of p1", "p1 left of p3"),
        ("p2 above p4", "p4 above p2"),
        ("p0 level with p2", "p0 level with p1"),
        ("p1 level with p3", "p2 level with p4"),
        ("p0 straight above or below p1", "p0 straight above or below p2"),
        ("p1 near p4", "p2 near p3"),
    ):
        assert found[true] > 0.5 > found[false]


LEARNED = {"tri": (90.0, 25.0, 140.0), "turn": (60.0,), "orient": (0.0, 90.0, 45.0, 130.0)}
"""Target angles in degrees, other than those that training starts from."""


def test_the_gate_takes_absent_primitives_out() -> None:
    maps = peaks(LAYOUT)
    maps[1, 6, 4] = -4.0  # p1 is where it was, but hardly there
    found = {r.words: r.satisfaction for r in explain(placed_model(maps, gate=True), BLANK).relations}
    plain = {r.words: r.satisfaction for r in explain(placed_model(maps), BLANK).relations}
    presence = 1 / (1 + math.exp(4))
    assert plain["p0 above p1"] > 0.99
    assert found["p0 above p1"] == pytest.approx(plain["p0 above p1"] * math.sqrt(presence), rel=1e-4)
    assert found["p0 left of p2"] == pytest.approx(plain["p0 left of p2"], rel=1e-4)


def test_every_predicate_has_words_of_its_own() -> None:
    predicates = placed_model(peaks(LAYOUT)).parse_network().structure.predicates
    with torch.no_grad():
        for name, degrees in LEARNED.items():
            predicates.target_angle[name].copy_(torch.tensor(degrees).deg2rad())
    sentences = {
        ("has", 0, (7,)): "p7 is there",
        ("above", 0, (3, 11)): "p3 above p11",
        ("left", 0, (3, 11)): "p3 left of p11",
        ("h_align", 0, (3, 11)): "p3 level with p11",
        ("v_align", 0, (3, 11)): "p3 straight above or below p11",
        ("near", 0, (3, 11)): "p3 near p11",
        ("contains", 0, (3, 11)): "p3 around p11",
        ("tri", 2, (5, 3, 11)): "p3 and p11 seen from p5 about 140° apart",
        ("turn", 0, (5, 3, 11)): "p5→p3→p11 turns by about 60°",
        ("orient", 3, (5, 3, 11, 0)): "p5→p3 at about 130° to p11→p0",
        ("eqdist", 0, (5, 3, 11, 0)): "p5–p3 as long as p11–p0",
    }
    assert {predicate for predicate, _, _ in sentences} == {each.name for each in PAPER}
    with torch.no_grad():
        assert {arguments: in_words(predicates, *arguments) for arguments in sentences} == sentences


@pytest.mark.parametrize(
    ("learned", "edges", "corner"),
    [(90.0, 90, 90), (200.0, 160, 180), (-30.0, 30, 0), (-0.1, 0, 0), (361.0, 1, 180)],
)
def test_a_target_beyond_all_angles_is_told_as_one_that_can_be(learned: float, edges: int, corner: int) -> None:
    """Where the satisfaction is largest: orient by its cosine, the others at the end of the scale."""
    predicates = placed_model(peaks(LAYOUT)).parse_network().structure.predicates
    with torch.no_grad():
        for targets in predicates.target_angle.values():
            targets.fill_(math.radians(learned))
    assert in_words(predicates, "orient", 0, (0, 1, 2, 3)) == f"p0→p1 at about {edges}° to p2→p3"
    assert in_words(predicates, "turn", 0, (0, 1, 2)) == f"p0→p1→p2 turns by about {corner}°"
    assert in_words(predicates, "tri", 0, (0, 1, 2)) == f"p1 and p2 seen from p0 about {corner}° apart"


def test_names_and_words_agree(laid_out: Model) -> None:
    for relation in explain(laid_out, BLANK).relations:
        named = tuple(int(number) for number in re.findall(r"p(\d+)", relation.name))
        in_sentence = [int(number) for number in re.findall(r"p(\d+)", relation.words)]
        assert named == relation.primitives
        assert sorted(in_sentence) == sorted(named)
        assert relation.name.startswith(relation.predicate.replace("_", "-"))
        assert relation.contribution == relation.weight * relation.satisfaction
