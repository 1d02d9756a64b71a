"""Checkpoints: whole or not there, verified, and the one before is used where the last is damaged."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from parse_dg.training import checkpoint as module
from parse_dg.training.checkpoint import (
    CURRENT,
    PREVIOUS,
    Checkpoint,
    read_checkpoint,
    remove_checkpoints,
    write_checkpoint,
)
from tests.parts import refusal


def numbered(number: int) -> Checkpoint:
    tensors = {
        "weights": torch.full((3, 4), float(number)),
        "half": torch.arange(5).to(torch.bfloat16) + number,
        "state": torch.Generator().manual_seed(number).get_state(),
        "count": torch.tensor(number),
        "none": torch.empty(0, dtype=torch.long),
        "turned": torch.arange(6.0).view(2, 3).T,
    }
    return Checkpoint(tensors, {"step": number, "words": ["Λ", None, 0.1]})


def same(one: Checkpoint | None, other: Checkpoint) -> bool:
    assert one is not None
    assert one.data == other.data
    assert set(one.tensors) == set(other.tensors)
    return all(
        value.dtype == other.tensors[name].dtype and torch.equal(value, other.tensors[name])
        for name, value in one.tensors.items()
    )


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    assert read_checkpoint(tmp_path) is None
    for number in (1, 2, 3):
        write_checkpoint(tmp_path, numbered(number))
        assert same(read_checkpoint(tmp_path), numbered(number))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([CURRENT, PREVIOUS])
    remove_checkpoints(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("when", ["save_file", "fsync", "first rename", "second rename"])
def test_whatever_interrupts_a_whole_one_is_there(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_checkpoint(tmp_path, numbered(1))
    write_checkpoint(tmp_path, numbered(2))
    calls = []

    def stop(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    def replace(self: Path, target: Path) -> Path:
        calls.append(self)
        if len(calls) == (1 if when == "first rename" else 2):
            raise KeyboardInterrupt
        return Path(shutil.move(self, target))

    with monkeypatch.context() as patch:
        if when == "save_file":
            patch.setattr(module, "save_file", stop)
        elif when == "fsync":
            patch.setattr("os.fsync", stop)
        else:
            patch.setattr(Path, "replace", replace)
        with pytest.raises(KeyboardInterrupt):
            write_checkpoint(tmp_path, numbered(3))
    assert same(read_checkpoint(tmp_path), numbered(2))
    write_checkpoint(tmp_path, numbered(4))
    assert same(read_checkpoint(tmp_path), numbered(4))


def test_a_newer_format_is_not_taken_for_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(module, "FORMAT", 2)
        write_checkpoint(tmp_path, numbered(1))
    assert "has format 2, this version reads format 1" in refusal(read_checkpoint, tmp_path)
