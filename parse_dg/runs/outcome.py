"""What a run found, as plain data: lines of metrics.jsonl, result.json, environment.json."""

import math
import platform
from typing import Any

import torch

from parse_dg._version import __version__
from parse_dg.data.domain import Benchmark
from parse_dg.data.splits import LeaveOneOut
from parse_dg.deploy.model_file import ModelSpec, build_model
from parse_dg.devices import device_name
from parse_dg.runs.config import RunConfig
from parse_dg.runs.folder import Result
from parse_dg.runs.parts import leakage, target_part, validation_part
from parse_dg.training.accuracy import Accuracy, accuracy
from parse_dg.training.averaging import SCORED
from parse_dg.training.check import Best, Check
from parse_dg.training.protocol import SELECTION_NAMES, protocol_sentences
from parse_dg.training.trainer import Trainer


def summarise(
    config: RunConfig,
    benchmark: Benchmark,
    split: LeaveOneOut,
    steps: int,
    scored: Result,
    chosen: Result,
) -> Result:
    """result.json: which number is the result, on which images, and how the weights were chosen.

    `scored` is what is said of the weights (`score_weights`); `chosen` is what is said of the choice, and replaces
    what a plain run would say.
    """
    result: Result = {
        "algorithm": config.algorithm.name,
        "benchmark": {"name": benchmark.name, "fingerprint": benchmark.fingerprint},
        "domains": [domain.name for domain in benchmark.domains],
        "seed": config.seed,
        "trial": config.trial,
        **scored,
        "validation_part": validation_part(config.split, config.protocol),
        "steps": steps,
        **chosen,
    }
    rules = [*protocol_sentences(config.protocol, config.split)[:-1], f"{result['selection']}."]
    return result | {"protocol": {"name": config.protocol.name, "rules": rules}, "leakage": leakage(split)}


def score_weights(
    config: RunConfig, split: LeaveOneOut, spec: ModelSpec, best: Best, device: torch.device
) -> Result:
    """What result.json says of the weights of a check: their accuracy on the target, and how they were chosen."""
    model, check = build_model(spec, best.state), best.check
    model.algorithm.to(device)
    target = accuracy(model.algorithm, split.target, device)
    share = target.images / len(split.target.domain.labels)
    result: Result = {
        "target": {
            "domain": config.data.target,
            "part": target_part(config.split),
            "share": share,
            **as_json(target),
        },
        "validation": {name: as_json(value) for name, value in check.validation.items()},
        "validation_mean_accuracy": check.mean_accuracy,
        "selection": SELECTION_NAMES[config.protocol.selection],
        "selected_step": check.step,
    }
    if split.target_held_out and config.protocol.selection == "oracle":
        result["oracle"] = as_json(accuracy(model.algorithm, split.target_held_out, device))
    if model.explains:
        weights = model.parse_network().structure.composition.active().weights
        result["active_applications"] = weights.shape[1]
        result["active_applications_per_class"] = (weights > 0).sum(1).tolist()
    return result


def as_json(value: Accuracy) -> dict[str, Any]:
    """An accuracy as plain data; a fraction, not a percentage. JSON has no word for a loss that is no number."""
    loss = value.loss if math.isfinite(value.loss) else None
    return {"accuracy": value.fraction, "correct": value.correct, "images": value.images, "loss": loss}


def how_chosen(config: RunConfig, trainer: Trainer) -> Result:
    """What result.json says of averaged weights; nothing where there are none."""
    averaged = trainer.averaging.report()
    if averaged is None:
        return {}
    if averaged["kind"] != "swad":
        selection = f"{SELECTION_NAMES[config.protocol.selection]}; weights: {averaged['checks_score']}"
        return {"selection": selection, "averaging": averaged}
    where = "in the valley of the validation loss" if averaged["converged"] else "the last, as the loss never rose"
    start, end = averaged["start_step"], averaged["end_step"]
    return {
        "selection": f"SWAD: the mean of the weights of steps {start} to {end}, {where}",
        "selected_step": end,
        "averaging": averaged,
    }


def metrics_line(trainer: Trainer, check: Check) -> dict[str, Any]:
    """The check that a trainer has just made as a line of metrics.jsonl."""
    kind, plain = trainer.averaging.config.kind, trainer.plain
    return {
        "step": check.step,
        **({"weights": SCORED[kind]} if kind != "none" else {}),
        "training_loss": check.losses,
        "rates": check.rates,
        **_found(check, trainer.best),
        **({"plain": _found(plain, trainer.best_plain)} if plain else {}),
    }


def _found(check: Check, best: Best | None) -> dict[str, Any]:
    """What a check found of the weights it looked at."""
    return {
        "validation": {name: as_json(value) for name, value in check.validation.items()},
        "validation_mean_accuracy": check.mean_accuracy if check.validation else None,
        "best_so_far": best is not None and best.check is check,
        **({"scores": {name: as_json(value) for name, value in check.scores.items()}} if check.scores else {}),
    }


def run_environment(device: torch.device, seconds: float, processes: int = 1) -> dict[str, Any]:
    """environment.json."""
    return {
        **environment(),
        "device": device_name(device),
        "processes": processes,
        "threads": torch.get_num_threads(),
        "seconds": round(seconds, 1),
    }


def environment() -> dict[str, str]:
    """Versions of what a result depends on."""
    return {"parse_dg": __version__, "python": platform.python_version(), "torch": torch.__version__}
