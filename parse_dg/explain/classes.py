"""A class's composition in words: what its score is the sum of, whatever the image."""

from dataclasses import dataclass
from math import fsum
from typing import Any

import torch

from parse_dg.deploy.model_file import Model
from parse_dg.deploy.predictor import Predictor
from parse_dg.errors import unknown
from parse_dg.explain.explanation import Application, model_of, name_applications


@dataclass(frozen=True)
class Term(Application):
    """One relation that a class asks for."""

    weight: float
    """w, the share of the class's composition: the most the relation can add to the score."""


@dataclass(frozen=True)
class ClassComposition:
    """All that a class is composed of."""

    name: str
    terms: tuple[Term, ...]
    """Strongest first; the weights sum to one."""

    @property
    def families(self) -> dict[str, float]:
        """The share of the weight on presence, binary, ternary and quaternary relations, where it is not 0."""
        shares: dict[str, float] = {}
        for term in self.terms:
            shares[term.family] = shares.get(term.family, 0.0) + term.weight
        return shares

    def sentences(self, top: int | None = None) -> tuple[str, ...]:
        """The `top` strongest relations in words (none: all of them)."""
        return tuple(term.words for term in self.terms[:top])

    def weaker(self, top: int | None) -> tuple[int, float]:
        """How many relations come after the `top` strongest (none: all are), and their weight together."""
        others = self.terms[len(self.terms) if top is None else top :]
        return len(others), fsum(term.weight for term in others)

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """As JSON data; with `top` the strongest alone are listed, and `rest` says what the others come to."""
        return {
            "name": self.name,
            "relations": len(self.terms),
            "families": self.families,
            "terms": [term.to_dict() for term in self.terms[:top]],
            "rest": dict(zip(("count", "weight"), self.weaker(top), strict=True)),
        }


@torch.no_grad()
def describe_classes(model: Model | Predictor) -> tuple[ClassComposition, ...]:
    """The compositions of all classes, in their order."""
    model = model_of(model)
    structure = model.parse_network().structure
    active = structure.composition.active()
    applications = name_applications(structure, active.applications)
    compositions = []
    for name, weights in zip(model.spec.classes, active.weights.tolist(), strict=True):
        used = [Term(**vars(of), weight=w) for of, w in zip(applications, weights, strict=True) if w > 0]
        compositions.append(ClassComposition(name, tuple(sorted(used, key=lambda term: -term.weight))))
    return tuple(compositions)


def describe_class(model: Model | Predictor, name: str) -> ClassComposition:
    """The composition of one class."""
    for composition in describe_classes(model):
        if composition.name == name:
            return composition
    raise unknown("class", name, model_of(model).spec.classes)
