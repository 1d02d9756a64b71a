"""Scoring a run's weights: the parts a benchmark is divided into, the accuracy there, and what is said of it."""

import platform
import subprocess
from pathlib import Path
from typing import NamedTuple

import torch

from parse_dg._version import __version__
from parse_dg.data.domain import Benchmark
from parse_dg.data.splits import LeaveOneOut, SplitConfig, Subset, leaked
from parse_dg.deploy.model_file import ModelSpec, build_model
from parse_dg.devices import device_name
from parse_dg.runs.config import RunConfig
from parse_dg.runs.result import (
    BenchmarkVersion,
    Leakage,
    ProtocolReport,
    RunEnvironment,
    RunResult,
    ScoredWeights,
    SplitRecord,
    StageReport,
    TargetAccuracy,
)
from parse_dg.training.accuracy import accuracy
from parse_dg.training.averaging import AveragingReport, ValleyReport
from parse_dg.training.check import Best
from parse_dg.training.protocol import SELECTION_NAMES, ProtocolConfig, protocol_sentences
from parse_dg.training.trainer import Trainer


def target_part(split: SplitConfig) -> str:
    """Which images of the target the result is of, in words."""
    if split.listed:
        return "its test list"
    return "all images" if split.target_images == "all" else f"{100 - 100 * split.holdout:g}% of the images"


def validation_part(split: SplitConfig, protocol: ProtocolConfig) -> str:
    """Which images of a domain the weights are chosen by, in words."""
    if split.validation_domain:
        return f"{100 - 100 * split.holdout:g}% of the images, none trained on"
    return "held-out images, augmented" if protocol.augment_validation else "held-out images"


def scored_subsets(split: LeaveOneOut, protocol: ProtocolConfig) -> dict[str, Subset]:
    """What checks score for the record, named DOMAIN/PART: `in` is 80% of a domain, `out` the rest, `all` both."""
    if protocol.checks == "validation":
        return {}
    scored: dict[str, Subset] = {}
    if split.target:
        scored[f"{split.target.domain.name}/{'in' if split.target_held_out else 'all'}"] = split.target
    if split.target_held_out:
        scored[f"{split.target_held_out.domain.name}/out"] = split.target_held_out
    if protocol.checks == "everything":
        scored |= {f"{subset.domain.name}/in": subset for subset in split.training}
        scored |= {f"{subset.domain.name}/out": subset for subset in split.validation}
    if split.validation_domain:
        scored[f"{split.validation_domain.domain.name}/in"] = split.validation_domain
    return scored


def describe_split(config: RunConfig, benchmark: Benchmark, split: LeaveOneOut) -> SplitRecord:
    """The position, in its domain, of every image that is held out or scored; the others train."""
    target: dict[str, object] = {}
    if split.target:
        everything = len(split.target.indices) == len(split.target.domain.labels)
        target = {split.target.domain.name: "all" if everything else split.target.indices.tolist()}
    return SplitRecord(
        benchmark=BenchmarkVersion.of(benchmark),
        scheme=config.split.scheme,
        trial=config.trial,
        training_images={subset.domain.name: len(subset.indices) for subset in split.training},
        validation=_positions(*split.validation),
        target=target,
        training=_positions(*split.training) if config.split.listed else None,
        target_held_out=_positions(split.target_held_out) if split.target_held_out else None,
        validation_domain=_positions(split.validation_domain) if split.validation_domain else None,
    )


def leakage(split: LeaveOneOut) -> Leakage:
    """How much of the target was trained on in another rendering, or as the same file."""
    if split.target is None:
        return Leakage(images=0, of=0, words="leakage: no domain is held out")
    count, of = leaked(split), len(split.target.indices)
    words = f"{count:,} of the {of:,} images of {split.target.domain.name} that are scored"
    return Leakage(images=count, of=of, words=f"leakage: {words} show a picture that is also trained on")


def _positions(*subsets: Subset) -> dict[str, tuple[int, ...]]:
    return {subset.domain.name: tuple(subset.indices.tolist()) for subset in subsets}


class WeightSelection(NamedTuple):
    """How the weights of a run were chosen, where that is not by a check alone."""

    selection: str
    averaging: AveragingReport | None = None
    step: int | None = None
    """None: that of the check."""
    validated_by: str = ""
    """Whose weights the validation is of, where they are not the same."""
    stages: tuple[StageReport, ...] | None = None


def how_chosen(config: RunConfig, trainer: Trainer) -> WeightSelection:
    """What is to be said of the weights of a plain run, or of averaged ones."""
    by_check, averaged = SELECTION_NAMES[config.protocol.selection], trainer.averaging.report()
    if averaged is None:
        return WeightSelection(by_check)
    if not isinstance(averaged, ValleyReport):
        return WeightSelection(f"{by_check}; weights: {averaged.checks_score}", averaged)
    where = "in the valley of the validation loss" if averaged.converged else "the last, as the loss never rose"
    start, end = averaged.start_step, averaged.end_step
    return WeightSelection(f"SWAD: the mean of the weights of steps {start} to {end}, {where}", averaged, end)


def summarise(
    config: RunConfig,
    benchmark: Benchmark,
    split: LeaveOneOut,
    steps: int,
    scored: ScoredWeights,
    chosen: WeightSelection,
    plain: ScoredWeights | None = None,
) -> RunResult:
    """Which number is the result, on which images, and how the weights were chosen; `plain`: without averaging."""
    known = protocol_sentences(config.protocol, config.split, config.data.target is not None)
    rules = (*known[:-1], f"{chosen.selection}.")
    step = scored.selected_step if chosen.step is None else chosen.step
    return RunResult(
        algorithm=config.algorithm.name,
        benchmark=BenchmarkVersion.of(benchmark),
        domains=tuple(domain.name for domain in benchmark.domains),
        seed=config.seed,
        trial=config.trial,
        **vars(scored) | {"selection": chosen.selection, "selected_step": step},
        validation_part=validation_part(config.split, config.protocol) + chosen.validated_by,
        steps=steps,
        averaging=chosen.averaging,
        stages=chosen.stages,
        protocol=ProtocolReport(name=config.protocol.name, rules=rules),
        leakage=leakage(split),
        without_averaging=plain,
    )


def score_weights(
    config: RunConfig, split: LeaveOneOut, spec: ModelSpec, best: Best, device: torch.device
) -> ScoredWeights:
    """The weights of a check: their accuracy on the target, and how they were chosen."""
    model, check = build_model(spec, best.state), best.check
    model.algorithm.to(device)
    target, oracle, active = None, None, None
    if split.target:
        found = accuracy(model.algorithm, split.target, device)
        target = TargetAccuracy(
            domain=split.target.domain.name,
            part=target_part(config.split),
            share=found.images / len(split.target.domain.labels),
            **vars(found),
        )
    if split.target_held_out and config.protocol.selection == "oracle":
        oracle = accuracy(model.algorithm, split.target_held_out, device)
    if model.explains:
        active = model.parse_network().structure.composition.active().weights > 0
    return ScoredWeights(
        target=target,
        validation=check.validation,
        validation_mean_accuracy=check.mean_accuracy,
        selection=SELECTION_NAMES[config.protocol.selection],
        selected_step=check.step,
        oracle=oracle,
        active_applications=None if active is None else active.shape[1],
        active_applications_per_class=None if active is None else tuple(active.sum(1).tolist()),
    )


def run_environment(device: torch.device, seconds: float, processes: int = 1) -> RunEnvironment:
    """Where a run was trained, and how long that took."""
    return RunEnvironment(
        **environment(),
        device=device_name(device),
        processes=processes,
        threads=torch.get_num_threads(),
        seconds=round(seconds, 1),
        commit=find_commit(Path(__file__).parents[2]),
    )


def find_commit(checkout: Path) -> str | None:
    """The commit that a checkout stands at, `+changes` if its files differ from it; None if it is none."""
    if not (checkout / ".git").exists():
        return None
    git = ["git", "-C", str(checkout), "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+changes"]
    try:
        return subprocess.run(git, capture_output=True, text=True, timeout=20, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def environment() -> dict[str, str]:
    """Versions of what a result depends on."""
    return {"parse_dg": __version__, "python": platform.python_version(), "torch": torch.__version__}
