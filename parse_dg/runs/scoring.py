"""Scoring a run's weights on the target, and what is said of them in result.json and environment.json."""

import platform
from typing import NamedTuple

import torch

from parse_dg._version import __version__
from parse_dg.data.domain import Benchmark
from parse_dg.data.splits import LeaveOneOut
from parse_dg.deploy.model_file import ModelSpec, build_model
from parse_dg.devices import device_name
from parse_dg.runs.config import RunConfig
from parse_dg.runs.parts import leakage, target_part, validation_part
from parse_dg.runs.result import (
    BenchmarkVersion,
    ProtocolReport,
    RunEnvironment,
    RunResult,
    ScoredWeights,
    StageReport,
    TargetAccuracy,
)
from parse_dg.training.accuracy import accuracy
from parse_dg.training.averaging import AveragingReport, ValleyReport
from parse_dg.training.check import Best
from parse_dg.training.protocol import SELECTION_NAMES, protocol_sentences
from parse_dg.training.trainer import Trainer


class WeightSelection(NamedTuple):
    """How the weights of a run were chosen, where that is not by a check alone."""

    selection: str
    """In words."""
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
    rules = (*protocol_sentences(config.protocol, config.split)[:-1], f"{chosen.selection}.")
    step = scored.selected_step if chosen.step is None else chosen.step
    return RunResult(
        algorithm=config.algorithm.name,
        benchmark=BenchmarkVersion(name=benchmark.name, fingerprint=benchmark.fingerprint),
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
    target = accuracy(model.algorithm, split.target, device)
    oracle, active = None, None
    if split.target_held_out and config.protocol.selection == "oracle":
        oracle = accuracy(model.algorithm, split.target_held_out, device)
    if model.explains:
        active = model.parse_network().structure.composition.active().weights > 0
    return ScoredWeights(
        target=TargetAccuracy(
            domain=config.data.target,
            part=target_part(config.split),
            share=target.images / len(split.target.domain.labels),
            **vars(target),
        ),
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
    )


def environment() -> dict[str, str]:
    """Versions of what a result depends on."""
    return {"parse_dg": __version__, "python": platform.python_version(), "torch": torch.__version__}
