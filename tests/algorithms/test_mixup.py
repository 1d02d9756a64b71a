"""Mixup: which domains meet, and what is asked of a mixture."""

from collections import Counter
from typing import Any

import pytest
import torch

from parse_dg.algorithms.base import BuildContext
from parse_dg.algorithms.mixup import Mixup, MixupConfig
from tests.algorithms.tiny import CLASSES, DOMAINS, backbone, batch
from tests.parts import seeded


def build(*, domains: int = DOMAINS, seed: int = 0, smoothing: float = 0.0, **settings: Any) -> Mixup:
    config = MixupConfig(**settings)
    return Mixup(
        config,
        BuildContext(backbone(), CLASSES, domains=domains, label_smoothing=smoothing, generator=seeded(seed)),
    )


@pytest.mark.parametrize("domains", [1, 2, 3, 5])
def test_the_loss_is_the_mean_over_a_circle_of_domains(domains: int, monkeypatch: pytest.MonkeyPatch) -> None:
    mixup, example = build(domains=domains), batch(domains)
    drawn = mixup.draw(seeded(7))
    monkeypatch.setattr(mixup, "draw", lambda _: drawn)
    parts, expected = example.by_domain(domains), 0.0
    for place in range(domains):
        one, other = parts[drawn.order[place]], parts[drawn.order[(place + 1) % domains]]
        share = drawn.share[place].item()
        for image in range(len(one.images)):
            mixed = share * one.images[image] + (1 - share) * other.images[image]
            logs = mixup(mixed[None]).log_softmax(1)[0]
            loss = share * -logs[one.labels[image]] + (1 - share) * -logs[other.labels[image]]
            expected += loss.item() / len(one.images) / domains
    assert mixup.losses(example, seeded())["cross_entropy"].item() == pytest.approx(expected, 1e-5)


def test_draws_are_a_circle_of_all_domains_and_shares() -> None:
    mixup, draws = build(domains=4), seeded(1)
    circles: Counter[tuple[int, ...]] = Counter()
    shares = []
    for _ in range(600):
        drawn = mixup.draw(draws)
        circles[tuple(drawn.order.tolist())] += 1
        shares.append(drawn.share)
    assert all(sorted(circle) == [0, 1, 2, 3] for circle in circles)
    assert len(circles) == 24
    every = torch.stack(shares)
    assert every.shape == (600, 4)
    assert 0 <= every.min() < 0.01 < 0.99 < every.max() <= 1
    assert every.mean().item() == pytest.approx(0.5, abs=0.04)
    assert every.var().item() == pytest.approx(0.25 / (2 * 0.2 + 1), abs=0.02)  # of Beta(0.2, 0.2)


def test_smoothing_is_applied_to_either_label() -> None:
    mixup, smooth = build(), build(smoothing=0.3)
    drawn = mixup.draw(seeded(5))
    parts = batch().by_domain(DOMAINS)
    expected = 0.0
    order = drawn.order.tolist()
    for place in range(DOMAINS):
        one, other = parts[order[place]], parts[order[(place + 1) % DOMAINS]]
        share = drawn.share[place].item()
        logs = mixup(share * one.images + (1 - share) * other.images).log_softmax(1)
        of_one, of_other = (-logs[torch.arange(len(logs)), part.labels].mean() for part in (one, other))
        hard = share * of_one + (1 - share) * of_other
        expected += (0.7 * hard - 0.3 * logs.mean()).item() / DOMAINS
    assert smooth.losses(batch(), seeded(5))["cross_entropy"].item() == pytest.approx(expected, 1e-5)
