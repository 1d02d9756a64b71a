"""Consistency of primitives whose presence and places are made up, domain by domain."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from parse_dg.errors import InputError
from parse_dg.explain.measures.consistency import consistency, profiles
from parse_dg.explain.measures.images import SubsetPrimitives
from tests.explain.measures.test_collapse import located

CLASSES, K, EACH = 5, 8, 30
EVENLY = torch.full((CLASSES, K), 1 / K)


def random(*shape: int, seed: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def domain(
    presence: Tensor,
    place: Tensor,
    *,
    name: str = "photo",
    noise: float = 0.02,
    seed: int = 9,
    classes: Sequence[int] = range(CLASSES),
) -> SubsetPrimitives:
    """Images of every class around these means (C × K and C × K × 2)."""
    labels = torch.tensor(classes).repeat_interleave(EACH)
    count = len(labels)
    found = presence[labels] + noise * (random(count, K, seed=seed) - 0.5)
    centre = place[labels] + noise * (random(count, K, 2, seed=seed + 1) - 0.5)
    return located(centre, found.clamp(0, 1), labels, domain=name)


PRESENCE, PLACE = random(CLASSES, K, seed=0), 2 * random(CLASSES, K, 2, seed=1) - 1


def test_profiles_are_means_by_class() -> None:
    seen = domain(PRESENCE, PLACE, noise=0.3)
    found = profiles(seen, CLASSES + 1)
    for label in range(CLASSES):
        mine = seen.labels == label
        weight = seen.presence[mine]
        assert torch.allclose(found.presence[label], weight.double().mean(0))
        place = (weight[..., None] * seen.centre[mine]).sum(0) / weight.sum(0)[:, None]
        assert torch.allclose(found.place[label].float(), place, atol=1e-5)
    assert found.images.tolist() == [EACH] * CLASSES + [0]
    assert not found.presence[CLASSES].any()
    assert not found.place[CLASSES].any()


def test_the_same_primitives_agree() -> None:
    found = consistency(domain(PRESENCE, PLACE), domain(PRESENCE, PLACE, name="sketch", seed=20), EVENLY)
    assert found.domains == ("photo", "sketch")
    assert found.classes == CLASSES
    assert found.presence > 0.99
    assert found.place > 0.99
    assert found.recognised == pytest.approx(1)
    assert found.presence_by_chance == pytest.approx(-1 / (K - 1), abs=0.08)
    assert found.place_by_chance == pytest.approx(-1 / (K - 1), abs=0.08)
    assert found.recognised_by_chance == 1 / K
    assert all(each.recognised for each in found.primitives)
    assert [each.primitive for each in found.primitives] == list(range(K))


def test_other_primitives_are_chance() -> None:
    results = []
    for seed in range(20):
        other = domain(random(CLASSES, K, seed=100 + seed), 2 * random(CLASSES, K, 2, seed=200 + seed) - 1)
        results.append(consistency(domain(PRESENCE, PLACE), other, EVENLY))
    means = {
        name: sum(getattr(each, name) for each in results) / len(results)
        for name in ("presence", "place", "recognised")
    }
    assert abs(means["presence"]) < 0.15
    assert abs(means["place"]) < 0.15
    assert means["recognised"] == pytest.approx(1 / K, abs=0.12)


def test_primitives_count_as_much_as_they_are_used() -> None:
    order = [1, 0, *range(2, K)]
    unused = EVENLY.clone()
    unused[:, :2] = 0
    found = consistency(domain(PRESENCE, PLACE), domain(PRESENCE[:, order], PLACE[:, order]), unused)
    assert found.recognised == pytest.approx(1)
    assert found.presence > 0.99
    assert sum(each.weight for each in found.primitives) == pytest.approx(1)
    assert found.primitives[0].weight == 0


def test_no_shared_class_is_an_error() -> None:
    other = domain(PRESENCE, PLACE, name="sketch", classes=[2])
    with pytest.raises(InputError, match="photo and sketch have no class in common"):
        consistency(domain(PRESENCE, PLACE, classes=[0]), other, EVENLY)
