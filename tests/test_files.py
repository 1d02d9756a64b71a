"""Folders of ours: where they are, and one line with the variable that moves them when they cannot be used."""

import errno
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from parse_dg.errors import InputError
from parse_dg.files import cache_folder, cannot_write, data_folder, free_bytes, make_folder

FOLDERS = [
    (cache_folder, "PARSE_DG_CACHE", "XDG_CACHE_HOME", ".cache"),
    (data_folder, "PARSE_DG_DATA", "XDG_DATA_HOME", ".local/share"),
]
Folder = Callable[[], Path]


@pytest.mark.parametrize(("folder", "variable", "base", "fallback"), FOLDERS)
def test_the_variable_of_ours_then_the_users_folder_then_the_home(
    folder: Folder, variable: str, base: str, fallback: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv(base, "/large/disk")
    monkeypatch.setenv(variable, "/fast/disk")
    assert folder() == Path("/fast/disk")
    monkeypatch.setenv(variable, "~/there")
    assert folder() == Path("/home/somebody/there")
    for nothing in (lambda name: monkeypatch.setenv(name, ""), monkeypatch.delenv):
        nothing(variable)
        assert folder() == Path("/large/disk/parse-dg")
    for nothing in (lambda name: monkeypatch.setenv(name, ""), monkeypatch.delenv):
        nothing(base)
        assert folder() == Path("/home/somebody") / fallback / "parse-dg"


@pytest.mark.parametrize(("folder", "variable", "base", "fallback"), FOLDERS)
def test_without_a_home_the_variable_is_named(
    folder: Folder, variable: str, base: str, fallback: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for a user of a container whom nobody told it about."""

    def homeless(path: str) -> str:
        return path

    monkeypatch.setattr("os.path.expanduser", homeless)
    monkeypatch.delenv(variable)
    monkeypatch.delenv(base, raising=False)
    with pytest.raises(InputError, match=f"no home folder.*: set {variable} to a folder"):
        folder()
    monkeypatch.setenv(variable, "~nobody_of_this_name/images")
    with pytest.raises(InputError, match=f"set {variable} to a folder"):
        folder()
    monkeypatch.setenv(variable, "/fast/disk")
    assert folder() == Path("/fast/disk")


def test_a_folder_is_made_with_those_above_it_and_may_be_there(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b" / "c"
    make_folder(folder, "PARSE_DG_CACHE")
    (folder / "kept").touch()
    make_folder(folder, "PARSE_DG_CACHE")
    assert (folder / "kept").exists()


@pytest.mark.parametrize("below", ["", "deeper"])
def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / below
    with pytest.raises(InputError) as caught:
        make_folder(folder, "PARSE_DG_DATA")
    reason = "Not a directory" if below else "File exists"
    assert str(caught.value) == f"cannot write to {folder} ({reason}): set PARSE_DG_DATA to another folder"


def test_an_error_without_a_number_is_told_in_its_own_words(tmp_path: Path) -> None:
    assert "(the tape is torn)" in str(cannot_write(tmp_path, "X", OSError("the tape is torn")))
    full = cannot_write(tmp_path, "PARSE_DG_CACHE", OSError(errno.ENOSPC, "No space left on device"))
    assert "(No space left on device): set PARSE_DG_CACHE to another folder" in str(full)


def test_free_space_is_that_of_the_disk_that_would_hold_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []

    def usage(folder: Path) -> SimpleNamespace:
        asked.append(folder)
        return SimpleNamespace(total=10, used=7, free=3)

    monkeypatch.setattr("shutil.disk_usage", usage)
    assert free_bytes(tmp_path / "not" / "yet" / "there") == 3
    assert free_bytes(tmp_path) == 3
    monkeypatch.chdir(tmp_path)
    assert free_bytes(Path("nor/this")) == 3
    assert asked == [tmp_path, tmp_path, Path()]
