"""One run: a configuration becomes a folder of results.

config.json         everything needed to repeat the run
split.json          which images of which domain were held out, and which of the target are scored
metrics.jsonl       a line for every check: loss terms, rates, accuracy on the held-out source images; of both
                    stages, where there are two
model.safetensors   the weights of the best check, or an average of weights where that is what is trained for
result.json         accuracy of those weights, on which images, selected how
environment.json    versions, hardware and time; the one file that differs when a run is repeated
"""

import json
import math
import platform
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from parse_dg._version import __version__
from parse_dg.algorithms import build_algorithm
from parse_dg.algorithms.erm_plus_plus import ErmPlusPlusConfig
from parse_dg.algorithms.gvrt import learn_vocabulary
from parse_dg.config import from_dict, to_dict
from parse_dg.data.benchmarks import open_benchmark
from parse_dg.data.domain import Benchmark
from parse_dg.data.loader import TrainingBatches
from parse_dg.data.sampling import Sampler
from parse_dg.data.splits import LeaveOneOut, leave_one_out, seed_hash
from parse_dg.deploy.model_file import Model, ModelSpec, build_model, pick_device, save_model
from parse_dg.errors import InputError
from parse_dg.evaluation.accuracy import Accuracy, accuracy
from parse_dg.evaluation.protocol import SELECTIONS, describe
from parse_dg.experiments.config import RunConfig
from parse_dg.experiments.parts import describe_split, leakage, scored_subsets, target_part, validation_part
from parse_dg.experiments.two_stage import (
    SELECTION,
    all_of_sources,
    describe_stages,
    has_two_stages,
    name_whole,
    train_in_two_stages,
)
from parse_dg.model.backbone import build_backbone
from parse_dg.training.averaging import SCORED
from parse_dg.training.trainer import Best, Check, NonFiniteLossError, Observer, Trainer

Result = dict[str, Any]

OF_A_RESULT = (
    *("algorithm", "benchmark", "domains", "seed", "trial", "target", "validation", "validation_part"),
    *("validation_mean_accuracy", "selection", "selected_step", "steps", "protocol", "leakage"),
)
"""What every result.json has."""


def prepare(config: RunConfig, benchmark: Benchmark | None = None) -> tuple[Benchmark, LeaveOneOut]:
    """The benchmark of a run and its split; raises before anything is written if the configuration is wrong."""
    benchmark = benchmark or open_benchmark(config.data)
    return benchmark, leave_one_out(benchmark, config.data.target, config.seed, config.split)


def count_steps(config: RunConfig, split: LeaveOneOut) -> int:
    """How many steps the run has."""
    images = sum(len(source.indices) for source in split.training)
    return config.training.total_steps(images, len(split.training))


def execute(config: RunConfig, folder: Path, observe: Observer, benchmark: Benchmark | None = None) -> Result:
    """Train, keep the best, score it on the target, and write it all to `folder`.

    A finished run of the same configuration is returned as it is; an unfinished one is started again; a folder
    that holds a run of another configuration is refused.
    """
    finished = read_finished(config, folder)
    if finished is not None:
        return finished
    started = time.monotonic()
    benchmark, split = prepare(config, benchmark)
    device = pick_device(config.training.device)
    trainer = build_trainer(config, benchmark, split, device)
    spec = ModelSpec(
        backbone=replace(config.backbone, weights=None),
        algorithm=config.algorithm,
        classes=benchmark.classes,
        image_size=benchmark.image_size,
        domains=len(split.training),
    )
    _claim(folder, config)
    write_json(folder / "split.json", describe_split(config, benchmark, split))
    if has_two_stages(config):
        best, chosen = _fit_twice(config, benchmark, split, trainer, folder, spec, observe)
        split = all_of_sources(split)
    else:
        best = _fit(trainer, folder, spec, observe)
        chosen = _how_chosen(config, trainer)
    save_model(folder / "model.safetensors", spec, best.state)
    model = build_model(spec, best.state)
    model.algorithm.to(device)
    result = summarise(config, benchmark, split, best.check, trainer.steps, model, device, chosen)
    write_json(folder / "environment.json", _environment(device, time.monotonic() - started))
    write_json(folder / "result.json", result)
    return result


def build_trainer(
    config: RunConfig, benchmark: Benchmark, split: LeaveOneOut, device: torch.device, steps: int | None = None
) -> Trainer:
    """A trainer whose every draw comes from generators seeded by the configuration; `steps` replaces its own."""
    start, order, augment, draws = (
        torch.Generator().manual_seed(seed_hash(config.seed, purpose))
        for purpose in ("start", "order", "augment", "draws")
    )
    vocabulary = learn_vocabulary(config.algorithm, split.training)
    algorithm = build_algorithm(
        build_backbone(config.backbone, config.mixstyle, start),
        len(benchmark.classes),
        config.algorithm,
        label_smoothing=config.training.label_smoothing,
        generator=start,
        domains=len(split.training),
        vocabulary=vocabulary,
    )
    sampler = Sampler(
        split.training,
        config.training.batch_per_domain,
        config.sampling,
        config.augment,
        order=order,
        draws=augment,
        captions=vocabulary is not None,
    )
    return Trainer(
        algorithm,
        TrainingBatches(sampler, benchmark.image_size, device, vocabulary),
        (split.validation_domain,) if split.validation_domain else split.validation,
        steps=count_steps(config, split) if steps is None else steps,
        training=config.training,
        optimizer=config.optimizer,
        augment=config.augment,
        generator=draws,
        device=device,
        image_size=benchmark.image_size,
        averaging=config.averaging,
        protocol=config.protocol,
        scored=scored_subsets(split, config.protocol),
        sources={source.domain.name for source in split.training},
        seed=config.seed,
    )


def summarise(
    config: RunConfig,
    benchmark: Benchmark,
    split: LeaveOneOut,
    check: Check,
    steps: int,
    model: Model,
    device: torch.device,
    chosen: Result,
) -> Result:
    """result.json: which number is the result, on which images, and how the weights were chosen.

    `chosen` is what is said of the choice, and replaces what a plain run would say.
    """
    target = accuracy(model.algorithm, split.target, device)
    share = target.images / len(split.target.domain.labels)
    result: Result = {
        "algorithm": config.algorithm.name,
        "benchmark": {"name": benchmark.name, "fingerprint": benchmark.fingerprint},
        "domains": [domain.name for domain in benchmark.domains],
        "seed": config.seed,
        "trial": config.trial,
        "target": {
            "domain": config.data.target,
            "part": target_part(config.split),
            "share": share,
            **as_json(target),
        },
        "validation": {name: as_json(value) for name, value in check.validation.items()},
        "validation_part": validation_part(config.split, config.protocol),
        "validation_mean_accuracy": check.mean_accuracy,
        "selection": SELECTIONS[config.protocol.selection],
        "selected_step": check.step,
        "steps": steps,
        **chosen,
    }
    rules = [*describe(config.protocol, config.split)[:-1], f"{result['selection']}."]
    result |= {"protocol": {"name": config.protocol.name, "rules": rules}, "leakage": leakage(split)}
    if split.target_held_out and config.protocol.selection == "oracle":
        result["oracle"] = as_json(accuracy(model.algorithm, split.target_held_out, device))
    if config.algorithm.name == "parse":
        weights = model.parse().network.structure.composition.active().weights
        result["active_applications"] = weights.shape[1]
        result["active_applications_per_class"] = (weights > 0).sum(1).tolist()
    return result


def as_json(value: Accuracy) -> dict[str, Any]:
    """An accuracy as plain data; a fraction, not a percentage. JSON has no word for a loss that is no number."""
    loss = value.loss if math.isfinite(value.loss) else None
    return {"accuracy": value.fraction, "correct": value.correct, "images": value.images, "loss": loss}


def read_finished(config: RunConfig, folder: Path) -> Result | None:
    """The result of a finished run of this configuration in `folder`, if it is there."""
    found = folder / "config.json"
    if not found.exists():
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise InputError(f"{folder} exists and is not a run: choose another folder with --out")
        return None
    if read_config(folder) != config:
        raise InputError(f"{folder} holds a run of another configuration: choose another folder with --out")
    return read_result(folder)


def read_result(folder: Path) -> Result | None:
    """The result of the run in `folder`, or None if it is not finished."""
    path = folder / "result.json"
    if not path.exists():
        return None
    result = read_json(path)
    missing = [name for name in OF_A_RESULT if not isinstance(result, dict) or name not in result]
    if missing:
        raise InputError(f"{path} must hold the result of a run, found none of its {', '.join(missing)}")
    return dict(result)


def require_same_images(folder: Path, benchmark: Benchmark) -> None:
    """Raise if the run in `folder` was made of another version of the data set than is here now."""
    path = next((path for name in ("split.json", "result.json") if (path := folder / name).exists()), None)
    if path is None:
        return
    try:
        known = str(read_json(path)["benchmark"]["fingerprint"])
    except (KeyError, TypeError) as error:
        raise InputError(f"{path} must say which images the run is of: benchmark.fingerprint is missing") from error
    if known != benchmark.fingerprint:
        raise InputError(
            f"{folder} is a run on other images: {benchmark.name} had the fingerprint {known[:16]} then and has "
            f"{benchmark.fingerprint[:16]} now. Bring the images back, or train again"
        )


def read_config(folder: Path) -> RunConfig:
    """The configuration of the run in `folder`."""
    path = folder / "config.json"
    if not path.is_file():
        raise InputError(f"{folder} is not a run: expected a folder with config.json")
    data = read_json(path)
    try:
        return from_dict(RunConfig, data)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def read_json(path: Path) -> Any:
    """The data of a JSON file."""
    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not valid JSON: {error}") from error


def write_json(path: Path, data: Any) -> None:
    """Write under a temporary name, then rename: the file is whole or not there."""
    temporary = path.with_name(f"{path.name}.writing")
    temporary.write_text(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
    temporary.replace(path)


def _claim(folder: Path, config: RunConfig) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "config.json", to_dict(config))
        (folder / "metrics.jsonl").write_text("")
    except OSError as error:
        raise InputError(f"cannot write to {folder}: {error.strerror or error}") from error


def _fit(trainer: Trainer, folder: Path, spec: ModelSpec, observe: Observer, **also: int) -> Best:
    """Train, with a line in metrics.jsonl for every check; `also` opens every line."""
    with (folder / "metrics.jsonl").open("a") as metrics:

        def record(step: int, check: Check | None) -> None:
            if check:
                best = trainer.best is not None and trainer.best.check is check
                line = {**also, **_metrics(check, best, trainer.averaging.config.kind)}
                metrics.write(json.dumps(line, allow_nan=False) + "\n")
                metrics.flush()
            observe(step, check)

        try:
            return trainer.fit(record)
        except (NonFiniteLossError, KeyboardInterrupt):
            if trainer.best:
                save_model(folder / "model.safetensors", spec, trainer.best.state)
            raise


def _fit_twice(
    config: RunConfig,
    benchmark: Benchmark,
    split: LeaveOneOut,
    trainer: Trainer,
    folder: Path,
    spec: ModelSpec,
    observe: Observer,
) -> tuple[Best, Result]:
    """Both stages of ERM++: the second's weights with the first's last check, and what is said of them."""
    assert isinstance(config.algorithm, ErmPlusPlusConfig)

    def second() -> Trainer:
        other = build_trainer(config, benchmark, all_of_sources(split), trainer.device, trainer.steps)
        other.scored = name_whole(other.scored, other.sources)
        return other

    def fit(stage: int, of_stage: Trainer, steer: Observer) -> Best:
        def both(step: int, check: Check | None) -> None:
            observe(step, check)
            steer(step, check)

        return _fit(of_stage, folder, spec, both, stage=stage)

    stages = train_in_two_stages(trainer, config.algorithm.linear_steps, second, fit)
    averaged = trainer.averaging.report()
    chosen = {
        "validation_part": f"{validation_part(config.split, config.protocol)}, by the weights of stage 1",
        "selection": SELECTION,
        **({"averaging": averaged} if averaged else {}),
        "stages": describe_stages(stages),
    }
    return Best(stages.first, stages.second.state), chosen


def _how_chosen(config: RunConfig, trainer: Trainer) -> Result:
    """What result.json says of averaged weights; nothing where there are none."""
    averaged = trainer.averaging.report()
    if averaged is None:
        return {}
    if averaged["kind"] != "swad":
        selection = f"{SELECTIONS[config.protocol.selection]}; weights: {averaged['checks_score']}"
        return {"selection": selection, "averaging": averaged}
    where = "in the valley of the validation loss" if averaged["converged"] else "the last, as the loss never rose"
    start, end = averaged["start_step"], averaged["end_step"]
    return {
        "selection": f"SWAD: the mean of the weights of steps {start} to {end}, {where}",
        "selected_step": end,
        "averaging": averaged,
    }


def _metrics(check: Check, best: bool, averaging: str) -> dict[str, Any]:
    return {
        "step": check.step,
        **({"weights": SCORED[averaging]} if averaging != "none" else {}),
        "training_loss": check.losses,
        "validation": {name: as_json(value) for name, value in check.validation.items()},
        "validation_mean_accuracy": check.mean_accuracy if check.validation else None,
        "best_so_far": best,
        "rates": check.rates,
        **({"scores": {name: as_json(value) for name, value in check.scores.items()}} if check.scores else {}),
    }


def _environment(device: torch.device, seconds: float) -> dict[str, Any]:
    return {
        **environment(),
        "device": device_name(device),
        "threads": torch.get_num_threads(),
        "seconds": round(seconds, 1),
    }


def environment() -> dict[str, str]:
    """Versions of what a result depends on."""
    return {"parse_dg": __version__, "python": platform.python_version(), "torch": torch.__version__}


def device_name(device: torch.device) -> str:
    """What the device is called by its maker, where that is known."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else f"{device.type} ({platform.machine()})"
