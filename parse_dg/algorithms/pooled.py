"""The network of every baseline: backbone, global average pooling, dropout, a linear layer."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from parse_dg.algorithms.base import Algorithm, Group, grouped
from parse_dg.model.backbones.backbone import Backbone
from parse_dg.model.linear import linear


class Pooled(Algorithm):
    """Backbone → mean over the map → linear. What is minimised is left to the method."""

    def __init__(
        self,
        backbone: Backbone,
        classes: int,
        *,
        dropout: float = 0.0,
        label_smoothing: float = 0.0,
        generator: torch.Generator | None = None,
    ):
        super().__init__(label_smoothing)
        self.dropout = dropout
        self.backbone = backbone
        self.classifier = linear(backbone.channels, classes, generator)

    def forward(self, images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B C"]:
        logits: Tensor = self.classifier(self.backbone(images).mean((2, 3)))
        return logits

    def features(self, images: Float[Tensor, "B 3 H W"], generator: torch.Generator) -> Float[Tensor, "B D"]:
        """Pooled features in training: style mixing and dropout draw from `generator`."""
        features: Tensor = self.backbone(images, generator).mean((2, 3))
        if self.dropout:
            keep = torch.rand(features.shape, generator=generator) >= self.dropout
            features = features * keep.to(features.device) / (1 - self.dropout)
        return features

    def groups(self) -> dict[Group, list[nn.Parameter]]:
        return grouped(self)
