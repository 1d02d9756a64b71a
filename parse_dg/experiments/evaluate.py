"""What can be asked of a finished run: its accuracy, and a compact form of its model."""

from dataclasses import dataclass
from pathlib import Path

import torch

from parse_dg.data.benchmarks import open_benchmark
from parse_dg.data.splits import leave_one_out, whole
from parse_dg.deploy.compaction import Compaction, compact
from parse_dg.deploy.model_file import load_model, pick_device, save_model
from parse_dg.errors import InputError
from parse_dg.evaluation.accuracy import Accuracy, accuracy, predict, score
from parse_dg.experiments.config import RunConfig
from parse_dg.experiments.run import read_config


@dataclass(frozen=True)
class NamedAccuracy:
    """An accuracy, and which images it is of."""

    domain: str
    images: str
    accuracy: Accuracy


@dataclass(frozen=True)
class CompactionOutcome:
    """A compaction, and how the small model's predictions compare with the full one's on all images."""

    compaction: Compaction
    path: Path
    size_before: int
    """Bytes of the model file."""
    size_after: int
    images: int
    same_prediction: int
    """On how many images the predicted class is the same."""
    largest_difference: float
    """The largest absolute difference of a logit."""
    target: str
    target_before: Accuracy
    target_after: Accuracy


def evaluate_run(
    folder: Path, model_file: Path | None, domain: str | None, device_name: str
) -> list[NamedAccuracy]:
    """Accuracy of a run's model on its target and its held-out source images, or on one whole domain."""
    config = read_config(folder)
    model = load_model(model_file or folder)
    device = pick_device(device_name)
    model.algorithm.to(device)
    benchmark = open_benchmark(config.data)
    if domain is not None:
        subsets = [(whole(benchmark.domain(domain)), _role(config, domain))]
    else:
        split = leave_one_out(benchmark, config.data.target, config.seed, config.data.holdout)
        subsets = [(split.target, "target: all images, never seen in training")]
        subsets += [(subset, "source: held-out images") for subset in split.validation]
    return [NamedAccuracy(s.domain.name, role, accuracy(model.algorithm, s, device)) for s, role in subsets]


def compact_run(folder: Path, out: Path | None, threshold: float) -> CompactionOutcome:
    """Compact a run's model, compare it with the full one on every image of the benchmark, and write it."""
    config = read_config(folder)
    full = load_model(folder)
    path = out or folder / "compact.safetensors"
    if path.is_dir() or not path.parent.is_dir() or path.resolve() == (folder / "model.safetensors").resolve():
        raise InputError(f"cannot write the compact model to {path}: expected a new file in a folder that is there")
    small, report = compact(full, threshold)
    benchmark = open_benchmark(config.data)
    images = same = 0
    largest = 0.0
    before: dict[str, Accuracy] = {}
    after: dict[str, Accuracy] = {}
    for domain in benchmark.domains:
        one, other = (predict(model.algorithm, whole(domain), torch.device("cpu")) for model in (full, small))
        images += len(one.labels)
        same += int((one.logits.argmax(1) == other.logits.argmax(1)).sum())
        largest = max(largest, float((one.logits - other.logits).abs().max()))
        before[domain.name], after[domain.name] = score(one), score(other)
    save_model(path, small.spec, dict(small.algorithm.state_dict()))
    target = config.data.target
    return CompactionOutcome(
        compaction=report,
        path=path,
        size_before=(folder / "model.safetensors").stat().st_size,
        size_after=path.stat().st_size,
        images=images,
        same_prediction=same,
        largest_difference=largest,
        target=target,
        target_before=before[target],
        target_after=after[target],
    )


def _role(config: RunConfig, domain: str) -> str:
    if domain == config.data.target:
        return "target: all images, never seen in training"
    return "source: all images, most of them trained on"
