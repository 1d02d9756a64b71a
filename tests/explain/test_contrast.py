"""Why this and not that, and what would flip it: against numbers worked out by hand and every change tried."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from parse_dg.data.benchmarks import open_benchmark
from parse_dg.data.loader import load_images
from parse_dg.data.splits import whole
from parse_dg.deploy.model_file import Model, load_model
from parse_dg.errors import InputError
from parse_dg.explain.contrast import contrast, counterfactual
from parse_dg.explain.explanation import Reading, read_image, read_images
from tests.conftest import Tiny
from tests.explain.test_classes import compose
from tests.explain.test_explanation import BLANK, LAYOUT, peaks, placed_model
from tests.parts import refusal

HELD = 1 / (1 + math.exp(-5 * 1.25))
"""How far p0 is above p1 in the layout, five cells of a quarter; and p1 above p0 by what is missing to one."""
CLASSES = ("one", "two", "three")
SHARES = (
    {"above(p0, p1)": 0.6, "has(p2)": 0.4},
    {"above(p1, p0)": 0.3, "has(p2)": 0.6, "left(p2, p0)": 0.1},
    {"left(p2, p0)": 0.9, "has(p2)": 0.1},
)


def layout_model(cells: dict[int, tuple[int, int]] = LAYOUT) -> Model:
    return compose(placed_model(peaks(cells), CLASSES), *SHARES)


@pytest.fixture(scope="module")
def reading() -> Reading:
    return read_image(layout_model(), BLANK)


@pytest.fixture(scope="module")
def trained(parse_run: Path, tiny: Tiny) -> tuple[Reading, ...]:
    """Some images of every domain, as a model with thousands of relations reads them."""
    domains = open_benchmark(tiny().data).domains
    images = torch.cat([load_images(whole(domain), np.array([3, 12, 29]))[0] for domain in domains])
    return read_images(load_model(parse_run), images)


def scores_with(reading: Reading, column: int, value: float) -> Tensor:
    """The scores of all classes with one satisfaction changed, by loops."""
    satisfaction = reading.satisfaction.tolist()
    satisfaction[column] = value
    return torch.tensor(
        [math.fsum(w * a for w, a in zip(row, satisfaction, strict=True)) for row in reading.weights.tolist()],
        dtype=torch.float64,
    )


def test_a_contrast_worked_out_by_hand(reading: Reading) -> None:
    found = contrast(reading)
    assert (found.this, found.that) == ("one", "two")  # the predicted class and the next best
    left = 1 / (1 + math.exp(5 * 0.75))  # p2 is right of p0 by three cells
    assert [relation.words for relation in found.relations] == [
        "p0 above p1",
        "p1 above p0",
        "p2 left of p0",
        "p2 is there",
    ]
    assert [relation.difference for relation in found.relations] == pytest.approx(
        [0.6 * HELD, -0.3 * (1 - HELD), -0.1 * left, -0.2], abs=1e-6
    )
    assert [(r.weight_this, r.weight_that) for r in found.relations] == [
        pytest.approx(pair) for pair in ((0.6, 0), (0, 0.3), (0, 0.1), (0.4, 0.6))
    ]
    assert found.score_this == pytest.approx(0.6 * HELD + 0.4, abs=1e-6)
    assert found.logit_scale == pytest.approx(15, abs=1e-4)
    assert found.logit_difference == pytest.approx(15 * found.difference, abs=1e-4)


def test_differences_sum_to_the_difference_of_the_scores(trained: tuple[Reading, ...]) -> None:
    for reading in trained:
        for that in (None, reading.classes[2 if reading.predicted == reading.classes[5] else 5]):
            found = contrast(reading, that=that)
            assert math.fsum(r.difference for r in found.relations) == pytest.approx(found.difference, abs=1e-12)
            assert found.difference >= -1e-6
            gap = reading.logits[reading.number(found.this)] - reading.logits[reading.number(found.that)]
            assert found.logit_difference == pytest.approx(float(gap), abs=1e-4)
            order = [relation.difference for relation in found.relations]
            assert order == sorted(order, reverse=True)


def test_a_contrast_is_the_difference_of_two_explanations(trained: tuple[Reading, ...]) -> None:
    reading = trained[4]
    this, that = reading.classes[6], reading.classes[1]
    one = {r.name: r.contribution for r in reading.explain(this).relations}
    other = {r.name: r.contribution for r in reading.explain(that).relations}
    found = {r.name: r.difference for r in contrast(reading, this, that).relations}
    assert found == pytest.approx({n: one.get(n, 0) - other.get(n, 0) for n in one.keys() | other.keys()}, abs=1e-9)
    back = {r.name: r.difference for r in contrast(reading, that, this).relations}
    assert back == pytest.approx({name: -difference for name, difference in found.items()}, abs=1e-12)


def test_classes_that_cannot_be_contrasted(reading: Reading) -> None:
    assert "needs two classes, found 'one' twice" in refusal(contrast, reading, that="one")
    assert "unknown class 'four': valid are one, two, three" in refusal(contrast, reading, that="four")
    assert "unknown class 'four': valid are one, two, three" in refusal(contrast, reading, this="four")
    lonely = compose(placed_model(peaks(LAYOUT), ("only",)), {"has(p0)": 1.0})
    with pytest.raises(InputError, match="needs two classes, found a model of one"):
        contrast(read_image(lonely, BLANK))


def test_the_strongest_on_each_side(reading: Reading) -> None:
    """Of four relations one speaks for the first class and three for the other; a hair is enough."""
    found = contrast(reading)
    this, that, rest = found.strongest(2)
    assert [relation.words for relation in this] == ["p0 above p1"]
    assert [relation.words for relation in that] == ["p2 is there", "p2 left of p0"]  # the strongest first
    assert [relation.words for relation in rest] == ["p1 above p0"]
    everything = found.strongest()
    assert (len(everything.this), len(everything.that), everything.rest) == (1, 3, ())
    told = found.to_dict(top=1)
    assert [relation["words"] for relation in told["relations"]] == ["p0 above p1", "p2 is there"]
    listed = sum(relation["difference"] for relation in told["relations"])
    assert told["rest"]["count"] == 2
    assert listed + told["rest"]["difference"] == pytest.approx(found.difference, abs=1e-12)
    assert found.to_dict()["rest"] == {"count": 0, "difference": 0.0}


def test_a_counterfactual_worked_out_by_hand(reading: Reading) -> None:
    """One scores about 1.0, two 0.6, three 0.1: one falls to 0.4 when p0 is not above p1; three can reach 1.0 with
    p2 left of p0, which still is a hair more than one has.
    """
    found = counterfactual(reading)
    assert found.predicted == "one"
    assert found.scores["one"] == pytest.approx(0.4 + 0.6 * HELD, abs=1e-6)
    assert [(flip.words, flip.after, flip.predicted) for flip in found.flips] == [
        ("p2 left of p0", 1.0, "three"),
        ("p0 above p1", 0.0, "two"),
    ]
    left, above = found.flips
    assert left.change == pytest.approx(1 / (1 + math.exp(-5 * 0.75)), abs=1e-6)
    assert left.scores["three"] == pytest.approx(1, abs=1e-6)
    assert left.scores["one"] == found.scores["one"]
    assert above.before == above.change == pytest.approx(HELD, abs=1e-6)
    assert above.scores["one"] == pytest.approx(0.4, abs=1e-6)
    assert above.scores["two"] == found.scores["two"]


def test_the_network_agrees_when_the_parts_are_moved() -> None:
    """What is said of p0 above p1 comes true when p0 goes far below p1."""
    said = next(f for f in counterfactual(read_image(layout_model(), BLANK)).flips if f.name == "above(p0, p1)")
    assert said.after == 0
    reading = read_image(layout_model(LAYOUT | {0: (8, 4), 1: (0, 4)}), BLANK)
    moved = reading.explain()
    held = {relation.name: relation.satisfaction for relation in reading.explain("one").relations}
    assert held["above(p0, p1)"] < 1e-4
    assert moved.predicted == said.predicted == "two"
    assert moved.scores["one"] == pytest.approx(said.scores["one"], abs=1e-3)


def test_every_flip_and_no_other(trained: tuple[Reading, ...]) -> None:
    """Against all changes tried one after another; every result is computed anew."""
    flipped = 0
    for reading in trained[::3]:
        found = counterfactual(reading)
        names = [application.name for application in reading.applications]
        said = {(flip.name, flip.after): flip for flip in found.flips}
        assert len(said) == len(found.flips)
        predicted = reading.number(reading.predicted)
        for after in (0.0, 1.0):
            moves = reading.satisfaction.repeat(len(names), 1).fill_diagonal_(after)
            winners = (moves @ reading.weights.T).argmax(1).tolist()
            expected = {name: winner for name, winner in zip(names, winners, strict=True) if winner != predicted}
            assert {name for name, value in said if value == after} == set(expected)
            for name, winner in expected.items():
                assert said[name, after].predicted == reading.classes[winner]
        for flip in (*found.flips[:20], *found.flips[-20:]):
            scores = scores_with(reading, names.index(flip.name), flip.after)
            assert list(flip.scores.values()) == pytest.approx(scores.tolist(), abs=1e-12)
            assert tuple(flip.scores) == reading.classes
            assert flip.predicted == reading.classes[int(scores.argmax())] != found.predicted
            assert flip.before == float(reading.satisfaction[names.index(flip.name)])
        changes = [flip.change for flip in found.flips]
        assert changes == sorted(changes)
        flipped += len(changes)
    assert flipped > 0


def test_what_the_network_rounds_away_is_no_flip(reading: Reading) -> None:
    """Two classes level for the network, one ahead by a hair in float64: no relation is why."""
    weights = reading.weights[[0, 0]]
    weights[1, [application.name for application in reading.applications].index("has(p2)")] += 1e-9
    level = replace(reading, classes=("one", "two"), weights=weights, logits=reading.logits[[0, 0]])
    assert level.predicted == "one"
    assert level.scores[1] > level.scores[0]
    assert counterfactual(level).flips == ()
