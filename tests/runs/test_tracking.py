"""Trackers: what TensorBoard and Weights & Biases are told is what metrics.jsonl says, and a run never notices."""

import json
import logging
import os
import struct
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from parse_dg.errors import InputError
from parse_dg.jsonable import flat
from parse_dg.runs import tracking
from parse_dg.runs.metrics import CheckLine, read_checks
from parse_dg.runs.result import RunResult
from parse_dg.runs.run import execute
from parse_dg.runs.tracking import Tracking, require_trackers, run_id, scalars
from tests.conftest import Tiny
from tests.runs.helpers import REPEATED, check_of, result_of


@pytest.fixture(autouse=True)
def files_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorBoard reads files in the order of their names, which end in a number: here 9 never comes before 10."""
    from tensorboard.summary.writer import event_file_writer

    monkeypatch.setattr(event_file_writer, "_global_uid", event_file_writer.AtomicCounter(100))


CONFIG = {"algorithm": {"name": "erm", "dropout": 0.0}, "data": {"target": "sketch"}, "seed": 3}
RESULT = result_of(accuracy=0.75)


def line(step: int, loss: float = 1.0, **also: Any) -> CheckLine:
    return check_of(step, {"photo": 0.5}, training_loss={"cross_entropy": loss, "total": loss}, **also)


def test_every_number_of_a_check_has_a_name() -> None:
    told = scalars(check_of(2, {"photo": 0.5, "paint": 0.25}, {"sketch/in": 0.75}))
    assert told == {
        **{"training loss/cross_entropy": 1.0, "training loss/total": 1.0, "rate/backbone": 1e-3},
        **{"validation accuracy/photo": 0.5, "validation loss/photo": 1.0},
        **{"validation accuracy/paint": 0.25, "validation loss/paint": 1.0},
        **{"recorded accuracy/sketch/in": 0.75, "recorded loss/sketch/in": 1.0},
        "validation accuracy, mean/over domains": 0.5,
    }
    assert scalars(check_of(2, {}, stage=2))["stage 2, rate/backbone"] == 1e-3


def events(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Every curve that TensorBoard would draw."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder / "tensorboard"))
    found.Reload()
    return {tag: [(e.step, e.value) for e in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def followed(name: str, folder: Path, *lines: CheckLine, earlier: Sequence[CheckLine] = (), **end: Any) -> None:
    """A run that a tracker is told of; it is killed, or ends with a `result`, which is None if it is broken off."""
    following = Tracking()
    following.open([name], folder, CONFIG, earlier)
    for each in lines:
        following.record(each)
    if end:
        with following:
            following.result = end["result"]


def test_tensorboard_draws_every_check_and_the_result(tmp_path: Path) -> None:
    followed("tensorboard", tmp_path, line(2, 1.5), line(4, 0.5))
    assert events(tmp_path)["training loss/total"] == [(2, 1.5), (4, 0.5)]  # killed now
    followed("tensorboard", tmp_path, line(2, 1.5), line(4, 0.5), result=RESULT)
    found = events(tmp_path)
    assert found["validation accuracy/photo"] == [(2, 0.5), (4, 0.5)]
    assert found["rate/backbone"] == [(2, pytest.approx(1e-3)), (4, pytest.approx(1e-3))]
    assert found["result, accuracy on the target/sketch, all images"] == [(4, 0.75)]


def test_tensorboard_draws_no_step_of_a_resumed_run_twice(tmp_path: Path) -> None:
    followed("tensorboard", tmp_path, *(line(step, 1.0) for step in (2, 4, 6, 8)))
    again = (line(step, 2.0) for step in (6, 8, 10))
    followed("tensorboard", tmp_path, *again, earlier=[line(2), line(4)], result=None)
    expected = [(2, 1.0), (4, 1.0), (6, 2.0), (8, 2.0), (10, 2.0)]
    assert events(tmp_path)["training loss/total"] == expected


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """W&B without a network, an account or the settings of whoever runs the tests; the folder of a run."""
    import wandb

    wandb.teardown()  # it reads its surroundings once
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    for name in ("WANDB_CONFIG_DIR", "WANDB_CACHE_DIR", "WANDB_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "wandb"))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "run"
    folder.mkdir()
    yield folder
    wandb.teardown()


def wandb_records(folder: Path) -> list[list[Any]]:
    """What W&B keeps of each attempt at a run, to be uploaded later: a log of LevelDB's form, of messages."""
    import wandb
    from wandb.proto import wandb_internal_pb2

    wandb.teardown()  # waits until everything is written
    attempts = []
    for path in sorted(folder.glob("wandb/offline-run-*/*.wandb"), key=lambda path: path.stat().st_mtime_ns):
        data, place, pending, records = path.read_bytes(), 7, b"", []
        while len(data) - place >= 7:
            room = 32768 - place % 32768
            if room < 7:
                place += room
                continue
            _, length, kind = struct.unpack("<IHB", data[place : place + 7])
            pending += data[place + 7 : place + 7 + length]
            place += 7 + length
            if kind in (1, 4):  # whole, or the last part
                records.append(wandb_internal_pb2.Record.FromString(pending))
                pending = b""
        attempts.append(records)
    return attempts


def history(records: list[Any], name: str) -> list[tuple[int, float]]:
    found = []
    for record in records:
        if record.WhichOneof("record_type") == "history":
            items = {item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
            found += [(record.history.step.num, items[name])] if name in items else []
    return found


def values(records: list[Any], kind: str) -> dict[str, Any]:
    """Of the configuration or the summary."""
    field = "run" if kind == "config" else kind
    parts = [getattr(record, field) for record in records if record.HasField(field)]
    updates = [item for part in parts for item in (part.config if kind == "config" else part).update]
    return {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in updates}


def test_wandb_is_told_checks_configuration_and_result(offline: Path) -> None:
    followed("wandb", offline, line(2, 1.5), line(4, 0.5), result=RESULT)
    (records,) = wandb_records(offline)
    assert history(records, "training loss/total") == [(2, 1.5), (4, 0.5)]
    assert history(records, "validation accuracy/photo") == [(2, 0.5), (4, 0.5)]
    assert flat(CONFIG).items() <= values(records, "config").items()
    assert flat(RESULT.to_dict()).items() <= values(records, "summary").items()
    (run,) = [record.run for record in records if record.HasField("run")]
    assert run.project == "parse-dg"
    assert run.display_name == "erm, sketch held out, seed 3"
    (end,) = [record.exit for record in records if record.HasField("exit")]
    assert end.exit_code == 0


def test_a_resumed_run_goes_on_in_wandb(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    followed("wandb", offline, line(2), result=None)
    # the first check may not have got away: told again; W&B passes over what it has
    followed("wandb", offline, line(4), line(2, 3.0), earlier=[line(2)], result=RESULT)
    first, second = wandb_records(offline)
    runs = [record.run for records in (first, second) for record in records if record.HasField("run")]
    assert [run.run_id for run in runs] == [run_id(offline, CONFIG)] * 2
    assert [run.project for run in runs] == ["mine", "mine"]
    assert history(second, "training loss/total") == [(2, 1.0), (4, 1.0)]
    assert [record.exit.exit_code for record in first if record.HasField("exit")] == [1]


@pytest.mark.parametrize(("name", "module"), [("tensorboard", "torch.utils.tensorboard"), ("wandb", "wandb")])
def test_a_missing_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    for refused in (require_trackers, lambda names: Tracking().open(names, tmp_path, CONFIG)):
        with pytest.raises(InputError, match=rf"{name} needs .* pip install 'parse-dg\[{name}\]'"):
            refused([name])
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_tracker_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown tracker 'tensorbord': valid are tensorboard, wandb"):
        Tracking().open(["tensorbord"], tmp_path, CONFIG)
    assert require_trackers(["tensorboard", "tensorboard"]) == ["tensorboard"]


class Failing:
    """A tracker whose network is gone from a certain call on."""

    def __init__(self, good: int) -> None:
        self.calls, self.good = 0, good
        self._next()

    def _next(self) -> None:
        self.calls += 1
        if self.calls > self.good:
            raise ConnectionError("no route to host\nand more")

    def record(self, line: CheckLine) -> None:
        self._next()

    def finish(self, result: RunResult | None) -> None:
        self._next()


@pytest.mark.parametrize("good", [0, 1, 2, 3])
def test_a_tracker_that_fails_is_a_warning_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, good: int
) -> None:
    monkeypatch.setitem(tracking.TRACKERS, "wandb", (lambda *run: Failing(good), "json"))
    with caplog.at_level(logging.WARNING), Tracking() as following:
        following.open(["wandb", "tensorboard"], tmp_path, CONFIG)
        following.record(line(2))
        following.record(line(4))
    expected = "wandb no longer follows the run, which goes on; metrics.jsonl has it all: no route to host"
    assert [record.getMessage() for record in caplog.records] == [expected]
    assert [step for step, _ in events(tmp_path)["training loss/total"]] == [2, 4]


def test_a_run_that_is_followed_writes_the_same_bytes(tiny: Tiny, erm_run: Path, offline: Path) -> None:
    config, folder = tiny("erm"), offline / "followed"
    result = execute(config, folder, track=["tensorboard", "wandb"])
    for name in REPEATED:
        assert (folder / name).read_bytes() == (erm_run / name).read_bytes(), name
    found = events(folder)
    expected = [(c.step, pytest.approx(c.training_loss["total"])) for c in read_checks(folder)]
    assert found["training loss/total"] == expected
    (records,) = wandb_records(folder)
    assert history(records, "training loss/total") == [
        (c.step, c.training_loss["total"]) for c in read_checks(folder)
    ]
    assert values(records, "summary")["target.accuracy"] == result.target.accuracy
    assert values(records, "config")["training.steps"] == config.training.steps
