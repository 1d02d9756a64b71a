"""A compact form of a finished run's model, and what it changes, measured on every image of the benchmark.

compact.safetensors   the small model
compact.json          what compaction dropped, and how the predictions compare, domain by domain
"""

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from parse_dg.data.benchmarks import open_benchmark
from parse_dg.data.domain import Benchmark
from parse_dg.data.listing import Progress
from parse_dg.data.splits import whole
from parse_dg.deploy.compaction import Compaction, compact
from parse_dg.deploy.model_file import Model, load_model, save_model
from parse_dg.devices import pick_device
from parse_dg.errors import FailedError, InputError
from parse_dg.files import write_json
from parse_dg.runs.folder import read_config, require_same_images
from parse_dg.runs.start import applications_at_start
from parse_dg.training.accuracy import Accuracy, Predictions, predict, score

TOLERANCE = 1e-6
"""Lossless: no logit moves by more than this, times the logit where that is above 1. A float32 is exact to 6e-8 of
its size, so that this leaves room for about sixteen roundings and for nothing else."""
OF_A_RUN = ("model", "config", "result", "environment")
"""The names, without their endings, of the files that a run keeps for itself."""


class NotLosslessError(FailedError):
    """Compaction at threshold 0 changed what the model says: a promise of ours is broken."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The full and the compact model on all images of one domain."""

    domain: str
    before: Accuracy
    after: Accuracy
    same_prediction: int
    """On how many images the predicted class is the same."""
    largest_difference: float
    """The largest absolute difference of a logit."""
    within_tolerance: bool
    """Whether no logit moved by more than `TOLERANCE`."""

    @property
    def lossless(self) -> bool:
        """Whether no prediction changed, and no logit beyond rounding."""
        return self.same_prediction == self.before.images and self.within_tolerance


@dataclass(frozen=True, kw_only=True)
class CompactionOutcome:
    """A compaction of a run's model, what it changed, and where it is."""

    benchmark: str
    fingerprint: str
    """Of the images that were compared."""
    seed: int
    target: Comparison
    sources: tuple[Comparison, ...]
    compaction: Compaction
    applications_at_start: int | None
    """How many some class used before training; None if that is not known (start.py) or the model was compact."""
    classes: tuple[str, ...]
    path: Path
    size_before: int
    """Bytes of the model file."""
    size_after: int

    @property
    def report(self) -> Path:
        """Where the figures are: beside the model."""
        return self.path.with_suffix(".json")

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """Every domain of the benchmark, the target first."""
        return (self.target, *self.sources)

    @property
    def images(self) -> int:
        """How many images were compared, over all domains."""
        return sum(each.before.images for each in self.comparisons)

    @property
    def same_prediction(self) -> int:
        """On how many of them the predicted class is the same."""
        return sum(each.same_prediction for each in self.comparisons)

    @property
    def largest_difference(self) -> float:
        """The largest absolute difference of a logit on any of them."""
        return max(each.largest_difference for each in self.comparisons)


def ignore(what: str, done: int, total: int) -> None:
    """Progress that nobody follows."""


def compact_runs(
    folders: Sequence[Path], out: Path | None, threshold: float, device_name: str, progress: Progress = ignore
) -> list[CompactionOutcome]:
    """`compact_run` for each of several; what is plainly wrong with one of them is said before any is begun."""
    if len(folders) > 1 and out is not None:
        raise InputError(
            f"--out names one file, found {len(folders)} runs: leave it out, and each gets its compact.safetensors"
        )
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise InputError("every run must be given once, found one twice")
    for folder in folders:
        _check(folder, _place(folder, out))
    return [compact_run(folder, out, threshold, device_name, progress) for folder in folders]


def compact_run(
    folder: Path, out: Path | None, threshold: float, device_name: str = "auto", progress: Progress = ignore
) -> CompactionOutcome:
    """Compact a run's model, compare it with the full one on every image of the benchmark, and write both files.

    With threshold 0 nothing may change: if a prediction does, or a logit beyond `TOLERANCE`, nothing is written.
    """
    path = _place(folder, out)
    _check(folder, path)
    device = pick_device(device_name)
    config = read_config(folder)
    full = load_model(folder)
    try:
        small, report = compact(full, threshold)
    except InputError as error:
        raise InputError(f"{folder}: {error}") from error
    at_start = None if full.compact else applications_at_start(config, full)
    benchmark = open_benchmark(config.data, progress)
    require_same_images(folder, benchmark)
    compared: dict[str, Comparison] = {}
    for each in _comparisons(full, small, benchmark, device, partial(progress, f"comparing {folder}")):
        _require_sound(folder, each, lossless=threshold == 0)
        compared[each.domain] = each
    save_model(path, small.spec, {name: value.cpu() for name, value in small.algorithm.state_dict().items()})
    outcome = CompactionOutcome(
        benchmark=benchmark.name,
        fingerprint=benchmark.fingerprint,
        seed=config.seed,
        target=compared.pop(config.data.target),
        sources=tuple(compared.values()),
        compaction=report,
        applications_at_start=at_start,
        classes=full.spec.classes,
        path=path,
        size_before=(folder / "model.safetensors").stat().st_size,
        size_after=path.stat().st_size,
    )
    write_json(outcome.report, as_json(outcome))
    return outcome


def _place(folder: Path, out: Path | None) -> Path:
    return out or folder / "compact.safetensors"


def _check(folder: Path, path: Path) -> None:
    """Raise unless `folder` is a run of PARSE with its model, and `path` a place for another."""
    algorithm = read_config(folder).algorithm.name
    if algorithm != "parse":
        raise InputError(f"{folder}: this needs a model of parse, found one of {algorithm}")
    if not (folder / "model.safetensors").is_file():
        raise InputError(f"no model at {folder / 'model.safetensors'}: train the run first")
    named = path.suffix == ".safetensors" and not path.is_dir() and not path.with_suffix(".json").is_dir()
    if not named or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        expected = "expected a .safetensors file in a folder that is there and can be written"
        raise InputError(f"cannot write the compact model to {path}: {expected}")
    if path.stem in OF_A_RUN and (path.parent / "config.json").exists():
        kept = ", ".join(OF_A_RUN)
        raise InputError(f"cannot write the compact model to {path}: a run keeps the names {kept} for itself")


def _comparisons(
    full: Model, small: Model, benchmark: Benchmark, device: torch.device, counted: Callable[[int, int], None]
) -> Iterator[Comparison]:
    """Both models on every domain; `counted` is told how many predictions are made, of how many."""
    total = 2 * sum(len(domain.labels) for domain in benchmark.domains)
    done = 0

    def seen(images: int) -> None:
        nonlocal done
        done += images
        counted(done, total)

    models = [model.algorithm.to(device) for model in (full, small)]
    for domain in benchmark.domains:
        before, after = (predict(model, whole(domain), device, seen) for model in models)
        yield compare(domain.name, before, after)


def compare(domain: str, before: Predictions, after: Predictions) -> Comparison:
    """What changed between two predictions of the same images."""
    moved = (after.logits - before.logits).abs()
    return Comparison(
        domain=domain,
        before=score(before),
        after=score(after),
        same_prediction=int((after.logits.argmax(1) == before.logits.argmax(1)).sum()),
        largest_difference=float(moved.max()),
        within_tolerance=bool((moved <= TOLERANCE * before.logits.abs().clamp_min(1)).all()),
    )


def _require_sound(folder: Path, found: Comparison, *, lossless: bool) -> None:
    if not math.isfinite(found.largest_difference):
        raise InputError(f"{folder}: the model's logits on {found.domain} are not finite")
    if lossless and not found.lossless:
        changed = found.before.images - found.same_prediction
        raise NotLosslessError(
            f"{folder}: compaction at threshold 0 must change nothing, but on {found.domain} {changed} of "
            f"{found.before.images} predictions changed and a logit moved by {found.largest_difference:.2g}: "
            "nothing is written"
        )


def as_json(outcome: CompactionOutcome) -> dict[str, Any]:
    """compact.json: counts and fractions, no percentages; a repetition writes the same."""
    report = outcome.compaction
    return {
        "benchmark": {"name": outcome.benchmark, "fingerprint": outcome.fingerprint},
        "target": outcome.target.domain,
        "seed": outcome.seed,
        "threshold": report.threshold,
        "applications": {
            "before": report.applications_before,
            "at_start": outcome.applications_at_start,
            "after": report.applications_after,
        },
        "active_applications_per_class": dict(zip(outcome.classes, report.active_per_class, strict=True)),
        "lambda_parameters": {"before": report.parameters_before, "after": report.parameters_after},
        "reduction": report.reduction,
        "model_parameters": {"before": report.model_parameters_before, "after": report.model_parameters_after},
        "gflops": {"before": report.cost_before.gflops, "after": report.cost_after.gflops},
        "file_bytes": {"before": outcome.size_before, "after": outcome.size_after},
        "images": outcome.images,
        "same_prediction": outcome.same_prediction,
        "largest_logit_difference": outcome.largest_difference,
        "domains": {each.domain: _domain_json(each, each is outcome.target) for each in outcome.comparisons},
    }


def _domain_json(found: Comparison, target: bool) -> dict[str, Any]:
    return {
        "role": "target" if target else "source",
        "images": found.before.images,
        "correct": {"before": found.before.correct, "after": found.after.correct},
        "accuracy": {"before": found.before.fraction, "after": found.after.fraction},
        "same_prediction": found.same_prediction,
        "largest_logit_difference": found.largest_difference,
    }
