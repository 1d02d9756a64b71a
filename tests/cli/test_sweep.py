"""parse-dg sweep: the plan first, then the runs that are missing, then their table."""

import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import pytest

from parse_dg.cli import build_parser
from parse_dg.cli.sweep import configure
from parse_dg.runs.run import execute
from parse_dg.sweeps.jobs import Job, Outcome
from parse_dg.sweeps.plan import plan_jobs
from parse_dg.sweeps.presets import PRESETS
from tests.cli.conftest import SMALL, Run, assert_refused, result_of, snapshot, table

FILE = """
methods = ["erm", "erm+ema"]
targets = ["sketch"]
seeds = [0, 1]
[set]
data.blueprints.images_per_class = 5
training.steps = 4
training.check_every = 2
training.batch_per_domain = 4
training.device = "cpu"
"""
RUNS = [f"blueprints/{method}/sketch/seed{seed}" for seed in (0, 1) for method in ("erm", "erm+ema")]


class HereLauncher:
    """Runs jobs in this process, one after another; `spoilt` says how an attempt at a folder ends instead."""

    name = "here"
    slots = 1

    def __init__(self, spoilt: dict[str, list[Outcome]]) -> None:
        self.spoilt = spoilt
        self.jobs: deque[Job] = deque()

    def start(self, job: Job) -> None:
        self.jobs.append(job)

    def wait(self, seconds: float) -> list[Outcome]:
        job = self.jobs.popleft()
        for name, outcomes in self.spoilt.items():
            if str(job.folder).endswith(name) and outcomes:
                return [outcomes.pop(0)._replace(job=job)]
        execute(job.config, job.folder, lambda step, check: None)
        return [Outcome(job, "done")]

    def stop(self) -> None:
        pass


Here = Callable[..., None]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Here:
    """here(): jobs run in this process; here({"erm/sketch/seed0": [("failed", "why")]}): not all as they should."""

    def use(spoilt: dict[str, list[tuple[str, str]]] | None = None) -> None:
        ends = {name: [Outcome(None, *end) for end in ends] for name, ends in (spoilt or {}).items()}  # type: ignore[arg-type]
        monkeypatch.setattr("parse_dg.cli.sweep.build_launcher", lambda *_: HereLauncher(ends))

    return use


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "small.toml").write_text(FILE)
    return tmp_path / "small.toml"


def test_the_presets_are_listed(run: Run) -> None:
    said = run("sweep", "--list")
    assert said.code == 0
    for name, preset in PRESETS.items():
        assert [name, preset.summary, ", ".join(preset.data)] in table(said.out)


def test_another_recipe_for_every_run(file: Path) -> None:
    for words in ([str(file)], ["--preset", "paper-k", "--data", "blueprints"]):
        chosen = configure(build_parser().parse_args(["sweep", *words, "--recipe", "paper_text"]))
        assert chosen.recipe == "paper_text"
        assert {job.config.training.epochs for job in plan_jobs(chosen) if job.config.method == "parse"} <= {50.0}
    words = ["sweep", "--preset", "paper-k", "--data", "/photos"]
    assert configure(build_parser().parse_args(words)).recipe == "paper"


def test_a_dry_run_shows_the_plan_and_leaves_nothing(run: Run, file: Path, tmp_path: Path) -> None:
    before = snapshot(tmp_path)
    said = run("sweep", file, "--dry-run", "--no-measure")
    assert (said.code, said.err) == (0, "")
    assert "the plan: 4 runs" in said.out
    # data set, method, targets, seeds, runs, finished, to run
    assert ["blueprints", "erm+ema", "1", "2", "2", "0", "2"] in table(said.out)
    assert "4 runs: nothing is known yet" in said.out
    assert snapshot(tmp_path) == before


def test_cost_is_known_from_what_is_finished_or_measured(run: Run, file: Path, here: Here) -> None:
    here()
    said = run("sweep", file, "--seeds", "0", "--dry-run")
    assert "timing 5 steps of erm" in said.out
    assert "from timed steps of a run of the same kind" in said.out
    assert run("sweep", file, "--seeds", "0").code == 0
    said = run("sweep", file, "--dry-run")
    assert "4 runs: 2 finished, 2 to do" in said.out
    assert "from 1 finished run of the same kind" in said.out


def test_a_sweep_runs_what_is_missing_and_ends_in_a_table(run: Run, file: Path, here: Here, tmp_path: Path) -> None:
    here()
    said = run("sweep", file)
    assert (said.code, said.err) == (0, "")
    folders = [tmp_path / "runs" / "small" / name for name in RUNS]
    assert said.out.index("the plan: 4 runs") < said.out.index(f"started {RUNS[0]}")
    assert [line.partition(": started ")[2] for line in said.out.splitlines() if ": started " in line] == RUNS
    assert "4 runs done, 0 failed" in said.out
    shown = {row[0]: row for row in table(said.out[said.out.index("4 runs done") :])}
    for method in ("erm", "erm+ema"):
        scores = [result_of(folder)["target"]["accuracy"] for folder in folders if folder.parts[-3] == method]
        assert f"{100 * sum(scores) / 2:.1f}" in " ".join(shown[method])
    before = snapshot(tmp_path / "runs")
    again = run("sweep", file)
    assert "started" not in again.out
    assert "4 runs: 4 finished, 0 to do" in again.out
    assert table(again.out)[-2:] == table(said.out)[-2:]
    assert snapshot(tmp_path / "runs") == before


def test_options_change_the_file(run: Run, file: Path, here: Here, tmp_path: Path) -> None:
    here()
    assert run("sweep", file, "--seeds", "7", "--set", "training.steps=2", "--out", tmp_path / "x").code == 0
    assert {path.parent.name for path in (tmp_path / "x").rglob("result.json")} == {"seed7"}
    assert result_of(tmp_path / "x/blueprints/erm/sketch/seed7")["steps"] == 2


def test_a_failed_run_is_named_and_a_crashed_one_mended(run: Run, file: Path, here: Here) -> None:
    here({RUNS[0]: [("failed", "the loss is not finite")], RUNS[1]: [("crashed", "killed")] * 2})
    said = run("sweep", file)
    assert said.code == 1
    assert said.err == "parse-dg: 1 of 4 runs failed, the others are done\n"
    assert "3 runs done, 1 failed; tried again after a crash: 2" in said.out
    assert f"{RUNS[0]}: the loss is not finite" in said.out
    assert any(row[0] == "erm+ema" for row in table(said.out[said.out.index("3 runs done") :]))
    here()
    said = run("sweep", file)  # what failed is tried again when it is asked for again
    assert said.code == 0
    assert [line.partition(": started ")[2] for line in said.out.splitlines() if ": started " in line] == RUNS[:1]


@pytest.mark.parametrize(
    ("preset", "title"),
    [("paper-compaction", "compaction"), pytest.param("paper-k", "K = 4", marks=pytest.mark.slow)],
)
def test_a_preset_ends_in_its_own_view(preset: str, title: str, run: Run, here: Here, tmp_path: Path) -> None:
    here()
    small = [*SMALL, "--set", "training.steps=1"]
    said = run("sweep", "--preset", preset, "--data", "blueprints", *small)
    assert (said.code, said.err) == (0, "")
    assert title in said.out[said.out.index("runs done") :]
    assert "no table" not in said.out
    assert (tmp_path / "runs" / preset / "k.svg").exists() == (preset == "paper-k")


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        ([], ["give a file or --preset NAME, one of paper-main-a"]),
        (["FILE", "--preset", "paper-k"], ["give a file or --preset"]),
        (["FILE", "--data", "pacs"], ["--data goes with --preset"]),
        (["--preset", "paper-x"], ["unknown preset 'paper-x': valid are paper-main-a"]),
        (["nowhere.toml"], ["cannot read nowhere.toml"]),
        (["FILE", "--seeds", "1,x"], ["--seeds must be whole numbers, such as 0,1,2, found '1,x'"]),
        (["FILE", "--retries", "-1"], ["--retries must be 0 or more, found -1"]),
        (["FILE", "--jobs", "0"], ["--jobs must be at least 1, found 0"]),
        (["FILE", "--track", "paper"], ["unknown tracker 'paper'"]),
        (["FILE", "--address", "auto"], ["--address goes with --launcher ray, found --launcher local"]),
        (["FILE", "--launcher", "ray", "--per-gpu", "2"], ["--per-gpu goes with --launcher local"]),
        (["FILE", "--cpus-per-run", "2"], ["--cpus-per-run goes with --launcher ray or slurm"]),
    ],
)
def test_what_cannot_be_used_is_refused_first(
    arguments: list[str], fragments: list[str], run: Run, file: Path, tmp_path: Path
) -> None:
    before = snapshot(tmp_path)
    said = run("sweep", *(str(file) if word == "FILE" else word for word in arguments))
    assert_refused(said, *fragments)
    assert said.out == ""
    assert snapshot(tmp_path) == before


def test_a_script_for_slurm_is_written_and_shown(run: Run, file: Path, here: Here, tmp_path: Path) -> None:
    slurm = ["--launcher=slurm", "--time=1:00:00", "--partition=short", "--cpus-per-run=3", "--jobs=2"]
    said = run("sweep", file, *slurm)
    assert (said.code, said.err) == (0, "")
    script = tmp_path / "runs" / "small" / ".sweep" / "submit.sh"
    assert f"  bash {script}\n" in said.out
    written = (script.parent / "array-1.sh").read_text()
    for option in ("array=0-3%2", "time=1:00:00", "partition=short", "cpus-per-task=3"):
        assert f"#SBATCH --{option}\n" in written
    assert "gres" not in written  # as the file has training.device = "cpu"
    here()
    assert run("sweep", file).code == 0
    said = run("sweep", file, *slurm)
    assert said.code == 0
    assert "bash" not in said.out
    assert any(row[0] == "erm+ema" for row in table(said.out))


@pytest.mark.slow
def test_runs_survive_the_end_of_their_sweep(run: Run, tmp_path: Path) -> None:
    """A sweep that is killed and started again; 24 runs survive more on a cluster (test_cluster.py)."""
    small = [setting for setting in SMALL if setting != "--set"]
    file = tmp_path / "many.toml"
    lines = ['methods = ["erm", "dann"]', "[set]"]
    file.write_text("\n".join([*lines, *(_toml(setting) for setting in small), ""]))
    command = [sys.executable, "-m", "parse_dg", "sweep", str(file), "--jobs", "2"]
    first = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while len(list((tmp_path / "runs").rglob("result.json"))) < 3:
        assert time.monotonic() < deadline
        assert first.poll() is None
        time.sleep(0.02)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("result.json")}
    said = run("sweep", file, "--jobs", "2")
    assert said.code == 0
    assert "8 runs done, 0 failed" in said.out
    results = sorted(tmp_path.rglob("result.json"))
    assert len(results) == 8
    assert all(path.stat().st_mtime_ns == before.get(path, path.stat().st_mtime_ns) for path in results)
    assert not list((tmp_path / "runs").rglob(".lock"))
    for path in results:  # trained once, from the first step to the last
        assert len(path.with_name("metrics.jsonl").read_text().splitlines()) == 2
    for method in ("erm", "dann"):
        (row,) = (cells for cells in table(said.out) if cells[0] == method)
        for target, cell in zip(("photo", "cartoon", "sketch", "paint"), row[1:], strict=False):
            (found,) = (result_of(path.parent) for path in results if path.parts[-4:-2] == (method, target))
            assert cell == f"{100 * found['target']['accuracy']:.1f}"


def _toml(setting: str) -> str:
    field, _, value = setting.partition("=")
    return f"{field} = {value}" if value.isdigit() else f'{field} = "{value}"'
