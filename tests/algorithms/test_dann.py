"""DANN: whose turn it is, what each side minimises, and the penalty on the discriminator's gradient."""

import math
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor

from parse_dg.algorithms.base import GroupSettings
from parse_dg.algorithms.dann import Dann, DannConfig
from parse_dg.training.optimizer import OptimizerConfig, build_optimizer
from tests.algorithms.tiny import CHANNELS, batch, context, copy_of, double, moved, step, total
from tests.parts import seeded


def build(*, seed: int = 0, **settings: Any) -> Dann:
    return Dann(DannConfig(**{"width": 8, **settings}), context(seed=seed))


def cross_entropy(scores: Tensor, label: int) -> float:
    """Of one image, from its scores."""
    values = scores.tolist()
    return math.log(sum(math.exp(value) for value in values)) - values[label]


def scores(dann: Dann, features: Tensor, kept: list[Tensor] | None = None) -> Tensor:
    """The discriminator, layer by layer; `kept` is what dropout multiplies each hidden layer with."""
    for number, layer in enumerate(dann.discriminator[:-1:2]):
        features = layer.weight @ features + layer.bias  # type: ignore[operator,union-attr]
        features = (features * kept[number] if kept else features).clamp(min=0)
    last = dann.discriminator[-1]
    return last.weight @ features + last.bias  # type: ignore[operator,union-attr]


NETWORK, DISCRIMINATOR = {"backbone", "head"}, {"adversary"}


@pytest.mark.parametrize(
    ("steps", "order"), [(1, "NDNDND"), (2, "DNDDND"), (3, "DDNDDD")], ids=["one", "two", "three"]
)
@pytest.mark.parametrize("penalty", [0.0, 0.5])
def test_the_two_sides_take_turns(steps: int, order: str, penalty: float) -> None:
    dann = build(discriminator_steps=steps, gradient_penalty=penalty)
    found = ""
    for _ in order:
        before = copy_of(dann)
        (turn,) = dann.turns(batch(), seeded())
        assert moved(dann, before) == set()
        assert set(turn.groups or ()) in (NETWORK, DISCRIMINATOR)
        found += "N" if set(turn.groups or ()) == NETWORK else "D"
    assert found == order
    assert dann.update_count.tolist() == [len(order)]


@pytest.mark.parametrize("penalty", [0.0, 0.5])
def test_only_the_side_whose_turn_it_is_moves(penalty: float) -> None:
    dann = build(gradient_penalty=penalty)
    before = copy_of(dann)
    assert set(step(dann)[0]) == {"cross_entropy", "adversary", "total"}
    assert moved(dann, before) == NETWORK
    before = copy_of(dann)
    assert set(step(dann)[0]) - {"gradient_penalty"} == {"discriminator", "total"}
    assert moved(dann, before) == DISCRIMINATOR


def test_a_loaded_game_goes_on_where_it_was() -> None:
    first = build()
    step(first, 3)
    second = build(seed=5)
    second.load_state_dict(first.state_dict())
    for dann in (first, second, deepcopy(first)):
        assert set(step(dann)[0]) == {"discriminator", "total"}
        assert dann.update_count.tolist() == [4]


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_the_discriminators_loss_is_the_cross_entropy_of_the_domain_on_both_turns(dropout: float) -> None:
    """Each hidden unit of each image is dropped by a draw of its own, layer after layer; the others are scaled."""
    dann, example = build(discriminator_dropout=dropout, depth=4).double(), double(batch())
    features = dann.features(example.images, seeded())
    for player in ("adversary", "discriminator"):  # the network begins
        (turn,) = dann.turns(example, seeded(3))
        draws = seeded(3)
        kept = [(torch.rand(len(features), 8, generator=draws) >= dropout) / (1 - dropout) for _ in range(3)]
        expected = [
            cross_entropy(scores(dann, z, [layer[row] for layer in kept]), int(example.domains[row]))
            for row, z in enumerate(features)
        ]
        sign = -1 if player == "adversary" else 1
        assert turn.terms[player].item() == pytest.approx(sign * sum(expected) / len(expected), 1e-9)


@pytest.mark.parametrize("weight", [0.0, 0.1, 3.0])
def test_the_network_minimises_the_classes_minus_the_discriminators_loss(weight: float) -> None:
    dann, example = build(weight=weight, gradient_penalty=0.2).double(), double(batch())
    (turn,) = dann.turns(example, seeded())
    features = dann.features(example.images, seeded())
    logits = dann.classifier(features)
    classes = [cross_entropy(each, int(label)) for each, label in zip(logits, example.labels, strict=True)]
    theirs = total(dann.discrimination(features, example, seeded())).item()
    assert turn.terms["cross_entropy"].item() == pytest.approx(sum(classes) / len(classes), 1e-9)
    assert turn.terms["adversary"].item() == pytest.approx(-weight * theirs, 1e-9)


def test_the_penalty_is_on_the_gradient_by_the_features() -> None:
    """Against differences: the gradient of an image's cross-entropy by each of its features."""
    dann, example = build(gradient_penalty=0.25).double(), double(batch(per_domain=2))
    features = dann.features(example.images, seeded()).detach()
    squares = []
    for z, domain in zip(features, example.domains.tolist(), strict=True):
        square = 0.0
        for dimension in range(CHANNELS):
            nudge = torch.zeros(CHANNELS, dtype=torch.float64)
            nudge[dimension] = 1e-5
            up, down = (cross_entropy(scores(dann, z + sign * nudge), domain) for sign in (1, -1))
            square += ((up - down) / 2e-5) ** 2
        squares.append(square)
    found = dann.discrimination(features.requires_grad_(), example, seeded())["gradient_penalty"]
    assert found.item() == pytest.approx(0.25 * sum(squares) / len(squares), 1e-6)


def test_the_penalty_has_a_gradient_for_either_side() -> None:
    dann, example = build(gradient_penalty=0.25).double(), double(batch(per_domain=2))
    features = dann.features(example.images, seeded()).detach().requires_grad_()
    weight = dann.discriminator[0].weight
    assert isinstance(weight, Tensor)

    def penalty() -> Tensor:
        return dann.discrimination(features, example, seeded())["gradient_penalty"]

    gradients = torch.autograd.grad(penalty(), [weight, features])
    for tensor, gradient in zip((weight, features), gradients, strict=True):
        place = divmod(int(gradient.abs().argmax()), gradient.shape[1])
        values = []
        for nudge in (1e-6, -2e-6):
            with torch.no_grad():
                tensor[place] += nudge
            values.append(penalty().item())
        assert gradient[place].item() == pytest.approx((values[0] - values[1]) / 2e-6, 1e-4)


@pytest.mark.parametrize("penalty", [0.0, 0.5])
def test_losses_are_in_float32_under_mixed_precision(penalty: float) -> None:
    dann = build(gradient_penalty=penalty)
    exact = [next(dann.turns(batch(), seeded())).terms for _ in range(2)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = [next(dann.turns(batch(), seeded())).terms for _ in range(2)]
    for one, other in zip(exact, rounded, strict=True):
        assert {value.dtype for value in other.values()} == {torch.float32}
        assert [value.item() for value in other.values()] == pytest.approx(
            [value.item() for value in one.values()], rel=0.1, abs=0.02
        )


def test_both_sides_have_an_adam_of_their_own() -> None:
    dann = build(beta1=0.3, discriminator_rate=4.0, discriminator_decay=0.125)
    assert dann.settings() == {
        "backbone": GroupSettings(1.0, (0.3, 0.9), None),
        "head": GroupSettings(1.0, (0.3, 0.9), None),
        "adversary": GroupSettings(4.0, (0.3, 0.9), 0.125),
    }
    groups = build_optimizer(
        dann, OptimizerConfig(backbone_rate=0.5, head_rate=0.25, weight_decay=0.01)
    ).param_groups
    found = {group["name"]: (group["lr"], group["weight_decay"], group["betas"]) for group in groups}
    assert found == {
        "backbone": (0.5, 0.01, (0.3, 0.9)),
        "head": (0.25, 0.01, (0.3, 0.9)),
        "adversary": (1.0, 0.125, (0.3, 0.9)),
    }
