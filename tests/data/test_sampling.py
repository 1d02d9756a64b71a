"""Plans: counted against what each way of drawing promises, and exactly the same again from a state."""

import itertools
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from parse_dg.data.augment.batches import AugmentConfig
from parse_dg.data.domain import Domain
from parse_dg.data.sampling import Plan, Sampler, SamplerState, SamplingConfig
from parse_dg.data.splits import Subset, whole
from parse_dg.errors import InputError
from tests.parts import refusal, seeded

MODES = [
    SamplingConfig(replacement=replacement, balance=balance)
    for replacement in (False, True)
    for balance in ("images", "classes")
]
ROUNDS = SamplingConfig(balance="classes")
CLASSES = {"photo": (7, 1, 3), "cartoon": (2, 2, 2), "paint": (0, 5, 1)}
"""How many images of every class each domain has."""


def domain(name: str, counts: tuple[int, ...]) -> Domain:
    """Black images, their classes mixed."""
    labels = np.repeat(np.arange(len(counts)), counts)
    np.random.default_rng(0).shuffle(labels)
    return Domain(name, np.zeros((len(labels), 1, 1, 3), np.uint8), labels)


def build(
    sampling: SamplingConfig, per_domain: int = 4, seed: int = 0, augment: AugmentConfig | None = None
) -> Sampler:
    """A sampler over three domains; of the first only a part is used, in an order of its own."""
    first, *others = (domain(name, counts) for name, counts in CLASSES.items())
    sources = [Subset(first, np.array([9, 0, 10, 3, 4, 6, 5, 2])), *(whole(other) for other in others)]
    order, draws = seeded(seed), seeded(seed + 1)
    return Sampler(sources, per_domain, sampling, augment or AugmentConfig(), order=order, draws=draws)


def single(counts: tuple[int, ...], sampling: SamplingConfig, per_domain: int, seed: int = 0) -> Sampler:
    """A sampler over one whole domain."""
    sources = [whole(domain("photo", counts))]
    return Sampler(sources, per_domain, sampling, AugmentConfig(), order=seeded(seed), draws=seeded(1))


def stream(sampler: Sampler, plans: int, number: int = 0) -> Tensor:
    """The positions of one domain, in the order they come."""
    return torch.cat([sampler.plan().positions[number] for _ in range(plans)])


def labels(sampler: Sampler, positions: Tensor, number: int = 0) -> list[int]:
    source = sampler.sources[number]
    found: list[int] = source.domain.labels[source.indices[positions.numpy()]].tolist()
    return found


def same_plan(one: Plan, other: Plan) -> bool:
    """Positions and every draw, to the bit."""
    parts: list[tuple[Tensor, Tensor]] = list(zip(one.positions, other.positions, strict=True))
    parts.append((one.draws.uniform, other.draws.uniform))
    if one.draws.randaugment is not None and other.draws.randaugment is not None:
        parts += zip(one.draws.randaugment, other.draws.randaugment, strict=True)
    equal = all(torch.equal(a, b) for a, b in parts)
    both = (one.draws.randaugment is None) == (other.draws.randaugment is None)
    return equal and both and one.draws.order == other.draws.order


def copy(state: SamplerState) -> SamplerState:
    return {name: value.clone() for name, value in state.items()}


def same_state(one: SamplerState, other: SamplerState) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("per_domain", [1, 5, 50])
@pytest.mark.parametrize("sampling", MODES, ids=str)
def test_every_plan_has_as_many_of_every_source(sampling: SamplingConfig, per_domain: int) -> None:
    sampler = build(sampling, per_domain)
    for _ in range(12):
        plan = sampler.plan()
        assert len(plan.positions) == 3
        for source, positions in zip(sampler.sources, plan.positions, strict=True):
            assert positions.shape == (per_domain,)
            assert positions.dtype == torch.long
            assert positions.min() >= 0
            assert positions.max() < len(source.indices)
        assert plan.draws.uniform.shape == (3 * per_domain, 10)
        assert sorted(plan.draws.order) == [0, 1, 2, 3]


@pytest.mark.parametrize("sampling", MODES, ids=str)
def test_only_the_generators_decide(sampling: SamplingConfig) -> None:
    """The same seeds, the same plans, whatever is drawn elsewhere; and global randomness stays where it was."""
    torch.manual_seed(1)
    np.random.seed(1)
    one = build(sampling, augment=AugmentConfig(randaugment_ops=2))
    first = [one.plan() for _ in range(10)]
    torch.manual_seed(2)
    np.random.seed(2)
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()
    again = build(sampling, augment=AugmentConfig(randaugment_ops=2))
    for plan in first:
        assert same_plan(plan, again.plan())
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(np.random.get_state()[1], numpy_before)
    other = build(sampling, seed=5)
    assert not all(torch.equal(plan.positions[0], other.plan().positions[0]) for plan in first)


@pytest.mark.parametrize("sampling", MODES, ids=str)
def test_the_order_does_not_depend_on_the_augmentation(sampling: SamplingConfig) -> None:
    plain, augmented = build(sampling), build(sampling, augment=AugmentConfig(randaugment_ops=3))
    for _ in range(10):
        pairs = zip(plain.plan().positions, augmented.plan().positions, strict=True)
        assert all(torch.equal(one, other) for one, other in pairs)


@pytest.mark.parametrize("per_domain", [3, 8, 40])
def test_every_image_once_a_pass_however_batches_cut_it(per_domain: int) -> None:
    sampler = build(SamplingConfig(), per_domain)
    plans = [sampler.plan() for _ in range(48)]
    for number, size in enumerate((8, 6, 6)):
        order = torch.cat([plan.positions[number] for plan in plans])
        for one in order[: len(order) // size * size].view(-1, size):
            assert sorted(one.tolist()) == list(range(size))


def test_all_orders_are_equally_likely() -> None:
    """Of three images: chi-squared with 5 degrees of freedom, far below its 99.9% point."""
    passes = stream(single((3,), SamplingConfig(), 3), 1200).view(-1, 3)
    counts = Counter(tuple(one.tolist()) for one in passes)
    assert set(counts) == set(itertools.permutations(range(3)))
    assert sum((count - 200) ** 2 / 200 for count in counts.values()) < 20.5


def test_with_replacement_every_class_is_as_likely_and_so_are_its_images() -> None:
    sampler = single((7, 0, 1, 4), SamplingConfig(replacement=True, balance="classes"), 12)
    positions = stream(sampler, 400)
    found = labels(sampler, positions)
    classes, images = Counter(found), Counter(zip(found, positions.tolist(), strict=True))
    assert set(classes) == {0, 2, 3}  # the empty one is not waited for
    assert sum((count - 1600) ** 2 / 1600 for count in classes.values()) < 13.8  # two degrees of freedom
    for label, size in ((0, 7), (2, 1), (3, 4)):
        mine = [count for (of, _), count in images.items() if of == label]
        expected = classes[label] / size
        assert len(mine) == size
        assert sum((count - expected) ** 2 / expected for count in mine) < 22.5  # six or fewer


def test_a_pass_shows_the_largest_class_once_and_the_others_as_often_as_needed() -> None:
    sampler = single((7, 1, 3), ROUNDS, 21)
    for _ in range(20):
        positions = sampler.plan().positions[0]
        found = labels(sampler, positions)
        counts = {label: Counter[int]() for label in range(3)}
        for label, position in zip(found, positions.tolist(), strict=True):
            counts[label][position] += 1
        assert sorted(counts[0].values()) == [1] * 7
        assert sorted(counts[1].values()) == [7]
        assert sorted(counts[2].values()) == [2, 2, 3]


def test_classes_are_those_of_the_subset() -> None:
    """A class that the hold-out took away altogether is not waited for, and positions are those of the subset."""
    source = domain("photo", (3, 3, 3))
    kept = np.flatnonzero(source.labels != 1)[::-1].copy()
    sampler = Sampler([Subset(source, kept)], 6, ROUNDS, AugmentConfig(), order=seeded(), draws=seeded())
    positions = sampler.plan().positions[0]
    assert sorted(positions.tolist()) == list(range(6))
    assert all(sorted(pair) == [0, 2] for pair in np.array(labels(sampler, positions)).reshape(3, 2).tolist())


@pytest.mark.parametrize(("before", "ops"), [(0, 0), (1, 2), (5, 0)])
@pytest.mark.parametrize("sampling", MODES, ids=str)
def test_a_state_gives_the_same_plans(sampling: SamplingConfig, before: int, ops: int) -> None:
    augment = AugmentConfig(randaugment_ops=ops)
    sampler = build(sampling, augment=augment)
    for _ in range(before):
        sampler.plan()
    state = copy(sampler.state())
    expected = [sampler.plan() for _ in range(12)]
    for other in (sampler, build(sampling, seed=77, augment=augment)):  # back again, and a new one
        other.restore(state)
        assert all(same_plan(plan, other.plan()) for plan in expected)


@pytest.mark.parametrize("balance", ["images", "classes"])
def test_joined_domains_are_one(balance: Any) -> None:
    sampling = SamplingConfig(balance=balance)
    sources = [whole(domain(name, counts)) for name, counts in (("photo", (5, 3)), ("sketch", (2, 12)))]

    def joined() -> Sampler:
        draws = {"order": seeded(4), "draws": seeded(5)}
        return Sampler(sources, 7, sampling, AugmentConfig(), joined=True, **draws)

    classes = np.concatenate([source.domain.labels for source in sources])
    one = whole(Domain("all", np.zeros((22, 2, 2, 3), np.uint8), classes))
    alone = Sampler([one], 7, sampling, AugmentConfig(), order=seeded(4), draws=seeded(5))
    sampler, sizes = joined(), set()
    for _ in range(9):
        plan, (expected,) = sampler.plan(), alone.plan().positions
        photo, sketch = plan.positions
        assert expected[expected < 8].tolist() == photo.tolist()
        assert (expected[expected >= 8] - 8).tolist() == sketch.tolist()
        assert plan.draws.uniform.shape == (7, 10)
        sizes.add(len(photo))
    assert len(sizes) > 1
    other = joined()
    other.restore(sampler.state())
    assert same_plan(sampler.plan(), other.plan())


WRONG: dict[str, tuple[Callable[[SamplerState], object], str]] = {
    "a source less": (lambda s: s.pop("queue.2"), "the order of images has the parts"),
    "no generator": (lambda s: s.pop("order"), "the order of images has the parts"),
    "too high": (lambda s: s.update({"queue.1": torch.tensor([0, 6])}), "of other images: expected .* 6, found 6"),
    "fractions": (
        lambda s: s.update({"queue.0": torch.tensor([1.5])}),
        "order of photo is damaged: expected a row",
    ),
    "a table": (lambda s: s.update({"queue.2": torch.zeros(2, 2, dtype=torch.long)}), "order of paint is damaged"),
    "short generator": (lambda s: s.update({"draws": s["draws"][:-1]}), "the saved generator 'draws' is damaged"),
    "zero generator": (lambda s: s["draws"].zero_(), "the saved generator 'draws' is damaged"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_state_is_refused_and_changes_nothing(case: str) -> None:
    sampler, other = build(SamplingConfig()), build(SamplingConfig())
    sampler.plan()
    other.plan()
    spoil, message = WRONG[case]
    state = copy(build(SamplingConfig(), seed=8).plan().after)
    spoil(state)
    assert re.search(message, refusal(sampler.restore, state))
    assert all(same_plan(sampler.plan(), other.plan()) for _ in range(5))


def test_a_source_without_images_is_refused() -> None:
    with pytest.raises(InputError, match="training part of domain photo must be at least one image, found 0"):
        single((0, 0), ROUNDS, 2)
