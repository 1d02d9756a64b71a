"""The structural scoring layer of section 3.2: primitive descriptors → predicate activations → class scores."""

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from parse_dg.model import fused
from parse_dg.model.composition import Composition, CompositionConfig, PendingSupport
from parse_dg.model.predicates import Predicates, PredicatesConfig, Primitives
from parse_dg.model.primitives import PrimitiveDescriptors
from parse_dg.model.vocabulary import Applications, Vocabulary, VocabularyConfig

AT_ONCE = 2**22
"""Up to how many activations (images × applications) are evaluated together and kept for the gradient."""


@dataclass(frozen=True, kw_only=True)
class StructureConfig:
    """The structural scoring layer: which relations, of which shape, composed how."""

    vocabulary: VocabularyConfig = field(default_factory=VocabularyConfig)
    predicates: PredicatesConfig = field(default_factory=PredicatesConfig)
    composition: CompositionConfig = field(default_factory=CompositionConfig)


class StructuralOutput(NamedTuple):
    """Class scores and what they are the sum of: scores = evaluate(z, columns) @ weights.T."""

    logits: Float[Tensor, "B C"]
    scores: Float[Tensor, "B C"]
    """s in [0, 1]."""
    columns: Int[Tensor, "n"]
    """Which applications of the vocabulary some class uses, ascending."""
    weights: Float[Tensor, "C n"]
    l1: Float[Tensor, ""]
    """The mean ℓ1 norm of Λ."""


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
        self._known: tuple[Tensor | None, list[Applications]] = None, []

    def forward(self, z: PrimitiveDescriptors, support: PendingSupport | None = None) -> StructuralOutput:
        """Descriptors → class scores, exact: what is not evaluated has weight zero in every class.

        `support` is `composition.find_support()`, for whoever could ask for it early.
        """
        with torch.autocast(z.centre.device.type, enabled=False):
            active = self.composition.active(support)
            scores = self._score(z, active.applications, active.weights)
            logits = self.composition.logits(scores)
        return StructuralOutput(logits, scores, active.applications, active.weights, active.l1)

    def evaluate(self, z: PrimitiveDescriptors, columns: Int[Tensor, "n"]) -> Float[Tensor, "B n"]:
        """a(X) on the given applications of the vocabulary (ascending)."""
        if fused.usable(z.centre):
            from parse_dg.model.fused.predicates import evaluate

            return evaluate(self.predicates, self.vocabulary, z, columns)
        primitives = Primitives.of(z)
        if self._known[0] is not columns:  # a model that is used and not trained asks for the same ones again
            self._known = columns, list(self.vocabulary.applications(columns))
        return torch.cat([self.predicates(primitives, part) for part in self._known[1]]).T

    def _score(
        self, z: PrimitiveDescriptors, columns: Int[Tensor, "n"], weights: Float[Tensor, "C n"]
    ) -> Float[Tensor, "B C"]:
        """w·a; a long union of supports part by part, computed anew for the gradient instead of kept."""
        at_once = max(1, AT_ONCE // len(z.centre))
        if len(columns) <= at_once:
            return self.evaluate(z, columns) @ weights.T
        scores = z.centre.new_zeros(len(z.centre), len(weights))
        parts = zip(torch.split(columns, at_once), torch.split(weights, at_once, 1), strict=True)
        for some, their_weights in parts:
            scores = scores + checkpoint(
                lambda z, some, weights: self.evaluate(z, some) @ weights.T,
                z, some, their_weights, use_reentrant=False, preserve_rng_state=False,
            )  # fmt: skip
        return scores
