"""What the tests of runs share: how to read a run's folder."""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch

from parse_dg.runs.folder import LOCK
from parse_dg.training.check import Check

REPEATED = ["config.json", "split.json", "metrics.jsonl", "model.safetensors", "result.json"]
"""The files that are the same when a run is repeated."""
PLAIN = "model_plain.safetensors"
"""Another, of runs with averaging.also_plain."""
CPU = torch.device("cpu")


def quiet(step: int, check: Check | None) -> None:
    pass


def hashes(folder: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
        if path.name != LOCK
    }


def repeated(folder: Path) -> dict[str, str]:
    return {name: digest for name, digest in hashes(folder).items() if name in (*REPEATED, PLAIN)}


def read(path: Path) -> Any:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    return json.loads(path.read_text(), parse_constant=refuse)


def checks(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
