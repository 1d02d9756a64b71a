"""Two processes that train together find what one would have found on the same batches."""

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file

from parse_dg.algorithms import ALGORITHMS
from parse_dg.config import from_dict, to_dict
from parse_dg.deploy.model_file import load_model
from parse_dg.errors import InputError
from parse_dg.runs.config import RunConfig
from parse_dg.runs.run import build_trainer, execute, prepare
from parse_dg.training.averaging import build_averaging
from parse_dg.training.check import Check, StateDict
from parse_dg.training.team import ALONE, Team, WholeBatchNorm, form_team
from tests.cli.conftest import SMALL
from tests.conftest import Tiny
from tests.parts import refusal, wait_until
from tests.runs.helpers import CPU, MOVING, SELECTING, SWAD, checks, quiet, read, repeated

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.training.test_team"])

MIXED = {**MOVING, "mixstyle__stages": "1,2", "mixstyle__probability": 0.7}
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in ALGORITHMS},
    "parse, MixStyle, moving BatchNorm": ("parse", MIXED),
    "miro, MixStyle, moving BatchNorm": ("miro", MIXED),
    "parse, joined domains": ("parse", {"training__batch": 10}),
    "parse, selection": ("parse", SELECTING),
    "erm, SWAD, moving BatchNorm, RandAugment": ("erm", {**MOVING, **SWAD, "augment__randaugment_ops": 2}),
    "erm, clipped, everything scored": ("erm", {"optimizer__clip_norm": 0.1, "protocol__checks": "everything"}),
}


def in_a_team(task: Any, rank: int, size: int, store: str, arguments: tuple[Any, ...]) -> None:
    """What a process of a team does."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    try:
        task(Team(rank, size, CPU), *arguments)
    finally:
        dist.destroy_process_group()


def together(task: Any, folder: Path, *arguments: Any, size: int = 2) -> list[int | None]:
    """Let a team do a task, as processes of their own; their exit codes."""
    folder.mkdir(parents=True, exist_ok=True)
    store = str(folder / "store")
    team = [PROCESSES.Process(target=in_a_team, args=(task, rank, size, store, arguments)) for rank in range(size)]
    for process in team:
        process.start()
    for process in team:
        process.join(120)
    return [process.exitcode for process in team]


def train(team: Team, config: dict[str, Any], folder: Path, stop_at: int = 0) -> None:
    calls = iter(range(1, 1000))

    def observe(step: int, check: Check | None) -> None:
        if next(calls) == stop_at:
            os._exit(9)

    result = execute(from_dict(RunConfig, config), folder, observe, checkpoint_every=0, team=team)
    assert result.to_dict() == read(folder / "result.json")


def same_curves(one: Path, other: Path, tolerance: float) -> None:
    for mine, theirs in zip(checks(one), checks(other), strict=True):
        assert mine["step"] == theirs["step"]
        assert mine["rates"] == theirs["rates"]
        assert mine["training_loss"] == pytest.approx(theirs["training_loss"], rel=tolerance, abs=1e-6)
        for name, value in mine["validation"].items():
            assert value["images"] == theirs["validation"][name]["images"]
            assert value["loss"] == pytest.approx(theirs["validation"][name]["loss"], rel=tolerance)
        assert mine.get("scores", {}).keys() == theirs.get("scores", {}).keys()


def curve(team: Team, config: dict[str, Any], path: Path | None = None) -> StateDict:
    """The loss's terms at every step, and the weights at the end, in float64, where roundings do not show."""
    run = from_dict(RunConfig, config)
    trainer = build_trainer(run, *prepare(run), CPU, team=team)
    trainer.algorithm.double()
    trainer.averaging = build_averaging(trainer.algorithm, run.averaging)
    found: StateDict = {}
    for step in range(1, run.training.steps + 1):
        example = trainer.prepare_example(next(trainer.batches))
        terms = trainer.update(step, example._replace(images=example.images.double()))
        found |= {f"loss/{step}/{name}": value for name, value in terms.items()}
    found |= {f"weights/{name}": value for name, value in trainer.algorithm.state_dict().items()}
    if path and team.first:
        save_file({name: value.contiguous() for name, value in found.items()}, path)
    return found


@pytest.mark.parametrize(
    "name", [name if name == "parse" else pytest.param(name, marks=pytest.mark.slow) for name in RUNS]
)
def test_two_processes_have_the_loss_curve_of_one(name: str, tiny: Tiny, tmp_path: Path) -> None:
    method, settings = RUNS[name]
    config = to_dict(tiny(method, **settings))
    expected = curve(ALONE, config)
    assert together(curve, tmp_path, config, tmp_path / "two") == [0, 0]
    found = load_file(tmp_path / "two")
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert torch.allclose(value, found[key], rtol=1e-6, atol=1e-9), key


@pytest.mark.slow
@pytest.mark.parametrize("name", ["parse", "erm_plus_plus", "erm, SWAD, moving BatchNorm, RandAugment"])
def test_two_processes_make_the_run_of_one(name: str, tiny: Tiny, tmp_path: Path) -> None:
    """The whole run, in float32, at rates at which Adam does not make much of roundings."""
    method, settings = RUNS[name]
    slow = {"optimizer__backbone_rate": 1e-5, "optimizer__head_rate": 1e-4, "optimizer__composition_rate": 1e-4}
    config = tiny(method, **settings, **slow)
    execute(config, tmp_path / "one", quiet)
    assert together(train, tmp_path, to_dict(config), tmp_path / "two") == [0, 0]
    same_curves(tmp_path / "one", tmp_path / "two", 1e-4)
    assert read(tmp_path / "two" / "environment.json")["processes"] == 2
    one, two = (load_model(tmp_path / folder).algorithm.state_dict() for folder in ("one", "two"))
    for key, value in one.items():
        assert torch.allclose(value.double(), two[key].double(), rtol=1e-3, atol=1e-3), key


@pytest.mark.slow
def test_a_team_goes_on_where_it_was(tiny: Tiny, tmp_path: Path) -> None:
    config = tiny("parse", training__steps=6)
    assert together(train, tmp_path / "a", to_dict(config), tmp_path / "whole") == [0, 0]
    assert together(train, tmp_path / "b", to_dict(config), tmp_path / "run", 4) == [9, 9]
    assert together(train, tmp_path / "c", to_dict(config), tmp_path / "run") == [0, 0]
    assert repeated(tmp_path / "run") == repeated(tmp_path / "whole")


def gather(team: Team) -> None:
    whole = torch.arange(12.0).view(6, 2)
    share = whole[team.share].clone().requires_grad_()
    found = team.gather(share)
    assert torch.equal(found, whole)
    (found * torch.arange(6.0)[:, None]).sum().backward()
    assert torch.equal(share.grad, torch.arange(6.0)[team.share, None].expand(-1, 2))


def normalise(team: Team) -> None:
    """BatchNorm over shares against BatchNorm over the whole: values, statistics, gradients."""
    generator = torch.Generator().manual_seed(0)
    images, weight = (
        torch.randn(6, 3, 4, 4, generator=generator) * 3 + 7,
        torch.randn(6, 3, 4, 4, generator=generator),
    )
    for momentum in (0.1, None):
        plain, shared = (torch.nn.BatchNorm2d(3, momentum=momentum).double() for _ in range(2))
        shared.__class__ = WholeBatchNorm
        for _ in range(2):
            whole = images.double().requires_grad_()
            part = images[team.share].double().requires_grad_()
            expected, found = plain(whole), shared(part)
            assert torch.allclose(found, expected[team.share])
            (expected * weight).sum().backward()
            (found * weight[team.share]).sum().backward()
            assert torch.allclose(part.grad, whole.grad[team.share])
        assert torch.allclose(shared.running_mean, plain.running_mean)
        assert torch.allclose(shared.running_var, plain.running_var)
        assert shared.num_batches_tracked == plain.num_batches_tracked == 2
        team.add_up(shared.parameters())
        assert torch.allclose(shared.weight.grad, plain.weight.grad)
        assert torch.allclose(shared.bias.grad, plain.bias.grad)
        assert torch.equal(shared.eval()(images.double()), shared(images.double()))


@pytest.mark.parametrize(("task", "size"), [(gather, 2), (normalise, 3)])
def test_what_is_shared_out_comes_together(task: Any, size: int, tmp_path: Path) -> None:
    assert together(task, tmp_path, size=size) == [0] * size


def test_a_batch_has_to_divide(tiny: Tiny, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a multiple of the 3 processes, such as 3, found 4"):
        execute(tiny("erm"), tmp_path / "run", quiet, team=Team(0, 3))
    assert not (tmp_path / "run").exists()


def test_one_process_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    assert form_team() is ALONE
    assert "--processes must be at least 1, found 0" in refusal(form_team, 0)
    assert "2 processes need a GPU each, found 0" in refusal(form_team, 2, device="cuda")
    with pytest.raises(InputError, match=r"--processes must be at most \d+ on this machine, found 9999: --force"):
        form_team(9999, device="cpu")


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    return ["-m", "parse_dg", "train", "--algorithm", "erm", *SMALL, "--out", str(tmp_path / "run")]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["torchrun", "--processes"])
def test_the_command_line_trains_in_a_team(how: str, command: list[str], tmp_path: Path, erm_run: Path) -> None:
    run = [sys.executable, *command]
    if how == "torchrun":
        run[1:1] = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    else:
        run += ["--processes", "2", "--force"]
    done = subprocess.run(
        run, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("written to") == 1, "the first process alone shows the result"
    assert "Warning" not in done.stderr
    assert read(tmp_path / "run" / "environment.json")["processes"] == 2
    same_curves(erm_run, tmp_path / "run", 5e-3)  # Adam's first steps make much of roundings
    wrong = subprocess.run(
        [*run, "--set", "training.batch_per_domain=3"], capture_output=True, text=True, timeout=300
    )
    assert wrong.returncode != 0
    assert [line for line in wrong.stderr.splitlines() if line.startswith("parse-dg:")] == [
        f"parse-dg: {tmp_path / 'run'} holds a run of another configuration (training.batch_per_domain=4, now 3): "
        "replace it with --overwrite, or choose another folder with --out"
    ]


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="children are found in /proc")
def test_no_process_outlives_a_team_that_is_killed_while_it_starts(command: list[str]) -> None:
    def running(number: int) -> bool:
        stat = Path(f"/proc/{number}/stat")
        return stat.exists() and stat.read_text().rpartition(") ")[2][0] not in "ZX"

    with subprocess.Popen([sys.executable, *command, "--processes", "2", "--force"]) as first:
        children = Path(f"/proc/{first.pid}/task/{first.pid}/children")
        wait_until(lambda: bool(children.read_text()), 60)
        second = int(children.read_text().split()[0])
        first.kill()
    wait_until(lambda: not running(second), 30)
