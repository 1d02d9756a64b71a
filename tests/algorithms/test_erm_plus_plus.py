"""ERM++: against recorded steps of the official code, through the trainer; its two phases."""

from typing import Any

import pytest
import torch
from torch import Tensor

from parse_dg.algorithms.base import BuildContext, Minibatch
from parse_dg.algorithms.erm_plus_plus import ErmPlusPlus, ErmPlusPlusConfig
from parse_dg.training.averaging import AveragingConfig
from tests.algorithms.golden import FlatBackbone, Trace, assert_same, constant, load, renamed
from tests.parts import seeded, trainer_of


@pytest.fixture(scope="module")
def trace() -> Trace:
    return load("ERMPlusPlus")


def names(network: str) -> dict[str, str]:
    return {f"{network}.0.": "backbone.", f"{network}.1.": "classifier."}


@pytest.mark.golden
def test_steps_are_those_of_the_official_code(trace: Trace) -> None:
    settings = trace.hparams
    config = ErmPlusPlusConfig(linear_steps=settings["linear_steps"])
    algorithm = ErmPlusPlus(config, BuildContext(trace.backbone(), trace.classes))
    algorithm.load_state_dict(renamed(trace.initial(), names("network")), strict=False)
    rates = constant(settings["lr"], settings["weight_decay"])
    averaging = AveragingConfig(kind="sma", start=settings["sma_start_iter"])
    run = trainer_of(algorithm, rates, steps=100, averaging=averaging)
    algorithm.train()
    for step in range(trace.steps):
        alone = step <= settings["linear_steps"]
        for group in run.optimizer.param_groups:
            group["lr"] = settings["linear_lr" if alone else "lr"]
        terms = run.update(step + 1, trace.batch(step))
        assert float(terms["total"]) == pytest.approx(trace.losses[step]["loss"], 1e-4)
        with torch.no_grad():
            assert_same(run.averaging.scored(trace.ones()), trace.prediction(step))
    assert_same(dict(algorithm.state_dict()), renamed(trace.final(), names("network")))
    assert_same(dict(run.averaging.scored.state_dict()), renamed(trace.final(), names("network_sma")))


def small(**settings: Any) -> ErmPlusPlus:
    torch.manual_seed(0)
    return ErmPlusPlus(ErmPlusPlusConfig(**settings), BuildContext(FlatBackbone(), 5, generator=seeded(1)))


def example(seed: int = 0) -> Minibatch:
    generator = seeded(seed)
    images = torch.randn(6, 3, 2, 2, generator=generator)
    return Minibatch(images, torch.arange(6) % 5, torch.arange(6) // 2)


def moved(before: dict[str, Tensor], algorithm: ErmPlusPlus) -> set[str]:
    now = algorithm.state_dict()
    return {name.split(".")[0] for name in before if not torch.equal(before[name], now[name])} - {"update_count"}


@pytest.mark.parametrize("linear_steps", [0, 2])
def test_the_head_moves_alone_for_one_step_more_than_the_setting_says(linear_steps: int) -> None:
    algorithm = small(linear_steps=linear_steps)
    run = trainer_of(algorithm, constant(0.01), steps=100)
    algorithm.train()
    for step in range(1, linear_steps + 4):
        before = {name: value.clone() for name, value in algorithm.state_dict().items()}
        run.update(step, example(step))
        assert moved(before, algorithm) == (
            {"classifier"} if step <= linear_steps + 1 else {"backbone", "classifier"}
        )
        assert int(algorithm.update_count) == algorithm.count == step


def test_loaded_weights_go_on_where_they_were() -> None:
    algorithm, other = small(linear_steps=1), small(linear_steps=1)
    run = trainer_of(algorithm, constant(0.01), steps=100)
    for step in range(1, 3):
        run.update(step, example(step))
    other.load_state_dict(algorithm.state_dict())
    (turn,) = other.turns(example(), torch.Generator())
    assert turn.groups is None
    assert turn.afresh
