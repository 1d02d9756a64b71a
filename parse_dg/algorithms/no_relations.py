"""The No Relations ablation of the paper: primitive descriptors directly to a linear classifier.

The linear layer sees (c, σ, δ) of all K primitives, 5K numbers, or (c, σ), 3K; bottleneck and its regulariser are
PARSE's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from parse_dg.algorithms.base import (
    Algorithm,
    AlgorithmConfig,
    BuildContext,
    LogitParts,
    LossTerms,
    Minibatch,
    linear,
)
from parse_dg.algorithms.parse import BottleneckWeights, guide_terms
from parse_dg.config import NotNegative
from parse_dg.model.primitives import PrimitiveBottleneck, PrimitiveDescriptors, PrimitivesConfig


@dataclass(frozen=True, kw_only=True)
class NoRelationsConfig(AlgorithmConfig):
    """Settings of the ablation: those of PARSE that remain without relations."""

    name = "no_relations"
    summary = "PARSE's primitives with a linear classifier on their descriptors: the paper's ablation"
    reference = "Nguyen & Nguyen 2026, arXiv:2605.06043"
    primitives: PrimitivesConfig = field(default_factory=PrimitivesConfig)
    bottleneck: BottleneckWeights = field(default_factory=BottleneckWeights)
    extents: bool = True
    """The linear layer sees δ, too: 5K inputs. False: 3K, as in the authors' earlier code."""
    guidance: NotNegative = 0.0
    """As in PARSE."""
    distillation: NotNegative = 0.0
    """As in PARSE."""
    retired: ClassVar[Mapping[str, object]] = {"equivariance": {"weight": 0.0}}

    def check(self) -> None:
        self.require(self.guidance > 0 or not self.distillation, "distillation", "0 without algorithm.guidance")

    @property
    def ablation(self) -> str:
        return self.name

    def build(self, context: BuildContext) -> "NoRelations":
        return NoRelations(self, context)


class NoRelations(Algorithm):
    """Backbone → primitive bottleneck → linear on the descriptors."""

    config: NoRelationsConfig

    def __init__(self, config: NoRelationsConfig, context: BuildContext):
        super().__init__(config, context)
        self.backbone = context.backbone
        channels, classes, generator = context.backbone.channels, context.classes, context.generator
        self.bottleneck = PrimitiveBottleneck(channels, config.primitives, generator)
        inputs = (5 if config.extents else 3) * config.primitives.count
        self.classifier = linear(inputs, classes, generator)
        self.guide = linear(channels, classes, generator) if config.guidance else None

    def forward(self, images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B C"]:
        return self._classify(self.bottleneck(self.backbone(images)))

    def logit_parts(self, images: Float[Tensor, "B 3 H W"]) -> LogitParts:
        """The part of a primitive is what its own centre, presence and extent come to."""
        z, count = self.bottleneck(self.backbone(images)), self.config.primitives.count
        terms = self.classifier.weight * z.flat(self.config.extents)[:, None]  # (B, C, 5K), as `flat` has them
        kinds = terms.split((2 * count, count, *([2 * count] if self.config.extents else ())), -1)
        parts = torch.stack([kind.unflatten(-1, (count, -1)).sum(-1) for kind in kinds]).sum(0)
        return LogitParts(self._classify(z), parts, self.classifier.bias, z)

    def losses(self, example: Minibatch, generator: torch.Generator) -> LossTerms:
        features = self.backbone(example.images, generator)
        z = self.bottleneck(features)
        logits, config = self._classify(z), self.config
        cross_entropy = self.cross_entropy(logits, example.labels)
        bottleneck = config.bottleneck.terms(
            z, lambda: self.bottleneck.evidence(features), cross_entropy, logits.shape[1]
        )
        weights = {"guidance": config.guidance, "distillation": config.distillation}
        guided = guide_terms(self, features, logits, example.labels, **weights)
        return {"cross_entropy": cross_entropy, **bottleneck, **guided}

    def _classify(self, z: PrimitiveDescriptors) -> Float[Tensor, "B C"]:
        logits: Tensor = self.classifier(z.flat(self.config.extents))
        return logits
