"""Compaction of the structural layer (appendix C): keep the applications that some class uses, drop the others.

With threshold 0 it is lossless: what is dropped has weight zero in every class, so that every score is the sum of
the same numbers in the same order.
"""

from dataclasses import dataclass

import torch

from parse_dg.config import require
from parse_dg.deploy.model_file import COLUMNS, Model, build_model

LAMBDA = "network.structure.composition.weight"


@dataclass(frozen=True, kw_only=True)
class Compaction:
    """What compaction did. Parameters are those of Λ, classes × applications, as in the paper's tables."""

    threshold: float
    """τ: an application is kept if its weight is above this in some class."""
    applications_before: int
    applications_after: int
    parameters_before: int
    parameters_after: int
    active_per_class: tuple[int, ...]
    """How many applications each class uses, after compaction."""

    @property
    def reduction(self) -> float:
        """The fraction of parameters that is gone."""
        return 1 - self.parameters_after / self.parameters_before


def compact(model: Model, threshold: float = 0.0) -> tuple[Model, Compaction]:
    """A model with only the active applications; an ordinary model in every other respect."""
    require(0 <= threshold < 1, "threshold", threshold, "at least 0 and below 1")
    composition = model.parse().network.structure.composition
    with torch.no_grad():
        active = composition.active()
        kept = active.columns[active.weights.amax(0) > threshold]
        require(len(kept) > 0, "threshold", threshold, f"below the largest weight {active.weights.max():.3g}")
        state = dict(model.algorithm.state_dict())
        state[COLUMNS] = composition.columns[kept].clone()
        state[LAMBDA] = composition.weight[:, kept].clone()
        small = build_model(model.spec, state)
        support = small.parse().network.structure.composition.active().weights > 0
    classes, before = composition.weight.shape
    report = Compaction(
        threshold=threshold,
        applications_before=before,
        applications_after=len(kept),
        parameters_before=classes * before,
        parameters_after=classes * len(kept),
        active_per_class=tuple(support.sum(1).tolist()),
    )
    return small, report
