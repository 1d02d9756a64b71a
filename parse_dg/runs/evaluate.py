"""What can be asked of a finished run: its accuracy on named images."""

from dataclasses import dataclass, replace

from parse_dg.data.splits import LeaveOneOut, Subset, leaked, whole
from parse_dg.runs.config import RunConfig
from parse_dg.runs.opened import OpenedRun
from parse_dg.runs.parts import target_part, validation_part
from parse_dg.training.accuracy import Accuracy, accuracy


@dataclass(frozen=True)
class NamedAccuracy:
    """An accuracy, and which images it is of."""

    domain: str
    images: str
    accuracy: Accuracy


def evaluate_run(run: OpenedRun, domain: str | None = None) -> list[NamedAccuracy]:
    """Accuracy of a run's model on its target and its held-out source images, or on one whole domain."""
    config, model, split = run.config, run.model.algorithm, run.split
    if domain is not None:
        everything = whole(run.benchmark.domain(domain))
        role = "target" if domain == run.target else "source"
        subsets = [(everything, f"{role}: all images, {_seen(split, everything)}")]
    else:
        subsets = scored_parts(config, split)
    return [NamedAccuracy(s.domain.name, words, accuracy(model, s, run.device)) for s, words in subsets]


def scored_parts(config: RunConfig, split: LeaveOneOut) -> list[tuple[Subset, str]]:
    """The images a run is scored and validated on, in words; none of them are augmented here."""
    found = [(split.target, f"target: {target_part(config.split)}, {_seen(split, split.target)}")]
    if split.target_held_out:
        found.append((split.target_held_out, f"target: the others, {_seen(split, split.target_held_out)}"))
    if split.validation_domain:
        found.append((split.validation_domain, f"source: {validation_part(config.split, config.protocol)}"))
    plain = "held-out images, not augmented" if config.protocol.augment_validation else "held-out images"
    return [*found, *((subset, f"source: {plain}") for subset in split.validation)]


def _seen(split: LeaveOneOut, subset: Subset) -> str:
    """How much of a subset was trained on."""
    trained = sum(len(source.indices) for source in split.training if source.domain is subset.domain)
    if trained:
        return f"{'most' if 2 * trained > len(subset.indices) else 'some'} of them trained on"
    again = leaked(replace(split, target=subset))
    return f"{again:,} show a picture that is also trained on" if again else "never seen in training"
