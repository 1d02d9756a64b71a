"""Mixup: which domains meet, and what is asked of a mixture."""

from collections import Counter

import pytest
import torch

from parse_dg.algorithms.mixup import Mixup, MixupConfig
from tests.algorithms.tiny import batch, context
from tests.parts import seeded


@pytest.mark.parametrize(("domains", "smoothing"), [(1, 0.0), (2, 0.0), (3, 0.3), (5, 0.0)])
def test_the_loss_is_the_mean_over_a_circle_of_domains(domains: int, smoothing: float) -> None:
    """Smoothing is applied to either label."""
    mixup, example = Mixup(MixupConfig(), context(domains, smoothing=smoothing)), batch(domains)
    order, shares = mixup.draw(seeded(7))
    parts, expected = example.by_domain(domains), 0.0
    for place in range(domains):
        one, other = parts[order[place]], parts[order[(place + 1) % domains]]
        share = shares[place].item()
        for image in range(len(one.images)):
            mixed = share * one.images[image] + (1 - share) * other.images[image]
            logs = mixup(mixed[None]).log_softmax(1)[0]
            hard = share * -logs[one.labels[image]] + (1 - share) * -logs[other.labels[image]]
            loss = (1 - smoothing) * hard - smoothing * logs.mean()
            expected += loss.item() / len(one.images) / domains
    assert mixup.losses(example, seeded(7))["cross_entropy"].item() == pytest.approx(expected, 1e-5)


def test_draws_are_a_circle_of_all_domains_and_shares() -> None:
    mixup, draws = Mixup(MixupConfig(), context(4)), seeded(1)
    circles: Counter[tuple[int, ...]] = Counter()
    shares = []
    for _ in range(600):
        order, share = mixup.draw(draws)
        circles[tuple(order.tolist())] += 1
        shares.append(share)
    assert all(sorted(circle) == [0, 1, 2, 3] for circle in circles)
    assert len(circles) == 24
    every = torch.stack(shares)
    assert every.shape == (600, 4)
    assert 0 <= every.min() < 0.01 < 0.99 < every.max() <= 1
    assert every.mean().item() == pytest.approx(0.5, abs=0.04)
    assert every.var().item() == pytest.approx(0.25 / (2 * 0.2 + 1), abs=0.02)  # of Beta(0.2, 0.2)
