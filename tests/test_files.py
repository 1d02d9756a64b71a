"""Whole files and folders, locks, and folders of ours with the variable that moves them if they cannot be used."""

import errno
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from parse_dg.errors import InputError
from parse_dg.files import (
    attempting,
    cache_folder,
    data_folder,
    free_bytes,
    is_locked,
    locked,
    make_folder,
    read_json,
    require_writable,
    whole_file,
    whole_folder,
    write_file,
    write_json,
)
from tests.parts import refusal

FOLDERS = [
    (cache_folder, "PARSE_DG_CACHE", "XDG_CACHE_HOME", ".cache"),
    (data_folder, "PARSE_DG_DATA", "XDG_DATA_HOME", ".local/share"),
]
Folder = Callable[[], Path]


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_file_is_as_before_until_it_is_whole(tmp_path: Path, many: bool, error: type[BaseException]) -> None:
    path = tmp_path / "file"
    write_file(path, b"before", shared=many)
    with pytest.raises(error), whole_file(path, shared=many) as temporary:  # noqa: PT012
        temporary.write_bytes(b"half")
        assert path.read_bytes() == b"before"
        raise error
    assert path.read_bytes() == b"before"
    with whole_file(path, shared=many) as temporary:
        temporary.write_bytes(b"after")
    assert path.read_bytes() == b"after"
    assert names(tmp_path) == {"file"}


def test_a_file_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(InputError, match=r"^cannot write it \(No space left on device\): make room$"):  # noqa: SIM117
        with attempting("write it", "make room"):
            write_file(tmp_path / "file", b"data")
    assert names(tmp_path) == set()


def test_of_shared_files_each_writer_has_its_own(tmp_path: Path) -> None:
    with whole_file(tmp_path / "f", shared=True) as one, whole_file(tmp_path / "f", shared=True) as other:
        one.write_bytes(b"one")
        other.write_bytes(b"other")
    assert (tmp_path / "f").read_bytes() == b"one"


def test_a_folder_is_not_there_until_it_is_whole(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (tmp_path / "folder.writing" / "left").mkdir(parents=True)
    with pytest.raises(KeyboardInterrupt), whole_folder(folder) as temporary:
        raise KeyboardInterrupt
    assert names(tmp_path) == set()
    with whole_folder(folder) as temporary:
        (temporary / "file").touch()
        assert not folder.exists()
    assert (names(tmp_path), names(folder)) == ({"folder"}, {"file"})


def test_json_is_written_for_people_and_read_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"name": "Käfer"})
    assert path.read_text() == '{\n  "name": "Käfer"\n}\n'
    assert read_json(path) == {"name": "Käfer"}
    path.write_text("{")
    assert "is not valid JSON" in refusal(read_json, path)
    with pytest.raises(InputError, match=r"cannot read .*: No such file"):
        read_json(tmp_path / "none.json")


@pytest.mark.parametrize("name", ["one.txt", "one", "folder.png", "missing/one.png", "locked/one.png"])
def test_a_place_where_a_file_cannot_be_written(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "locked").mkdir()
    monkeypatch.setattr("os.access", lambda path, mode: path.name != "locked")
    require_writable(tmp_path / "one.PNG", "a figure", (".png", ".svg"))
    with pytest.raises(
        InputError, match=r"^cannot write a figure to .*: expected a name that ends in .png or .svg, "
    ):
        require_writable(tmp_path / name, "a figure", (".png", ".svg"))


def test_one_process_at_a_time_holds_a_lock(tmp_path: Path) -> None:
    lock, busy = tmp_path / "lock", InputError("somebody is at it")
    assert not is_locked(lock)
    with locked(lock, busy):
        assert is_locked(lock)
        with pytest.raises(InputError, match="somebody is at it"), locked(lock, busy):
            pass
    assert lock.exists()
    assert not is_locked(lock)
    with locked(lock, busy, remove=True):
        pass
    assert not lock.exists()


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
    assert f"set {variable} to a folder" in refusal(folder)
    monkeypatch.setenv(variable, "/fast/disk")
    assert folder() == Path("/fast/disk")


@pytest.mark.parametrize("below", ["", "deeper"])
def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / below
    reason = "Not a directory" if below else "File exists"
    expected = f"cannot write to {folder} ({reason}): set PARSE_DG_DATA to another folder"
    assert refusal(make_folder, folder, "PARSE_DG_DATA") == expected


def test_an_error_without_a_number_is_told_in_its_own_words() -> None:
    with (
        pytest.raises(InputError, match=r"^cannot write it \(the tape is torn\): mend it$"),
        attempting("write it", "mend it"),
    ):
        raise OSError("the tape is torn")


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
