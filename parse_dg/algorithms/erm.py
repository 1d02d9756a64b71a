"""ERM, empirical risk minimisation: cross-entropy on the images of all source domains together.

The network is the backbone, global average pooling and a linear layer (Gulrajani & Lopez-Paz 2021,
arXiv:2007.01434).
"""

from dataclasses import dataclass
from typing import ClassVar

import torch

from parse_dg.algorithms.base import LossTerms, Minibatch
from parse_dg.algorithms.pooled import Pooled
from parse_dg.config import Config, Fraction
from parse_dg.model.backbones.backbone import Backbone


@dataclass(frozen=True, kw_only=True)
class ErmConfig(Config):
    """Settings of ERM."""

    name: ClassVar[str] = "erm"
    dropout: Fraction = 0.0
    """Dropout after pooling."""


class Erm(Pooled):
    """Cross-entropy on everything."""

    summary = "cross-entropy on all source images"
    reference = "Gulrajani & Lopez-Paz 2021, arXiv:2007.01434"

    def __init__(
        self,
        backbone: Backbone,
        classes: int,
        config: ErmConfig,
        *,
        label_smoothing: float = 0.0,
        generator: torch.Generator | None = None,
    ):
        super().__init__(
            backbone, classes, dropout=config.dropout, label_smoothing=label_smoothing, generator=generator
        )
        self.config = config

    def losses(self, example: Minibatch, generator: torch.Generator) -> LossTerms:
        logits = self.classifier(self.features(example.images, generator))
        return {"cross_entropy": self.cross_entropy(logits, example.labels)}
