"""The primitive concept bottleneck of section 3.2: feature map → K heat maps → descriptors.

Letters: B images, K primitives, C channels, H W cells of the feature map.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from parse_dg.config import Config, Count, Positive, at_most
from parse_dg.model import fused
from parse_dg.model.geometry import MIN_VARIANCE, grid_axis
from parse_dg.model.sparsemax import sparsemax_of_few

Heatmap = Float[Tensor, "B K H W"]
Normalisation = Literal["softmax", "sparsemax"]


class PrimitiveDescriptors(NamedTuple):
    """z = ⟨c, σ, δ⟩ of every primitive, and the heat map it was read from."""

    centre: Float[Tensor, "B K 2"]
    """c: (x, y) in [-1, 1]², x to the right, y downwards."""
    presence: Float[Tensor, "B K"]
    """σ in (0, 1)."""
    extent: Float[Tensor, "B K 2"]
    """δ: twice the standard deviation of the heat map along x and y."""
    heatmap: Heatmap
    """H̃, of which the centre is the mean: each map is nowhere negative and sums to one."""

    def flat(self, extents: bool) -> Float[Tensor, "B D"]:
        """(c, σ, δ) of all primitives in a row: D = 5K numbers; without `extents`, (c, σ): 3K."""
        parts = (self.centre.flatten(1), self.presence, *((self.extent.flatten(1),) if extents else ()))
        return torch.cat(parts, 1)


@dataclass(frozen=True, kw_only=True)
class PrimitivesConfig(Config):
    """How features become primitives."""

    count: Annotated[Count, at_most(1024)] = 16
    """K, the number of primitives."""
    presence_bias: float = -3.0
    """Start of the projection's bias. At 0 the maximum over a whole map starts near certainty and presence
    carries no information."""
    temperature: Positive = 1.0
    """Start of T, the learnable temperature of the spatial softmax."""
    temperature_rule: Literal["divides", "multiplies"] = "divides"
    """`divides`: H̃ = softmax(H/T), as in the paper. `multiplies`: softmax(T·H), but extents under softmax(H/T), as
    in the authors' earlier code."""
    heatmap: Normalisation = "softmax"
    """What makes a distribution over the cells of H/T. `softmax`, as in the paper, is positive everywhere: centres
    are drawn towards the middle of the image. `sparsemax`, an addition, is zero but on a few cells; T then wants
    to start ten times as high (20 on Blueprints)."""
    retired: ClassVar[Mapping[str, object]] = {"window": None, "window_from": 0.5, "placed": False}


def to_descriptors(
    evidence: Heatmap, temperature: Float[Tensor, ""], normalisation: Normalisation = "softmax"
) -> PrimitiveDescriptors:
    """Heat maps H → descriptors: spatial softmax or sparsemax, its mean and spread, and the maximum as presence."""
    if fused.usable(evidence) and normalisation == "softmax":
        from parse_dg.model.fused import primitives as on_cuda

        if on_cuda.fits(evidence):
            return PrimitiveDescriptors(*on_cuda.to_descriptors(evidence, temperature))
    cells = (evidence / temperature).flatten(2)
    heatmap = (cells.softmax(-1) if normalisation == "softmax" else sparsemax_of_few(cells)).view_as(evidence)
    x = grid_axis(evidence.shape[3], evidence.device, evidence.dtype)
    y = grid_axis(evidence.shape[2], evidence.device, evidence.dtype)
    columns, rows = heatmap.sum(2), heatmap.sum(3)  # (B, K, W), (B, K, H): the marginals along x and y
    centre = torch.stack((columns @ x, rows @ y), -1)  # (B, K, 2)
    from_centre_x = (x - centre[..., :1]).square()  # (B, K, W)
    from_centre_y = (y - centre[..., 1:]).square()  # (B, K, H)
    variance = torch.stack(((columns * from_centre_x).sum(-1), (rows * from_centre_y).sum(-1)), -1)
    return PrimitiveDescriptors(
        centre=centre,
        presence=evidence.amax((2, 3)).sigmoid(),
        extent=2.0 * variance.clamp_min(MIN_VARIANCE).sqrt(),
        heatmap=heatmap,
    )


class PrimitiveBottleneck(nn.Module):
    """g_cb, a 1×1 convolution to K heat maps, followed by `to_descriptors`; computed in float32 or wider."""

    def __init__(self, channels: int, config: PrimitivesConfig, generator: torch.Generator | None = None):
        super().__init__()
        self.config = config
        self.projection = nn.Conv2d(channels, config.count, kernel_size=1)
        nn.init.normal_(self.projection.weight, std=channels**-0.5, generator=generator)
        assert self.projection.bias is not None
        nn.init.constant_(self.projection.bias, config.presence_bias)
        self.log_temperature = nn.Parameter(torch.tensor(config.temperature).log())

    def forward(self, features: Float[Tensor, "B C H W"]) -> PrimitiveDescriptors:
        """Feature map F → descriptors of the K primitives."""
        evidence = self.evidence(features)
        with torch.autocast(evidence.device.type, enabled=False):
            temperature = self.log_temperature.exp()
            divided = to_descriptors(evidence, temperature, self.config.heatmap)
            if self.config.temperature_rule == "divides":
                return divided
            multiplied = to_descriptors(evidence, 1 / temperature, self.config.heatmap)
            return multiplied._replace(extent=divided.extent)

    def evidence(self, features: Float[Tensor, "B C H W"]) -> Heatmap:
        """The heat maps H before anything is normalised."""
        # A 1×1 convolution is a matrix product, and channels come last in memory.
        cells, weight = features.permute(0, 2, 3, 1), self.projection.weight.flatten(1)
        evidence = F.linear(cells, weight, self.projection.bias).permute(0, 3, 1, 2)
        return (evidence if evidence.dtype == torch.float64 else evidence.float()).contiguous()
