"""A trained model on labelled images that the run did not have: a folder, a list or an added data set.

Nothing is learnt from them and nothing is chosen by them: a threshold for abstaining comes from the images that the
run held out of its source domains.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int

from parse_dg.config import require
from parse_dg.data.benchmarks import GENERATED_DATA_SETS, DataConfig, benchmark_name, open_benchmark
from parse_dg.data.domain import Benchmark, Domain
from parse_dg.data.intake.own import plain_spelling
from parse_dg.data.splits import Subset
from parse_dg.errors import InputError, about
from parse_dg.jsonable import Jsonable
from parse_dg.runs.afterwards.opened import OpenedRun
from parse_dg.training.accuracy import Predictions, predict
from parse_dg.training.measures import LEGEND, PredictionScores, Proportion, join, kept_from, measure, threshold_for
from parse_dg.wording import plural, some


@dataclass(frozen=True, kw_only=True)
class KeptImages(Jsonable):
    """What abstaining keeps of some images."""

    of: str
    """Which images."""
    images: int
    """How many there are."""
    kept: int
    correct: Proportion | None
    """Of those that are kept; None where there are none."""


@dataclass(frozen=True, kw_only=True)
class Abstention(Jsonable):
    """What a model that stays silent where it is less sure keeps, and how right it is there."""

    precision: float
    """What was wanted, as a fraction."""
    threshold: float | None
    """The least confidence with which it answers; None: it never reaches the precision."""
    validation: KeptImages
    """The images that the threshold was found on."""
    new: tuple[KeptImages, ...]
    """All new images; where they are of several domains, then those of each."""


@dataclass(frozen=True, kw_only=True)
class Evaluation(Jsonable):
    """What was found on new images: evaluation.json."""

    algorithm: str
    model: str
    data: str
    fingerprint: str
    """Of all its images."""
    model_classes: tuple[str, ...]
    legend: str
    """What the numbers are."""
    notes: tuple[str, ...]
    """What a reader has to know of these images, a sentence each."""
    scores: PredictionScores
    domains: tuple[PredictionScores, ...]
    abstention: Abstention | None = None

    @property
    def name(self) -> str:
        """For a folder: of the data, with the beginning of its fingerprint."""
        return f"{Path(self.data).name}-{self.fingerprint[:8]}"


def evaluate_new(
    run: OpenedRun, data: str | Path, *, domain: str | None = None, abstain: float | None = None
) -> Evaluation:
    """Score the run's model on labelled images, or on one domain of them; `abstain` is a wanted precision."""
    if abstain is not None:
        require(0 < abstain < 1, "--abstain", abstain, "a precision between 0 and 1, such as 0.95")
    spec = run.model.spec
    name = benchmark_name(str(data))
    seen_as = DataConfig(benchmark=name, image_size=spec.image_size, fit=spec.fit, store="never")
    if spec.resize_to:
        seen_as = replace(seen_as, crop_from=spec.resize_to, evaluation="centre")
    benchmark = open_benchmark(seen_as, run.progress)
    require(benchmark.image_size == spec.image_size, name, benchmark.image_size, f"{spec.image_size} pixels wide")
    asked = benchmark.domains if domain is None else (benchmark.domain(domain),)
    labels = _match(benchmark, spec.classes)
    known = (Subset(each, np.flatnonzero(labels[each.labels] >= 0)) for each in asked)
    parts = [part for part in known if len(part.indices)]
    if not parts:
        found = f"it has {some(benchmark.classes)}, the model {some(spec.classes)}"
        raise InputError(f"{name} has no image of a class that the model knows: {found}")
    total = sum(len(part.indices) for part in parts)
    seen = run.counter(f"predicting {benchmark.name}", total)
    predictions: dict[str, Predictions] = {}
    for part in parts:
        logits, classes = predict(run.model.algorithm, part, run.device, seen)
        predictions[part.domain.name] = Predictions(logits, torch.from_numpy(labels)[classes])
    everything = f"{total:,} labelled images of {benchmark.name}"
    scores = (
        measure(n, f"{len(each.labels):,} labelled images of {benchmark.name}, {n}", each, spec.classes)
        for n, each in predictions.items()
    )
    return Evaluation(
        algorithm=spec.algorithm.name,
        model=str(run.model_file or run.path),
        data=name,
        fingerprint=benchmark.fingerprint,
        model_classes=spec.classes,
        legend=LEGEND,
        notes=tuple(_notes(run, benchmark, asked, parts, labels)),
        scores=measure(benchmark.name, everything, join(predictions.values()), spec.classes),
        domains=tuple(scores),
        abstention=None if abstain is None else _abstain(run, abstain, everything, predictions),
    )


def _match(benchmark: Benchmark, classes: Sequence[str]) -> Int[np.ndarray, "n"]:
    """The model's label of every class of the images; -1: it does not know it."""
    labels = {plain_spelling(name): label for label, name in enumerate(classes)}
    labels |= {name: label for label, name in enumerate(classes)}
    return np.array([labels.get(n, labels.get(plain_spelling(n), -1)) for n in benchmark.classes], dtype=np.int64)


def _notes(
    run: OpenedRun,
    benchmark: Benchmark,
    asked: Sequence[Domain],
    parts: Sequence[Subset],
    labels: Int[np.ndarray, "n"],
) -> list[str]:
    classes = run.model.spec.classes
    found = np.unique(np.concatenate([domain.labels for domain in asked]))
    notes = [_trained_on(run, parts)]
    strange = [benchmark.classes[label] for label in found if labels[label] < 0]
    if strange:
        left = sum(len(domain.labels) for domain in asked) - sum(len(part.indices) for part in parts)
        whose = "of a class" if len(strange) == 1 else f"of {len(strange):,} classes"
        notes.append(f"{plural(left, 'image')} {whose} that the model does not know, not scored: {some(strange)}")
    present = set(labels[found].tolist()) - {-1}
    missing = [name for label, name in enumerate(classes) if label not in present]
    if len(present) == 1:
        notes.append(f"all images are of one class, {classes[present.pop()]}: precision, and so F1, says nothing")
    elif missing:
        means = f"balanced accuracy and F1 are means over the {len(present)} classes that have some"
        notes.append(f"there is no image of {some(missing)}: {means}")
    spelt = [(benchmark.classes[i], classes[labels[i]]) for i in found if labels[i] >= 0]
    other = [f"{here} as the model's {there}" for here, there in spelt if here != there]
    return [*notes, f"scored by another spelling: {some(other)}"] if other else notes


def _trained_on(run: OpenedRun, parts: Sequence[Subset]) -> str:
    """Whether the run knows some of these files: then their accuracy says little about others."""
    try:
        drawn = run.config.data.benchmark in GENERATED_DATA_SETS  # and no files
        known = [] if drawn else [*run.split.training, *run.split.validation]
    except InputError:  # the model alone is here, or the run's images are not
        return "whether the run trained on some of these images is not known: its own images are not here"
    seen = {each.domain.digests[i] for each in known if each.domain.digests for i in each.indices}
    digests = [part.domain.digests[i] for part in parts if part.domain.digests for i in part.indices]
    again = sum(digest in seen for digest in digests)
    if not seen or not digests:
        return "whether the run trained on some of these images is not known: its own, or these, are no files"
    if again:
        known_files = "are files that the run trained on or validated by"
        return f"{again:,} of the images {known_files}: how it does on them says nothing of others"
    return "none of the images is a file that the run trained on or validated by"


def _abstain(
    run: OpenedRun, precision: float, everything: str, predictions: Mapping[str, Predictions]
) -> Abstention:
    """A threshold from the images that the run held out of its source domains, and what it does to the new ones."""
    with about("--abstain needs the run's own validation images"):
        split = run.split
        held = (split.validation_domain,) if split.validation_domain else split.validation
        if not held:
            raise InputError(f"{run.path} has none, as all images of its source domains trained")
    found = join([predict(run.model.algorithm, subset, run.device) for subset in held])
    names = ", ".join(subset.domain.name for subset in held)
    of = f"the source validation images of {names}, never trained on, not augmented"
    threshold = threshold_for(precision, found)
    new = {everything: join(predictions.values()), **(predictions if len(predictions) > 1 else {})}
    return Abstention(
        precision=precision,
        threshold=threshold,
        validation=_kept(of, found, threshold),
        new=tuple(_kept(name, each, threshold) for name, each in new.items()),
    )


def _kept(of: str, predictions: Predictions, threshold: float | None) -> KeptImages:
    correct = None if threshold is None else kept_from(threshold, predictions)
    return KeptImages(of=of, images=len(predictions.labels), kept=correct.images if correct else 0, correct=correct)
