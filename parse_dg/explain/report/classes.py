"""What each class is made of, in short: its strongest relations, and how its weight is divided.

`explain/classes.py` says all of it. With hundreds of classes and all of a vocabulary in use that is more than fits
into memory; here only what is shown is ever named.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from parse_dg.deploy.model_file import Model
from parse_dg.explain.classes import Term
from parse_dg.explain.explanation import name_applications
from parse_dg.model.paper_predicates import PREDICATES

TERMS = 8
"""How many relations of a class are named."""


@dataclass(frozen=True, kw_only=True)
class ClassSummary:
    """The beginning of a class's composition."""

    name: str
    relations: int
    """How many it uses."""
    families: Mapping[str, float]
    """The share of the weight on each family, where it is not 0."""
    terms: tuple[Term, ...]
    """The strongest relations, the strongest first."""
    rest: float
    """The weight of all the others together; the weights of a class sum to one."""


@torch.no_grad()
def summarise_classes(model: Model, top: int = TERMS) -> tuple[ClassSummary, ...]:
    """A summary of every class, in their order."""
    structure = model.parse_network().structure
    active = structure.composition.active()
    weights = active.weights.double()
    shares: dict[str, torch.Tensor] = {}
    start = 0
    for part in structure.vocabulary.applications(active.applications):
        columns = slice(start, start + len(part.angle))
        family = PREDICATES[part.predicate].family
        shares[family] = shares.get(family, 0) + weights[:, columns].sum(1)
        start = columns.stop
    strongest = weights.sort(dim=1, descending=True, stable=True).indices[:, :top]
    used = sorted({column for row in strongest.tolist() for column in row})  # as the vocabulary wants them
    named = dict(zip(used, name_applications(structure, active.applications[used]), strict=True))
    summaries = []
    for number, name in enumerate(model.spec.classes):
        row = weights[number]
        terms = tuple(
            Term(**vars(named[c]), weight=float(row[c])) for c in strongest[number].tolist() if row[c] > 0
        )
        summaries.append(
            ClassSummary(
                name=name,
                relations=int((row > 0).sum()),
                families={family: float(sums[number]) for family, sums in shares.items() if sums[number] > 0},
                terms=terms,
                rest=float(row.sum()) - sum(term.weight for term in terms),
            )
        )
    return tuple(summaries)
