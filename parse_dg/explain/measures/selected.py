"""What training selected: the relations that classes use at the end, and which of them they did not start with.

A relation is a column of Λ, an application of a predicate, presence among them. A class uses it if its weight is
above zero. Only what a class uses has a gradient from its score, so that most of what it ends with may be what it
was dealt at the start. Letters: C classes, n relations that some class uses.
"""

from dataclasses import dataclass

import torch

from parse_dg.jsonable import Jsonable
from parse_dg.model.composition import ActiveWeights

FIRST = 5
"""Of how many of a class's strongest relations the weight is summed."""


@dataclass(frozen=True, kw_only=True)
class SelectedRelations(Jsonable):
    """The compositions of a model's classes beside those they started from."""

    classes: int
    relations: float
    """How many relations a class uses: the mean over classes."""
    relations_at_start: float | None
    """The same before the first step; None if the model is not of the run's vocabulary, as below."""
    after_start: float | None
    """Of all pairs of a class and a relation it uses, the share of those that it did not use before the first
    step."""
    first_five: float
    """The weight of a class's five strongest relations, as a share of its whole: the mean over classes."""


def selected(end: ActiveWeights, start: ActiveWeights | None) -> SelectedRelations:
    """Relations are compared by the applications they are: those of a compacted model have other columns."""
    used = end.weights > 0
    old = None
    if start is not None:
        at = torch.searchsorted(start.applications, end.applications).clamp_max(len(start.applications) - 1)
        old = (start.weights[:, at] > 0) & (start.applications[at] == end.applications)
    return SelectedRelations(
        classes=len(used),
        relations=float(used.sum() / len(used)),
        relations_at_start=None if start is None else float((start.weights > 0).sum() / len(used)),
        after_start=None if old is None else float((used & ~old).sum() / used.sum()),
        first_five=float(end.weights.double().topk(min(FIRST, used.shape[1])).values.sum(1).mean()),
    )
