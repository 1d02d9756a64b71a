"""Compaction of the structural layer (appendix C): keep the applications that some class uses, drop the others.

With threshold 0 it is lossless: what is dropped has weight zero in every class, so that every score is the sum of
the same numbers in the same order. Above 0 the weights of a class are the sparsemax of what is left of its row of
Λ: what stays weighs more than before, and a kept application that lay just outside a class's support may enter it.
"""

from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Context

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from parse_dg.config import require
from parse_dg.deploy.cost import ModelCost, cost, count_parameters
from parse_dg.deploy.model_file import COLUMNS, Model, build_model

LAMBDA = "network.structure.composition.weight"


@dataclass(frozen=True, kw_only=True)
class Compaction:
    """What compaction did, in the figures of the paper's tables."""

    threshold: float
    """τ: an application is kept if its weight is above this in some class."""
    applications_before: int
    applications_after: int
    parameters_before: int
    """Of Λ: classes × applications."""
    parameters_after: int
    model_parameters_before: int
    """Of the whole model, with the running statistics of batch normalisation."""
    model_parameters_after: int
    cost_before: ModelCost
    cost_after: ModelCost
    active_per_class: tuple[int, ...]
    """How many applications each class uses, after compaction."""

    @property
    def reduction(self) -> float:
        """The fraction of Λ's parameters that is gone."""
        return 1 - self.parameters_after / self.parameters_before


def compact(model: Model, threshold: float = 0.0) -> tuple[Model, Compaction]:
    """A model with only the active applications, on the CPU; a threshold at which some class would keep none of its
    own is refused.
    """
    require(0 <= threshold < 1, "threshold", threshold, "at least 0 and below 1")
    composition = model.parse_network().structure.composition
    with torch.no_grad():
        active = composition.active()
        kept = active.weights.amax(0) > threshold
        for part in composition.parts:
            inside = (active.columns >= part.first) & (active.columns < part.last)
            _require_every_class(model.spec.classes, active.weights[:, inside], kept[inside], threshold)
        columns = active.columns[kept]
        for_training = model.algorithm.for_training
        state = {n: v.cpu() for n, v in model.algorithm.state_dict().items() if not n.startswith(for_training)}
        state[COLUMNS] = composition.columns[columns].cpu().clone()
        state[LAMBDA] = composition.weight[:, columns].cpu().clone()
        small = build_model(replace(model.spec, algorithm=model.spec.algorithm.for_scoring()), state)
        small = replace(small, names=model.names)
    return small, _report(model, small, threshold)


def _require_every_class(
    classes: tuple[str, ...], weights: Float[Tensor, "C n"], kept: Bool[Tensor, "n"], threshold: float
) -> None:
    """Raise unless every class keeps an application that it uses, of the part of Λ whose weights these are."""
    own = weights > 0
    highest = (own * weights.amax(0)).amax(1)  # per class: the largest weight, in any class, of what it uses
    first = int(highest.argmin())  # the class that loses all of its own before the others do
    limit = Context(prec=4, rounding=ROUND_FLOOR).create_decimal(highest[first].item())
    expected = f"below {limit}, so that class {classes[first]!r} keeps an application of its own"
    require(bool((own & kept).any(1).all()), "threshold", threshold, expected)


def _report(full: Model, small: Model, threshold: float) -> Compaction:
    before, after = (m.parse_network().structure.composition for m in (full, small))
    cost_before = cost(full)
    with torch.no_grad():
        support = after.active().weights > 0
    return Compaction(
        threshold=threshold,
        applications_before=before.weight.shape[1],
        applications_after=after.weight.shape[1],
        parameters_before=before.weight.numel(),
        parameters_after=after.weight.numel(),
        model_parameters_before=count_parameters(full),
        model_parameters_after=count_parameters(small),
        cost_before=cost_before,
        cost_after=replace(cost_before, structure=2 * after.weight.numel()),
        active_per_class=tuple(support.sum(1).tolist()),
    )
