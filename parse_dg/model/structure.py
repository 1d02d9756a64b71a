"""The structural scoring layer of section 3.2: primitive descriptors → predicate activations → class scores."""

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from parse_dg.config import Config
from parse_dg.model import fused
from parse_dg.model.composition import ActiveWeights, Composition, CompositionConfig, PendingSupport
from parse_dg.model.predicate import Primitives
from parse_dg.model.predicates import Predicates, PredicatesConfig, presence_shares
from parse_dg.model.primitives import PrimitiveDescriptors
from parse_dg.model.selection import reach_all_weights
from parse_dg.model.vocabulary import Applications, Vocabulary, VocabularyConfig

AT_ONCE = 2**20
"""Up to how many activations (images × applications) are evaluated together and kept for the gradient."""
PART = 2**18
"""About how many are evaluated together when there are more: their intermediate steps fit a cache."""
Scores = Float[Tensor, "B C"]
Columns = Int[Tensor, "n"]


@dataclass(frozen=True, kw_only=True)
class StructureConfig(Config):
    """The structural scoring layer: which relations, of which shape, composed how."""

    vocabulary: VocabularyConfig = field(default_factory=VocabularyConfig)
    predicates: PredicatesConfig = field(default_factory=PredicatesConfig)
    composition: CompositionConfig = field(default_factory=CompositionConfig)


class StructuralOutput(NamedTuple):
    """Class scores and what they are the sum of: scores = evaluate(z, columns) @ weights.T."""

    logits: Float[Tensor, "B C"]
    scores: Scores
    """s in [0, 1]."""
    columns: Columns
    """Which applications of the vocabulary some class uses, ascending."""
    weights: Float[Tensor, "C n"]
    l1: Float[Tensor, ""] | None
    """The mean ℓ1 norm of Λ, if the composition is penalised."""


class _CachedColumns(NamedTuple):
    """Columns, looked up: a model that is used and not trained asks for the same ones again and again."""

    columns: Columns
    parts: tuple[Applications, ...]
    shares: Float[Tensor, "n K"]


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
        others = (block.start for block in self.vocabulary.blocks if block.predicate not in fused.PREDICATES)
        self._without_kernel = next(others, self.vocabulary.size)
        """From this column on, predicates are evaluated by the plain code, on CUDA too."""
        self._chosen: _CachedColumns | None = None

    def forward(
        self, z: PrimitiveDescriptors, support: PendingSupport | None = None, look: int = 0
    ) -> StructuralOutput:
        """Descriptors → class scores, exact: what is not evaluated has weight zero in every class.

        `support` is `composition.find_support()`, for whoever could ask for it early. With a `look` the gradient of
        the scores reaches all of Λ, as if for so many steps (selection.py).
        """
        with torch.autocast(z.centre.device.type, enabled=False):
            active = self.composition.active(support)
            scores = self._score(z, active.applications, active.weights)
            if look:
                scores = self._look(z, active, scores, look)
            logits = self.composition.logits(scores)
        return StructuralOutput(logits, scores, active.applications, active.weights, active.l1)

    def _look(self, z: PrimitiveDescriptors, active: ActiveWeights, scores: Scores, steps: int) -> Scores:
        weight, columns = self.composition.weight, self.composition.columns
        used = torch.zeros_like(weight, dtype=torch.bool).index_copy_(1, active.columns, active.weights > 0)
        seen = PrimitiveDescriptors(*(part.detach() for part in z))

        def evaluate(first: int, last: int) -> Float[Tensor, "B m"]:
            with torch.autocast(seen.centre.device.type, enabled=False):
                return self.evaluate(seen, columns[first:last])

        parts = [(part.first, part.last) for part in self.composition.parts]
        return reach_all_weights(scores, weight, used, evaluate, steps, parts)

    def evaluate(self, z: PrimitiveDescriptors, columns: Columns) -> Float[Tensor, "B n"]:
        """a(X) on the given applications of the vocabulary (ascending)."""
        if not fused.usable(z.centre):
            return self._plain(z, columns)
        from parse_dg.model.fused.predicates import evaluate

        if self._without_kernel == self.vocabulary.size:
            return evaluate(self.predicates, self.vocabulary, z, columns)
        known = int((columns < self._without_kernel).sum())
        parts = [evaluate(self.predicates, self.vocabulary, z, columns[:known])]
        parts += [self._plain(z, columns[known:])] if known < len(columns) else []
        return torch.cat(parts, 1)

    def _plain(self, z: PrimitiveDescriptors, columns: Columns) -> Float[Tensor, "B n"]:
        chosen, dtype = self._chosen, z.centre.dtype
        if chosen is None or chosen.columns is not columns or chosen.shares.dtype != dtype:
            parts = tuple(self.vocabulary.applications(columns))
            chosen = _CachedColumns(columns, parts, presence_shares(parts, self.vocabulary.primitives, dtype))
            self._chosen = chosen
        activations: Tensor = self.predicates(Primitives.of(z), chosen.parts, chosen.shares)
        return activations.T

    def _score(self, z: PrimitiveDescriptors, columns: Columns, weights: Float[Tensor, "C n"]) -> Scores:
        """w·a; a long union of supports part by part, computed anew for the gradient instead of kept. Fused kernels
        keep nothing but the activations.
        """
        images = z.centre.shape[0]
        kept = fused.usable(z.centre) and self._without_kernel == self.vocabulary.size
        if kept or images * len(columns) <= AT_ONCE:
            return self.evaluate(z, columns) @ weights.T
        size = max(1, PART // images)
        scores = z.centre.new_zeros(images, len(weights))
        for some, their_weights in zip(torch.split(columns, size), torch.split(weights, size, 1), strict=True):
            scores = scores + checkpoint(
                lambda z, some, weights: self.evaluate(z, some) @ weights.T,
                z, some, their_weights, use_reentrant=False, preserve_rng_state=False,
            )  # fmt: skip
        return scores
