"""Consistency of primitives whose presence and places are made up, domain by domain."""

import pytest
import torch
from torch import Tensor

from parse_dg.errors import InputError
from parse_dg.explain.measures.consistency import consistency, profiles
from parse_dg.explain.measures.images import SubsetPrimitives

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
    classes: int = CLASSES,
) -> SubsetPrimitives:
    """Images of every class around these means (C × K and C × K × 2)."""
    labels = torch.arange(classes).repeat_interleave(EACH)
    count = len(labels)
    found = presence[labels] + noise * (random(count, K, seed=seed) - 0.5)
    centre = place[labels] + noise * (random(count, K, 2, seed=seed + 1) - 0.5)
    return SubsetPrimitives(
        domain=name,
        labels=labels,
        predicted=labels,
        probability=torch.ones(count),
        centre=centre,
        presence=found.clamp(0, 1),
        extent=torch.full_like(centre, 0.1),
        heat_at_centre=torch.ones(centre.shape[:2]),
        cells=(9, 9),
    )


PRESENCE, PLACE = random(CLASSES, K, seed=0), 2 * random(CLASSES, K, 2, seed=1) - 1


def test_profiles_are_means_by_class() -> None:
    located = domain(PRESENCE, PLACE, noise=0.3)
    found = profiles(located, CLASSES + 1)
    for label in range(CLASSES):
        mine = located.labels == label
        weight = located.presence[mine]
        assert torch.allclose(found.presence[label], weight.double().mean(0))
        place = (weight[..., None] * located.centre[mine]).sum(0) / weight.sum(0)[:, None]
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
    one = domain(PRESENCE, PLACE, classes=1)
    other = domain(PRESENCE, PLACE, name="sketch")
    kept = other.labels == 2
    fields = {name: getattr(other, name)[kept] for name in ("labels", "predicted", "probability", "centre")}
    fields |= {name: getattr(other, name)[kept] for name in ("presence", "extent", "heat_at_centre")}
    with pytest.raises(InputError, match="photo and sketch have no class in common"):
        consistency(one, SubsetPrimitives(domain="sketch", cells=(9, 9), **fields), EVENLY)
