"""Averages of weights: against slow references, step by step, and through the trainer."""

import math
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from parse_dg.algorithms.base import Algorithm, BuildContext, LossTerms, Minibatch
from parse_dg.algorithms.erm import Erm, ErmConfig
from parse_dg.algorithms.parse import Parse, ParseConfig
from parse_dg.data.augment.batches import AugmentConfig
from parse_dg.data.loader import Batch
from parse_dg.model.backbones.backbone import BackboneConfig, build_backbone
from parse_dg.model.backbones.mixstyle import MixStyleConfig
from parse_dg.training.averaging import (
    Averaging,
    AveragingConfig,
    ValleyReport,
    build_averaging,
    estimate_statistics,
)
from parse_dg.training.check import Best, Check
from parse_dg.training.loss_valley import LossValley
from parse_dg.training.optimizer import OptimizerConfig
from parse_dg.training.trainer import Trainer, TrainingConfig
from tests.parts import trainer_of
from tests.training.test_trainer import PLAIN, RATE, zeros

State = dict[str, Tensor]


class Small(Algorithm):
    """A convolution with BatchNorm, whose weights a test moves itself."""

    def __init__(self, seed: int = 0):
        nn.Module.__init__(self)
        self.label_smoothing = 0.0
        torch.manual_seed(seed)
        self.backbone = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4))
        self.register_buffer("constant", torch.tensor([0.1, 1e-30, 12345.678]))
        self.register_buffer("number", torch.tensor([3]))

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.backbone(images).mean((2, 3))
        return logits

    def losses(self, example: Minibatch, generator: torch.Generator) -> LossTerms:
        return {"cross_entropy": self.cross_entropy(self(example.images), example.labels)}

    def wander(self, step: int) -> Tensor:
        """Move everything a little, and give the images that did it."""
        generator = torch.Generator().manual_seed(step)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter += torch.randn(parameter.shape, generator=generator)
        images = torch.randn(8, 3, 2, 2, generator=generator)
        self.train()(images)
        self.number += 1  # type: ignore[operator]
        return images


def copy_of(algorithm: nn.Module) -> State:
    return {name: value.clone() for name, value in algorithm.state_dict().items()}


def follow(config: AveragingConfig, steps: int) -> tuple[Small, Averaging, list[State], list[State]]:
    """The states of network and average after every step; the first is the start."""
    algorithm = Small()
    averaging = build_averaging(algorithm, config)
    states, averages = [copy_of(algorithm)], [copy_of(averaging.scored)]
    for step in range(1, steps + 1):
        averaging.after_step(step, algorithm.wander(step))
        states.append(copy_of(algorithm))
        averages.append(copy_of(averaging.scored))
    return algorithm, averaging, states, averages


# moving averages


@pytest.mark.parametrize("name", ["backbone.0.weight", "backbone.1.bias", "backbone.1.running_var"])
def test_ema_is_the_recurrence_from_the_start_on(name: str) -> None:
    _, _, states, averages = follow(AveragingConfig(kind="ema", decay=0.9), 7)
    expected = states[0][name].double()
    for state, average in zip(states[1:], averages[1:], strict=True):
        expected = 0.9 * expected + 0.1 * state[name].double()
        torch.testing.assert_close(average[name].double(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("start", [1, 3])
def test_sma_is_a_copy_and_then_the_mean_of_all_steps_since(start: int) -> None:
    _, _, states, averages = follow(AveragingConfig(kind="sma", start=start), 7)
    for step in range(1, 8):
        since = [state["backbone.0.weight"].double() for state in states[min(start - 1, step) : step + 1]]
        expected = torch.stack(since[-1:] if step < start else since).mean(0)
        found = averages[step]["backbone.0.weight"].double()
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_the_statistics_of_sma_are_averaged_and_see_the_batch() -> None:
    """The recurrence, written out: the mean with the network's, then a pass of the batch in training mode."""
    algorithm = Small()
    averaging = build_averaging(algorithm, AveragingConfig(kind="sma", start=2))
    mean, count = algorithm.backbone[1].running_mean.double(), 0  # type: ignore[union-attr,operator]
    for step in range(1, 6):
        images = algorithm.wander(step)
        averaging.after_step(step, images)
        of_network = algorithm.backbone[1].running_mean.double()  # type: ignore[union-attr,operator]
        count += step >= 2
        mean = (mean * count + of_network) / (count + 1) if count else of_network
        convolution = averaging.scored.backbone[0]  # type: ignore[index]
        mean = 0.9 * mean + 0.1 * convolution(images).mean((0, 2, 3)).double()  # type: ignore[operator]
        found = averaging.scored.state_dict()["backbone.1.running_mean"].double()
        torch.testing.assert_close(found, mean, rtol=1e-5, atol=1e-6)
    assert int(averaging.scored.state_dict()["backbone.1.num_batches_tracked"]) == 5
    assert not averaging.scored.training


def test_frozen_statistics_stay_as_they_are() -> None:
    backbone = build_backbone(BackboneConfig(freeze_batchnorm=True), MixStyleConfig(stages=()))
    algorithm = Erm(ErmConfig(), BuildContext(backbone, 5)).train()
    before = copy_of(algorithm)
    averaging = build_averaging(algorithm, AveragingConfig(kind="sma", start=1))
    for step in range(1, 5):
        averaging.after_step(step, torch.randn(4, 3, 64, 64))
    estimate_statistics(algorithm, iter(lambda: pytest.fail("no batch is needed"), None))
    for found in (averaging.scored.state_dict(), algorithm.state_dict()):
        assert all(torch.equal(found[name], before[name]) for name in before)


def test_an_averaged_parse_scores_with_its_averaged_composition() -> None:
    def build() -> Parse:
        torch.manual_seed(0)
        backbone = build_backbone(BackboneConfig(), MixStyleConfig(stages=()))
        return Parse(ParseConfig(), BuildContext(backbone, 4, generator=torch.Generator().manual_seed(0)))

    algorithm, images = build().train(), torch.randn(3, 3, 64, 64)
    averaging = build_averaging(algorithm, AveragingConfig(kind="ema", decay=0.5))
    weight = algorithm.network.structure.composition.weight
    for step in range(1, 4):
        with torch.no_grad():
            averaging.scored(images)  # what it remembers of Λ must not outlive the step
            weight += torch.randn(weight.shape, generator=torch.Generator().manual_seed(step))
        averaging.after_step(step, images)
    other = build().eval()
    other.load_state_dict(averaging.scored.state_dict())
    with torch.no_grad():
        assert torch.equal(averaging.scored(images), other(images))
        assert not torch.equal(averaging.scored(images), algorithm.eval()(images))


# statistics of an average


def test_statistics_are_the_plain_mean_over_batches() -> None:
    algorithm = Small()
    for step in range(3):
        algorithm.wander(step)
    batches = [torch.randn(8, 3, 2, 2) for _ in range(5)]
    features = [algorithm.backbone[0](batch).double() for batch in batches]
    estimate_statistics(algorithm, batches)
    layer = algorithm.backbone[1]
    assert isinstance(layer, nn.BatchNorm2d)
    assert layer.running_mean is not None
    assert layer.running_var is not None
    mean = torch.stack([each.mean((0, 2, 3)) for each in features]).mean(0)
    variance = torch.stack([each.transpose(0, 1).flatten(1).var(1) for each in features]).mean(0)
    torch.testing.assert_close(layer.running_mean.double(), mean, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(layer.running_var.double(), variance, rtol=1e-5, atol=1e-6)
    assert layer.momentum == 0.1


# SWAD, through the trainer


class Valley(Algorithm):
    """Every step moves its parameter by RATE, and checks lose what was written beforehand."""

    def __init__(self, losses: Iterator[float]):
        nn.Module.__init__(self)
        self.label_smoothing = 0.0
        self.place = nn.Parameter(torch.zeros(()))
        self.to_lose = losses
        self.seen: list[float] = []

    def forward(self, images: Tensor) -> Tensor:
        self.seen.append(self.place.item() / RATE)
        logit = -math.log(math.expm1(next(self.to_lose)))  # of two classes: the loss is log(1 + exp(-logit))
        return torch.tensor([logit, 0.0]).expand(len(images), 2)

    def losses(self, example: Minibatch, generator: torch.Generator) -> LossTerms:
        return {"distance": -self.place}


LOSSES = [1.0, 0.8, 0.6, 0.5, 0.45, 0.44, 0.46, 0.47, 0.45, 0.46, 0.48, 0.5, 0.55, 0.6, 0.7, 0.8, *[0.9] * 4]
EVERY = 3


def batches() -> Iterator[Batch]:
    while True:
        yield Batch(torch.zeros(4, 3, 4, 4, dtype=torch.uint8), torch.zeros(4).long(), torch.zeros(4).long(), None)


def numbered() -> Iterator[Batch]:
    """Batches that differ: three images of as many as came before, and one of zeros, for some variance."""
    for number, batch in enumerate(batches()):
        values = torch.tensor([0, number, number, number], dtype=torch.uint8)
        yield batch._replace(images=values[:, None, None, None].expand(4, 3, 4, 4))


def trainer(algorithm: Algorithm, steps: int, check_every: int = 2, **changes: Any) -> Trainer:
    given = {"batches": batches(), "validation": [zeros("photo", 4)], "augment": PLAIN} | changes
    rates, training = OptimizerConfig(head_rate=RATE), TrainingConfig(check_every=check_every)
    return trainer_of(algorithm, rates, steps=steps, training=training, **given)


def swad(losses: list[float], **settings: Any) -> tuple[Trainer, Best, list[Check]]:
    checks: list[Check] = []
    averaging = AveragingConfig(kind="swad", **settings)
    run = trainer(Valley(iter([*losses, 0.3])), EVERY * len(losses), EVERY, averaging=averaging)
    best = run.fit(lambda step, check: checks.append(check) if check else None)
    return run, best, checks


def expected_place(losses: list[float], ratio: float) -> float:
    """The mean of segment means, each as often as the valley says."""
    valley = LossValley(3, 6, ratio)
    for number, loss in enumerate(losses, start=1):
        valley.observe(EVERY * number, loss)
    valley.finish()
    means = [EVERY * number - (EVERY - 1) / 2 for number in range(1, len(losses) + 1)]
    times = valley.multiplicity
    return sum(mean * often for mean, often in zip(means, times, strict=False)) / sum(times)


@pytest.mark.parametrize("ratio", [0.3, 0.05])
@pytest.mark.parametrize("count", [2, 9, 20])
def test_swad_is_the_mean_of_segment_means(count: int, ratio: float) -> None:
    run, best, checks = swad(LOSSES[:count], tolerance_ratio=ratio)
    made = LOSSES[: len(checks)]
    assert best.state["place"].item() / RATE == pytest.approx(expected_place(made, ratio), 1e-4)
    assert [check.mean_loss for check in checks] == pytest.approx(made, 1e-4)
    assert best.check.mean_loss == pytest.approx(LOSSES[len(made)] if len(made) < count else 0.3, 1e-4)
    assert best.check.step == checks[-1].step
    assert isinstance(run.algorithm, Valley)
    assert run.algorithm.seen[-1] == pytest.approx(best.state["place"].item() / RATE)  # what was scored


def test_training_stops_where_the_valley_is_left() -> None:
    run, _, checks = swad(LOSSES)
    assert len(checks) == 19  # the sixth check in a row above 0.59
    found = run.averaging.report()
    assert isinstance(found, ValleyReport)
    assert found.left
    assert found.threshold == pytest.approx(0.593667, 1e-4)
    assert (found.converge_step, found.last_step) == (6 * EVERY, 19 * EVERY)
    assert (found.start_step, found.end_step) == (4 * EVERY + 1, 13 * EVERY)
    assert found.segment_multiplicity == (*(0,) * 4, 1, 2, *(1,) * 7, *(0,) * 6)
    assert found.segments == 10


def test_swad_says_when_it_found_no_valley() -> None:
    run, _, checks = swad(LOSSES[:6])
    found = run.averaging.report()
    assert isinstance(found, ValleyReport)
    assert len(checks) == 6
    assert not found.converged
    assert found.threshold is None
    assert (found.start_step, found.end_step) == (5 * EVERY + 1, 6 * EVERY)


def test_swad_estimates_statistics_that_are_not_frozen_over_as_many_batches_as_it_says() -> None:
    stream = numbered()
    averaging = AveragingConfig(kind="swad", statistics_batches=5)
    run = trainer(Small(), 6, batches=stream, augment=AugmentConfig(), averaging=averaging)
    best = run.fit(lambda step, check: None)
    assert int(next(stream).images.max()) == 6 + 5  # six steps, five batches after them
    fresh = Small()
    fresh.load_state_dict(best.state)
    estimate_statistics(fresh, [run.prepare_example(batch).images for batch in islice(numbered(), 6, 11)])
    for name, value in fresh.state_dict().items():
        torch.testing.assert_close(best.state[name], value)


# the trainer's part


class Passing(Valley):
    """Loses least where its parameter is that of step 2."""

    def forward(self, images: Tensor) -> Tensor:
        assert not self.training
        loss = 0.1 + abs(self.place.item() / RATE - 2)
        return torch.tensor([-math.log(math.expm1(loss)), 0.0]).expand(len(images), 2)


def test_the_best_plain_weights_are_kept_by_their_own_validation() -> None:
    checks: list[tuple[Check, Check | None]] = []
    averaging = AveragingConfig(kind="sma", start=1, also_plain=True)
    run = trainer(Passing(iter(())), 6, averaging=averaging, scored={"sketch/all": zeros("sketch", 4)})
    best = run.fit(lambda step, check: checks.append((check, run.plain)) if check else None)
    assert run.best_plain is not None
    assert (best.check.step, run.best_plain.check.step) == (4, 2)
    for kept in (best, run.best_plain):  # the mean of steps 0 to 4, the weights of step 2
        assert kept.state["place"].item() / RATE == pytest.approx(2, 1e-4)
    found = [[of.mean_loss, of.scores["sketch/all"].loss] for pair in checks for of in pair if of]
    expected = [1.1, 0.1, 0.1, 2.1, 1.1, 4.1]  # average, step: after 2, 4 and 6
    assert found == [pytest.approx([loss, loss], 1e-3) for loss in expected]
    assert run.algorithm.training


def test_without_validation_the_last_weights_are_kept() -> None:
    best = trainer(Valley(iter([0.5] * 50)), 7, validation=[]).fit(lambda step, check: None)
    assert best.check.step == 7
    assert best.check.validation == {}
    assert math.isnan(best.check.mean_accuracy)
    assert best.state["place"].item() / RATE == pytest.approx(7)
