"""A vocabulary with a budget: which applications it keeps, and models that have one."""

import hashlib
from pathlib import Path

import pytest
import torch

from parse_dg.algorithms.base import Minibatch
from parse_dg.algorithms.parse import ParseConfig
from parse_dg.config import change
from parse_dg.deploy.compaction import compact
from parse_dg.deploy.cost import cost
from parse_dg.deploy.model_file import Model, load_model, save_model
from parse_dg.model.vocabulary import Vocabulary, VocabularyConfig
from tests.parts import model_of

each_enumeration = pytest.mark.parametrize("enumeration", ["distinct", "paper"])


def build(K: int, budget: int | None, **settings: object) -> Vocabulary:
    return Vocabulary(K, VocabularyConfig(budget=budget, **settings))  # type: ignore[arg-type]


def names_by_predicate(vocabulary: Vocabulary) -> dict[str, list[str]]:
    names = vocabulary.names(torch.arange(vocabulary.size))
    return {block.predicate: names[block.start : block.start + block.size] for block in vocabulary.blocks}


@each_enumeration
@pytest.mark.parametrize("budget", [10, 1001])
def test_all_where_they_fit_else_as_many_tuples_as_fit(budget: int, enumeration: str) -> None:
    every = names_by_predicate(build(10, None, enumeration=enumeration))
    some = build(10, budget, enumeration=enumeration)
    kept = names_by_predicate(some)
    assert kept.keys() == every.keys()
    for block in some.blocks:
        all_of_it = every[block.predicate]
        if len(all_of_it) <= budget:
            assert kept[block.predicate] == all_of_it  # the columns of the block mean the same
        else:
            assert block.size == budget // block.angles * block.angles
            chosen = set(kept[block.predicate])
            assert [name for name in all_of_it if name in chosen] == kept[block.predicate]
    assert some.size == sum(map(len, kept.values())) == len({name for names in kept.values() for name in names})


@pytest.mark.parametrize(
    ("settings", "expected"), [({}, "a11d87c5c8c014d8"), ({"enumeration": "paper", "draw": 7}, "95a46683ebf6c2f9")]
)
def test_the_drawn_columns_stay_what_they_are(settings: dict[str, object], expected: str) -> None:
    # Model files hold the configuration alone: what it draws must never change.
    vocabulary = build(24, 500, **settings)
    names = "\n".join(vocabulary.names(torch.arange(vocabulary.size)))
    assert hashlib.sha256(names.encode()).hexdigest()[:16] == expected


def with_budget(K: int, budget: int, draw: int = 0) -> Model:
    settings = {"primitives.count": K, "vocabulary.budget": budget, "vocabulary.draw": draw, "guidance": 0}
    return model_of(change(ParseConfig(), settings), image_size=32, seed=2)


def test_a_network_of_64_primitives_trains() -> None:
    model = with_budget(64, 2000)
    parse = model.algorithm.train()
    images = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    example = Minibatch(images, torch.tensor([0, 1, 2, 0]), torch.zeros(4, dtype=torch.long))
    terms = parse.losses(example, torch.Generator().manual_seed(0))
    torch.stack(list(terms.values())).sum().backward()
    composition = parse.network.structure.composition
    assert composition.weight.shape == (3, 64 + 9 * 2000 + 3 * 666)  # tri has three angles
    for parameter in (composition.weight, parse.network.bottleneck.projection.weight):
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()
        assert parameter.grad.any()


@pytest.mark.parametrize("smaller", [False, True], ids=["full", "compact"])
def test_a_model_file_holds_the_numbers_and_the_columns_mean_the_same(smaller: bool, tmp_path: Path) -> None:
    model = with_budget(20, 150, draw=4)
    structure = model.parse_network().structure
    used = structure.vocabulary.names(structure.composition.active().applications)
    images = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        logits = model.algorithm(images)
    if smaller:
        model, report = compact(model)
        assert (report.applications_before, report.applications_after) == (structure.vocabulary.size, len(used))
    save_model(tmp_path / "m.safetensors", model.spec, dict(model.algorithm.state_dict()))
    again = load_model(tmp_path / "m.safetensors")
    read = again.parse_network().structure
    assert (read.vocabulary.config.budget, read.vocabulary.config.draw) == (150, 4)
    assert read.vocabulary.names(read.composition.active().applications) == used
    with torch.no_grad():
        assert torch.equal(again.algorithm(images), logits)
    assert cost(again).structure == 2 * 3 * (len(used) if smaller else structure.vocabulary.size)
