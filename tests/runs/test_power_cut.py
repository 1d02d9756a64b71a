"""After a power cut there is a whole checkpoint or a whole result, and files that are not whole are noticed."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parse_dg.runs.afterwards.opened import OpenedRun, evaluate_run
from parse_dg.runs.folder import LOCK, DamagedRunError, hold, read_finished, read_whole
from parse_dg.runs.keeper import Keeper
from parse_dg.runs.run import execute
from parse_dg.tables.records import read_run
from parse_dg.training.checkpoint import CURRENT, PREVIOUS, read_checkpoint
from tests.conftest import Tiny
from tests.parts import refusal
from tests.runs.helpers import REPEATED, quiet, read, repeated


class ForgetfulDisk:
    """What of a folder would be there after a power cut: files and names as they were when last synced."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.contents: dict[int, bytes] = {}
        self.names: dict[str, int] = {}
        self.held: list[int] = []
        self.fsync, self.unlink = os.fsync, os.unlink
        self.at_removal: Callable[[str], None] = lambda name: None
        monkeypatch.setattr(os, "fsync", self.sync)
        monkeypatch.setattr(os, "unlink", self.remove)

    def sync(self, descriptor: int) -> None:
        self.fsync(descriptor)
        path, number = Path(f"/proc/self/fd/{descriptor}").readlink(), os.fstat(descriptor).st_ino
        if path == self.folder:
            self.names = self.now()
        elif path.parent == self.folder:
            self.held.append(os.dup(descriptor))  # or another file would get its number
            self.contents[number] = path.read_bytes()

    def remove(self, path: Path, **options: Any) -> None:
        if Path(path).parent == self.folder and Path(path).exists():
            self.at_removal(Path(path).name)
        self.unlink(path, **options)

    def now(self) -> dict[str, int]:
        return {path.name: path.stat().st_ino for path in self.folder.iterdir() if path.is_file()}

    def after_a_cut(self, there: Path, renamed: bool) -> Path:
        """The folder as it would be; `renamed`: names have reached the disk that were not synced."""
        shutil.rmtree(there, ignore_errors=True)
        there.mkdir()
        for name, number in (self.now() if renamed else self.names).items():
            (there / name).write_bytes(self.contents.get(number, b""))
        return there


@pytest.mark.parametrize("renamed", [False, True])
def test_at_no_moment_a_power_cut_loses_a_run(
    renamed: bool, tiny: Tiny, tmp_path: Path, erm_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, removed = tmp_path / "after", []
    with monkeypatch.context() as patch:
        disk = ForgetfulDisk(tmp_path / "run", patch)

        def cut(name: str) -> None:
            found = disk.after_a_cut(there, renamed)
            if name.startswith("checkpoint") and not name.endswith(".writing"):
                removed.append(name)
                assert read_whole(found, large=True) is not None, f"{name} is removed too early"

        def observe(step: int, check: object) -> None:
            if step > 1:
                saved = read_checkpoint(disk.after_a_cut(there, renamed))
                assert saved is not None
                assert (there / "metrics.jsonl").stat().st_size >= saved.data["run"]["metrics"]
            if step == 4:
                patch.setattr(Keeper, "due", lambda self, last: False)  # no checkpoint has the last check

        disk.at_removal = cut
        execute(tiny("erm"), disk.folder, observe, checkpoint_every=0)
        disk.after_a_cut(there, renamed)
    assert len(removed) == 2
    assert repeated(there) == repeated(erm_run)
    assert read(there / "environment.json")["processes"] == 1
    for descriptor in disk.held:
        os.close(descriptor)


@pytest.mark.parametrize("name", [name for name in REPEATED if name != "config.json"])
def test_a_finished_run_that_is_not_whole_is_refused_by_name_and_made_again(
    name: str, tiny: Tiny, tmp_path: Path, erm_run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(erm_run, folder)
    (folder / name).write_bytes(bytes((erm_run / name).stat().st_size))  # zeros, as a power cut leaves them
    for look in (read_run, lambda folder: evaluate_run(OpenedRun(folder)), lambda folder: OpenedRun(folder).result):
        with pytest.raises(
            DamagedRunError, match=rf"{name} is not (what was written|valid JSON): .*`parse-dg train`"
        ):
            look(folder)
    execute(tiny("erm"), folder, quiet)
    assert f"{folder / name} is not " in caplog.text
    assert repeated(folder) == repeated(erm_run)


def test_what_a_killed_process_has_left_is_removed(tiny: Tiny, tmp_path: Path, erm_run: Path) -> None:
    folder, names = tmp_path / "run", sorted(path.name for path in erm_run.iterdir())
    for look in (read_run, lambda folder: OpenedRun(folder).result, lambda folder: execute(tiny("erm"), folder)):
        shutil.copytree(erm_run, folder, dirs_exist_ok=True)
        for name in (CURRENT, PREVIOUS, LOCK):
            (folder / name).write_bytes(b"left")
        with hold(folder):
            assert read_run(folder)
            assert (folder / CURRENT).exists(), "a process is at it"
        (folder / LOCK).touch()
        look(folder)
        assert sorted(path.name for path in folder.iterdir()) == names
    (folder / "result.json").unlink()
    for name in (".tmpa1B2c3", f"{CURRENT}.writing", ".tmp", "notes.txt"):
        (folder / name).write_bytes(b"left")
    execute(tiny("erm"), folder, quiet)
    assert {path.name for path in folder.iterdir()} - {*names} == {".tmp", "notes.txt"}


def test_weights_and_split_may_be_removed_and_are_made_again(tiny: Tiny, tmp_path: Path, erm_run: Path) -> None:
    folder, config = tmp_path / "run", tiny("erm")
    shutil.copytree(erm_run, folder)
    (folder / "model.safetensors").unlink()
    (folder / "split.json").unlink()
    assert read_run(folder)
    assert read_finished(config, folder, large=False) is not None
    execute(config, folder, quiet)
    assert repeated(folder) == repeated(erm_run)
    (folder / "metrics.jsonl").unlink()
    assert "metrics.jsonl is missing: the run is not whole" in refusal(read_run, folder)
