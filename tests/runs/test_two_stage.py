"""ERM++'s two stages: when rates fall, what the second training is of, and what the run's folder says of it."""

from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from parse_dg.data.benchmarks import open_benchmark
from parse_dg.data.splits import LeaveOneOut, Subset, leave_one_out
from parse_dg.deploy.model_file import load_model
from parse_dg.errors import InputError
from parse_dg.runs import run as run_module
from parse_dg.runs.run import execute
from parse_dg.runs.two_stage import Steering, all_of_sources, name_whole
from parse_dg.training.accuracy import Accuracy, accuracy
from parse_dg.training.check import Best, Check, Observer
from parse_dg.training.trainer import Trainer, TrainingConfig
from tests.conftest import Numbered, Tiny
from tests.runs.helpers import CPU, checks, quiet, read


class FakeTrainer(Trainer):
    """Makes checks with the losses it is given, where DomainBed makes them, and writes down every step's rate."""

    def __init__(self, losses: list[float], steps: int, every: int):
        self.losses, self.steps, self.stopped = iter(losses), steps, False
        self.training = TrainingConfig(steps=steps, check_every=every, check_from=1)
        self.rate, self.rates = 1.0, list[float]()

    def lower_rates(self, factor: float) -> None:
        self.rate *= factor

    def fit(self, observe: Observer) -> Best:
        for step in range(1, self.steps + 1):
            self.rates.append(self.rate)
            check = None
            if self.training.checks_at(step) or step == self.steps:
                check = Check(step, {}, {"photo": Accuracy(1, 2, next(self.losses))}, {})
            observe(step, check)
            if self.stopped:
                break
        assert check is not None
        return Best(check, {})


def literal_rates(
    losses: list[float], steps: int, every: int, linear_steps: int
) -> tuple[list[float], list[float]]:
    """The rate of every step of both stages, in the words of the authors: steps are counted from 0, rates are
    PyTorch's, stage 2 takes those that stage 1 wrote down from the front of the list, and ends where 0 comes next.
    """
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(()))], lr=1.0)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, "min", 0.1, 1)
    written: list[float] = []
    first: list[float] = []
    second: list[float] = []
    found = iter(losses)
    for step in range(steps):
        first.append(optimizer.param_groups[0]["lr"])
        if step % every == 0 or step == steps - 1:
            loss = next(found)
            if step + 1 > linear_steps:
                plateau.step(loss)
                written.append(optimizer.param_groups[0]["lr"])
                if sum(a != b for a, b in pairwise(written)) == 3:
                    written[-1] = 0.0
                    break
    rate = 1.0
    for step in range(steps):
        second.append(rate)
        if (step % every == 0 or step == steps - 1) and step + 1 > linear_steps:
            rate = written.pop(0)
        if written[:1] == [0.0]:
            break
    return first, second


def stages(losses: list[float], steps: int, every: int, linear_steps: int) -> tuple[FakeTrainer, FakeTrainer, Any]:
    first, second = FakeTrainer(losses, steps, every), FakeTrainer([1.0] * len(losses), steps, every)
    steering = Steering(linear_steps)
    first.fit(partial(steering.steer, first))
    steering.stage = 2
    best = second.fit(partial(steering.steer, second))
    assert steering.first.step == best.check.step == len(second.rates)
    return first, second, steering.reports()


@pytest.mark.golden
@pytest.mark.parametrize(
    ("steps", "every", "linear_steps"), [(5001, 300, 500), (5001, 100, 500), (47, 4, 9), (30, 1, 0)]
)
def test_both_stages_are_as_long_and_at_the_rates_of_the_authors_program(
    steps: int, every: int, linear_steps: int
) -> None:
    random = np.random.default_rng(steps)
    lengths = set()
    for falling in range(0, 40, 4):
        noise = random.normal(0, 0.1, 60)
        losses = (np.exp(-np.arange(60) / (1 + falling / 4)) + noise + 0.5).round(2).clip(0.01).tolist()
        one, two = literal_rates(losses, steps, every, linear_steps)
        first, second, reports = stages(losses, steps, every, linear_steps)
        assert first.rates == pytest.approx(one)
        assert second.rates == pytest.approx(two)
        assert [report.steps for report in reports] == [len(one), len(two)]
        falls = [step for step, (a, b) in enumerate(pairwise(two), start=1) if a != b]
        for report in reports:
            assert [step for step in report.rates_fall_after if step < report.steps] == falls
        lengths.add(len(two))
    assert len(lengths) > 3


def test_a_loss_that_stands_still_ends_stage_1_after_2401_steps_and_stage_2_after_2101() -> None:
    first, second, reports = stages([1.0] * 20, 5001, 300, 500)
    assert (len(first.rates), len(second.rates)) == (2401, 2101)
    assert [report.rates_fall_after for report in reports] == [(1201, 1801)] * 2
    assert reports[1].ended_by == "up to the last check of stage 1 but one"
    falling, again, reports = stages(list(np.linspace(2, 1, 20)), 5001, 300, 500)
    assert len(falling.rates) == len(again.rates) == 5001
    assert [report.ended_by for report in reports] == ["the limit of steps", "as long as stage 1"]


def test_stage_2_has_every_image_of_the_sources_once(numbered: Numbered) -> None:
    photo, paint, sketch = (numbered(name, 5) for name in ("photo", "paint", "sketch"))

    def some(domain: Any, *indices: int) -> Subset:
        return Subset(domain, np.array(indices))

    split = LeaveOneOut(
        (some(photo, 4, 0, 2), some(paint, 1)), (some(photo, 3, 1), some(paint, 0)), some(sketch, 2)
    )
    found = all_of_sources(split)
    assert [subset.indices.tolist() for subset in found.training] == [[0, 1, 2, 3, 4], [0, 1]]
    assert [subset.domain for subset in found.training] == [photo, paint]
    assert found.validation == ()
    assert found.target is split.target
    named = name_whole({"sketch/in": split.target, "photo/in": found.training[0]}, {"photo", "paint"})
    assert named == {"sketch/in": split.target, "photo/all": found.training[0]}


SETTINGS = {
    "algorithm__linear_steps": 1,
    "averaging__kind": "sma",
    "averaging__start": 3,
    "training__steps": 8,
    "optimizer__schedule": "constant",
}


@pytest.fixture(scope="module")
def two_stage_run(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "erm_plus_plus"
    execute(tiny("erm_plus_plus", **SETTINGS), folder, quiet)
    return folder


def test_metrics_are_of_both_stages(two_stage_run: Path) -> None:
    lines = checks(two_stage_run)
    first, second = ([line for line in lines if line["stage"] == stage] for stage in (1, 2))
    assert lines == first + second
    assert [line["step"] for line in first] == [line["step"] for line in second]
    assert all(list(line["validation"]) == ["photo", "cartoon", "paint"] for line in first)
    assert all(line["validation"] == {} and line["validation_mean_accuracy"] is None for line in second)
    assert all(line["best_so_far"] for line in second)
    assert all(line["weights"].startswith("simple moving average") for line in lines)
    assert [line["rates"] for line in first] == [line["rates"] for line in second]


def test_the_result_says_what_each_number_is_of(two_stage_run: Path, tiny: Tiny) -> None:
    result, lines = read(two_stage_run / "result.json"), checks(two_stage_run)
    last = [line for line in lines if line["stage"] == 1][-1]
    assert result["validation"] == last["validation"]
    assert result["validation_mean_accuracy"] == last["validation_mean_accuracy"]
    assert result["validation_part"] == "held-out images, by the weights of stage 1"
    assert result["selection"].startswith("two stages: the last weights of a second training")
    assert result["protocol"]["rules"][-1] == f"{result['selection']}."
    assert result["averaging"] == {
        "kind": "sma",
        "checks_score": "simple moving average up to the step",
        "start": 3,
    }
    one, two = result["stages"]
    assert one["steps"] == two["steps"] == result["selected_step"] == last["step"]
    assert one["rates_fall_after"] == two["rates_fall_after"]
    assert "all images of the source domains" in two["trained_on"]
    split = leave_one_out(open_benchmark(tiny("erm").data), "sketch", 0)
    found = accuracy(load_model(two_stage_run).algorithm, split.target, CPU)
    assert result["target"]["correct"] == found.correct


def test_rates_that_fall_in_stage_1_fall_in_stage_2(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no step of any size the loss stands still: rates fall at every second check."""
    still = {"optimizer__head_rate": 0.0, "optimizer__backbone_rate": 0.0, "backbone__freeze_batchnorm": True}
    config = tiny("erm_plus_plus", **{**SETTINGS, **still, "training__steps": 40, "training__check_every": 1})
    built: list[Trainer] = []
    lowered: list[tuple[int, float]] = []
    build, lower = run_module.build_trainer, Trainer.lower_rates

    def remember(*arguments: Any, **options: Any) -> Trainer:
        built.append(build(*arguments, **options))
        return built[-1]

    def count(trainer: Trainer, factor: float) -> None:
        lowered.append((built.index(trainer) + 1, factor))
        lower(trainer, factor)

    monkeypatch.setattr(run_module, "build_trainer", remember)
    monkeypatch.setattr(Trainer, "lower_rates", count)
    seen: list[int] = []
    result = execute(config, tmp_path / "run", lambda step, check: seen.append(step))
    assert lowered == [(1, 0.1)] * 2 + [(2, 0.1)] * 2
    assert result.stages is not None
    assert result.stages[0].rates_fall_after == (4, 6)  # the first check that counts is of step 2
    assert result.stages[0].ended_by.startswith("rates would have fallen a third time")
    assert seen == [*range(1, 9), *range(1, 8)]
    assert result.selected_step == 7
    sizes = [[len(subset.indices) for subset in trainer.batches.sampler.sources] for trainer in built]  # type: ignore[attr-defined]
    assert sizes == [[32, 32, 32], [40, 40, 40]]
    assert [trainer.steps for trainer in built] == [40, 40]


def test_checks_of_stage_2_score_the_target_and_all_of_the_sources(tiny: Tiny, tmp_path: Path) -> None:
    settings = {**SETTINGS, "training__steps": 2, "protocol__checks": "everything"}
    execute(tiny("erm_plus_plus", **settings), tmp_path / "run", quiet)
    first, second = checks(tmp_path / "run")
    assert {"sketch/all", "photo/in", "photo/out"} <= set(first["scores"])
    assert list(second["scores"]) == ["sketch/all", "photo/all", "cartoon/all", "paint/all"]
    assert second["scores"]["photo/all"]["images"] == 40


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"averaging__kind": "swad"}, r"averaging\.kind must be sma, ema or none, as algorithm\.stages=2 trains"),
        (
            {"protocol__selection": "leave-one-domain-out", "split__validation_domain": "paint"},
            r"protocol\.selection must be training-domain or oracle, as algorithm\.stages=2 trains",
        ),
    ],
)
def test_what_needs_held_out_images_is_refused(tiny: Tiny, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        tiny("erm_plus_plus", **settings)
    tiny("erm_plus_plus", algorithm__stages=1, **settings)
