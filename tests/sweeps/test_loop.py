"""A sweep: starts what is missing, tries again what crashed, leaves alone what another process is at."""

from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from parse_dg.config import to_dict
from parse_dg.errors import InputError
from parse_dg.files import write_json
from parse_dg.runs.folder import hold
from parse_dg.sweeps import loop as sweep
from parse_dg.sweeps.jobs import Job, Outcome
from parse_dg.sweeps.loop import Event, SweepStatus, run_sweep
from tests.conftest import Tiny
from tests.runs.helpers import result_of

Behaviour = Callable[[Job], Outcome]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "TICK", 0.0)
    monkeypatch.setattr(sweep, "LOOK_AGAIN", 0.0)


@pytest.fixture
def jobs(tiny: Tiny, tmp_path: Path) -> list[Job]:
    return [Job(tiny("erm", seed=seed), tmp_path / f"seed{seed}") for seed in range(4)]


def finish(job: Job) -> Outcome:
    """Leaves what a finished run does, as far as a sweep looks at it."""
    job.folder.mkdir(parents=True, exist_ok=True)
    write_json(job.folder / "config.json", to_dict(job.config))
    write_json(job.folder / "result.json", result_of().to_dict())
    return Outcome(job, "done")


class FakeLauncher:
    """Jobs end in the order they were started, one for every wait, each as its turn in `behaviours` says."""

    name = "fake"

    def __init__(self, *behaviours: Behaviour, slots: int = 2) -> None:
        self.slots = slots
        self.behaviours = deque(behaviours)
        self.started: list[Job] = []
        self.running: deque[Job] = deque()
        self.stopped = False

    def start(self, job: Job) -> None:
        assert not self.stopped
        self.started.append(job)
        self.running.append(job)
        assert len(self.running) <= self.slots

    def wait(self, seconds: float) -> Sequence[Outcome]:
        behave = self.behaviours.popleft() if self.behaviours else finish
        return [behave(self.running.popleft())]

    def stop(self) -> None:
        self.stopped = True


def fail(job: Job) -> Outcome:
    return Outcome(job, "failed", "the loss is not finite")


def crash(job: Job) -> Outcome:
    return Outcome(job, "crashed", "killed by SIGKILL")


def interrupt(job: Job) -> Outcome:
    raise KeyboardInterrupt


def each_once(done: Sequence[Job], jobs: Sequence[Job]) -> bool:
    return sorted(job.folder for job in done) == sorted(job.folder for job in jobs)


class Recorder:
    """An observer that checks, every time, that each job stands in one place."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.folders = sorted(job.folder for job in jobs)
        self.events: list[tuple[str, str]] = []

    def __call__(self, standing: SweepStatus, event: Event | None) -> None:
        assert sorted(job.folder for some in standing for job in some) == self.folders
        if event:
            self.events.append((event.kind, event.job.folder.name))


def test_every_job_is_run_once_in_order_in_the_room_there_is(jobs: list[Job]) -> None:
    launcher, seen = FakeLauncher(slots=3), Recorder(jobs)
    report = run_sweep(jobs, launcher, seen)
    assert launcher.started == jobs
    assert launcher.stopped
    assert list(report.done) == jobs
    assert (report.failed, report.retried, report.exit_code) == ((), (), 0)
    assert seen.events[:3] == [("started", f"seed{seed}") for seed in range(3)]
    assert [name for kind, name in seen.events if kind == "done"] == [job.folder.name for job in jobs]


def test_what_is_finished_is_not_started(jobs: list[Job]) -> None:
    for job in jobs[:3]:
        finish(job)
    launcher, seen = FakeLauncher(), Recorder(jobs)
    report = run_sweep(jobs, launcher, seen)
    assert launcher.started == jobs[3:]
    assert each_once(report.done, jobs)
    assert seen.events[:3] == [("found", f"seed{seed}") for seed in range(3)]


def test_nothing_starts_if_a_folder_holds_something_else(jobs: list[Job]) -> None:
    finish(jobs[3]._replace(config=jobs[0].config))
    launcher = FakeLauncher()
    with pytest.raises(InputError, match="another configuration"):
        run_sweep(jobs, launcher, Recorder(jobs))
    assert launcher.started == []


def test_a_crashed_job_is_tried_again_after_the_others(jobs: list[Job]) -> None:
    launcher, seen = FakeLauncher(crash), Recorder(jobs)
    report = run_sweep(jobs, launcher, seen)
    assert launcher.started == [*jobs, jobs[0]]
    assert each_once(report.done, jobs)
    assert report.retried == (Outcome(jobs[0], "crashed", "killed by SIGKILL"),)
    assert report.exit_code == 0
    assert ("retried", "seed0") in seen.events


@pytest.mark.parametrize("retries", [0, 2])
def test_a_job_that_always_crashes_fails_in_the_end(jobs: list[Job], retries: int) -> None:
    launcher = FakeLauncher(*[crash] * (retries + 1))
    report = run_sweep(jobs[:1], launcher, Recorder(jobs[:1]), retries=retries)
    assert len(launcher.started) == retries + 1
    assert len(report.retried) == retries
    assert report.done == ()
    assert [outcome.kind for outcome in report.failed] == ["crashed"]
    assert report.failed[0].reason.endswith("killed by SIGKILL")
    assert report.exit_code == 1


def test_a_failed_job_is_not_tried_again(jobs: list[Job]) -> None:
    launcher = FakeLauncher(fail)
    report = run_sweep(jobs, launcher, Recorder(jobs))
    assert launcher.started == jobs
    assert list(report.done) == jobs[1:]
    assert report.failed == (Outcome(jobs[0], "failed", "the loss is not finite"),)
    assert report.exit_code == 1


def test_an_interrupt_stops_the_launcher(jobs: list[Job]) -> None:
    launcher = FakeLauncher(finish, interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(jobs, launcher, Recorder(jobs))
    assert launcher.stopped


def test_what_another_process_is_at_is_left_to_it_until_it_is_finished(jobs: list[Job]) -> None:
    launcher, seen = FakeLauncher(), Recorder(jobs)
    looks = []

    def observe(standing: SweepStatus, event: Event | None) -> None:
        seen(standing, event)
        if [job.folder.name for job in standing.elsewhere] == ["seed0"] and len(standing.done) == 3:
            looks.append(standing)
            if len(looks) == 3:
                finish(jobs[0])

    with hold(jobs[0].folder):
        report = run_sweep(jobs, launcher, observe)
    assert launcher.started == jobs[1:]
    assert each_once(report.done, jobs)
    assert seen.events.count(("elsewhere", "seed0")) == 1  # said once, however often it is looked at
    assert seen.events[-1] == ("found", "seed0")


def test_what_another_process_gave_up_is_taken_over(jobs: list[Job]) -> None:
    launcher = FakeLauncher()
    held = hold(jobs[0].folder)
    held.__enter__()
    looks = []

    def observe(standing: SweepStatus, event: Event | None) -> None:
        if standing.elsewhere and len(standing.done) == 3:
            looks.append(standing)
            if len(looks) == 3:
                held.__exit__(None, None, None)

    report = run_sweep(jobs, launcher, observe)
    assert launcher.started == [*jobs[1:], jobs[0]]
    assert each_once(report.done, jobs)


def test_a_folder_that_is_spoilt_on_the_way_fails_that_job_alone(jobs: list[Job]) -> None:
    def spoil(job: Job) -> Outcome:
        finish(jobs[3]._replace(config=jobs[0].config))
        return finish(job)

    report = run_sweep(jobs, FakeLauncher(spoil), Recorder(jobs))
    assert list(report.done) == jobs[:3]
    assert "another configuration" in report.failed[0].reason
