"""What the tests of runs share: how to read a run's folder, and results that no run found."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from parse_dg.data.domain import Benchmark, Domain
from parse_dg.files import write_json
from parse_dg.runs.folder import LOCK
from parse_dg.runs.metrics import CheckLine
from parse_dg.runs.result import (
    BenchmarkVersion,
    Leakage,
    ProtocolReport,
    RunEnvironment,
    RunResult,
    TargetAccuracy,
)
from parse_dg.tables.records import read_comparable
from parse_dg.tables.selection import Record
from parse_dg.training.accuracy import Accuracy
from parse_dg.training.check import Check

REPEATED = ["config.json", "split.json", "metrics.jsonl", "model.safetensors", "result.json"]
"""The files that are the same when a run is repeated."""
PLAIN = "model_plain.safetensors"
"""Another, of runs with averaging.also_plain."""
CPU = torch.device("cpu")

MOVING = {"backbone__name": "small", "backbone__freeze_batchnorm": False}
"""Settings with BatchNorm statistics that move,"""
SWAD = {
    **{"averaging__kind": "swad", "averaging__n_converge": 2, "averaging__n_tolerance": 2},
    **{"averaging__statistics_batches": 2, "training__check_every": 1},
}
"""weights that are averaged over a valley of a few steps,"""
SELECTING = {
    **{"algorithm__composition__start": "presence", "algorithm__composition__select_every": 2},
    **{"algorithm__composition__relations_per_class": 3, "optimizer__composition_rate": 0.5},
}
"""and classes that select."""


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


def without_digests(folder: Path) -> Path:
    """A finished run as earlier versions wrote it: its files may be changed."""
    write_json(folder / "result.json", {k: v for k, v in read(folder / "result.json").items() if k != "files"})
    return folder


def read_runs(folders: Sequence[Path], selection: str) -> tuple[Record, ...]:
    """The records of finished runs, to select from in one way, in rows by method."""
    return tuple(record for run in read_comparable(folders, selection) for record in run.records)


def checks(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def noisy_target(benchmark: Benchmark) -> Benchmark:
    """24 images of noise, all of one class, in the place of sketch."""
    noise = np.random.default_rng(0).integers(0, 256, (24, 64, 64, 3)).astype(np.uint8)
    other = Domain("sketch", noise, np.full(24, 3))
    return replace(benchmark, domains=tuple(other if d.name == "sketch" else d for d in benchmark.domains))


def accuracy_of(fraction: float, images: int = 1000) -> Accuracy:
    """So many right; the fraction has at most three digits."""
    return Accuracy(round(images * fraction), images, 1.0)


def result_of(
    algorithm: str = "erm", held_out: str = "sketch", seed: int = 0, accuracy: float = 0.5, **changes: Any
) -> RunResult:
    """A result that no run found."""
    fields: dict[str, Any] = {
        "algorithm": algorithm,
        "benchmark": BenchmarkVersion(name="blueprints", fingerprint="f" * 64),
        "domains": ("photo", "cartoon", "sketch", "paint"),
        "seed": seed,
        "trial": seed,
        "target": TargetAccuracy(domain=held_out, part="all images", share=1.0, **vars(accuracy_of(accuracy))),
        "validation": {},
        "validation_mean_accuracy": 0.5,
        "validation_part": "held-out images",
        "selection": "training-domain validation",
        "selected_step": 2,
        "steps": 4,
        "protocol": ProtocolReport(name="parse", rules=("A rule.",)),
        "leakage": Leakage(images=0, of=40, words="leakage: none"),
    }
    return RunResult(**fields | changes)


def check_of(
    step: int, validation: dict[str, float], scores: dict[str, float] | None = None, **changes: Any
) -> CheckLine:
    """A check that no run made."""
    fields: dict[str, Any] = {
        "step": step,
        "training_loss": {"cross_entropy": 1.0, "total": 1.0},
        "rates": {"backbone": 1e-3},
        "validation": {name: accuracy_of(value) for name, value in validation.items()},
        "validation_mean_accuracy": 0.5 if validation else None,
        "best_so_far": True,
        "scores": {name: accuracy_of(value) for name, value in (scores or {}).items()},
    }
    return CheckLine(**fields | changes)


def environment_of(seconds: float, device: str = "cpu") -> RunEnvironment:
    return RunEnvironment(
        parse_dg="0.1.0", python="3.11", torch="2.9", device=device, processes=1, threads=1, seconds=seconds
    )
