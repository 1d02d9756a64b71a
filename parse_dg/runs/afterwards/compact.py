"""A compact form of a finished run's model, and what it changes, measured on every image of the benchmark.

compact.safetensors   the small model
compact.json          what compaction dropped, and how the predictions compare, domain by domain
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

import torch

from parse_dg.data.listing import Progress
from parse_dg.data.splits import whole
from parse_dg.deploy.compaction import compact
from parse_dg.deploy.model_file import Model, save_model
from parse_dg.errors import FailedError, InputError, about
from parse_dg.files import require_writable, write_json
from parse_dg.jsonable import Jsonable
from parse_dg.runs.afterwards.opened import OpenedRun, applications_at_start, open_run
from parse_dg.runs.folder import read_file, read_result
from parse_dg.runs.result import BenchmarkVersion
from parse_dg.training.accuracy import Predictions, predict, score

COMPACT = "compact.safetensors"
TOLERANCE = 1e-6
"""Lossless: no logit moves by more than this, times the logit where that is above 1. A float32 is exact to 6e-8 of
its size, so that this leaves room for about sixteen roundings and for nothing else."""
OF_A_RUN = ("model", "config", "result", "environment")
"""The names, without their endings, of the files that a run keeps for itself."""


class NotLosslessError(FailedError):
    """Compaction at threshold 0 changed what the model says: a promise of ours is broken."""


@dataclass(frozen=True, kw_only=True)
class Counts(Jsonable):
    """A number of things in the full model, and in the compact one."""

    before: int
    after: int


@dataclass(frozen=True, kw_only=True)
class ApplicationCounts(Counts):
    """How many applications there are."""

    FIRST: ClassVar = ("before", "at_start")

    at_start: int | None
    """How many some class used before training; None if that is not known (opened.py) or the model was compact."""


@dataclass(frozen=True, kw_only=True)
class Figures(Jsonable):
    """A figure of the full model, and of the compact one."""

    before: float
    after: float


@dataclass(frozen=True, kw_only=True)
class DomainComparison(Jsonable):
    """Both models on all images of one domain."""

    role: str
    """`target` or `source`."""
    images: int
    correct: Counts
    accuracy: Figures
    same_prediction: int
    """On how many images the predicted class is the same."""
    largest_logit_difference: float


@dataclass(frozen=True, kw_only=True)
class CompactionReport(Jsonable):
    """What compaction of a run's model dropped and changed: compact.json. A repetition writes the same."""

    benchmark: BenchmarkVersion
    target: str
    seed: int
    threshold: float
    applications: ApplicationCounts
    active_applications_per_class: Mapping[str, int]
    """How many each class uses, after compaction."""
    lambda_parameters: Counts
    """Classes × applications."""
    reduction: float
    """The fraction of them that is gone."""
    model_parameters: Counts
    gflops: Figures
    """Of one image."""
    file_bytes: Counts
    images: int
    same_prediction: int
    largest_logit_difference: float
    domains: Mapping[str, DomainComparison]
    """The target first."""

    def __post_init__(self) -> None:
        if self.target not in self.domains:
            raise InputError(f"domains.{self.target} is missing")


class CompactionOutcome(NamedTuple):
    """A compact model that was written, and what is said of it in the .json beside it."""

    path: Path
    report: CompactionReport

    @property
    def report_path(self) -> Path:
        return self.path.with_suffix(".json")


def read_compaction(folder: Path) -> CompactionReport | None:
    """What `parse-dg compact` found of the run in `folder`; None if there is no compact.json."""
    report = read_file(CompactionReport, folder / "compact.json", "what `parse-dg compact` writes")
    result = read_result(folder)
    if report and result and result.benchmark.fingerprint != report.benchmark.fingerprint:
        raise InputError(f"{folder / 'compact.json'} is of other images than the run: compact it again")
    return report


def compact_runs(
    folders: Sequence[Path], out: Path | None, threshold: float, device: str, progress: Progress | None = None
) -> list[CompactionOutcome]:
    """`compact_run` for each of several; what is plainly wrong with one of them is said before any is begun."""
    if len(folders) > 1 and out is not None:
        raise InputError(f"--out names one file, found {len(folders)} runs: without it, each gets its {COMPACT}")
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise InputError("every run must be given once, found one twice")
    runs = [open_run(folder, device=device, progress=progress) for folder in folders]
    for run in runs:
        _check(run, out or run.path / COMPACT)
    return [compact_run(run, out, threshold) for run in runs]


def compact_run(run: OpenedRun, out: Path | None, threshold: float) -> CompactionOutcome:
    """Compact a run's model, compare it with the full one on every image of the benchmark, and write both files.

    With threshold 0 nothing may change: if a prediction does, or a logit beyond `TOLERANCE`, nothing is written.
    """
    path = out or run.path / COMPACT
    _check(run, path)
    full = run.model
    with about(run.path):
        small, found = compact(full, threshold)
    at_start = None if full.compact else applications_at_start(run.config, full)
    compared = _compare_domains(run, small, lossless=threshold == 0)
    state = {name: value.cpu() for name, value in small.algorithm.state_dict().items()}
    save_model(path, small.spec, state, small.names)
    before, after = found.applications_before, found.applications_after
    report = CompactionReport(
        benchmark=BenchmarkVersion.of(run.benchmark),
        target=run.target,
        seed=run.config.seed,
        threshold=found.threshold,
        applications=ApplicationCounts(before=before, at_start=at_start, after=after),
        active_applications_per_class=dict(zip(full.spec.classes, found.active_per_class, strict=True)),
        lambda_parameters=Counts(before=found.parameters_before, after=found.parameters_after),
        reduction=found.reduction,
        model_parameters=Counts(before=found.model_parameters_before, after=found.model_parameters_after),
        gflops=Figures(before=found.cost_before.gflops, after=found.cost_after.gflops),
        file_bytes=Counts(before=(run.path / "model.safetensors").stat().st_size, after=path.stat().st_size),
        images=sum(each.images for each in compared.values()),
        same_prediction=sum(each.same_prediction for each in compared.values()),
        largest_logit_difference=max(each.largest_logit_difference for each in compared.values()),
        domains={run.target: compared[run.target], **compared},
    )
    outcome = CompactionOutcome(path, report)
    write_json(outcome.report_path, report.to_dict())
    return outcome


def _check(run: OpenedRun, path: Path) -> None:
    """Raise unless it is a run of PARSE with a target and its model, and `path` a place for another."""
    folder = run.path
    if run.config.data.target is None:
        instead = f"`parse-dg export {folder}` writes the compact model of it"
        raise InputError(f"{folder} trained on all domains, and both models are compared on the target: {instead}")
    if not run.config.algorithm.explains:
        raise InputError(f"{folder}: this needs a model of parse, found one of {run.config.algorithm.name}")
    if not (folder / "model.safetensors").is_file():
        raise InputError(f"no model at {folder / 'model.safetensors'}: train the run first")
    require_writable(path, "the compact model", (".safetensors",))
    require_writable(path.with_suffix(".json"), "the compact model's report", (".json",))
    if path.stem in OF_A_RUN and (path.parent / "config.json").exists():
        kept = ", ".join(OF_A_RUN)
        raise InputError(f"cannot write the compact model to {path}: a run keeps the names {kept} for itself")


def _compare_domains(run: OpenedRun, small: Model, *, lossless: bool) -> dict[str, DomainComparison]:
    """The full and the small model on every domain; raises where a promise is broken."""
    total = 2 * sum(len(domain.labels) for domain in run.benchmark.domains)
    seen = run.counter(f"comparing {run.path}", total)
    models = [run.model.algorithm, small.algorithm.to(run.device)]
    compared: dict[str, DomainComparison] = {}
    for domain in run.benchmark.domains:
        before, after = (predict(model, whole(domain), run.device, seen) for model in models)
        found = compare("target" if domain.name == run.target else "source", before, after)
        if not math.isfinite(found.largest_logit_difference):
            raise InputError(f"{run.path}: the model's logits on {domain.name} are not finite")
        if lossless and not is_lossless(before, after):
            changed = f"{found.images - found.same_prediction} of {found.images} predictions changed"
            moved = f"on {domain.name} {changed} and a logit moved by {found.largest_logit_difference:.2g}"
            message = "compaction at threshold 0 must change nothing, but"
            raise NotLosslessError(f"{run.path}: {message} {moved}: nothing is written")
        compared[domain.name] = found
    return compared


def compare(role: str, before: Predictions, after: Predictions) -> DomainComparison:
    """What changed between two predictions of the same images."""
    one, other = score(before), score(after)
    return DomainComparison(
        role=role,
        images=one.images,
        correct=Counts(before=one.correct, after=other.correct),
        accuracy=Figures(before=one.accuracy, after=other.accuracy),
        same_prediction=int((after.logits.argmax(1) == before.logits.argmax(1)).sum()),
        largest_logit_difference=float((after.logits - before.logits).abs().max()),
    )


def is_lossless(before: Predictions, after: Predictions) -> bool:
    """Whether no prediction changed, and no logit by more than `TOLERANCE`."""
    same = torch.equal(after.logits.argmax(1), before.logits.argmax(1))
    moved = (after.logits - before.logits).abs()
    return same and bool((moved <= TOLERANCE * before.logits.abs().clamp_min(1)).all())
