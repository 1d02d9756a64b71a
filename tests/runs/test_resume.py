"""A run that was broken off goes on, and ends with the same bytes as one that was not."""

import json
import logging
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from parse_dg.config import to_dict
from parse_dg.errors import InputError
from parse_dg.files import write_json
from parse_dg.runs import keeper as keeper_module
from parse_dg.runs.config import RunConfig
from parse_dg.runs.folder import BusyError, hold
from parse_dg.runs.keeper import Keeper
from parse_dg.runs.run import build_trainer, execute, prepare
from parse_dg.training import trainer as trainer_module
from parse_dg.training.accuracy import Accuracy
from parse_dg.training.check import Check
from parse_dg.training.checkpoint import CURRENT, PREVIOUS, read_checkpoint, write_checkpoint
from tests.conftest import Tiny, slow_but
from tests.parts import refusal, stop_clock
from tests.runs.helpers import CPU, MOVING, PLAIN, REPEATED, SELECTING, SWAD, hashes, quiet, read, repeated

Whole = Callable[[str, RunConfig], dict[str, str]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """The files of an uninterrupted run that writes no checkpoint, made once a name."""
    made: dict[str, dict[str, str]] = {}

    def run(name: str, config: RunConfig) -> dict[str, str]:
        if name not in made:
            folder = tmp_path_factory.mktemp("whole") / "run"
            execute(config, folder, quiet, checkpoint_every=1e9)
            made[name] = repeated(folder)
        return made[name]

    return run


def break_off(config: RunConfig, folder: Path, at: int) -> bool:
    """Train until the observer is told of call number `at`, with a checkpoint after every step before it; False: it
    was finished before.
    """
    calls = iter(range(1, 10_000))

    def observe(step: int, check: Check | None) -> None:
        if next(calls) == at:
            raise KeyboardInterrupt

    try:
        execute(config, folder, observe, checkpoint_every=0)
    except KeyboardInterrupt:
        return True
    return False


LONGER: dict[str, dict[str, Any]] = {
    "parse": {"training__steps": 5, "optimizer__composition_warmup_steps": 2},
    "parse+selection": {
        **SELECTING,
        **{"training__steps": 6, "algorithm__guidance": 1.0, "algorithm__distillation": 1.0},
        **{"optimizer__composition_until": 0.8, "algorithm__composition__presence_share": 0.4},
    },
    "parse+swad": {**SWAD, "training__steps": 6},
    "parse+mixstyle": {**MOVING, "mixstyle__stages": "1,2", "mixstyle__probability": 0.5},
    "dann": {"training__steps": 6, "training__check_every": 4},
    "erm+swad": {**SWAD, **MOVING, "training__steps": 7},
    "erm+ema": {"averaging__kind": "ema", "averaging__also_plain": True, "training__steps": 5},
    "erm+target checks": {"protocol__checks": "everything", "split__target_images": "in"},
    "erm_plus_plus": {
        **MOVING,
        "training__steps": 6,
        "algorithm__linear_steps": 2,
        "averaging__start": 2,
        "algorithm__dropout": 0.2,
    },
}
"""Runs in which more can go wrong: what they average, draw and count reaches over many steps."""


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) for name in LONGER])
def test_broken_off_at_every_step_a_run_ends_as_if_it_had_not_been(
    name: str, tiny: Tiny, tmp_path: Path, whole: Whole
) -> None:
    config, folder, attempts = tiny(name.partition("+")[0], **LONGER[name]), tmp_path / "run", 1
    while break_off(config, folder, 2):  # every attempt gets one step further
        assert read_checkpoint(folder) is not None
        attempts += 1
    assert attempts > 3
    assert repeated(folder) == whole(name, config)
    assert (folder / PLAIN).exists() == config.averaging.also_plain
    assert not (folder / CURRENT).exists(), "a finished run needs no checkpoint"


@pytest.mark.parametrize("name", slow_but("parse", "erm_plus_plus"))
def test_every_method_goes_on(name: str, tiny: Tiny, tmp_path: Path, finished_run: Any) -> None:
    break_off(tiny(name), tmp_path / "run", 4)
    steps: list[int] = []
    execute(tiny(name), tmp_path / "run", lambda step, check: steps.append(step), checkpoint_every=0)
    assert steps[0] == 4
    assert repeated(tmp_path / "run") == repeated(finished_run(name))


def test_checkpoints_are_as_far_apart_as_was_asked(tiny: Tiny, tmp_path: Path) -> None:
    def observe(step: int, check: Check | None) -> None:
        assert read_checkpoint(tmp_path) is None

    execute(tiny("erm"), tmp_path, observe, checkpoint_every=1e9)


def crafted(folder: Path, change: Callable[[dict[str, Any], dict[str, Any]], object]) -> None:
    """Change tensors and data of the newest checkpoint, which then has the right digest of something wrong."""
    saved, before = read_checkpoint(folder), (folder / PREVIOUS).read_bytes()
    assert saved is not None
    change(saved.tensors, saved.data)
    write_checkpoint(folder, saved)
    (folder / PREVIOUS).write_bytes(before)


def flip_format(folder: Path) -> None:
    assert (folder / CURRENT).read_bytes().count(b'"format\\": 1,') == 1
    replaced(folder, lambda content: content.replace(b'"format\\": 1,', b'"format\\": 3,'))


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda content: content[:-100],
    "flipped": lambda content: content[:-5] + bytes([content[-5] ^ 1]) + content[-4:],
    "empty": lambda content: b"",
    "something else": lambda content: b"something else entirely",
}


def replaced(folder: Path, change: Callable[[bytes], bytes]) -> None:
    (folder / CURRENT).write_bytes(change((folder / CURRENT).read_bytes()))


def put_fifo(folder: Path) -> None:
    (folder / CURRENT).unlink()
    os.mkfifo(folder / CURRENT)


BIAS, MOMENT = "trainer/algorithm/classifier.bias", "trainer/optimizer/0.exp_avg"
WRONG: dict[str, Callable[[dict[str, Any], dict[str, Any]], object]] = {
    "another shape": lambda t, d: t.update({BIAS: torch.zeros(3)}),
    "another type": lambda t, d: t.update({BIAS: t[BIAS].double()}),
    "no number": lambda t, d: t[BIAS].fill_(torch.nan),
    "no number in Adam": lambda t, d: t[MOMENT].view(-1)[:1].fill_(torch.inf),
    "a negative variance": lambda t, d: t["trainer/algorithm/backbone.bn1.running_var"].neg_(),
    "a negative count in Adam": lambda t, d: t["trainer/optimizer/0.step"].neg_(),
    "another shape in Adam": lambda t, d: t.update({MOMENT: torch.zeros(())}),
    "a name too few": lambda t, d: t.pop(BIAS),
    "a name too many": lambda t, d: t.update({"trainer/best/more": torch.zeros(3)}),
    "the best of another type": lambda t, d: t.update({"trainer/best/classifier.bias": t[BIAS].half()}),
    "a step as text": lambda t, d: d["trainer"]["trainer"].update(step="3"),
    "a step too far": lambda t, d: d["trainer"]["trainer"].update(step=5),
    "a check of text": lambda t, d: d["trainer"]["trainer"]["best"].update(step="2"),
    "a rate that is none": lambda t, d: d["trainer"]["optimizer"].update(rates=[torch.nan, 1.0]),
    "no seconds": lambda t, d: d["run"].pop("seconds"),
    "no run": lambda t, d: d.update(run=None),
    "no sums": lambda t, d: d["trainer"].pop("sums"),
}


def test_a_checkpoint_that_is_damaged_or_does_not_fit_is_named_and_the_one_before_used(
    tiny: Tiny, tmp_path: Path, erm_run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config, folder = tiny("erm"), tmp_path / "run"
    break_off(config, tmp_path / "whole", 4)
    trainer = build_trainer(config, *prepare(config), CPU)
    files: dict[str, Callable[[Path], object]] = {"format": flip_format, "a FIFO": put_fifo}
    files |= {name: partial(replaced, change=change) for name, change in DAMAGE.items()}
    for name, damage in (files | {name: partial(crafted, change=change) for name, change in WRONG.items()}).items():
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(tmp_path / "whole", folder)
        damage(folder)
        caplog.clear()
        saved = Keeper(folder, config, trainer=trainer).saved
        assert saved is not None, name
        assert saved.data["trainer"]["trainer"]["step"] == 2, name
        (message,) = caplog.messages
        assert str(folder / CURRENT) in message, name
        assert message.endswith("the one before it is used") or name in WRONG, name
    steps: list[int] = []
    execute(config, folder, lambda step, check: steps.append(step))
    assert steps == [3, 4]
    assert repeated(folder) == repeated(erm_run)


def test_with_both_damaged_or_lines_lost_the_run_starts_again(
    tiny: Tiny, tmp_path: Path, erm_run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for lose in (lambda folder: [(folder / n).write_bytes(b"x") for n in (CURRENT, PREVIOUS)], lose_lines, garble):
        folder = tmp_path / lose.__name__
        break_off(tiny("erm"), folder, 4)
        lose(folder)
        steps: list[int] = []
        with caplog.at_level(logging.WARNING):
            execute(tiny("erm"), folder, lambda step, check, steps=steps: steps.append(step))
        assert steps == [1, 2, 3, 4]
        assert repeated(folder) == repeated(erm_run)
    assert "has lost lines" in caplog.text
    assert "metrics.jsonl is not what was written: the run starts again" in caplog.text


def lose_lines(folder: Path) -> None:
    (folder / "metrics.jsonl").write_text("")


def garble(folder: Path) -> None:
    (folder / "metrics.jsonl").write_bytes(b"\xff" * (folder / "metrics.jsonl").stat().st_size)


def test_a_checkpoint_of_something_else_is_refused(tiny: Tiny, tmp_path: Path) -> None:
    break_off(tiny("erm"), tmp_path / "erm", 4)
    break_off(tiny("dann"), tmp_path / "dann", 4)
    (tmp_path / "erm" / CURRENT).replace(tmp_path / "dann" / CURRENT)
    before = hashes(tmp_path / "dann")
    assert "is of another configuration than its config" in refusal(execute, tiny("dann"), tmp_path / "dann", quiet)
    assert hashes(tmp_path / "dann") == before


def test_a_checkpoint_of_another_version_is_refused(tiny: Tiny, tmp_path: Path) -> None:
    break_off(tiny("erm"), tmp_path, 4)
    saved = read_checkpoint(tmp_path)
    assert saved is not None
    saved.tensors[BIAS] = torch.zeros(3)
    write_checkpoint(tmp_path, saved)
    write_checkpoint(tmp_path, saved)
    assert "does not fit this run" in refusal(execute, tiny("erm"), tmp_path, quiet)


def test_other_images_are_refused(tiny: Tiny, tmp_path: Path) -> None:
    break_off(tiny("erm"), tmp_path, 4)
    split = read(tmp_path / "split.json")
    split["benchmark"]["fingerprint"] = "0" * 64
    write_json(tmp_path / "split.json", split)
    assert "a run on other images" in refusal(execute, tiny("erm"), tmp_path, quiet)


def test_a_run_that_another_process_is_at_is_left_alone(tiny: Tiny, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with hold(folder), pytest.raises(BusyError, match="another process is at the run"):
        execute(tiny("erm"), folder, quiet)
    execute(tiny("erm"), folder, quiet)
    assert {path.name for path in folder.iterdir()} == {*REPEATED, "environment.json"}


# processes

CHILD = """
import json, sys
from pathlib import Path
import torch
from parse_dg.config import from_dict
from parse_dg.cli.show import display
from parse_dg.runs.config import RunConfig
from parse_dg.runs.run import execute

torch.set_num_threads(1)
config, folder, every = sys.argv[1:]
say = lambda step, check: print(step, flush=True)
try:
    execute(from_dict(RunConfig, json.loads(config)), Path(folder), say, checkpoint_every=float(every))
except KeyboardInterrupt:
    sys.exit(130)
"""


def start(config: RunConfig, folder: Path, every: float = 0.0) -> "subprocess.Popen[str]":
    """A process that trains and says each step it has made."""
    arguments = [json.dumps(to_dict(config)), str(folder), str(every)]
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(CHILD), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


@pytest.mark.slow
@pytest.mark.parametrize("numbers", [(signal.SIGINT,), (signal.SIGTERM, signal.SIGINT, signal.SIGTERM)])
def test_asked_to_stop_a_run_finishes_its_step_and_saves(
    numbers: tuple[int, ...], tiny: Tiny, tmp_path: Path, whole: Whole
) -> None:
    config = tiny("erm", training__steps=60, training__check_every=30)
    with start(config, tmp_path, every=1e9) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "1\n"
        for number in numbers:  # whoever ends a machine may send several at once
            process.send_signal(number)
        said = process.stdout.read().split()
        assert process.wait(60) == 130
    last = int(said[-1]) if said else 1
    saved = read_checkpoint(tmp_path)
    assert saved is not None
    assert saved.data["trainer"]["trainer"]["step"] == last < 60
    execute(config, tmp_path, quiet)
    assert repeated(tmp_path) == whole("erm, 60 steps", config)


@pytest.mark.parametrize("step", [2, 4])
def test_a_check_is_given_up_when_a_run_is_stopped_and_made_when_it_goes_on(
    step: int, tiny: Tiny, tmp_path: Path, erm_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = trainer_module.accuracy

    def stopped(*arguments: Any, **given: Any) -> Accuracy:
        if given["seen"].__self__.step == step:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGINT)
        return made(*arguments, **given)

    with monkeypatch.context() as patch:
        patch.setattr(trainer_module, "accuracy", stopped)
        with pytest.raises(KeyboardInterrupt):
            execute(tiny("erm"), tmp_path, quiet)
    saved = read_checkpoint(tmp_path)
    assert saved is not None
    assert saved.data["trainer"]["trainer"]["step"] == step
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == step // 2 - 1
    steps: list[int] = []
    execute(tiny("erm"), tmp_path, lambda step, check: steps.append(step))
    assert steps[0] == step
    assert repeated(tmp_path) == repeated(erm_run)


def test_the_first_checkpoints_of_an_attempt_come_early(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    stop_clock(monkeypatch, keeper_module, lambda: now)
    keeper, due = Keeper(tmp_path, tiny("erm")), []
    for second in range(1, 300):
        now = float(second)
        if keeper.due():
            due.append(second)
            keeper.written = now
    assert due == [10, 20, 40, 80, 140, 200, 260]
    assert keeper.due(last=True)
    keeper.cost = 3.0  # seconds that writing took
    assert not keeper.due(last=True)


@pytest.mark.parametrize("full", ["metrics", "checkpoint"])
def test_a_full_disk_is_one_line_and_the_run_goes_on(
    full: str, tiny: Tiny, tmp_path: Path, erm_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def observe(step: int, check: Check | None) -> None:
        if step == 3:  # there is room for a part of the next line
            monkeypatch.setattr(Keeper, "due", lambda self, last: full == "checkpoint")
            room = (tmp_path / "metrics.jsonl").stat().st_size + 50
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))

    try:
        message = refusal(execute, tiny("erm"), tmp_path, observe, checkpoint_every=0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert re.match(r"cannot write .*\(.*File too large.*\): what was saved before is kept", message)
    steps: list[int] = []
    execute(tiny("erm"), tmp_path, lambda step, check: steps.append(step))
    assert steps == [3, 4]
    assert repeated(tmp_path) == repeated(erm_run)


def test_a_folder_that_cannot_be_written_to_is_one_line(tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot write to .*file/run: Not a directory"):
        execute(tiny("erm"), tmp_path / "file" / "run", quiet)
    if os.geteuid() != 0:  # nothing is read-only to root
        (tmp_path / "closed").mkdir(mode=0o500)
        with pytest.raises(InputError, match=r"cannot write to .*closed/run: Permission denied"):
            execute(tiny("erm"), tmp_path / "closed" / "run", quiet)
