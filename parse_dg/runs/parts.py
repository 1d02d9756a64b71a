"""The parts a run divides its benchmark into: named, written down, searched for pictures on both sides."""

from parse_dg.data.domain import Benchmark
from parse_dg.data.splits import LeaveOneOut, SplitConfig, Subset, leaked
from parse_dg.runs.config import RunConfig
from parse_dg.runs.result import BenchmarkVersion, Leakage, SplitRecord
from parse_dg.training.protocol import ProtocolConfig


def target_part(split: SplitConfig) -> str:
    """Which images of the target the result is of, in words."""
    if split.scheme == "gvrt-split":
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
    part = "in" if split.target_held_out else "all"
    scored = {f"{split.target.domain.name}/{part}": split.target}
    if split.target_held_out:
        scored[f"{split.target.domain.name}/out"] = split.target_held_out
    if protocol.checks == "everything":
        scored |= {f"{subset.domain.name}/in": subset for subset in split.training}
        scored |= {f"{subset.domain.name}/out": subset for subset in split.validation}
    if split.validation_domain:
        scored[f"{split.validation_domain.domain.name}/in"] = split.validation_domain
    return scored


def describe_split(config: RunConfig, benchmark: Benchmark, split: LeaveOneOut) -> SplitRecord:
    """The position, in its domain, of every image that is held out or scored; the others train."""
    listed = config.split.scheme == "gvrt-split"
    return SplitRecord(
        benchmark=BenchmarkVersion(name=benchmark.name, fingerprint=benchmark.fingerprint),
        scheme=config.split.scheme,
        trial=config.trial,
        training_images={subset.domain.name: len(subset.indices) for subset in split.training},
        validation=_positions(*split.validation),
        target={split.target.domain.name: _some(split.target)},
        training=_positions(*split.training) if listed else None,
        target_held_out=_positions(split.target_held_out) if split.target_held_out else None,
        validation_domain=_positions(split.validation_domain) if split.validation_domain else None,
    )


def leakage(split: LeaveOneOut) -> Leakage:
    """How much of the target was trained on in another rendering, or as the same file."""
    count, of = leaked(split), len(split.target.indices)
    words = f"{count:,} of the {of:,} images of {split.target.domain.name} that are scored"
    return Leakage(images=count, of=of, words=f"leakage: {words} show a picture that is also trained on")


def _positions(*subsets: Subset) -> dict[str, tuple[int, ...]]:
    return {subset.domain.name: tuple(subset.indices.tolist()) for subset in subsets}


def _some(subset: Subset) -> list[int] | str:
    everything = len(subset.indices) == len(subset.domain.labels)
    return "all" if everything else subset.indices.tolist()
