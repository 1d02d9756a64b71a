"""A class's composition in words: what its score is the sum of, whatever the image."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import fsum
from typing import Any

import torch
from torch import Tensor

from parse_dg.deploy.model_file import Model
from parse_dg.deploy.predictor import Predictor
from parse_dg.explain.explanation import Application, model_of, name_applications
from parse_dg.model.paper_predicates import PREDICATES


@dataclass(frozen=True)
class Term(Application):
    """One relation that a class asks for."""

    weight: float
    """w, the share of the class's composition: the most the relation can add to the score."""


@dataclass(frozen=True)
class ClassComposition:
    """What a class is composed of: all of it, or its strongest relations and what the others come to."""

    name: str
    terms: tuple[Term, ...]
    """Strongest first."""
    relations: int
    """How many relations the class uses, whether `terms` has them or not."""
    families: Mapping[str, float]
    """The share of the weight on presence, binary, ternary and quaternary relations, where it is not 0."""
    rest: float
    """The weight of the relations that `terms` leaves out; the weights of a class sum to one."""

    def sentences(self, top: int | None = None) -> tuple[str, ...]:
        """The `top` strongest relations in words (none: all of them)."""
        return tuple(term.words for term in self.terms[:top])

    def weaker(self, top: int | None) -> tuple[int, float]:
        """How many relations come after the `top` strongest (none: all are), and their weight together."""
        listed = self.terms[:top]
        return self.relations - len(listed), self.rest + fsum(term.weight for term in self.terms[len(listed) :])

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """As JSON data; with `top` the strongest alone are listed, and `rest` says what the others come to."""
        return {
            "name": self.name,
            "relations": self.relations,
            "families": dict(self.families),
            "terms": [term.to_dict() for term in self.terms[:top]],
            "rest": dict(zip(("count", "weight"), self.weaker(top), strict=True)),
        }


@torch.no_grad()
def describe_classes(
    model: Model | Predictor, top: int | None = None, *, presence: bool = True
) -> tuple[ClassComposition, ...]:
    """The compositions of all classes, in their order.

    With hundreds of classes and all of a vocabulary in use, all of it is more than fits into memory: with `top`
    only so many relations of each class are ever named. Without `presence`, "p3 is there" is none of them.
    """
    model = model_of(model)
    structure = model.parse_network().structure
    active = structure.composition.active()
    weights = active.weights.double().cpu()
    shares: dict[str, Tensor] = {}
    ranked, start = weights.clone(), 0
    for part in structure.vocabulary.applications(active.applications):
        columns = slice(start, start + len(part.angle))
        family = PREDICATES[part.predicate].family
        shares[family] = shares.get(family, 0) + weights[:, columns].sum(1)
        if not presence and family == "presence":
            ranked[:, columns] = 0
        start = columns.stop
    strongest = ranked.sort(dim=1, descending=True, stable=True).indices[:, :top]
    used = torch.unique(strongest)  # ascending, as the vocabulary wants them
    numbers = active.applications[used.to(active.applications.device)]
    applications = name_applications(structure, numbers, model.names)
    named = dict(zip(used.tolist(), applications, strict=True))
    compositions = []
    for number, name in enumerate(model.spec.classes):
        row = weights[number].tolist()
        order = [column for column in strongest[number].tolist() if ranked[number, column] > 0]
        terms = tuple(Term(**vars(named[column]), weight=row[column]) for column in order)
        families = {family: float(sums[number]) for family, sums in shares.items() if sums[number] > 0}
        rest = 0.0 if top is None and presence else fsum(row) - fsum(term.weight for term in terms)
        used_by = sum(weight > 0 for weight in row)
        compositions.append(ClassComposition(name, terms, used_by, families, rest))
    return tuple(compositions)
