"""ERM, empirical risk minimisation: cross-entropy on the images of all source domains together.

The network is the backbone, global average pooling and a linear layer (Gulrajani & Lopez-Paz 2021,
arXiv:2007.01434).
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from parse_dg.algorithms.base import Algorithm, Example, Group, LossTerms, grouped
from parse_dg.config import require
from parse_dg.model.backbone import Backbone
from parse_dg.model.linear import linear


@dataclass(frozen=True, kw_only=True)
class ErmConfig:
    """Settings of ERM."""

    name: ClassVar[str] = "erm"
    dropout: float = 0.0
    """Dropout after pooling."""

    def __post_init__(self) -> None:
        require(0 <= self.dropout < 1, "algorithm.dropout", self.dropout, "between 0 and 1")


class Erm(Algorithm):
    """Backbone → mean over the map → linear."""

    summary = "cross-entropy on all source images (Gulrajani & Lopez-Paz 2021)"

    def __init__(
        self,
        backbone: Backbone,
        classes: int,
        config: ErmConfig,
        *,
        label_smoothing: float = 0.0,
        generator: torch.Generator | None = None,
    ):
        super().__init__(label_smoothing)
        self.config = config
        self.backbone = backbone
        self.classifier = linear(backbone.channels, classes, generator)

    def forward(self, images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B C"]:
        logits: Tensor = self.classifier(self.backbone(images).mean((2, 3)))
        return logits

    def losses(self, example: Example, generator: torch.Generator) -> LossTerms:
        features = self.backbone(example.images, generator).mean((2, 3))
        if self.config.dropout:
            keep = torch.rand(features.shape, generator=generator) >= self.config.dropout
            features = features * keep.to(features.device) / (1 - self.config.dropout)
        return {"cross_entropy": self.cross_entropy(self.classifier(features), example.labels)}

    def groups(self) -> dict[Group, list[nn.Parameter]]:
        return grouped(self)
