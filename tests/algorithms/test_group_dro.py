"""GroupDRO: the weights of the domains, step by step."""

import math
from typing import Any

import pytest
import torch

from parse_dg.algorithms.group_dro import GroupDro, GroupDroConfig
from tests.algorithms.tiny import DOMAINS, batch, context
from tests.parts import seeded


def build(domains: int = DOMAINS, **settings: Any) -> GroupDro:
    return GroupDro(GroupDroConfig(**settings), context(domains))


def slow_losses(dro: GroupDro, domains: int, number: int) -> list[float]:
    """The cross-entropy of each domain, from a pass of its own."""
    found = []
    for part in batch(domains, seed=number).by_domain(domains):
        logs = dro(part.images).log_softmax(1).tolist()
        found.append(-sum(row[label] for row, label in zip(logs, part.labels.tolist(), strict=True)) / len(logs))
    return found


@pytest.mark.parametrize("domains", [1, 2, 3, 5])
@pytest.mark.parametrize("divide", [False, True])
def test_the_loss_and_the_weights_of_some_steps(domains: int, divide: bool) -> None:
    dro = build(domains=domains, eta=0.3, divide=divide)
    weights = [1.0] * domains
    for number in range(4):
        each = slow_losses(dro, domains, number)
        weights = [weight * math.exp(0.3 * loss) for weight, loss in zip(weights, each, strict=True)]
        weights = [weight / sum(weights) for weight in weights]
        (turn,) = dro.turns(batch(domains, seed=number), seeded())
        expected = sum(weight * loss for weight, loss in zip(weights, each, strict=True))
        found = turn.terms["cross_entropy"].item()
        assert found == pytest.approx(expected / domains if divide else expected, 1e-5)
        assert dro.q.tolist() == pytest.approx(weights, 1e-5)
        assert turn.groups is None


def test_the_weights_are_no_part_of_the_gradient() -> None:
    dro = build(eta=0.5)
    terms = dro.losses(batch(), seeded())
    (found,) = torch.autograd.grad(terms["cross_entropy"], dro.classifier.bias)
    parts = batch().by_domain(DOMAINS)
    each = [torch.nn.functional.cross_entropy(dro(part.images), part.labels) for part in parts]
    next(dro.turns(batch(), seeded()))
    fixed = dro.q.tolist()
    (expected,) = torch.autograd.grad(
        sum(q * loss for q, loss in zip(fixed, each, strict=True)), dro.classifier.bias
    )  # type: ignore[arg-type]
    torch.testing.assert_close(found, expected)


def test_asking_for_the_loss_does_not_move_the_weights() -> None:
    dro = build(eta=0.5)
    one, again = (dro.losses(batch(), seeded())["cross_entropy"].item() for _ in range(2))
    assert one == again
    assert dro.q.tolist() == [1.0] * DOMAINS
    assert next(dro.turns(batch(), seeded())).terms["cross_entropy"].item() == one
