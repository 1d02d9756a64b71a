"""What journeys share: a machine of their own, and commands that must work."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from parse_dg.cli import main

Call = Callable[..., str]


@contextmanager
def own_machine(folder: Path) -> Iterator[None]:
    """Within, a folder is the working one, with a data folder and a cache of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PARSE_DG_DATA", str(folder / "data"))
        patch.setenv("PARSE_DG_CACHE", str(folder / "cache"))
        patch.setenv("COLUMNS", "240")
        patch.chdir(folder)
        yield


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """A command that must work; what it printed."""

    def run(*arguments: object) -> str:
        capsys.readouterr()
        assert main([str(argument) for argument in arguments]) == 0
        return capsys.readouterr().out

    return run
