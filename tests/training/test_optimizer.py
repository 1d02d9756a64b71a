"""The optimiser: a rate for each group, no decay on Λ, and rates by formula."""

import math
from typing import Any

import pytest
import torch

from parse_dg.algorithms import ALGORITHMS, Algorithm, build_algorithm
from parse_dg.config import change
from parse_dg.errors import InputError
from parse_dg.model.backbone import BackboneConfig, build_backbone
from parse_dg.model.mixstyle import MixStyleConfig
from parse_dg.training.optimizer import OptimizerConfig, build_optimizer, set_rates


def build(name: str) -> Algorithm:
    start = torch.Generator().manual_seed(0)
    backbone = build_backbone(BackboneConfig(), MixStyleConfig(stages=()), start)
    return build_algorithm(backbone, 3, ALGORITHMS[name][1](), generator=start)


@pytest.fixture(scope="module")
def parse() -> Algorithm:
    return build("parse")


RATES = OptimizerConfig(backbone_rate=1e-4, head_rate=2e-3, composition_rate=3e-2, weight_decay=0.1)


def by_name(optimizer: torch.optim.Optimizer) -> dict[str, dict[str, Any]]:
    return {group["name"]: group for group in optimizer.param_groups}


# groups


def test_every_group_has_its_rate(parse: Algorithm) -> None:
    groups = by_name(build_optimizer(parse, RATES))
    assert {name: group["lr"] for name, group in groups.items()} == {
        "backbone": 1e-4,
        "head": 2e-3,
        "composition": 3e-2,
    }
    for name, parameters in parse.groups().items():
        assert [id(p) for p in groups[name]["params"]] == [id(p) for p in parameters]


def test_lambda_does_not_decay(parse: Algorithm) -> None:
    groups = by_name(build_optimizer(parse, RATES))
    decays = {name: group["weight_decay"] for name, group in groups.items()}
    assert decays == {"backbone": 0.1, "head": 0.1, "composition": 0.0}


def test_decay_shrinks_what_it_should_and_nothing_else() -> None:
    algorithm = build("parse")
    optimizer = build_optimizer(algorithm, RATES)
    before = {name: parameter.detach().clone() for name, parameter in algorithm.named_parameters()}
    for parameter in algorithm.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    after = dict(algorithm.named_parameters())
    composition, projection = "network.structure.composition.weight", "network.bottleneck.projection.weight"
    assert torch.equal(after[composition], before[composition])
    assert (after[projection].abs() < before[projection].abs()).float().mean() > 0.99


@pytest.mark.parametrize("name", ["erm", "no_relations"])
def test_a_method_without_a_composition_has_no_such_group(name: str) -> None:
    assert list(by_name(build_optimizer(build(name), RATES))) == ["backbone", "head"]


# rates over a run


def rates(parse: Algorithm, config: OptimizerConfig, step: int, steps: int = 10) -> dict[str, float]:
    """Each group's rate as a multiple of its own before the schedule."""
    optimizer = build_optimizer(parse, config)
    set_rates(optimizer, config, 3, steps)  # whatever was set before does not matter
    set_rates(optimizer, config, step, steps)
    return {name: group["lr"] / group["initial_lr"] for name, group in by_name(optimizer).items()}


def test_constant_rates_stay(parse: Algorithm) -> None:
    for step in (0, 5, 9):
        assert rates(parse, OptimizerConfig(), step) == {"backbone": 1.0, "head": 1.0, "composition": 1.0}


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


def test_lambda_warms_up_at_least_as_long_as_the_others(parse: Algorithm) -> None:
    found = rates(parse, OptimizerConfig(warmup_steps=4, composition_warmup_steps=1), 1)
    assert found == pytest.approx({"backbone": 0.4, "head": 0.4, "composition": 0.4}, 1e-9)


def test_warming_up_and_cosine_multiply(parse: Algorithm) -> None:
    config = OptimizerConfig(schedule="cosine", warmup_steps=9)
    assert rates(parse, config, 5)["head"] == pytest.approx(0.5 * 0.6, 1e-9)


# what is refused


@pytest.mark.parametrize(
    "field",
    [
        "backbone_rate",
        "head_rate",
        "composition_rate",
        "weight_decay",
        "warmup_steps",
        "composition_warmup_steps",
    ],
)
def test_nothing_is_negative(field: str) -> None:
    with pytest.raises(InputError, match=rf"optimizer\.{field} must be 0 or more, found -1"):
        OptimizerConfig(**{field: -1})
    OptimizerConfig(**{field: 0})


@pytest.mark.parametrize("clip", [0.0, -1.0])
def test_a_norm_to_clip_to_is_positive(clip: float) -> None:
    with pytest.raises(InputError, match=r"optimizer\.clip_norm must be positive, or none, found"):
        OptimizerConfig(clip_norm=clip)


def test_an_unknown_schedule_is_refused_with_those_there_are() -> None:
    with pytest.raises(InputError, match=r"unknown schedule 'linear': valid are constant, cosine"):
        change(OptimizerConfig(), {"schedule": "linear"})
