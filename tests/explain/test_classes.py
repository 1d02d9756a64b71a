"""What a class is composed of, in words: with compositions set by hand, and of a trained model."""

import json
import math
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from parse_dg.deploy.compaction import compact
from parse_dg.deploy.model_file import Model, load_model
from parse_dg.explain.classes import describe_classes
from parse_dg.explain.explanation import explain
from tests.explain.test_explanation import BLANK, LAYOUT, peaks, placed_model

Shares = Mapping[str, float]


def compose(model: Model, *classes: Shares) -> Model:
    """Give every class the weights that are written, by the names of the applications; they sum to one."""
    structure = model.parse_network().structure
    names = structure.vocabulary.names(torch.arange(structure.vocabulary.size))
    with torch.no_grad():
        structure.composition.weight.fill_(-1.0)  # far below the support
        for row, shares in zip(structure.composition.weight, classes, strict=True):
            assert math.fsum(shares.values()) == pytest.approx(1)
            for name, weight in shares.items():
                row[names.index(name)] = weight
    return model


ONE = {
    "orient[1](p0→p4, p2→p3)": 0.3,
    "above(p0, p1)": 0.4,
    "has(p2)": 0.05,
    "contains(p4, p1)": 0.1,
    "near(p1, p4)": 0.15,
}
TWO = {"left(p3, p1)": 0.7, "tri[2](p0, p1, p2)": 0.3}


@pytest.fixture(scope="module")
def composed() -> Model:
    model = compose(placed_model(peaks(LAYOUT)), ONE, TWO)
    targets = model.parse_network().structure.predicates.target_angle
    with torch.no_grad():
        targets["orient"][1] = math.radians(90)
        targets["tri"][2] = math.radians(35)
    return model


def test_a_class_in_words_strongest_first(composed: Model) -> None:
    one, two = describe_classes(composed)
    assert (one.name, two.name) == ("one", "two")
    assert one.sentences() == (
        "p0 above p1",
        "p0→p4 at about 90° to p2→p3",
        "p1 near p4",
        "p4 around p1",
        "p2 is there",
    )
    assert [term.weight for term in one.terms] == pytest.approx([0.4, 0.3, 0.15, 0.1, 0.05])
    assert [term.primitives for term in one.terms] == [(0, 1), (0, 4, 2, 3), (1, 4), (4, 1), (2,)]
    assert [term.predicate for term in one.terms] == ["above", "orient", "near", "contains", "has"]
    assert two.sentences(1) == ("p3 left of p1",)
    assert two.sentences(9) == ("p3 left of p1", "p1 and p2 seen from p0 about 35° apart")


def test_a_composition_is_json(composed: Model) -> None:
    told = describe_classes(composed)[1].to_dict()
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert told["name"] == "two"
    assert told["terms"][0] == {
        "name": "left(p3, p1)",
        "words": "p3 left of p1",
        "predicate": "left",
        "primitives": [3, 1],
        "weight": pytest.approx(0.7),
    }


def test_what_is_not_listed_is_summed(composed: Model) -> None:
    one = describe_classes(composed)[0]
    told = one.to_dict(top=2)
    assert [term["words"] for term in told["terms"]] == ["p0 above p1", "p0→p4 at about 90° to p2→p3"]
    assert (told["relations"], told["rest"]) == (5, {"count": 3, "weight": pytest.approx(0.3)})
    assert one.to_dict(top=9)["rest"] == one.to_dict()["rest"] == {"count": 0, "weight": 0.0}


def test_a_class_is_described_as_its_score_is_explained(composed: Model, parse_run: Path) -> None:
    for model in (composed, load_model(parse_run)):
        for composition in describe_classes(model):
            relations = explain(model, BLANK, of=composition.name).relations
            assert {(r.name, r.words, r.weight) for r in relations} == {
                (term.name, term.words, term.weight) for term in composition.terms
            }
            weights = [term.weight for term in composition.terms]
            assert weights == sorted(weights, reverse=True)
            assert math.fsum(weights) == pytest.approx(1, abs=1e-5)
            assert math.fsum(composition.families.values()) == pytest.approx(1, abs=1e-5)


def test_a_compact_model_has_the_same_compositions(parse_run: Path) -> None:
    full = load_model(parse_run)
    assert describe_classes(compact(full)[0]) == describe_classes(full)


@pytest.mark.parametrize(("top", "small"), [(8, False), (100_000, True)])
def test_in_short_it_is_the_beginning_of_the_whole(parse_run: Path, top: int, small: bool) -> None:
    model = load_model(parse_run)
    model = compact(model)[0] if small else model
    for short, whole in zip(describe_classes(model, top), describe_classes(model), strict=True):
        assert (short.name, short.terms, short.families) == (whole.name, whole.terms[:top], whole.families)
        assert short.relations == whole.relations == len(whole.terms)
        assert short.weaker(top)[0] == whole.weaker(top)[0]
        assert short.rest == pytest.approx(whole.weaker(top)[1], abs=1e-6)
        assert sum(short.families.values()) == pytest.approx(1, abs=1e-5)
