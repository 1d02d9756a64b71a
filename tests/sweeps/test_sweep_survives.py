"""Sweeps as processes that are killed, started again, run twice at once: every job ends with one result."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from parse_dg.config import to_dict
from parse_dg.files import is_locked
from parse_dg.runs.folder import LOCK
from parse_dg.sweeps.jobs import Job
from parse_dg.training.checkpoint import read_checkpoint
from tests.conftest import Tiny
from tests.parts import wait_until
from tests.runs.helpers import repeated, result_of

pytestmark = pytest.mark.slow

SECONDS = 180.0
"""Longer than anything here takes, on however busy a machine."""

TRAIN = f"""
import json, os, signal, sys, time
from pathlib import Path
from filelock import FileLock, Timeout
folder = Path(sys.argv[5])
crash = folder.with_name(f"{{folder.name}}.crash")
folder.mkdir(parents=True, exist_ok=True)
try:
    with FileLock(folder / ".lock", timeout=0):
        if not (folder / "result.json").exists():
            (folder / "config.json").write_text(sys.stdin.read())
            with (folder.parent / f"{{folder.name}}.log").open("a") as log:
                print("started", file=log, flush=True)
                if crash.exists():
                    crash.unlink()
                    os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(0.4)
                signal.signal(signal.SIGINT, signal.SIG_IGN)  # from here on it is one piece
                print("finished", file=log, flush=True)
            (folder / "result.json").write_text(json.dumps({result_of().to_dict()!r}))
except Timeout:
    sys.exit(3)
except KeyboardInterrupt:
    sys.exit(130)
"""
"""Holds the folder, works a while, leaves a result: what `parse-dg train` does, as far as a sweep can tell."""

SWEEP = """
import json, sys
from pathlib import Path
from parse_dg.config import from_dict
from parse_dg.sweeps import loop as sweep
from parse_dg.runs.config import RunConfig
from parse_dg.files import is_locked
from parse_dg.runs.folder import LOCK
from parse_dg.sweeps.jobs import Job
from parse_dg.sweeps.launchers.local import LocalLauncher
sweep.LOOK_AGAIN = 0.2
folder = Path(sys.argv[1])
planned = json.loads((folder / "jobs").read_text())
jobs = [Job(from_dict(RunConfig, config), Path(place)) for config, place in planned]
launcher = LocalLauncher([{}, {}], folder / ".sweep", module="fake_train")
try:
    report = sweep.run_sweep(jobs, launcher, lambda standing, event: None)
except KeyboardInterrupt:
    sys.exit(130)
(folder / f"report-{sys.argv[2]}").write_text(json.dumps([str(job.folder) for job in report.done]))
sys.exit(report.exit_code)
"""

Start = Callable[[str], "subprocess.Popen[bytes]"]


@pytest.fixture
def jobs(tiny: Tiny, tmp_path: Path) -> list[Job]:
    found = [Job(tiny("erm", seed=seed), tmp_path / f"seed{seed}") for seed in range(6)]
    (tmp_path / "jobs").write_text(json.dumps([[to_dict(job.config), str(job.folder)] for job in found]))
    return found


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """start("first"): a sweep of the jobs in a process of its own."""
    (tmp_path / "fake_train.py").write_text(TRAIN)
    (tmp_path / "run_sweep.py").write_text(SWEEP)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    started: list[subprocess.Popen[bytes]] = []

    def run(name: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, str(tmp_path / "run_sweep.py"), str(tmp_path), name]
        started.append(subprocess.Popen(command, preexec_fn=heed_interrupts))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.wait()


def heed_interrupts() -> None:
    """As in a terminal; what a shell runs in the background ignores them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def attempts(job: Job) -> list[str]:
    log = job.folder.with_name(f"{job.folder.name}.log")
    return log.read_text().split() if log.exists() else []


def results(jobs: list[Job]) -> int:
    return sum((job.folder / "result.json").exists() for job in jobs)


def reported(folder: Path, name: str) -> list[str]:
    return sorted(json.loads((folder / f"report-{name}").read_text()))


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_a_sweep_that_was_killed_goes_on(
    end: signal.Signals, jobs: list[Job], start: Start, tmp_path: Path
) -> None:
    first = start("first")
    wait_until(lambda: results(jobs) >= 1 and any(is_locked(job.folder / LOCK) for job in jobs))
    os.kill(first.pid, end)
    assert first.wait(SECONDS) == (130 if end == signal.SIGINT else -end)
    assert results(jobs) < len(jobs)
    assert start("second").wait(SECONDS) == 0  # at once, while what the first left may still be ending
    assert results(jobs) == len(jobs)
    assert [attempts(job).count("finished") for job in jobs] == [1] * len(jobs)
    assert reported(tmp_path, "second") == sorted(str(job.folder) for job in jobs)
    assert not any(is_locked(job.folder / LOCK) for job in jobs)


def test_a_sweep_that_is_stopped_again_and_again_moves_forward(tmp_path: Path) -> None:
    quick = "{batch_per_domain = 4, steps = 200, check_every = 50, device = 'cpu'}"
    text = f"methods = ['erm']\ntargets = ['sketch']\nseeds = [0, 1]\n[set]\ntraining = {quick}\n"
    (tmp_path / "sweep.toml").write_text(f"{text}data.blueprints.images_per_class = 5\n")
    command = [sys.executable, "-m", "parse_dg", "sweep", "sweep.toml", "--jobs", "2", "--force", "--out"]
    folders = {name: [tmp_path / name / f"blueprints/erm/sketch/seed{seed}" for seed in (0, 1)] for name in "ab"}
    at, stops = dict.fromkeys(folders["a"], 0), 0
    while stops < 3:
        sweep = subprocess.Popen([*command, "a"], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        wait_until(partial(has_moved, sweep, at, time.time()))
        if stops == 2 or sweep.poll() is not None:
            break
        stops += 1
        everybody = (*children(sweep.pid), sweep.pid, sweep.pid)  # as a machine that is shut down does
        for pid in everybody if stops == 1 else (sweep.pid,):
            os.kill(pid, signal.SIGTERM)
        assert b"interrupted; the same command goes on" in sweep.communicate(timeout=SECONDS)[1]
        assert sweep.returncode == 130
        assert not any(is_locked(folder / LOCK) for folder in at)  # it has waited for them
        before = at.copy()
        for folder in at:
            saved = read_checkpoint(folder) if folder.exists() else None
            finished = 200 if (folder / "result.json").exists() else 0
            at[folder] = finished if saved is None else saved.data["trainer"]["trainer"]["step"]
            assert at[folder] >= before[folder]
        assert sum(at.values()) > sum(before.values())
    sweep.communicate(timeout=SECONDS)
    assert sweep.returncode == 0
    assert stops > 0
    subprocess.run([*command, "b"], cwd=tmp_path, check=True, capture_output=True)
    for one, other in zip(*folders.values(), strict=True):
        assert repeated(one) == repeated(other)


def has_moved(sweep: "subprocess.Popen[bytes]", at: dict[Path, int], since: float) -> bool:
    """Whether a sweep has ended, or a run of it has made a check after those steps."""
    for folder, steps in at.items():
        metrics = folder / "metrics.jsonl"
        if metrics.exists() and metrics.stat().st_mtime > since:
            lines = metrics.read_text().splitlines()
            if lines and json.loads(lines[-1])["step"] > steps:
                return True
    return sweep.poll() is not None


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_two_sweeps_at_once_share_the_work(jobs: list[Job], start: Start, tmp_path: Path) -> None:
    both = [start("first"), start("second")]
    assert [process.wait(SECONDS) for process in both] == [0, 0]
    assert [attempts(job) for job in jobs] == [["started", "finished"]] * len(jobs)
    for name in ("first", "second"):  # each knows of all results, whoever made them
        assert reported(tmp_path, name) == sorted(str(job.folder) for job in jobs)


def test_a_job_whose_process_is_killed_is_tried_again(jobs: list[Job], start: Start, tmp_path: Path) -> None:
    for job in jobs[:2]:
        job.folder.with_name(f"{job.folder.name}.crash").touch()
    assert start("first").wait(SECONDS) == 0
    once, twice = ["started", "finished"], ["started", "started", "finished"]
    assert [attempts(job) for job in jobs] == [twice, twice, once, once, once, once]
    assert reported(tmp_path, "first") == sorted(str(job.folder) for job in jobs)
