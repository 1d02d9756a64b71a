"""What a sweep will cost: learnt from finished runs of the same kind, or from a few timed steps."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from parse_dg.config import to_dict
from parse_dg.devices import device_name
from parse_dg.errors import InputError
from parse_dg.runs.config import RunConfig
from parse_dg.sweeps.cost import UNKNOWN, JobCost, RunTime, SweepCost, duration, estimate_cost, measure
from parse_dg.sweeps.jobs import Job
from tests.conftest import Tiny
from tests.runs.helpers import environment_of, without_digests

HERE = device_name(torch.device("cpu"))

Finish = Callable[..., Job]


@pytest.fixture
def finish(tmp_path: Path, erm_run: Path) -> Finish:
    """finish(config, 60): a job whose folder holds a finished run that took so many seconds."""
    made: list[Job] = []

    def build(config: RunConfig, seconds: float, *, steps: int | None = None, device: str = HERE) -> Job:
        folder = tmp_path / "finished" / str(len(made))
        without_digests(Path(shutil.copytree(erm_run, folder)))
        (folder / "config.json").write_text(json.dumps(to_dict(config)))
        result = json.loads((folder / "result.json").read_text())
        result["steps"] = config.training.steps if steps is None else steps
        (folder / "result.json").write_text(json.dumps(result))
        (folder / "environment.json").write_text(json.dumps(environment_of(seconds, device).to_dict()))
        made.append(Job(config, folder))
        return made[-1]

    return build


@pytest.fixture
def job(tmp_path: Path) -> Callable[[RunConfig], Job]:
    """job(config): one whose folder is not there."""
    count = iter(range(100))
    return lambda config: Job(config, tmp_path / "todo" / str(next(count)))


NewJob = Callable[[RunConfig], Job]


def test_a_job_takes_as_long_as_finished_runs_of_its_kind(finish: Finish, job: NewJob, tiny: Tiny) -> None:
    done = [
        finish(tiny("erm", seed=1), 40),
        finish(tiny("erm", data__target="paint"), 60),
        finish(tiny("coral"), 9),
    ]
    cost = estimate_cost([*done, job(tiny("erm")), job(tiny("erm", optimizer__head_rate=0.5))])
    assert cost.finished == 3
    assert [estimate.seconds for estimate in cost.estimates] == [50, 50]
    assert {estimate.how for estimate in cost.estimates} == {"from 2 finished runs of the same kind"}
    assert cost.unknown == 0
    assert cost.hours == pytest.approx(100 / 3600)
    assert cost.unit == "CPU"


@pytest.mark.parametrize(
    ("settings", "seconds"), [({"training__steps": 12}, 120), ({"training__batch_per_domain": 2}, 20)]
)
def test_time_grows_with_the_images_that_are_trained_on(
    settings: dict[str, Any], seconds: float, finish: Finish, job: NewJob, tiny: Tiny
) -> None:
    (estimate,) = estimate_cost([finish(tiny("erm"), 40), job(tiny("erm", **settings))]).estimates
    assert estimate.seconds == pytest.approx(seconds)
    assert estimate.how == "from 1 finished run of the same kind, by how many images are trained on"


def test_epochs_are_compared_with_epochs(finish: Finish, job: NewJob, tiny: Tiny) -> None:
    in_epochs = finish(tiny("erm", training__epochs=2.0), 30, steps=100)
    longer, in_steps = job(tiny("erm", training__epochs=6.0)), job(tiny("erm", training__steps=50))
    found = estimate_cost([in_epochs, longer, in_steps]).estimates
    assert [estimate.seconds for estimate in found] == [pytest.approx(90), pytest.approx(15)]
    only_steps = estimate_cost([finish(tiny("coral"), 40), job(tiny("coral", training__epochs=1.0))])
    assert only_steps.estimates[0].seconds is None  # how many steps an epoch has is not known without the data


def test_runs_of_the_method_stand_in_for_those_of_the_kind(finish: Finish, job: NewJob, tiny: Tiny) -> None:
    other = finish(tiny("parse", algorithm__primitives__count=4), 10)
    many = job(tiny("parse", algorithm__primitives__count=24))
    assert estimate_cost([other, many]).estimates == (
        JobCost(many, 10, "from 1 finished run of parse with other settings"),
    )
    alike = finish(tiny("parse", algorithm__primitives__count=24, seed=1), 70)
    assert estimate_cost([other, alike, many]).estimates[0].seconds == 70


@pytest.mark.parametrize(
    "other",
    [
        {"algorithm": "coral"},
        {"averaging__kind": "ema"},
        {"data__benchmark": "/elsewhere"},
        {"device": "NVIDIA H200"},
    ],
)
def test_runs_of_another_kind_say_nothing(other: dict[str, Any], finish: Finish, job: NewJob, tiny: Tiny) -> None:
    device, algorithm = other.pop("device", HERE), other.pop("algorithm", "erm")
    todo = job(tiny("erm"))
    cost = estimate_cost([finish(tiny(algorithm, **other), 40, device=device), todo])
    assert cost.estimates == (JobCost(todo, None, UNKNOWN),)
    assert (cost.unknown, cost.hours) == (1, 0)


@pytest.mark.parametrize("algorithm", ["erm", "erm_plus_plus"])
def test_a_job_can_be_measured_and_leaves_nothing(algorithm: str, job: NewJob, tiny: Tiny, tmp_path: Path) -> None:
    config = tiny(algorithm, training__steps=1000, training__check_every=100)
    found = measure(job(config), steps=2)
    assert (found.config, found.device, found.steps, found.measured) == (config, HERE, 1000, True)
    assert 0 < found.seconds < 3600
    assert list(tmp_path.iterdir()) == []


def test_what_is_measured_grows_with_steps_and_stages(
    job: NewJob, tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(10_000))
    monkeypatch.setattr("parse_dg.sweeps.cost.time.perf_counter", lambda: float(next(clock)))
    short = measure(job(tiny("erm", training__steps=50)), steps=2)
    assert short.seconds == pytest.approx(50)  # a second from one stamp to the next, the check included
    assert measure(job(tiny("erm", training__steps=150)), steps=4).seconds == pytest.approx(150)
    assert measure(job(tiny("erm_plus_plus", training__steps=50)), steps=2).seconds == pytest.approx(100)
    in_epochs = measure(job(tiny("erm", training__epochs=2.0)), steps=2)
    assert in_epochs.seconds == in_epochs.steps == 16  # 96 images train, 12 a step


def test_one_job_of_each_kind_is_measured_where_nothing_is_known(
    job: NewJob, finish: Finish, tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pretend(asked: Job, steps: int) -> RunTime:
        assert steps == 7
        return RunTime(asked.config, HERE, asked.config.training.steps, 100.0, measured=True)

    monkeypatch.setattr("parse_dg.sweeps.cost.measure", pretend)
    few, many = ({"algorithm__primitives__count": count} for count in (4, 24))
    jobs = [job(tiny("parse", seed=seed, **count)) for seed in (0, 1) for count in (few, many)]
    jobs += [job(tiny("erm", training__steps=8)), finish(tiny("erm"), 3)]
    told: list[Job] = []
    cost = estimate_cost(jobs, measure_steps=7, told=told.append)
    assert told == jobs[:2]
    assert [estimate.seconds for estimate in cost.estimates] == [100, 100, 100, 100, 6]
    assert cost.estimates[3].how == "from timed steps of a run of the same kind"


def cost_of(job: Job, *seconds: float | None, finished: int = 0) -> SweepCost:
    estimates = tuple(JobCost(job, value, UNKNOWN if value is None else "from 1 run") for value in seconds)
    return SweepCost(finished=finished, estimates=estimates, unit="GPU")


def test_wall_time_with_several_at_a_time(job: NewJob, tiny: Tiny) -> None:
    cost = cost_of(job(tiny("erm")), 50, 30, 10, 40)
    assert cost.wall_seconds(1) == 130
    assert cost.wall_seconds(2) == 80  # 50, and 30 + 10 + 40
    assert cost.wall_seconds(4) == cost.wall_seconds(99) == 50
    assert cost_of(job(tiny("erm"))).wall_seconds(3) == 0
    with pytest.raises(InputError, match="slots must be at least 1, found 0"):
        cost.wall_seconds(0)


def test_what_a_person_is_told(job: NewJob, tiny: Tiny) -> None:
    cost = cost_of(job(tiny("erm")), 7200, 3600, None, finished=5)
    assert cost.lines(2) == [
        "8 runs: 5 finished, 3 to do",
        "estimated for 2 of them: 3 GPU-hours, 2.0 hours with 2 at a time",
        "2 runs of 90 min on average: from 1 run",
        f"1 run: {UNKNOWN}",
    ]
    assert cost_of(job(tiny("erm")), finished=2).lines(1) == ["2 runs: 2 finished, 0 to do"]
    assert cost_of(job(tiny("erm")), 60).lines(1)[1] == "estimated: 0.017 GPU-hours, 60 s with 1 at a time"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "under 1 s"), (99, "99 s"), (120, "2 min"), (7200, "2.0 hours"), (60 * 3600, "2.5 days")],
)
def test_a_duration_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words
