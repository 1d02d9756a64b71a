"""SagNet: exchanging style and content, and the three turns of a step."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from parse_dg.algorithms.base import Turn
from parse_dg.algorithms.sagnet import Exchange, SagNet, SagNetConfig, mix_style, swap_content
from parse_dg.training.trainer import Trainer
from tests.algorithms.tiny import context, copy_of, moved, step
from tests.parts import seeded

GROUPS = [("backbone", "head"), ("adversary",), ("backbone",)]


def build(**settings: Any) -> SagNet:
    return SagNet(SagNetConfig(**settings), context())


def features_and_exchange() -> tuple[Tensor, Exchange]:
    features = torch.randn(5, 7, generator=seeded(1), dtype=torch.float64) * 3 + 1
    shares = torch.rand((5, 1), generator=seeded(2), dtype=torch.float64)
    return features, (shares, torch.tensor([3, 2, 0, 4, 1]))


def style(values: list[float]) -> tuple[float, float]:
    """Mean and unbiased variance."""
    mean = sum(values) / len(values)
    return mean, sum((value - mean) ** 2 for value in values) / (len(values) - 1)


def test_style_is_mixed_with_that_of_the_partner() -> None:
    features, exchange = features_and_exchange()
    found = mix_style(features, exchange)
    styles = [style(row) for row in features.tolist()]
    for row, values in enumerate(features.tolist()):
        share, partner = exchange[0][row].item(), int(exchange[1][row])
        mean, variance = (share * a + (1 - share) * b for a, b in zip(styles[row], styles[partner], strict=True))
        own_mean, own_variance = styles[row]
        expected = [
            (value - own_mean) / math.sqrt(own_variance + 1e-5) * math.sqrt(variance + 1e-5) + mean
            for value in values
        ]
        assert found[row].tolist() == pytest.approx(expected, 1e-9)


def test_content_is_swapped_with_that_of_the_partner() -> None:
    features, exchange = features_and_exchange()
    found = swap_content(features, exchange)
    rows = features.tolist()
    for row in range(len(rows)):
        other = rows[int(exchange[1][row])]
        (mean, variance), (other_mean, other_variance) = style(rows[row]), style(other)
        expected = [
            (value - other_mean) / math.sqrt(other_variance + 1e-5) * math.sqrt(variance + 1e-5) + mean
            for value in other
        ]
        assert found[row].tolist() == pytest.approx(expected, 1e-9)


def test_the_gradient_of_swapped_content_flows_through_the_style_alone() -> None:
    features, exchange = features_and_exchange()
    leaf = features.clone().requires_grad_()
    weights = torch.randn(5, 7, generator=seeded(3), dtype=torch.float64)
    (found,) = torch.autograd.grad((weights * swap_content(leaf, exchange)).sum(), leaf)

    def with_content_fixed(x: Tensor) -> Tensor:
        content = (features - features.mean(1, keepdim=True)) / (features.var(1, keepdim=True) + 1e-5).sqrt()
        std = (x.var(1, keepdim=True) + 1e-5).sqrt()
        return (weights * (content[exchange[1]] * std + x.mean(1, keepdim=True))).sum()

    leaf = features.clone().requires_grad_()
    (expected,) = torch.autograd.grad(with_content_fixed(leaf), leaf)
    torch.testing.assert_close(found, expected)
    assert found.abs().max() > 0.01


def test_the_gradient_of_mixed_style_is_right() -> None:
    features, exchange = features_and_exchange()
    assert torch.autograd.gradcheck(lambda x: mix_style(x, exchange), features.requires_grad_())


def test_every_turn_moves_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    sagnet, seen = build(), []
    descend = Trainer._descend

    def watched(trainer: Trainer, loss: Tensor, turn: Turn) -> None:
        before = copy_of(sagnet)
        descend(trainer, loss, turn)
        seen.append(moved(sagnet, before))

    monkeypatch.setattr(Trainer, "_descend", watched)
    step(sagnet, 2)
    assert seen == [set(groups) for groups in GROUPS] * 2


def test_a_draw_is_a_share_and_a_partner_for_every_image() -> None:
    sagnet, draws = build(), seeded(3)
    (share, partner), (_, other) = sagnet.draw(200, draws), sagnet.draw(200, draws)
    assert share.shape == (200, 1)
    assert 0 <= share.min() < 0.1 < 0.9 < share.max() < 1
    assert sorted(partner.tolist()) == list(range(200))
    assert not torch.equal(partner, other)
