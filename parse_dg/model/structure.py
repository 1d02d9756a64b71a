"""The structural scoring layer of section 3.2: primitive descriptors → predicate activations → class scores."""

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from parse_dg.model.composition import Composition, CompositionConfig
from parse_dg.model.predicates import Predicates, PredicatesConfig, Primitives
from parse_dg.model.primitives import PrimitiveDescriptors
from parse_dg.model.vocabulary import Vocabulary, VocabularyConfig


@dataclass(frozen=True, kw_only=True)
class StructureConfig:
    """The structural scoring layer: which relations, of which shape, composed how."""

    vocabulary: VocabularyConfig = field(default_factory=VocabularyConfig)
    predicates: PredicatesConfig = field(default_factory=PredicatesConfig)
    composition: CompositionConfig = field(default_factory=CompositionConfig)


class StructuralOutput(NamedTuple):
    """Class scores and everything they are the sum of."""

    logits: Float[Tensor, "B C"]
    scores: Float[Tensor, "B C"]
    """s in [0, 1]: scores = activations @ weights.T."""
    columns: Int[Tensor, "n"]
    """Which applications of the vocabulary were evaluated, ascending."""
    activations: Float[Tensor, "B n"]
    weights: Float[Tensor, "C n"]


class StructuralLayer(nn.Module):
    """Evaluates the applications that some class uses, and no others; computed in float32 or wider."""

    def __init__(
        self,
        primitives: int,
        classes: int,
        config: StructureConfig,
        generator: torch.Generator | None = None,
        columns: Int[Tensor, "M"] | None = None,
    ):
        super().__init__()
        self.vocabulary = Vocabulary(primitives, config.vocabulary)
        self.predicates = Predicates(self.vocabulary, config.predicates)
        self.composition = Composition(classes, self.vocabulary, config.composition, generator, columns)

    def forward(self, z: PrimitiveDescriptors) -> StructuralOutput:
        """Descriptors → class scores, exact: what is not evaluated has weight zero in every class."""
        with torch.autocast(z.centre.device.type, enabled=False):
            active = self.composition.active()
            columns = self.composition.columns[active.columns]
            activations = self.evaluate(z, columns)
            scores = activations @ active.weights.T
            return StructuralOutput(self.composition.logits(scores), scores, columns, activations, active.weights)

    def evaluate(self, z: PrimitiveDescriptors, columns: Int[Tensor, "n"]) -> Float[Tensor, "B n"]:
        """a(X) on the given applications of the vocabulary (ascending)."""
        primitives = Primitives.of(z)
        parts = [self.predicates(primitives, part) for part in self.vocabulary.applications(columns)]
        return torch.cat(parts).T
