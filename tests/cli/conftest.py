"""What the tests of the command line share: commands to run, and what they leave behind."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from parse_dg.algorithms.base import Algorithm
from parse_dg.algorithms.erm import Erm
from parse_dg.cli import main
from tests.conftest import TINY

SMALL = [word for field, value in TINY.items() for word in ("--set", f"{field}={value}")]


class Said(NamedTuple):
    """What a command left behind in the terminal."""

    code: int
    out: str
    err: str


Run = Callable[..., Said]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """run("train", "--seed", "1"), in a folder of its own, wide enough that no table is wrapped."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "240")
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: object) -> Said:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        said = Said(code, *capsys.readouterr())
        for text in (said.out, said.err):
            assert "\x1b" not in text  # not a terminal: no colours,
            assert "\r" not in text  # and nothing is drawn over
        return said

    return call


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file below a folder; folders are listed too."""
    found = sorted(folder.rglob("*"))
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"" for path in found}


def table(text: str) -> list[list[str]]:
    """The rows of the tables in a text, cell by cell."""
    rows = [
        line.strip("│┃ ").replace("┃", "│").split("│") for line in text.splitlines() if line[:1] in "│┃" and line
    ]
    return [[cell.strip() for cell in row] for row in rows]


def shown(value: dict[str, Any]) -> list[str]:
    """An accuracy of result.json as tables show it."""
    return [f"{100 * value['correct'] / value['images']:.1f}%", f"{value['correct']}/{value['images']}"]


def result_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "result.json").read_text())


def assert_refused(said: Said, *fragments: str) -> None:
    """Exit code 2 and one line."""
    assert said.code == 2
    assert said.err.startswith("parse-dg: ")
    assert said.err.endswith("\n")
    assert said.err.count("\n") == 1
    assert "Traceback" not in said.err
    for fragment in fragments:
        assert fragment in said.err


def fail_at(
    step: int, failure: Callable[[], dict[str, torch.Tensor]], method: type[Algorithm] = Erm
) -> Callable[..., Any]:
    """The losses of a method until `step`, then something else."""
    plain, calls = method.losses, []

    def losses(self: Any, example: Any, generator: torch.Generator) -> dict[str, torch.Tensor]:
        calls.append(1)
        return failure() if len(calls) == step else plain(self, example, generator)

    return losses


def interrupt() -> dict[str, torch.Tensor]:
    raise KeyboardInterrupt
