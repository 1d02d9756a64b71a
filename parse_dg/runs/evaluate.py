"""What can be asked of a finished run: its accuracy on named images."""

from dataclasses import dataclass, replace
from pathlib import Path

from parse_dg.data.benchmarks import open_benchmark
from parse_dg.data.splits import LeaveOneOut, Subset, leaked, leave_one_out, whole
from parse_dg.deploy.model_file import load_model
from parse_dg.devices import pick_device
from parse_dg.runs.config import RunConfig
from parse_dg.runs.folder import read_config, require_same_images
from parse_dg.runs.parts import target_part, validation_part
from parse_dg.runs.two_stage import all_of_sources
from parse_dg.training.accuracy import Accuracy, accuracy


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
    require_same_images(folder, benchmark)
    split = leave_one_out(benchmark, config.data.target, config.seed, config.split)
    if config.algorithm.trains_twice:
        split = all_of_sources(split)
    if domain is not None:
        everything = whole(benchmark.domain(domain))
        subsets = [(everything, f"{_role(config, domain)}: all images, {_seen(split, everything)}")]
    else:
        subsets = scored_parts(config, split)
    return [NamedAccuracy(s.domain.name, role, accuracy(model.algorithm, s, device)) for s, role in subsets]


def scored_parts(config: RunConfig, split: LeaveOneOut) -> list[tuple[Subset, str]]:
    """The images a run is scored and validated on, in words; none of them are augmented here."""
    found = [(split.target, f"target: {target_part(config.split)}, {_seen(split, split.target)}")]
    if split.target_held_out:
        found.append((split.target_held_out, f"target: the others, {_seen(split, split.target_held_out)}"))
    if split.validation_domain:
        found.append((split.validation_domain, f"source: {validation_part(config.split, config.protocol)}"))
    plain = "held-out images, not augmented" if config.protocol.augment_validation else "held-out images"
    return [*found, *((subset, f"source: {plain}") for subset in split.validation)]


def _role(config: RunConfig, domain: str) -> str:
    return "target" if domain == config.data.target else "source"


def _seen(split: LeaveOneOut, subset: Subset) -> str:
    """How much of a subset was trained on."""
    trained = sum(len(source.indices) for source in split.training if source.domain is subset.domain)
    if trained:
        return f"{'most' if 2 * trained > len(subset.indices) else 'some'} of them trained on"
    again = leaked(replace(split, target=subset))
    return f"{again:,} show a picture that is also trained on" if again else "never seen in training"
