"""A run where it must not be, or cannot: refused before anything is trained, written or lost."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from parse_dg.errors import InputError
from parse_dg.runs.folder import read_config, read_result
from parse_dg.runs.run import execute
from parse_dg.training.trainer import Trainer
from tests.conftest import Tiny
from tests.runs.helpers import hashes, quiet


def no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    def fit(*arguments: Any) -> None:
        pytest.fail("trained")

    monkeypatch.setattr(Trainer, "fit", fit)


def test_a_finished_run_is_returned_without_training(
    erm_run: Path, tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_training(monkeypatch)
    before = {path.name: path.stat().st_mtime_ns for path in erm_run.iterdir()}
    assert execute(tiny("erm"), erm_run, quiet) == read_result(erm_run)
    assert {path.name: path.stat().st_mtime_ns for path in erm_run.iterdir()} == before


@pytest.mark.parametrize("settings", [{"seed": 1}, {"algorithm__dropout": 0.5}])
@pytest.mark.parametrize("finished", [True, False])
def test_a_run_of_another_configuration_is_refused(
    settings: dict[str, Any],
    finished: bool,
    erm_run: Path,
    tiny: Tiny,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    no_training(monkeypatch)
    folder = tmp_path / "run"
    shutil.copytree(erm_run, folder)
    if not finished:
        (folder / "result.json").unlink()
    before = hashes(folder)
    with pytest.raises(InputError, match=f"{folder} holds a run of another configuration .*now.*--overwrite"):
        execute(tiny("erm", **settings), folder, quiet)
    assert hashes(folder) == before


def test_a_folder_that_is_not_a_run_is_refused(tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match=f"{tmp_path} exists and is not a run: choose another folder with --out"):
        execute(tiny("erm"), tmp_path, quiet)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_an_unknown_target_is_refused_before_anything_is_drawn_or_written(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny("erm", data__target="skech")
    monkeypatch.setenv("PARSE_DG_CACHE", str(tmp_path / "run"))
    with pytest.raises(InputError, match="valid are photo, cartoon, sketch, paint"):
        execute(config, tmp_path / "run", quiet)
    assert not (tmp_path / "run").exists()


def test_nothing_to_validate_on_is_refused_before_anything_is_written(tiny: Tiny, tmp_path: Path) -> None:
    """int(0.02 · 40) = 0 images of every source domain would be held out."""
    with pytest.raises(InputError, match="holdout"):
        execute(tiny("erm", split__holdout=0.02), tmp_path / "run", quiet)
    assert not (tmp_path / "run").exists()


def test_an_unusable_device_is_refused_before_anything_is_written(tiny: Tiny, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"device 'abacus' cannot be used .*: valid here are auto, cpu"):
        execute(tiny("erm", training__device="abacus"), tmp_path / "run", quiet)
    assert not (tmp_path / "run").exists()


def test_a_damaged_configuration_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"seed": ')
    with pytest.raises(InputError, match="is not valid JSON"):
        read_config(tmp_path)
    (tmp_path / "config.json").write_text('{"seeed": 1}')
    with pytest.raises(InputError, match=r"unknown configuration field 'seeed': did you mean seed\?"):
        read_config(tmp_path)
