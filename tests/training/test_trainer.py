"""The trainer: which check is kept, what stops it, and what it hands to the algorithm.

The algorithm here is a fake: every step moves its one parameter by RATE, so that the weights tell the step they are
of, and its predictions are written beforehand.
"""

import math
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from parse_dg.algorithms.base import Algorithm, LossTerms, Minibatch
from parse_dg.data.augment.batches import AugmentConfig, draw_augment
from parse_dg.data.domain import Domain
from parse_dg.data.loader import Batch
from parse_dg.data.splits import Subset, whole
from parse_dg.training.accuracy import Accuracy
from parse_dg.training.check import Best, Check, NonFiniteLossError
from parse_dg.training.optimizer import OptimizerConfig
from parse_dg.training.protocol import ProtocolConfig
from parse_dg.training.trainer import Trainer, TrainingConfig
from tests.parts import trainer_of
from tests.runs.helpers import quiet

RATE = 0.125
PLAIN = AugmentConfig(crop_scale=(1.0, 1.0), flip=0.0, jitter=0.0, grayscale=0.0)

Prediction = tuple[int, float]
"""How many images of a validation domain are right, and how sure the model is of all: logits ± sureness."""


class Scripted(Algorithm):
    """Right on as many validation images as the script says, domain after domain, check after check."""

    def __init__(self, script: Iterator[Prediction], losses: Callable[[int], float] = lambda step: 2.0):
        nn.Module.__init__(self)
        self.label_smoothing = 0.0
        self.place = nn.Parameter(torch.zeros(()))
        self.script, self.value = script, losses
        self.step = 0
        self.examples: list[Minibatch] = []
        self.autocast: set[bool] = set()

    def forward(self, images: Tensor) -> Tensor:
        assert not self.training
        correct, sure = next(self.script)
        right = torch.arange(len(images)) < correct
        return torch.where(right[:, None], torch.tensor([sure, -sure]), torch.tensor([-sure, sure]))

    def losses(self, example: Minibatch, generator: torch.Generator) -> LossTerms:
        assert self.training
        self.step += 1
        self.examples.append(example)
        self.autocast.add(torch.is_autocast_enabled("cpu"))
        return {"distance": -self.place, "constant": torch.tensor(self.value(self.step))}


def zeros(name: str, count: int) -> Subset:
    """Images all of class 0."""
    return whole(Domain(name, np.zeros((count, 4, 4, 3), dtype=np.uint8), np.zeros(count, dtype=np.int64)))


def batches() -> Iterator[Batch]:
    number = torch.arange(4, dtype=torch.uint8)
    images = number[:, None, None, None].expand(4, 3, 4, 4)
    return repeat(Batch(images, number.long() % 2, number.long() // 2, None))


def trainer(
    algorithm: Algorithm,
    *,
    check_every: int = 1,
    sizes: dict[str, int] | None = None,
    optimizer: OptimizerConfig | None = None,
    **settings: Any,
) -> Trainer:
    validation = [zeros(name, count) for name, count in (sizes or {"photo": 4}).items()]
    given = {"batches": batches(), "validation": validation, "augment": PLAIN} | settings
    rates = optimizer or OptimizerConfig(head_rate=RATE)
    return trainer_of(algorithm, rates, training=TrainingConfig(check_every=check_every), **given)


def step_of(best: Best) -> int:
    """The step whose weights these are."""
    place = best.state["place"].item() / RATE
    assert place == pytest.approx(round(place), abs=1e-3)
    return round(place)


# which check is kept


def fit(*script: Prediction, sizes: dict[str, int] | None = None) -> Best:
    steps = len(script) // len(sizes or {"photo": 4})
    best = trainer(Scripted(iter(script)), steps=steps, sizes=sizes).fit(quiet)
    assert step_of(best) == best.check.step
    return best


def test_the_most_accurate_check_is_kept() -> None:
    assert fit((1, 1.0), (3, 1.0), (2, 1.0)).check.step == 2
    assert fit((3, 1.0), (1, 1.0), (2, 1.0)).check.step == 1
    assert fit((1, 1.0), (2, 1.0), (3, 1.0)).check.step == 3


def test_accuracy_is_the_mean_over_domains_whatever_their_sizes() -> None:
    # photo of 8, paint of 2: 0.5 and 0.75 as means of domains, 8/10 and 6/10 over all images
    best = fit((8, 1.0), (0, 1.0), (4, 1.0), (2, 1.0), sizes={"photo": 8, "paint": 2})
    assert best.check.step == 2
    assert best.check.mean_accuracy == 0.75
    found = [(value.correct, value.images) for value in best.check.validation.values()]
    assert found == [(4, 8), (2, 2)]


# when checks are made, and what they say


def test_the_better_of_two_checks() -> None:
    def check(correct: int, loss: float) -> Check:
        return Check(1, {}, {"photo": Accuracy(correct, 4, loss)}, {})

    assert check(1, 1.0).better_than(None)
    assert check(2, 9.0).better_than(check(1, 1.0))
    assert not check(1, 1.0).better_than(check(2, 9.0))
    assert check(2, 0.9).better_than(check(2, 1.0))
    assert not check(2, 1.0).better_than(check(2, 1.0))


@pytest.mark.parametrize(
    ("steps", "every", "expected"), [(7, 3, [3, 6, 7]), (6, 3, [3, 6]), (2, 5, [2]), (3, 1, [1, 2, 3])]
)
def test_checks_come_regularly_and_at_the_last_step(steps: int, every: int, expected: list[int]) -> None:
    seen: list[tuple[int, Check | None]] = []
    run = trainer(Scripted(repeat((1, 1.0))), steps=steps, check_every=every)
    run.fit(lambda step, check: seen.append((step, check)))
    assert [step for step, _ in seen] == list(range(1, steps + 1))
    assert [step for step, check in seen if check] == expected
    assert all(check.step == step for step, check in seen if check)


def test_a_check_reports_mean_losses_since_the_one_before() -> None:
    checks: list[Check] = []
    run = trainer(Scripted(repeat((1, 1.0)), losses=float), steps=5, check_every=2)
    run.fit(lambda step, check: checks.append(check) if check else None)
    for check, steps in zip(checks, ([1, 2], [3, 4], [5]), strict=True):
        distance = -RATE * sum(step - 1 for step in steps) / len(steps)
        constant = sum(steps) / len(steps)
        assert list(check.losses) == ["distance", "constant", "total"]
        assert check.losses["distance"] == pytest.approx(distance, 1e-5, 1e-6)
        assert check.losses["constant"] == pytest.approx(constant)
        assert check.losses["total"] == pytest.approx(distance + constant, 1e-5)


def test_rates_follow_the_schedule_step_by_step() -> None:
    checks: list[Check] = []
    config = OptimizerConfig(head_rate=RATE, schedule="cosine")
    run = trainer(Scripted(repeat((1, 1.0))), steps=4, optimizer=config)
    run.fit(lambda step, check: checks.append(check) if check else None)
    expected = [RATE * (1 + math.cos(math.pi * done / 4)) / 2 for done in range(4)]
    assert [check.rates for check in checks] == [{"head": pytest.approx(rate)} for rate in expected]
    assert run.algorithm.place.item() == pytest.approx(sum(expected), 1e-4)  # type: ignore[operator,union-attr]


def test_a_loss_on_validation_must_be_a_number() -> None:
    with pytest.raises(NonFiniteLossError, match="not finite at step 1"):
        trainer(Scripted(iter([(2, math.nan)])), steps=1).fit(quiet)


# augmented validation


class Shown(Scripted):
    """Keeps the images of every prediction."""

    def __init__(self) -> None:
        super().__init__(repeat((1, 1.0)))
        self.shown: list[Tensor] = []

    def forward(self, images: Tensor) -> Tensor:
        self.shown.append(images.clone())
        return super().forward(images)


def textured(name: str) -> Subset:
    images = np.arange(3 * 8 * 8 * 3, dtype=np.uint8).reshape(3, 8, 8, 3)
    return whole(Domain(name, images, np.zeros(3, dtype=np.int64)))


def images_of_checks(names: tuple[str, ...], scored: dict[str, str], **rules: Any) -> list[Tensor]:
    """What the model is shown in the checks of two steps: validation domain by domain, then what is scored."""
    run = trainer(Shown(), steps=2, scored={n: textured(d) for n, d in scored.items()}, **rules)
    run.validation = [textured(name) for name in names]
    run.augment = AugmentConfig()
    run.fit(quiet)
    assert isinstance(run.algorithm, Shown)
    assert len(run.algorithm.shown) == 2 * (len(names) + len(scored))
    return run.algorithm.shown


AUGMENTED = ProtocolConfig(augment_validation=True)


def test_validation_is_augmented_by_draws_of_its_own_domain_and_step() -> None:
    def shown(seed: int = 0) -> list[Tensor]:
        return images_of_checks(("photo", "paint"), {}, protocol=AUGMENTED, sources={"photo", "paint"}, seed=seed)

    torch.manual_seed(1)
    first = shown()
    torch.manual_seed(2)
    assert all(map(torch.equal, first, shown()))
    for n, images in enumerate(first):
        assert all(not torch.equal(images, other) for other in first[:n])
    assert not any(map(torch.equal, first, shown(seed=1)))
    alone = images_of_checks(("paint",), {}, protocol=AUGMENTED, sources={"paint"}, seed=0)
    assert all(map(torch.equal, alone, first[1::2]))  # whatever else is scored


# a loss that is not a number


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_not_finite_stops_before_the_update(value: float) -> None:
    seen: list[int] = []
    algorithm = Scripted(iter([(2, 1.0)]), losses=lambda step: value if step == 4 else 1.0)
    run = trainer(algorithm, steps=9, check_every=2)
    with pytest.raises(NonFiniteLossError) as error:
        run.fit(lambda step, check: seen.append(step))
    assert seen == [1, 2, 3]
    assert algorithm.place.item() == pytest.approx(3 * RATE, 1e-5)
    assert error.value.best is not None
    assert error.value.best.check.step == 2
    assert step_of(error.value.best) == 2
    message = str(error.value)
    assert f"not finite at step 4 (distance -0.375, constant {value:g}, total {value:g})" in message
    assert "the weights of step 2 are kept" in message


class OnCuda(Scripted):
    """The same with everything on the device of the images."""

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images).to(images.device)

    def losses(self, example: Minibatch, generator: torch.Generator) -> LossTerms:
        terms = super().losses(example, generator)
        return {name: term.to(example.images.device) for name, term in terms.items()}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize(("check_every", "seen_before"), [(10, 4), (4, 3)], ids=["a step later", "or at a check"])
def test_on_cuda_a_loss_that_is_not_finite_stops_a_step_later_and_names_its_own(
    check_every: int, seen_before: int
) -> None:
    seen: list[int] = []
    algorithm = OnCuda(repeat((2, 1.0)), losses=lambda step: math.nan if step == 4 else 1.0)
    run = trainer(algorithm, steps=9, check_every=check_every, device=torch.device("cuda"))
    with pytest.raises(NonFiniteLossError, match="not finite at step 4"):
        run.fit(lambda step, check: seen.append(step))
    assert seen == list(range(1, seen_before + 1))


# gradients and precision


class Slope(Scripted):
    """A loss with gradient (3, 4)."""

    def __init__(self) -> None:
        super().__init__(repeat((1, 1.0)))
        self.pair = nn.Parameter(torch.zeros(2))

    def losses(self, example: Minibatch, generator: torch.Generator) -> LossTerms:
        return {"slope": (self.pair * torch.tensor([3.0, 4.0])).sum()}


@pytest.mark.parametrize(("clip", "expected"), [(None, [3.0, 4.0]), (1.0, [0.6, 0.8]), (10.0, [3.0, 4.0])])
def test_gradients_are_cut_to_the_norm(clip: float | None, expected: list[float]) -> None:
    algorithm = Slope()
    trainer(algorithm, steps=2, optimizer=OptimizerConfig(clip_norm=clip)).fit(quiet)
    assert algorithm.pair.grad is not None  # of the last step alone: not summed over steps
    assert algorithm.pair.grad.tolist() == pytest.approx(expected, 1e-4)


# what the algorithm is given


def test_a_batch_is_augmented_by_its_own_draws() -> None:
    def first_images(seed: int) -> Tensor:
        run = trainer(Scripted(repeat((1, 1.0))), steps=1)
        run.augment, run.image_size = AugmentConfig(), 6
        gradient = torch.arange(64, dtype=torch.uint8).view(1, 1, 8, 8).expand(2, 3, 8, 8)
        draws = draw_augment(run.augment, 2, torch.Generator().manual_seed(seed))
        return run.prepare_example(Batch(gradient, torch.zeros(2).long(), torch.zeros(2).long(), draws)).images

    assert first_images(5).shape == (2, 3, 6, 6)

    torch.manual_seed(1)
    one = first_images(5)
    torch.manual_seed(2)
    assert torch.equal(first_images(5), one)
    assert not torch.equal(first_images(6), one)


# how long


@pytest.mark.parametrize(
    ("epochs", "images", "domains", "expected"),
    [(None, 1000, 3, 600), (1.0, 97, 3, 9), (2.5, 96, 3, 20), (50.0, 96, 2, 600), (0.01, 12, 3, 1)],
)
def test_epochs_become_steps(epochs: float | None, images: int, domains: int, expected: int) -> None:
    config = TrainingConfig(steps=600, epochs=epochs, batch_per_domain=4)
    assert config.total_steps(images, domains) == expected
