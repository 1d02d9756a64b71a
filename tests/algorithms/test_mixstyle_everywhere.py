"""MixStyle as a switch for every method: `mixstyle.stages` mixes in every turn of training, never in evaluation."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from parse_dg.algorithms import ALGORITHMS, Algorithm, BuildContext
from parse_dg.algorithms.base import Minibatch
from parse_dg.algorithms.erm_plus_plus import ErmPlusPlusConfig
from parse_dg.model.backbones import mixstyle
from parse_dg.model.backbones.resnet import ResNet
from tests.parts import seeded, small_backbone, trainer_of

CLASSES = 4
DOMAINS = 2
STAGES = (1, 2)
UPDATES = 3
"""Both players of DANN have their turn, and ERM++ goes from its head alone to everything."""

every_method = pytest.mark.parametrize("name", ALGORITHMS)


def build(name: str, stages: tuple[int, ...]) -> Algorithm:
    start = seeded()
    backbone = small_backbone(start, stages)
    config = ALGORITHMS[name]()
    if isinstance(config, ErmPlusPlusConfig):
        config = replace(config, linear_steps=1)
    return config.build(BuildContext(backbone, CLASSES, generator=start, domains=DOMAINS))


@pytest.fixture(scope="module")
def example() -> Minibatch:
    """Images that differ in brightness and contrast, so that there are styles to be mixed."""
    draws = seeded(9)
    strength = torch.rand(2 * CLASSES, 3, 1, 1, generator=draws)
    images = strength * torch.randn(2 * CLASSES, 3, 32, 32, generator=draws) + 2 * strength
    captions = torch.tensor([[1, 3, 3, 2]]).repeat(2 * CLASSES, 1)  # begin, two unknown words, end
    labels, domains = torch.arange(CLASSES).repeat(2), torch.tensor([0, 1]).repeat_interleave(CLASSES)
    return Minibatch(images, labels, domains, captions)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How many training passes through a backbone were made, and how often styles were mixed."""
    counts = {"passes": 0, "mixed": 0}
    stem, mix_styles = ResNet._stem, mixstyle.mix_styles

    def counting_stem(self: ResNet, images: Tensor) -> Tensor:
        counts["passes"] += self.training
        return stem(self, images)

    def counting_mix(*arguments: Tensor, **options: Any) -> Tensor:
        counts["mixed"] += 1
        return mix_styles(*arguments, **options)

    monkeypatch.setattr(ResNet, "_stem", counting_stem)
    monkeypatch.setattr(mixstyle, "mix_styles", counting_mix)
    return counts


def after_updates(name: str, example: Minibatch, seed: int = 5) -> tuple[list[dict[str, float]], dict[str, Tensor]]:
    """The terms of some updates with styles mixed, and the state that they end in."""
    algorithm = build(name, STAGES)
    trainer = trainer_of(algorithm.train(), steps=UPDATES, generator=seeded(seed))
    found = [trainer.update(step, example) for step in range(1, UPDATES + 1)]
    return [{key: value.item() for key, value in terms.items()} for terms in found], algorithm.state_dict()


@every_method
def test_every_training_pass_is_mixed_after_every_stage(
    name: str, example: Minibatch, counted: dict[str, int]
) -> None:
    algorithm, draws = build(name, STAGES).train(), seeded()
    for _ in range(UPDATES):
        before = dict(counted)
        turns: Iterator[object] = algorithm.turns(example, draws)
        assert list(turns)
        passes = counted["passes"] - before["passes"]
        assert passes >= 1
        assert counted["mixed"] - before["mixed"] == len(STAGES) * passes


@every_method
def test_what_is_mixed_is_what_is_learned_from(
    name: str, example: Minibatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against the same draws without their effect, so that nothing else that is drawn differs."""
    mixed, mixed_state = after_updates(name, example)
    monkeypatch.setattr(mixstyle, "mix_styles", lambda features, partner, lam, everyone: features)
    plain, plain_state = after_updates(name, example)
    assert mixed[0].keys() == plain[0].keys()
    assert mixed[0]["cross_entropy"] != plain[0]["cross_entropy"]
    backbone = [key for key in mixed_state if "backbone.layer" in key and key.endswith("conv1.weight")]
    assert len(backbone) == 4
    for key in backbone:
        assert not torch.equal(mixed_state[key], plain_state[key]), key


@every_method
def test_draws_are_the_generators_alone(name: str, example: Minibatch) -> None:
    """Whatever state PyTorch's own is in, which is left as it is."""
    algorithm, draws = build(name, STAGES).train(), seeded()
    before, around = draws.get_state(), torch.get_rng_state()
    list(algorithm.turns(example, draws))
    assert not torch.equal(draws.get_state(), before)
    assert torch.equal(torch.get_rng_state(), around)
    torch.manual_seed(1)
    one, one_state = after_updates(name, example)
    torch.manual_seed(2)
    again, again_state = after_updates(name, example)
    other, _ = after_updates(name, example, seed=6)
    assert one == again
    assert all(torch.equal(value, again_state[key]) for key, value in one_state.items())
    assert one[0]["cross_entropy"] != other[0]["cross_entropy"]


@every_method
def test_evaluation_is_never_mixed(name: str, example: Minibatch, counted: dict[str, int]) -> None:
    """No generator is at hand there; the same weights give the same bits with the switch on and off."""
    on, off = build(name, STAGES), build(name, ())
    off.load_state_dict(on.state_dict())
    with torch.no_grad():
        assert torch.equal(on.eval()(example.images), off.eval()(example.images))
    assert counted["mixed"] == 0
