"""A run repeated is the same bytes again: only its configuration counts, and the target has no part in it."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from parse_dg.data.benchmarks import open_benchmark
from parse_dg.data.domain import Benchmark, Domain
from parse_dg.runs.run import execute
from tests.conftest import FinishedRun, Tiny, slow_but
from tests.runs.helpers import REPEATED, quiet, read, repeated


def other_randomness() -> None:
    """Whatever the global generators hold must not matter."""
    seed = random.randrange(2**32)
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


@pytest.mark.parametrize("algorithm", slow_but("parse", "erm_plus_plus"))
def test_a_repeated_run_is_the_same_to_the_byte(
    algorithm: str, finished_run: FinishedRun, tiny: Tiny, tmp_path: Path
) -> None:
    other_randomness()
    execute(tiny(algorithm), tmp_path / "again", quiet)
    assert set(repeated(tmp_path / "again")) == set(REPEATED)
    assert repeated(tmp_path / "again") == repeated(finished_run(algorithm))


def test_every_draw_comes_from_the_seed(tiny: Tiny, tmp_path: Path) -> None:
    settings = {
        "mixstyle__stages": (1, 2),
        "mixstyle__probability": 1.0,
        "augment__randaugment_ops": 2,
        "algorithm__dropout": 0.5,
        "training__label_smoothing": 0.1,
    }
    for name in ("one", "again"):
        other_randomness()
        execute(tiny("erm", **settings), tmp_path / name, quiet)
    assert repeated(tmp_path / "one") == repeated(tmp_path / "again")


def test_a_seed_changes_the_start_the_order_and_the_draws(tiny: Tiny, tmp_path: Path) -> None:
    """With no step of any size the weights are the start's alone."""
    still = {"optimizer__backbone_rate": 0, "optimizer__head_rate": 0, "training__steps": 1}
    states = []
    for seed in (0, 1):
        execute(tiny("erm", seed=seed, **still), tmp_path / str(seed), quiet)
        states.append(load_file(tmp_path / str(seed) / "model.safetensors"))
    assert not torch.equal(states[0]["classifier.weight"], states[1]["classifier.weight"])
    running = next(name for name in states[0] if name.endswith("running_mean"))
    assert not torch.equal(states[0][running], states[1][running])


def with_target(benchmark: Benchmark, images: np.ndarray, labels: np.ndarray) -> Benchmark:
    domains = tuple(Domain(d.name, images, labels) if d.name == "sketch" else d for d in benchmark.domains)
    return replace(benchmark, domains=domains)


@pytest.mark.parametrize("algorithm", ["erm", "parse"])
def test_the_target_has_no_part_in_training_or_selection(
    algorithm: str, finished_run: FinishedRun, tiny: Tiny, tmp_path: Path
) -> None:
    """With noise of other classes in its place, everything but its own score stays the same to the byte."""
    config = tiny(algorithm)
    benchmark = open_benchmark(config.data)
    noise = np.random.default_rng(0).integers(0, 256, (24, 64, 64, 3)).astype(np.uint8)
    other = with_target(benchmark, noise, np.full(24, 3))
    execute(config, tmp_path / "noise", quiet, other)
    one, found = repeated(finished_run(algorithm)), repeated(tmp_path / "noise")
    assert found["metrics.jsonl"] == one["metrics.jsonl"]
    assert found["model.safetensors"] == one["model.safetensors"]
    result, before = (read(folder / "result.json") for folder in (tmp_path / "noise", finished_run(algorithm)))
    assert (result.pop("leakage")["of"], before.pop("leakage")["of"]) == (24, 40)
    assert result.pop("target")["images"] == 24
    assert before.pop("target")["images"] == 40
    assert result == before
