"""Job arrays for SLURM: their elements run here as they would there, with SLURM's variables set by hand."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parse_dg.cli import main
from parse_dg.config import to_dict
from parse_dg.errors import InputError
from parse_dg.runs.folder import hold
from parse_dg.sweeps.jobs import Job, read_progress
from parse_dg.sweeps.launchers import slurm
from parse_dg.sweeps.launchers.slurm import write_slurm
from tests.conftest import Tiny
from tests.parts import wait_until
from tests.runs.helpers import checks, read, repeated

ODD = 'it\'s "odd" $HOME `id` %A \\ ü'
"""A folder's name that nothing may take for anything but a name."""
PATIENCE = 120.0
"""Seconds after which something that should happen is taken not to: the machine may be busy."""

Faked = Callable[[str, str], dict[str, str]]


@pytest.fixture
def faked(tmp_path: Path) -> Faked:
    """faked("sleep", "true"): an environment in which a command of the system is a line of bash."""
    folder = tmp_path / "bin"
    folder.mkdir()

    def fake(name: str, line: str) -> dict[str, str]:
        (folder / name).write_text(f"#!/bin/bash\n{line}\n")
        (folder / name).chmod(0o755)
        return os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}

    return fake


def element(script: Path, number: int, environment: dict[str, str] | None = None) -> "subprocess.Popen[str]":
    """Start an element of an array as SLURM would: in the folder from which it was handed in."""
    given = {"SLURM_ARRAY_TASK_ID": str(number), "SLURM_JOB_ID": "77", "SLURM_CPUS_PER_TASK": "1"}
    return subprocess.Popen(
        ["bash", script],
        cwd=script.parent,
        env=(environment or dict(os.environ)) | given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: "subprocess.Popen[str]") -> tuple[int, str]:
    output, _ = process.communicate(timeout=PATIENCE)
    return process.returncode, output


def directives(script: Path) -> list[str]:
    return [line.removeprefix("#SBATCH --") for line in script.read_text().splitlines() if "#SBATCH" in line]


def test_scripts_are_bash_and_ask_for_what_a_run_needs(tiny: Tiny, tmp_path: Path) -> None:
    jobs = [Job(tiny("erm", seed=seed), tmp_path / f"seed{seed}") for seed in range(3)]
    submit = write_slurm(
        jobs, tmp_path, gpus_per_run=1, cpus_per_run=4, time="1-12:00", partition="gpu,long", at_most=2
    )
    assert submit == tmp_path / ".sweep" / "submit.sh"
    for script in submit.parent.glob("*.sh"):
        subprocess.run(["bash", "-n", script], check=True)
    found = directives(submit.parent / "array-1.sh")
    assert {"array=0-2%2", "gres=gpu:1", "cpus-per-task=4", "time=1-12:00", "partition=gpu,long"} <= set(found)
    assert {"requeue", "open-mode=append", "signal=B:USR1@120", "output=logs/%A_%a.log"} <= set(found)
    assert sorted(path.name for path in submit.parent.iterdir()) == ["array-1.sh", "configs", "logs", "submit.sh"]
    configs = [read(path) for path in sorted((submit.parent / "configs").iterdir())]
    expected = [to_dict(job.config) for job in jobs]
    assert sorted(configs, key=lambda config: config["seed"]) == expected


@pytest.mark.slow
def test_elements_are_runs_whatever_their_folder_is_called(tiny: Tiny, erm_run: Path, tmp_path: Path) -> None:
    out = tmp_path / ODD
    jobs = [Job(tiny("erm"), out / "erm" / "new\nline"), Job(tiny("dann"), out / "dann")]
    submit = write_slurm(jobs, out, gpus_per_run=0)
    subprocess.run(["bash", "-n", submit.parent / "array-1.sh"], check=True)
    for number in range(2):
        code, output = finish(element(submit.parent / "array-1.sh", number))
        assert code == 0, output
    assert repeated(jobs[0].folder) == repeated(erm_run)
    assert read(jobs[1].folder / "result.json")["algorithm"] == "dann"
    assert sorted(path.name for path in out.iterdir()) == [".sweep", "dann", "erm"]


def test_only_what_is_missing_is_handed_in(tiny: Tiny, erm_run: Path, tmp_path: Path) -> None:
    finished, missing = Job(tiny("erm"), erm_run), Job(tiny("erm", seed=1), tmp_path / "run")
    submit = write_slurm([finished, missing], tmp_path)
    script = (submit.parent / "array-1.sh").read_text()
    assert str(missing.folder) in script
    assert str(erm_run) not in script
    with pytest.raises(InputError, match="nothing to hand in: 1 run, all finished"):
        write_slurm([finished], tmp_path)
    with pytest.raises(InputError, match="another configuration"):
        write_slurm([Job(tiny("erm", seed=1), erm_run)], tmp_path)


@pytest.mark.slow
def test_what_failed_is_said_by_the_exit_code(tiny: Tiny, tmp_path: Path) -> None:
    job = Job(tiny("erm", data__target="nowhere"), tmp_path / "run")
    code, output = finish(element(write_slurm([job], tmp_path).parent / "array-1.sh", 0))
    assert code == 2
    assert "parse-dg: " in output


@pytest.mark.slow
def test_a_run_that_is_busy_is_tried_again(tiny: Tiny, tmp_path: Path, faked: Faked) -> None:
    job = Job(tiny("erm"), tmp_path / "run")
    script = write_slurm([job], tmp_path, gpus_per_run=0).parent / "array-1.sh"
    slept = tmp_path / "slept"
    with hold(job.folder):
        process = element(script, 0, faked("sleep", f"echo $1 >> '{slept}'"))
        wait_until(slept.exists)
    code, output = finish(process)
    assert code == 0, output
    assert (job.folder / "result.json").exists()
    assert slept.read_text().split()[0] == "60"


@pytest.mark.slow
def test_a_run_that_is_out_of_time_saves_and_queues_again(tiny: Tiny, tmp_path: Path, faked: Faked) -> None:
    job = Job(tiny("erm", training__steps=100_000), tmp_path / "run")
    script = write_slurm([job], tmp_path, gpus_per_run=0).parent / "array-1.sh"
    environment = faked("scontrol", f"echo $@ >> '{tmp_path / 'asked'}'")

    def run_out_of_time() -> int:
        before = read_progress(job).step
        process = element(script, 0, environment)
        wait_until(lambda: read_progress(job).step > before or process.poll() is not None)
        assert process.poll() is None, finish(process)
        process.send_signal(signal.SIGUSR1)
        code, output = finish(process)
        assert code != 0
        assert "into the queue again" in output
        return read_progress(job).step

    first = run_out_of_time()
    assert any(path.name.startswith("checkpoint") for path in job.folder.iterdir())
    assert run_out_of_time() > first
    assert (tmp_path / "asked").read_text() == "requeue 77\n" * 2
    steps = [check["step"] for check in checks(job.folder)]
    assert steps == list(range(2, steps[-1] + 1, 2))


@pytest.mark.parametrize("at_most", [None, 4])
def test_many_runs_are_several_arrays(
    at_most: int | None,
    tiny: Tiny,
    tmp_path: Path,
    faked: Faked,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(slurm, "LARGEST", 10)
    jobs = [Job(tiny("erm", seed=seed), tmp_path / f"seed{seed}") for seed in range(25)]
    submit = write_slurm(jobs, tmp_path, at_most=at_most)
    assert "25 runs become 3 arrays" in caplog.text
    sizes = [directives(submit.parent / f"array-{number}.sh")[0] for number in (1, 2, 3)]
    limit = "" if at_most is None else "%4"
    assert sizes == [f"array=0-9{limit}", f"array=0-9{limit}", f"array=0-4{limit}"]
    environment = faked("sbatch", 'echo "$PWD $@" >> "$0.asked"; echo "9${@: -1:1};here" | tr -dc "0-9;a-z"')
    subprocess.run(["bash", submit, "--account=me"], check=True, env=environment, stdout=subprocess.DEVNULL)
    asked = (tmp_path / "bin" / "sbatch.asked").read_text().splitlines()
    assert all(line.startswith(f"{submit.parent} --parsable ") for line in asked)
    assert [line.split()[-2:] for line in asked] == [["--account=me", f"array-{n}.sh"] for n in (1, 2, 3)]
    assert sum("--dependency=afterany:9" in line for line in asked) == (0 if at_most is None else 2)
    write_slurm(jobs[:5], tmp_path)
    assert [path.name for path in submit.parent.glob("array-*.sh")] == ["array-1.sh"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"gpus_per_run": 0.5},
        {"gpus_per_run": -1},
        {"cpus_per_run": 0},
        {"time": "tomorrow"},
        {"time": "1:00\n#SBATCH --uid=0"},
        {"partition": "a b"},
        {"at_most": 0},
    ],
)
def test_what_slurm_would_not_take_is_refused(wrong: dict[str, Any], tiny: Tiny, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must be"):
        write_slurm([Job(tiny("erm"), tmp_path / "run")], tmp_path, **wrong)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_to_is_one_line(tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write to"):
        write_slurm([Job(tiny("erm"), tmp_path / "run")], tmp_path / "file")


def test_train_takes_the_configurations_as_they_are_written(tiny: Tiny, erm_run: Path, tmp_path: Path) -> None:
    submit = write_slurm([Job(tiny("erm"), tmp_path / "run")], tmp_path)
    (config,) = (submit.parent / "configs").iterdir()
    assert main(["train", "--config", str(config), "--out", str(tmp_path / "run")]) == 0
    assert repeated(tmp_path / "run") == repeated(erm_run)
