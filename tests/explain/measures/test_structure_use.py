"""What accuracy rests on, and what was selected: models and compositions written by hand."""

import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from parse_dg.data.benchmarks import open_benchmark
from parse_dg.data.splits import whole
from parse_dg.deploy.compaction import compact
from parse_dg.deploy.model_file import Model, load_model
from parse_dg.explain.measures.images import locate
from parse_dg.explain.measures.structure_use import guide, primitive_weights, selected, structure_use
from parse_dg.model.composition import ActiveWeights
from parse_dg.training.accuracy import predict
from tests.conftest import Tiny
from tests.explain.measures.test_collapse import APART, located
from tests.explain.test_classes import compose
from tests.explain.test_explanation import placed_model
from tests.parts import seeded

COUNT = 400
K = 4


def model_of(*compositions: dict[str, float]) -> Model:
    """A class for each composition, which gives weights to applications by their names."""
    classes = tuple(f"class {number}" for number in range(len(compositions)))
    return compose(placed_model(torch.zeros(K, 3, 3), classes), *compositions)


LABELS = torch.arange(COUNT) % 2


def random_places() -> Tensor:
    return 2 * torch.rand(COUNT, K, 2, generator=seeded(1)) - 1


def test_a_model_of_presence_alone() -> None:
    """Class 0 has p0, class 1 has p1; where they are means nothing."""
    model = model_of({"has(p0)": 1.0}, {"has(p1)": 1.0})
    presence = torch.full((COUNT, K), 0.1)
    presence[torch.arange(COUNT), LABELS] = 0.9
    found = structure_use(model, located(random_places(), presence, LABELS), seeded())
    assert (found.domain, found.images, found.swaps) == ("sketch", COUNT, 5)
    assert found.whole == found.presence == found.swapped == 1
    assert found.swapped_deviation == 0
    assert found.relations == 0.5  # no class has any: all score 0, and the first is predicted


def test_a_model_of_relations_alone() -> None:
    """In class 0 p0 is above p1, in class 1 below it; presence is the same everywhere."""
    model = model_of({"above(p0, p1)": 1.0}, {"above(p1, p0)": 1.0})
    centre = random_places()
    height = torch.where(LABELS == 0, -0.8, 0.8)
    centre[:, 0, 1], centre[:, 1, 1] = height, -height
    found = structure_use(model, located(centre, torch.full((COUNT, K), 0.9), LABELS), seeded(), swaps=20)
    assert found.whole == found.relations == 1
    assert found.presence == 0.5
    assert found.swapped == pytest.approx(0.5, abs=0.05)  # half get the geometry of the other class
    assert 0 < found.swapped_deviation < 0.1


def test_one_family_can_mislead_where_both_are_right() -> None:
    """Relations point to the other class, presence is stronger: alone, each goes its own way."""
    model = model_of({"has(p0)": 0.8, "above(p0, p1)": 0.2}, {"has(p1)": 0.8, "above(p1, p0)": 0.2})
    centre = torch.zeros(COUNT, K, 2)
    centre[:, 0, 1] = torch.where(LABELS == 0, 0.9, -0.9)
    presence = torch.full((COUNT, K), 0.1)
    presence[torch.arange(COUNT), LABELS] = 0.9
    found = structure_use(model, located(centre, presence, LABELS), seeded())
    assert (found.whole, found.presence, found.relations) == (1, 1, 0)


def test_what_of_a_score_lies_on_its_evidence() -> None:
    """p1 is off its evidence in every other image: there the relation that binds it does not count."""
    model = model_of({"has(p0)": 0.25, "above(p0, p1)": 0.75}, {"has(p3)": 1.0})
    centre = torch.zeros(COUNT, K, 2)
    centre[:, 0, 1], centre[:, 1, 1] = -0.1, 0.1
    presence = torch.tensor([1.0, 1.0, 1.0, 0.0]).expand(COUNT, K)  # p2 is bound by nothing
    images = located(centre, presence, torch.zeros(COUNT, dtype=torch.long))
    assert structure_use(model, images, seeded()).on_evidence == 1
    heat = torch.ones(COUNT, K)
    heat[:, 2], heat[::2, 1] = 0.0, 0.49
    above = 1 / (1 + math.exp(-5 * 0.2))  # κ is 5 at the start
    expected = (0.25 + 0.75 * above / 2) / (0.25 + 0.75 * above)
    found = structure_use(model, replace(images, heat_at_centre=heat), seeded())
    assert found.on_evidence == pytest.approx(expected, abs=1e-6)
    nothing = located(centre, torch.zeros(COUNT, K), torch.ones(COUNT, dtype=torch.long), predicted=[1] * COUNT)
    assert structure_use(model, nothing, seeded()).on_evidence is None


def test_the_whole_model_is_the_model(parse_run: Path, tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """Accuracy from what was kept is accuracy of the network, also in small parts, also compacted."""
    subset = whole(open_benchmark(tiny().data).domain("sketch"))
    model = load_model(parse_run)
    logits, labels = predict(model.algorithm, subset, torch.device("cpu"))
    expected = float((logits.argmax(1) == labels).double().mean())
    found = structure_use(model, locate(model, subset), seeded())
    assert found.whole == expected
    smaller, _ = compact(model)
    assert structure_use(smaller, locate(smaller, subset), seeded()) == found
    monkeypatch.setattr(sys.modules["parse_dg.explain.measures.structure_use"], "AT_ONCE", 1)
    in_parts = structure_use(model, locate(model, subset), seeded())
    assert in_parts.on_evidence == pytest.approx(found.on_evidence)  # a sum, which is rounded otherwise
    assert replace(in_parts, on_evidence=found.on_evidence) == found


def test_weights_are_shared_by_what_is_bound() -> None:
    model = model_of(
        {"has(p0)": 0.4, "above(p1, p2)": 0.6}, {"eqdist(p0→p1, p0→p2)": 0.8, "turn[0](p1, p0, p3)": 0.2}
    )
    found = primitive_weights(model)
    expected = torch.tensor([[0.4, 0.3, 0.3, 0.0], [0.4 + 0.2 / 3, 0.2 + 0.2 / 3, 0.2, 0.2 / 3]])
    assert torch.allclose(found, expected, atol=1e-5)
    assert torch.allclose(found.sum(1), torch.ones(2), atol=1e-5)


def test_the_share_that_the_guide_alone_has_right() -> None:
    """Whatever the model itself predicts."""
    images = located(APART.expand(4, -1, -1), labels=[0, 1, 2, 2], predicted=[1, 0, 0, 2])
    found = guide(replace(images, guided=torch.tensor([0, 1, 2, 0])))
    assert found is not None
    assert found.to_dict() == {"domain": "sketch", "images": 4, "accuracy": 0.75}


def test_without_a_guide_there_is_none() -> None:
    assert guide(located(APART[None])) is None


def composition(*classes: dict[int, float], columns: list[int] | None = None) -> ActiveWeights:
    """The weights of each class by application; `columns` are those of Λ, if they are others."""
    applications = sorted({each for weights in classes for each in weights})
    weights = torch.tensor([[weights.get(each, 0.0) for each in applications] for weights in classes])
    numbers = torch.tensor(applications)
    return ActiveWeights(numbers if columns is None else torch.tensor(columns), numbers, weights, None)


START = composition({2: 0.5, 7: 0.5}, {2: 1.0})


def test_what_was_there_at_the_start_is_not_new() -> None:
    found = selected(START, START)
    assert (found.classes, found.relations, found.relations_at_start, found.after_start) == (2, 1.5, 1.5, 0)


def test_pairs_of_a_class_and_a_relation_are_compared() -> None:
    """7 is old for the first class and new for the second; 3 and 9 are new, 9 behind all that was known."""
    found = selected(composition({2: 0.3, 7: 0.3, 9: 0.4}, {7: 0.5, 3: 0.5}), START)
    assert (found.relations, found.relations_at_start) == (2.5, 1.5)
    assert found.after_start == pytest.approx(3 / 5)


def test_columns_of_a_compacted_model_are_other_numbers() -> None:
    found = selected(composition({2: 0.3, 7: 0.3, 9: 0.4}, {7: 0.5, 3: 0.5}, columns=[0, 1, 2, 3]), START)
    assert found.after_start == pytest.approx(3 / 5)
