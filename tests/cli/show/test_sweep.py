"""What is shown of a sweep: its plan, events line by line or live, time left, how it ended."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from parse_dg.cli.show import sweep as display
from parse_dg.cli.show.sweep import SweepView, print_plan, print_report, sweep_display
from parse_dg.config import to_dict
from parse_dg.files import is_locked, write_json
from parse_dg.runs.folder import LOCK, hold
from parse_dg.runs.metrics import CheckLine
from parse_dg.sweeps.jobs import Job, Outcome, read_state
from parse_dg.sweeps.loop import Event, SweepReport, SweepStatus
from tests.conftest import Tiny
from tests.parts import stop_clock
from tests.runs.helpers import check_of, environment_of, result_of


@pytest.fixture
def jobs(tiny: Tiny, tmp_path: Path) -> list[Job]:
    """Two methods, the second with two settings, on two seeds."""
    rows = {"erm": "erm", "parse,K=4": "parse", "parse,K=8": "parse"}
    return [
        Job(tiny(method, seed=seed), tmp_path / "blueprints" / row / "sketch" / f"seed{seed}")
        for seed in (0, 1)
        for row, method in rows.items()
    ]


def finish(job: Job, seconds: float) -> None:
    job.folder.mkdir(parents=True, exist_ok=True)
    write_json(job.folder / "config.json", to_dict(job.config))
    write_json(job.folder / "result.json", result_of().to_dict())
    write_json(job.folder / "environment.json", environment_of(seconds).to_dict())


def check(job: Job, *lines: CheckLine) -> None:
    """Checks in metrics.jsonl, the last line half written."""
    job.folder.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(line.to_dict()) + "\n" for line in lines)
    (job.folder / "metrics.jsonl").write_text(text + '{"step": 99, "valid')


def standing(**places: list[Job]) -> SweepStatus:
    return SweepStatus(**{name: tuple(places.get(name, ())) for name in SweepStatus._fields})


def printed(terminal: bool = False, width: int = 120) -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(file=out, width=width, height=40, force_terminal=terminal, highlight=False), out


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in text.splitlines() if line[:1] == "│"]


def test_the_plan_counts_what_there_is_to_run(jobs: list[Job]) -> None:
    finish(jobs[0], 5)
    finish(jobs[1], 5)
    console, out = printed()
    with hold(jobs[2].folder):
        print_plan(console, jobs)
    assert "the plan: 6 runs" in out.getvalue()
    # data set, method, settings, targets, seeds, runs, finished, running now, to run
    assert rows(out.getvalue()) == [
        ["blueprints", "erm", "1", "1", "2", "2", "1", "0", "1"],
        ["blueprints", "parse", "2", "1", "2", "4", "1", "1", "2"],
    ]


def test_the_state_of_a_job_is_in_its_folder(jobs: list[Job]) -> None:
    job = jobs[0]
    assert read_state(job) == "unfinished"
    assert not job.folder.exists()  # looking leaves nothing behind
    with hold(job.folder):
        assert is_locked(job.folder / LOCK)
        assert read_state(job) == "busy"
    assert not is_locked(job.folder / LOCK)
    assert read_state(job) == "unfinished"
    finish(job, 1)
    assert read_state(job) == "finished"


def test_elsewhere_than_in_a_terminal_every_event_is_a_line(jobs: list[Job], tmp_path: Path) -> None:
    console, out = printed()
    with sweep_display(console, tmp_path) as observe:
        finish(jobs[0], 60)
        observe(standing(done=jobs[:1], waiting=jobs[1:]), Event(jobs[0], "found"))
        observe(standing(done=jobs[:1], running=jobs[1:2], waiting=jobs[2:]), Event(jobs[1], "started"))
        observe(standing(done=jobs[:1], running=jobs[1:2], waiting=jobs[2:]), None)
        observe(standing(done=jobs[:1], waiting=jobs[1:]), Event(jobs[1], "retried", "killed by SIGKILL"))
        observe(standing(done=jobs[:1], elsewhere=jobs[1:]), Event(jobs[1], "elsewhere"))
        observe(standing(done=jobs[:1], failed=jobs[1:]), Event(jobs[1], "failed", "it [bold]broke"))
        observe(standing(done=jobs[:2], failed=jobs[2:]), Event(jobs[1], "found"))
    first, second, third, fourth, fifth = out.getvalue().splitlines()
    assert first.startswith("1 of 6 runs done, 1 running, 4 waiting; 0:0")
    assert first.endswith(": started blueprints/parse,K=4/sketch/seed0")
    assert second.endswith("crashed and will be tried again: blueprints/parse,K=4/sketch/seed0: killed by SIGKILL")
    assert "5 run by another process" in third
    assert fourth.endswith("failed blueprints/parse,K=4/sketch/seed0: it [bold]broke")
    assert fifth.endswith("done by another process: blueprints/parse,K=4/sketch/seed0")
    assert "\x1b" not in out.getvalue()


def test_a_terminal_shows_every_running_job(
    jobs: list[Job], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(display, "ROWS", 2)
    check(jobs[0], check_of(2, {"photo": 0.5}))
    console, out = printed(terminal=True)
    with sweep_display(console, tmp_path) as observe:
        observe(standing(running=jobs[:1], elsewhere=jobs[1:4], waiting=jobs[4:]), None)
        observe(
            standing(running=jobs[1:4], failed=jobs[:1], waiting=jobs[4:]), Event(jobs[0], "failed", "no number")
        )
    text = out.getvalue()
    assert "0 of 6 runs done, 1 running, 3 run by another process, 2 waiting" in text
    assert "step 2 of 4, source validation 50.0%" in text
    assert "another process" in text
    assert "and 2 more" in text
    assert "failed blueprints/erm/sketch/seed0: no number" in text


def test_time_left_is_of_runs_of_the_same_kind(
    jobs: list[Job], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    stop_clock(monkeypatch, display, lambda: now[0])
    view = SweepView(tmp_path)
    assert view.time_left(standing(waiting=jobs)) is None
    finish(jobs[0], 100)
    finish(jobs[1], 40)
    finish(jobs[2], 60)
    running = standing(done=jobs[:3], running=jobs[3:5], waiting=jobs[5:])
    view.note(running, Event(jobs[3], "started"))
    view.note(running, Event(jobs[4], "started"))
    view.note(running, None)
    now[0] += 30
    # of 100 s for erm and 40 s for the other 30 are gone, then 60: 140 on two places
    assert view.time_left(running) == pytest.approx((70 + 10 + 60) / 2)
    assert view.headline(running) == "3 of 6 runs done, 2 running, 1 waiting; 0:30 gone, about 1:10 left"
    last = standing(done=jobs[:3], running=jobs[3:4])
    assert view.time_left(last) == pytest.approx(70)  # no place can take it over


def test_a_report_says_what_failed_and_why(jobs: list[Job]) -> None:
    console, out = printed()
    failed = Outcome(jobs[0], "failed", "the loss is not finite")
    print_report(console, SweepReport(tuple(jobs[1:]), (failed,), (Outcome(jobs[1], "crashed"),)))
    assert out.getvalue().splitlines() == [
        "5 runs done, 1 failed; tried again after a crash: 1",
        f"failed: {jobs[0].folder}: the loss is not finite",
    ]
