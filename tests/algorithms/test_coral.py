"""CORAL: the distance of the domains' means and covariances."""

from itertools import combinations
from typing import Any

import pytest
import torch
from torch import Tensor

from parse_dg.algorithms.coral import Coral, CoralConfig, distance
from parse_dg.errors import InputError
from tests.algorithms.tiny import DOMAINS, batch, context
from tests.parts import seeded


def build(domains: int = DOMAINS, **settings: Any) -> Coral:
    return Coral(CoralConfig(**settings), context(domains))


def slow_distance(features: Tensor) -> float:
    """Pair by pair, entry by entry."""
    _, images, width = features.shape
    statistics = []
    for rows in features.tolist():
        mean = [sum(row[d] for row in rows) / images for d in range(width)]
        covariance = [
            sum((row[a] - mean[a]) * (row[b] - mean[b]) for row in rows) / (images - 1)
            for a in range(width)
            for b in range(width)
        ]
        statistics.append((mean, covariance))
    pairs = list(combinations(statistics, 2))
    found = 0.0
    for one, other in pairs:
        for a, b in zip(one, other, strict=True):
            found += sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) / len(a)
    return found / len(pairs)


def random_features(domains: int, images: int, width: int) -> Tensor:
    draws = torch.randn(domains, images, width, generator=seeded(1), dtype=torch.float64)
    return draws * torch.arange(1, domains + 1)[:, None, None] + torch.arange(domains)[:, None, None]


@pytest.mark.parametrize(("domains", "images", "width"), [(2, 2, 1), (2, 5, 4), (3, 4, 6), (5, 7, 3)])
def test_the_distance_is_the_mean_over_pairs(domains: int, images: int, width: int) -> None:
    features = random_features(domains, images, width)
    assert distance(features).item() == pytest.approx(slow_distance(features), 1e-9)


def test_the_gradient_of_the_distance_is_right() -> None:
    assert torch.autograd.gradcheck(distance, random_features(3, 4, 3).requires_grad_())


def test_features_in_half_precision_are_compared_in_float32() -> None:
    features = random_features(3, 6, 5).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = distance(features)
    assert found.dtype == torch.float32
    assert found.item() == pytest.approx(distance(features.double()).item(), 1e-5)


@pytest.mark.parametrize("domains", [2, 3, 5])
def test_the_terms_of_the_loss(domains: int) -> None:
    coral, example = build(domains=domains, gamma=0.5), batch(domains)
    terms = coral.losses(example, seeded())
    features = coral.backbone(example.images).mean((2, 3))
    expected = 0.5 * slow_distance(torch.stack(features.detach().double().chunk(domains)))
    assert terms["alignment"].item() == pytest.approx(expected, 1e-4)
    of_domains = [
        torch.nn.functional.cross_entropy(coral(part.images), part.labels).item()
        for part in example.by_domain(domains)
    ]
    assert terms["cross_entropy"].item() == pytest.approx(sum(of_domains) / domains, 1e-5)


def test_without_weight_or_a_second_domain_there_is_nothing_to_align() -> None:
    assert list(build(gamma=0.0).losses(batch(), seeded())) == ["cross_entropy"]
    assert list(build(domains=1).losses(batch(1), seeded())) == ["cross_entropy"]
    assert list(build(domains=1).losses(batch(1, 1), seeded())) == ["cross_entropy"]


def test_a_covariance_needs_two_images_a_domain() -> None:
    with pytest.raises(InputError, match=r"coral needs 2 images .* or more, found training\.batch_per_domain=1"):
        build().losses(batch(per_domain=1), seeded())
