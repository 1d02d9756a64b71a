"""What can be asked of a finished run: its accuracy on named images."""

from dataclasses import dataclass
from pathlib import Path

from parse_dg.data.benchmarks import open_benchmark
from parse_dg.data.splits import leave_one_out, whole
from parse_dg.deploy.model_file import load_model, pick_device
from parse_dg.evaluation.accuracy import Accuracy, accuracy
from parse_dg.experiments.config import RunConfig
from parse_dg.experiments.parts import target_part
from parse_dg.experiments.run import read_config


@dataclass(frozen=True)
class NamedAccuracy:
    """An accuracy, and which images it is of."""

    domain: str
    images: str
    accuracy: Accuracy


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
        split = leave_one_out(benchmark, config.data.target, config.seed, config.split)
        subsets = [(split.target, f"target: {target_part(config.split)}, never seen in training")]
        subsets += [(subset, "source: held-out images") for subset in split.validation]
    return [NamedAccuracy(s.domain.name, role, accuracy(model.algorithm, s, device)) for s, role in subsets]


def _role(config: RunConfig, domain: str) -> str:
    if domain == config.data.target:
        return "target: all images, never seen in training"
    return "source: all images, most of them trained on"
