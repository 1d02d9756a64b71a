"""Predicates to try things on, and their activations by name."""

import pytest
import torch
from torch import Tensor

from parse_dg.model.predicate import Primitives
from parse_dg.model.predicates import Predicates, PredicatesConfig
from parse_dg.model.primitives import PrimitiveDescriptors
from parse_dg.model.vocabulary import Applications, Vocabulary, VocabularyConfig
from tests.model import reference
from tests.model.reference import read_name, shake

NAMES = list(reference.PREDICATES)
ANGULAR = {"tri", "turn", "orient", "eqdist"}

VARIANTS: dict[str, tuple[bool, float]] = {
    "paper's text": (False, 0.0),
    "gated": (True, 0.0),
    "softened": (False, 0.2),
    "gated and softened": (True, 0.15),
}
"""What is added to the paper: the gate by presence, the softness ε of short edges."""

each_variant = pytest.mark.parametrize(("gate", "softness"), VARIANTS.values(), ids=VARIANTS)


def build(
    K: int,
    *,
    gate: bool = False,
    softness: float = 0.0,
    fade: float = 0.0,
    enumeration: str = "distinct",
    shaken: bool = True,
    angles: tuple[int, int, int] = (3, 1, 4),
) -> tuple[Vocabulary, Predicates]:
    vocabulary = Vocabulary(
        K,
        VocabularyConfig(
            enumeration=enumeration,  # type: ignore[arg-type]
            triangle_angles=angles[0],
            turning_angles=angles[1],
            orientation_angles=angles[2],
        ),
    )
    config = PredicatesConfig(gate=gate, edge_softness=softness, edge_fade=fade)
    predicates = Predicates(vocabulary, config).double()
    if shaken:
        shake(predicates, seed=11)
    return vocabulary, predicates


def parts(vocabulary: Vocabulary) -> dict[str, Applications]:
    """All columns, by the name of their predicate."""
    every = vocabulary.applications(torch.arange(vocabulary.size))
    return {part.predicate.replace("_", "-"): part for part in every}


def names_of(vocabulary: Vocabulary) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for name in vocabulary.names(torch.arange(vocabulary.size)):
        names.setdefault(read_name(name).predicate, []).append(name)
    return names


def values(vocabulary: Vocabulary, predicates: Predicates, z: PrimitiveDescriptors) -> dict[str, Tensor]:
    """Activations (n, B) of every predicate."""
    return {name: predicates(Primitives.of(z), [part]) for name, part in parts(vocabulary).items()}
