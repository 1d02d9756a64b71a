"""Class cards: a class as its few strongest relations, where their primitives are in its images on average.

What is there alone ("p3 is there") has no layout and is left out, unless a class has nothing else.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from parse_dg.deploy.model_file import Model
from parse_dg.explain.classes import Term, describe_classes
from parse_dg.explain.explanation import PrimitivePosition
from parse_dg.explain.faces import PrimitiveFaces
from parse_dg.explain.figures.marks import give_way
from parse_dg.explain.viewer_data import drawing_of
from parse_dg.jsonable import Jsonable

RELATIONS = 4
"""How many a card shows."""
FACE = 0.085
"""Half the side of a face, as a share of the card's side."""
LABEL = 0.06
"""The height of the name below it."""


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
        """Where each face is on the card, x and y of its middle from 0 to 1: the layout stretched, alike in both
        directions, until it fills the card, and faces that would cover each other moved apart.
        """
        middle = arrange(np.array([(place.x, place.y) for place in self.places]).reshape(-1, 2)).round(4).tolist()
        return {place.primitive: (x, y) for place, (x, y) in zip(self.places, middle, strict=True)}

    def drawing(self) -> dict[str, Any]:
        """What the viewer draws."""
        faces = [{"primitive": k, "at": list(at)} for k, at in self.arranged().items()]
        relations = [{"words": each.words, **drawing_of(each)} for each in self.relations]
        return {"name": self.name, "faces": faces, "relations": relations}


def class_cards(model: Model, known: PrimitiveFaces, classes: Sequence[str] = ()) -> tuple[ClassCard, ...]:
    """The cards of the named classes, or of all."""
    related = describe_classes(model, RELATIONS, presence=False)
    if not all(each.terms for each in related):
        present = describe_classes(model, RELATIONS)
        related = tuple(each if each.terms else other for each, other in zip(related, present, strict=True))
    cards = []
    for each, layout in zip(related, known.layouts, strict=True):
        bound = sorted({k for term in each.terms for k in term.primitives}) if layout.images else []
        places = tuple(layout.places[k] for k in bound)
        cards.append(ClassCard(name=each.name, relations=each.terms, places=places, images=layout.images))
    return tuple(card for card in cards if not classes or card.name in classes)


def arrange(places: Float[np.ndarray, "n 2"], rounds: int = 200) -> Float[np.ndarray, "n 2"]:
    """Places of any unit on a card from 0 to 1, so that no face covers another as far as there is room."""
    if not len(places):
        return places
    low, high = np.full(2, FACE + 0.03), np.array([1 - FACE - 0.03, 1 - FACE - LABEL - 0.02])
    extent = places.max(0) - places.min(0)
    scale = min((high - low) / np.maximum(extent, 0.15))
    moved = (places - (places.max(0) + places.min(0)) / 2) * scale + (low + high) / 2
    apart = min(0.29, 0.8 / len(places) ** 0.5)
    for _ in range(rounds):
        moved = np.clip(give_way(moved, apart, 1), low, high)
    return np.asarray(moved)
