"""A class's composition in words, what its score is the sum of whatever the image, and as a card: its few strongest
relations, where their primitives are in its images on average.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from parse_dg.deploy.model_file import Model
from parse_dg.deploy.predictor import Predictor
from parse_dg.explain.explanation import Application, PrimitivePosition, model_of, name_applications
from parse_dg.explain.faces import PrimitiveFaces
from parse_dg.explain.figures.marks import give_way
from parse_dg.explain.viewer_data import drawing_of
from parse_dg.jsonable import Jsonable
from parse_dg.model.paper_predicates import PREDICATES

ON_CARD = 4
"""How many relations a card shows."""
FACE = 0.085
"""Half the side of a face, as a share of the card's side."""
LABEL = 0.06
"""The height of the name below it."""


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
    only so many relations of each class are ever named. Without `presence`, "p3 is there", which has no layout, is
    none of them, unless a class has nothing else.
    """
    model = model_of(model)
    structure = model.parse_network().structure
    active = structure.composition.active()
    weights = active.weights.double().cpu()
    shares: dict[str, Tensor] = {}
    related, start = weights.clone(), 0
    for part in structure.vocabulary.applications(active.applications):
        columns = slice(start, start + len(part.angle))
        family = PREDICATES[part.predicate].family
        shares[family] = shares.get(family, 0) + weights[:, columns].sum(1)
        if not presence and family == "presence":
            related[:, columns] = 0
        start = columns.stop
    ranked = torch.where(related.any(1, keepdim=True), related, weights)
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


@dataclass(frozen=True, kw_only=True)
class ClassCard(Jsonable):
    """One class."""

    name: str
    relations: tuple[Term, ...]
    """The strongest between primitives, by weight."""
    places: tuple[PrimitivePosition, ...]
    """Where the primitives of these relations are, the mean over the images; empty where there are none."""
    images: int
    """How many training images of the source domains that is over."""

    def arranged(self) -> dict[int, tuple[float, float]]:
        """Where each face is on the card: x and y of its middle, from 0 to 1."""
        middle = arrange(np.array([(place.x, place.y) for place in self.places]).reshape(-1, 2)).round(4).tolist()
        return {place.primitive: (x, y) for place, (x, y) in zip(self.places, middle, strict=True)}

    def drawing(self) -> dict[str, Any]:
        """What the viewer draws."""
        faces = [{"primitive": k, "at": list(at)} for k, at in self.arranged().items()]
        relations = [{"words": each.words, **drawing_of(each)} for each in self.relations]
        return {"name": self.name, "faces": faces, "relations": relations}


def class_cards(model: Model, known: PrimitiveFaces, classes: Sequence[str] = ()) -> tuple[ClassCard, ...]:
    """The cards of the named classes, or of all."""
    cards = []
    for each, layout in zip(describe_classes(model, ON_CARD, presence=False), known.layouts, strict=True):
        bound = sorted({k for term in each.terms for k in term.primitives}) if layout.images else []
        places = tuple(layout.places[k] for k in bound)
        cards.append(ClassCard(name=each.name, relations=each.terms, places=places, images=layout.images))
    return tuple(card for card in cards if not classes or card.name in classes)


def arrange(places: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, "n 2"]:
    """Places of any unit on a card from 0 to 1: the layout stretched, alike in both directions, until it fills the
    card, and faces that would cover each other moved apart, as far as there is room.
    """
    if not len(places):
        return places
    low, high = np.full(2, FACE + 0.03), np.array([1 - FACE - 0.03, 1 - FACE - LABEL - 0.02])
    extent = places.max(0) - places.min(0)
    scale = min((high - low) / np.maximum(extent, 0.15))
    moved = (places - (places.max(0) + places.min(0)) / 2) * scale + (low + high) / 2
    apart = min(0.29, 0.8 / len(places) ** 0.5)
    for _ in range(200):
        moved = np.clip(give_way(moved, apart, 1), low, high)
    return np.asarray(moved)
