"""The PARSE network of section 3.2: backbone → primitive bottleneck → structural scoring layer."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from parse_dg.model.backbones.backbone import Backbone
from parse_dg.model.primitives import PrimitiveBottleneck, PrimitiveDescriptors
from parse_dg.model.structure import StructuralLayer, StructuralOutput


class ParseOutput(NamedTuple):
    """Logits of a batch, and what they are computed from."""

    logits: Float[Tensor, "B C"]
    features: Float[Tensor, "B D H W"]
    """The backbone's map."""
    descriptors: PrimitiveDescriptors
    structure: StructuralOutput


class ParseNetwork(nn.Module):
    """Image → class scores as sparse compositions of spatial relations. Receives its parts built."""

    def __init__(self, backbone: Backbone, bottleneck: PrimitiveBottleneck, structure: StructuralLayer):
        super().__init__()
        self.backbone, self.bottleneck, self.structure = backbone, bottleneck, structure

    def forward(
        self,
        images: Float[Tensor, "B 3 H W"],
        generator: torch.Generator | None = None,
        look: int = 0,
    ) -> ParseOutput:
        """Normalised images → scores. In training `generator` draws for MixStyle; `look`: see StructuralLayer."""
        support = self.structure.composition.find_support()  # early: the device finds it while work is queued
        features = self.backbone(images, generator)
        descriptors = self.bottleneck(features)
        structure = self.structure(descriptors, support, look)
        return ParseOutput(structure.logits, features, descriptors, structure)
