"""Jobs as processes: where they run, how their end is told, that none is left behind."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

import parse_dg
from parse_dg.config import to_dict
from parse_dg.data.parallel import default_workers
from parse_dg.errors import InputError
from parse_dg.sweeps.jobs import Job, Outcome
from parse_dg.sweeps.launchers.local import LocalLauncher, Place, local_places
from tests.conftest import Tiny
from tests.parts import wait_until

SECONDS = 120.0
"""Longer than any process takes to start, on however busy a machine."""
HERE: Place = {}

Fake = Callable[..., LocalLauncher]

SAYS = "print('parse-dg: {}', file=sys.stderr, flush=True)"


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    """fake("sys.exit(2)"): a launcher of processes that do this instead of training."""
    made: list[LocalLauncher] = []
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def build(does: str, *places: Place, **options: object) -> LocalLauncher:
        head = "import os, sys, time, json\nfrom pathlib import Path\nfolder = Path(sys.argv[5])\n"
        (tmp_path / "fake_train.py").write_text(head + does + "\n")
        made.append(LocalLauncher(places or (HERE,), tmp_path / "out" / ".sweep", module="fake_train", **options))
        return made[-1]

    yield build
    for launcher in made:
        launcher.stop()


@pytest.fixture
def job(tiny: Tiny, tmp_path: Path) -> Job:
    (tmp_path / "out").mkdir()
    return Job(tiny("erm", seed=3), tmp_path / "out" / "erm")


def run(launcher: LocalLauncher, job: Job) -> Outcome:
    launcher.start(job)
    (outcome,) = launcher.wait(SECONDS)
    return outcome


def is_gone(pid: int) -> bool:
    """Whether a process has ended, waited for or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.parametrize(
    ("does", "kind", "reason"),
    [
        ("folder.mkdir(); (folder / 'result.json').write_text('{}')", "done", ""),
        ("pass", "crashed", "it ended without a result, see "),
        (f"{SAYS.format('the loss')}; sys.exit(1)", "failed", "the loss"),
        (f"{SAYS.format('cannot write')}; sys.exit(2)", "failed", "cannot write"),
        (f"{SAYS.format('another is at it')}; sys.exit(3)", "elsewhere", "another is at it"),
        (f"{SAYS.format('it')}; raise RuntimeError('a bug')", "crashed", "RuntimeError: a bug (exit code 1), see "),
        ("os.kill(os.getpid(), 9)", "crashed", "killed by SIGKILL, see "),
        ("sys.exit(130)", "crashed", "interrupted by somebody else"),
    ],
)
def test_how_a_process_ended_is_told(does: str, kind: str, reason: str, fake: Fake, job: Job) -> None:
    outcome = run(fake(does), job)
    assert (outcome.job, outcome.kind) == (job, kind)
    assert outcome.reason.startswith(reason)
    assert "\n" not in outcome.reason


def test_a_process_runs_the_version_that_started_it(fake: Fake, job: Job, tmp_path: Path) -> None:
    """A checkout, too, where another version is installed."""
    launcher = fake("import parse_dg; print(parse_dg.__file__)")
    (tmp_path / "parse_dg").mkdir()
    (tmp_path / "parse_dg" / "__init__.py").touch()
    run(launcher, job)
    assert launcher.log_of(job).read_text().strip() == parse_dg.__file__


def test_a_process_gets_its_configuration_its_place_and_a_log(
    fake: Fake, job: Job, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(job.folder.parent)
    Path("json.py").write_text("raise ImportError('not a module: a file of the user')")
    says = "print(json.dumps([sys.argv[1:], json.load(sys.stdin), os.environ['WHERE']]))"
    launcher = fake(says, {"WHERE": "there"}, track=["tensorboard", "wandb"])
    run(launcher, job)
    arguments, config, where = json.loads(launcher.log_of(job).read_text())
    tracked = ["--track", "tensorboard", "--track", "wandb"]
    assert arguments == ["train", "--config", "-", "--out", str(job.folder), *tracked]
    assert config == to_dict(job.config)
    assert where == "there"
    assert launcher.log_of(job) == job.folder.parent / ".sweep" / "erm.log"
    assert capfd.readouterr() == ("", "")  # nothing is written over the display


def test_a_place_is_free_again_when_its_job_has_ended(fake: Fake, job: Job) -> None:
    places = [{"WHERE": name} for name in ("a", "b")]
    wait = "print(os.environ['WHERE'])\nwhile not (folder.parent / f'{folder.name}.go').exists(): time.sleep(0.02)"
    launcher = fake(wait, *places)
    assert launcher.slots == 2
    first, second, third = (
        job._replace(folder=job.folder.with_name(name)) for name in ("first", "second", "third")
    )
    launcher.start(first)
    launcher.start(second)
    assert launcher.wait(0.1) == []
    for other in (second, third):
        other.folder.with_name(f"{other.folder.name}.go").touch()
    assert [outcome.job for outcome in launcher.wait(SECONDS)] == [second]
    launcher.start(third)
    assert [outcome.job for outcome in launcher.wait(SECONDS)] == [third]
    assert [launcher.log_of(each).read_text().strip() for each in (first, second, third)] == ["a", "b", "b"]


SAVES = """
(folder.parent / 'pid').write_text(str(os.getpid()))
try:
    time.sleep(600)
except KeyboardInterrupt:
    (folder.parent / 'saved').touch()
"""
STUBBORN = """
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
(folder.parent / 'pid').write_text(str(os.getpid()))
time.sleep(600)
"""


def read_pid(folder: Path) -> int:
    wait_until(lambda: (folder / "pid").exists() and (folder / "pid").read_text() != "")
    return int((folder / "pid").read_text())


@pytest.mark.parametrize(("does", "grace"), [(SAVES, 60.0), (STUBBORN, 0.2)])
def test_what_runs_is_interrupted_and_can_save_or_is_killed(
    does: str, grace: float, fake: Fake, job: Job, caplog: pytest.LogCaptureFixture
) -> None:
    launcher = fake(does, grace=grace)
    launcher.start(job)
    pid = read_pid(job.folder.parent)
    launcher.stop()
    assert is_gone(pid)
    assert (job.folder.parent / "saved").exists() == (does == SAVES)
    launcher.stop()  # once more does no harm
    assert caplog.messages == ["1 run told to save and end"]


@pytest.mark.slow
def test_processes_save_and_end_when_the_launcher_is_killed(fake: Fake, job: Job, tmp_path: Path) -> None:
    fake(SAVES)  # writes the module
    (tmp_path / "config.json").write_text(json.dumps(to_dict(job.config)))
    code = f"""
import signal, time
from pathlib import Path
from parse_dg.config import from_dict
from parse_dg.files import read_json
from parse_dg.runs.config import RunConfig
from parse_dg.sweeps.jobs import Job
from parse_dg.sweeps.launchers.local import LocalLauncher
signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell does for what it runs in the background
launcher = LocalLauncher([{{}}], Path({str(tmp_path)!r}) / "logs", module="fake_train")
config = from_dict(RunConfig, read_json(Path({str(tmp_path)!r}) / "config.json"))
launcher.start(Job(config, Path({str(job.folder)!r})))
time.sleep(600)
"""
    parent = subprocess.Popen([sys.executable, "-c", code])
    try:
        pid = read_pid(job.folder.parent)
        os.kill(parent.pid, signal.SIGKILL)
    finally:
        parent.kill()
        parent.wait()
    wait_until(lambda: is_gone(pid))
    assert (job.folder.parent / "saved").exists()


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return lambda count: monkeypatch.setattr(torch.cuda, "device_count", lambda: count)


def test_the_cpu_has_a_place_for_every_two_cores(gpus: Callable[[int], None]) -> None:
    gpus(0)
    cores = default_workers()
    assert len(local_places()) == max(1, cores // 2)
    assert list(local_places(jobs=1)) == [{"OMP_NUM_THREADS": str(cores)}]
    many = local_places(jobs=2 * cores, force=True)
    assert list(many) == [{"OMP_NUM_THREADS": "1"}] * 2 * cores


def test_each_gpu_has_a_place_or_several(gpus: Callable[[int], None]) -> None:
    def seen(*arguments: int | None) -> list[str]:
        return [place["CUDA_VISIBLE_DEVICES"] for place in local_places(*arguments, force=True)]

    gpus(2)
    assert seen() == ["0", "1"]
    assert seen(None, 2) == ["0", "1", "0", "1"]  # both GPUs before any has two
    assert seen(3, 2) == ["0", "1", "0"]
    assert len(local_places(jobs=3, cpu=True, force=True)) == 3  # as there are GPUs, but none is asked for


def test_gpus_are_those_that_the_user_allows(gpus: Callable[[int], None], monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3, GPU-5")
    assert [place["CUDA_VISIBLE_DEVICES"] for place in local_places()] == ["3", "GPU-5"]


@pytest.mark.parametrize(
    ("count", "options", "message"),
    [
        (0, {"jobs": 0}, "--jobs must be at least 1, found 0"),
        (2, {"per_gpu": 0}, "--per-gpu must be at least 1, found 0"),
        (0, {"per_gpu": 2}, "--per-gpu needs a GPU"),
        (2, {"jobs": 3, "force": True}, "--jobs must be at most 2 on 2 GPUs, found 3: give --per-gpu"),
        (0, {"jobs": 9999}, r"--jobs must be at most \d+ on this machine, found 9999: --force starts more"),
        (2, {"per_gpu": 5000}, r"--per-gpu times GPUs must be at most \d+ on this machine, found 10000"),
    ],
)
def test_places_that_are_not_there_are_refused(
    count: int, options: dict[str, int], message: str, gpus: Callable[[int], None]
) -> None:
    gpus(count)
    with pytest.raises(InputError, match=message):
        local_places(**options)
