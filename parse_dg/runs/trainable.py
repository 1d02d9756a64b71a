"""Whether a split can teach a method anything, and what a user should know before it is trained."""

from collections.abc import Iterator, Sequence

import numpy as np

from parse_dg.algorithms import ALGORITHMS
from parse_dg.data.domain import Benchmark
from parse_dg.data.splits import LeaveOneOut, Subset
from parse_dg.errors import InputError
from parse_dg.runs.config import RunConfig
from parse_dg.wording import some


def require_trainable(config: RunConfig, benchmark: Benchmark, split: LeaveOneOut) -> None:
    """Raise where there would be nothing to learn: one class, none of the target's, or one domain for a method that
    compares them.
    """
    if len(present := _classes_of(split.training)) < 2:
        name, only = benchmark.name, benchmark.classes[min(present)]
        found = f"the images of {name} that train are all of one class, {only}"
        raise InputError(f"{found}, which any model gets right: expected two or more in the source domains")
    if split.target and not present & _classes_of([split.target]):
        target, known = split.target.domain.name, some([benchmark.classes[label] for label in sorted(present)])
        raise InputError(f"the target {target} has no image of a class that trains: expected some of {known}")
    if len(split.training) == 1 and config.algorithm.needs_domains:
        one, method = split.training[0].domain.name, config.algorithm.name
        able = ", ".join(name for name, each in ALGORITHMS.items() if not each.needs_domains)
        raise InputError(f"{method} compares source domains, and here is one, {one}: use one of {able}")


def _classes_of(subsets: Sequence[Subset]) -> set[int]:
    return {int(label) for subset in subsets for label in np.unique(subset.domain.labels[subset.indices])}


def cautions(benchmark: Benchmark, split: LeaveOneOut) -> Iterator[str]:
    """What a user should know before it is trained, a line each."""
    if len(split.training) == 1:
        name = split.training[0].domain.name
        yield (
            f"one source domain, {name}: what stays the same from domain to domain cannot be learnt from it, and "
            "validation says nothing of others; `parse-dg evaluate RUN --data FOLDER` scores images from elsewhere"
        )
    if split.target and (alone := _classes_of([split.target]) - _classes_of(split.training)):
        labels = split.target.domain.labels[split.target.indices]
        images, target = int(np.isin(labels, list(alone)).sum()), split.target.domain.name
        names = some([benchmark.classes[label] for label in sorted(alone)])
        yield (
            f"{images:,} of the {len(labels):,} images of the target {target} cannot be learnt: no source "
            f"domain has images of {names} that train; add some, or take these away"
        )
