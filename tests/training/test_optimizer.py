"""The optimiser: a rate for each group, decay on Λ where it is asked for, and rates by formula."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from parse_dg.algorithms import ALGORITHMS, Algorithm, BuildContext
from parse_dg.algorithms.base import Group, GroupSettings, LossTerms, Minibatch
from parse_dg.model.composition import Composition, CompositionConfig
from parse_dg.model.vocabulary import Vocabulary, VocabularyConfig
from parse_dg.training.optimizer import (
    Descent,
    OptimizerConfig,
    build_optimizer,
    restore_optimizer,
    save_optimizer,
    set_rates,
)
from tests.model.reference import scatter, sparsemax_by_sorting
from tests.parts import seeded, small_backbone


def build(name: str) -> Algorithm:
    start = seeded()
    return ALGORITHMS[name]().build(BuildContext(small_backbone(start), 3, generator=start))


@pytest.fixture(scope="module")
def parse() -> Algorithm:
    return build("parse")


RATES = OptimizerConfig(backbone_rate=1e-4, head_rate=2e-3, composition_rate=3e-2, weight_decay=0.1)


def by_name(optimizer: torch.optim.Optimizer) -> dict[str, dict[str, Any]]:
    return {group["name"]: group for group in optimizer.param_groups}


def test_every_group_has_its_rate(parse: Algorithm) -> None:
    groups = by_name(build_optimizer(parse, RATES))
    assert {name: group["lr"] for name, group in groups.items()} == {
        "backbone": 1e-4,
        "head": 2e-3,
        "composition": 3e-2,
    }
    for name, parameters in parse.groups().items():
        assert [id(p) for p in groups[name]["params"]] == [id(p) for p in parameters]


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_decay_shrinks_what_it_should_and_nothing_else(decay: float) -> None:
    algorithm = build("parse")
    optimizer = build_optimizer(algorithm, replace(RATES, composition_decay=decay))
    before = {name: parameter.detach().clone() for name, parameter in algorithm.named_parameters()}
    for parameter in algorithm.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    after = dict(algorithm.named_parameters())
    composition, projection = "network.structure.composition.weight", "network.bottleneck.projection.weight"
    # Adam's first step is its rate, against the sign of the gradient, which is decay times the entry alone
    moved = before[composition] - 3e-2 * before[composition].sign() if decay else before[composition]
    torch.testing.assert_close(after[composition], moved, rtol=0, atol=1e-6)
    assert (after[projection].abs() < before[projection].abs()).float().mean() > 0.99


def rates(parse: Algorithm, config: OptimizerConfig, step: int, steps: int = 10) -> dict[str, float]:
    """Each group's rate as a multiple of its own before the schedule."""
    optimizer = build_optimizer(parse, config)
    set_rates(optimizer, config, 3, steps)  # whatever was set before does not matter
    set_rates(optimizer, config, step, steps)
    return {name: group["lr"] / group["initial_lr"] for name, group in by_name(optimizer).items()}


@pytest.mark.parametrize(
    ("step", "factor"), [(0, 1.0), (1, (1 + math.cos(0.1 * math.pi)) / 2), (5, 0.5), (9, 0.0244717418524)]
)
def test_cosine_falls_from_one_towards_zero(parse: Algorithm, step: int, factor: float) -> None:
    for found in rates(parse, OptimizerConfig(schedule="cosine"), step).values():
        assert found == pytest.approx(factor, 1e-9)


def test_warming_up_is_linear_and_ends_at_the_full_rate(parse: Algorithm) -> None:
    config = OptimizerConfig(warmup_steps=4)
    for step, factor in [(0, 0.2), (1, 0.4), (3, 0.8), (4, 1.0), (5, 1.0), (9, 1.0)]:
        for found in rates(parse, config, step).values():
            assert found == pytest.approx(factor, 1e-9)


def test_lambda_warms_up_by_its_own_clock(parse: Algorithm) -> None:
    config = OptimizerConfig(warmup_steps=1, composition_warmup_steps=4)
    for step, common, own in [(0, 0.5, 0.2), (1, 1.0, 0.4), (3, 1.0, 0.8), (4, 1.0, 1.0)]:
        found = rates(parse, config, step)
        assert found == pytest.approx({"backbone": common, "head": common, "composition": own}, 1e-9)


def test_lambda_comes_to_rest_before_the_others(parse: Algorithm) -> None:
    config = OptimizerConfig(composition_until=0.5)  # of 10 steps
    for step, own in [(0, 1.0), (1, 0.8), (4, 0.2), (5, 0.0), (9, 0.0)]:
        assert rates(parse, config, step) == pytest.approx({"backbone": 1, "head": 1, "composition": own}, 1e-9)


class OnlyLambda(Algorithm):
    """The loss ⟨target, sparsemax(Λ)⟩ + sparsity · mean |Λ|."""

    def __init__(self, sparsity: float):
        nn.Module.__init__(self)
        self.label_smoothing = 0.0
        vocabulary = Vocabulary(5, VocabularyConfig())
        self.composition = Composition(3, vocabulary, CompositionConfig(logit_scale="none"))
        scatter(self.composition, 0.1)
        self.target = torch.randn(3, vocabulary.size, generator=torch.Generator().manual_seed(1))
        self.composition.penalised = True
        self.sparsity = sparsity

    def forward(self, images: Tensor) -> Tensor:
        raise AssertionError

    def losses(self, example: Minibatch | None, generator: torch.Generator | None) -> LossTerms:
        active = self.composition.active()
        fit = (active.weights * self.target[:, active.columns]).sum()
        return {"fit": fit, "sparsity": self.sparsity * active.l1}

    def groups(self) -> dict[Group, list[nn.Parameter]]:
        return {"backbone": [], "head": [], "composition": [self.composition.weight]}


def train_lambda(sparsity: float, rate: float) -> tuple[list[Tensor], list[Tensor], Tensor]:
    """Λ after each of 20 steps, the same by a hand-written Adam in float64, and which entries were ever inside."""
    algorithm = OnlyLambda(sparsity)
    optimizer = build_optimizer(algorithm, OptimizerConfig(composition_rate=rate))
    weight, target = algorithm.composition.weight, algorithm.target.double()
    by_hand = weight.detach().double()
    first, second = torch.zeros_like(by_hand), torch.zeros_like(by_hand)
    inside = torch.zeros_like(by_hand, dtype=torch.bool)
    found, expected = [], []
    for step in range(1, 21):
        optimizer.zero_grad()
        torch.stack(list(algorithm.losses(None, None).values())).sum().backward()
        optimizer.step()
        found.append(weight.detach().clone())

        weights = sparsemax_by_sorting(by_hand.requires_grad_())
        inside |= weights > 0
        (gradient,) = torch.autograd.grad((weights * target).sum(), by_hand)
        by_hand = by_hand.detach()
        gradient += sparsity * by_hand.sign() / by_hand.numel()
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient.square()
        by_hand = by_hand - rate * (first / (1 - 0.9**step)) / ((second / (1 - 0.999**step)).sqrt() + 1e-8)
        expected.append(by_hand)
    return found, expected, inside


@pytest.mark.parametrize("sparsity", [0.0, 0.5])
def test_lambda_takes_the_steps_of_adam_written_by_hand(sparsity: float) -> None:
    found, expected, inside = train_lambda(sparsity, rate=1e-2)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=0, atol=1e-6)
    assert 0 < int(inside.sum()) < inside.numel() // 4
    assert (found[-1] - found[0])[inside].abs().max() > 0.05


def test_without_a_penalty_what_was_never_inside_never_moves() -> None:
    start = OnlyLambda(0.0).composition.weight.detach()
    found, _, inside = train_lambda(0.0, rate=1e-2)
    assert all(torch.equal(weight[~inside], start[~inside]) for weight in found)
    assert (found[-1] != start)[inside].all()
    penalised, _, _ = train_lambda(0.5, rate=1e-2)
    assert (penalised[-1] != start).all()


class Quadratic(Algorithm):
    """Two parameters, ½ Σ target·w²; what is called `composition` descends by SGD."""

    def __init__(self) -> None:
        nn.Module.__init__(self)
        self.label_smoothing = 0.0
        self.slow, self.plain = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))

    def forward(self, images: Tensor) -> Tensor:
        return images

    def losses(self, example: Minibatch, generator: torch.Generator) -> LossTerms:
        steep = torch.tensor([1.0, 10.0, 0.0])
        return {"loss": 0.5 * (steep * (self.slow.square() + self.plain.square())).sum()}

    def settings(self) -> dict[Group, GroupSettings]:
        return {"composition": GroupSettings(rate_factor=2.0, momentum=0.5)}

    def groups(self) -> dict[Group, list[nn.Parameter]]:
        return {"backbone": [], "head": [self.plain], "composition": [self.slow]}


def _steps(algorithm: Quadratic, optimizer: Descent, count: int) -> None:
    for _ in range(count):
        optimizer.zero_grad()
        sum(algorithm.losses(None, torch.Generator()).values()).backward()  # type: ignore[arg-type, union-attr]
        optimizer.step()


def test_a_group_with_momentum_follows_the_running_mean_of_its_gradients() -> None:
    """Along it, in proportion: the steep direction moves ten times as far as the other, the flat one not at all."""
    algorithm = Quadratic()
    optimizer = build_optimizer(algorithm, OptimizerConfig(composition_rate=0.01, head_rate=0.1))
    _steps(algorithm, optimizer, 2)
    w, mean = [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]
    for _ in range(2):
        mean = [0.5 * m + 0.5 * steep * x for m, steep, x in zip(mean, (1, 10, 0), w, strict=True)]
        w = [x - 0.02 * m for x, m in zip(w, mean, strict=True)]
    torch.testing.assert_close(algorithm.slow.detach(), torch.tensor(w))
    moved = 1 - algorithm.plain.detach()
    assert moved[0] == pytest.approx(float(moved[1]), rel=1e-3)  # Adam: whatever the size of the gradient


def test_a_group_with_momentum_goes_on_from_what_was_saved() -> None:
    config = OptimizerConfig(composition_rate=0.01)
    whole, broken_off = Quadratic(), Quadratic()
    _steps(whole, build_optimizer(whole, config), 4)
    first = build_optimizer(broken_off, config)
    _steps(broken_off, first, 2)
    second = build_optimizer(broken_off, config)
    restore_optimizer(second, save_optimizer(first))
    _steps(broken_off, second, 2)
    assert torch.equal(whole.slow, broken_off.slow)
    assert torch.equal(whole.plain, broken_off.plain)
