"""The primitive concept bottleneck of section 3.2: feature map → K heat maps → descriptors.

Letters: B images, K primitives, C channels, H W cells of the feature map.
"""

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from parse_dg.config import Config, Count, Fraction, Positive, at_least
from parse_dg.model import fused
from parse_dg.model.geometry import MIN_VARIANCE, grid_axis

MIN_WINDOW = 0.01
"""Within a window of so many cells the peak is alone, whatever the map; a far smaller one would overflow."""

Heatmap = Float[Tensor, "B K H W"]


class PrimitiveDescriptors(NamedTuple):
    """z = ⟨c, σ, δ⟩ of every primitive, and the heat map it was read from."""

    centre: Float[Tensor, "B K 2"]
    """c: (x, y) in [-1, 1]², x to the right, y downwards."""
    presence: Float[Tensor, "B K"]
    """σ in (0, 1)."""
    extent: Float[Tensor, "B K 2"]
    """δ: twice the standard deviation of the heat map along x and y."""
    heatmap: Heatmap
    """H̃, of which the centre is the mean: each map is positive and sums to one."""

    def flat(self, extents: bool = True) -> Float[Tensor, "B D"]:
        """(c, σ, δ) of all primitives in a row: D = 5K numbers; without `extents`, (c, σ): 3K."""
        parts = (self.centre.flatten(1), self.presence, *((self.extent.flatten(1),) if extents else ()))
        return torch.cat(parts, 1)

    def halves(self) -> tuple["PrimitiveDescriptors", "PrimitiveDescriptors"]:
        """Those of the first half of the batch, and of the second."""
        first, second = zip(*(part.chunk(2) for part in self), strict=True)
        return PrimitiveDescriptors(*first), PrimitiveDescriptors(*second)


@dataclass(frozen=True, kw_only=True)
class PrimitivesConfig(Config):
    """How features become primitives."""

    count: Count = 16
    """K, the number of primitives."""
    presence_bias: float = -3.0
    """Start of the projection's bias. At 0 the maximum over a whole map starts near certainty and presence
    carries no information."""
    temperature: Positive = 1.0
    """Start of T, the learnable temperature of the spatial softmax."""
    temperature_rule: Literal["divides", "multiplies"] = "divides"
    """`divides`: H̃ = softmax(H/T), as in the paper. `multiplies`: softmax(T·H), but extents under softmax(H/T), as
    in the authors' earlier code."""
    window: Annotated[float, at_least(MIN_WINDOW)] | None = None
    """An addition: the radius, in cells at the end of training, of the window around a map's peak under which its
    mean is taken. None: the mean of the whole map, as in the paper."""
    window_from: Fraction = 0.5
    """The share of training after which the window begins to close in; half of the rest later it has."""

    def check(self) -> None:
        fits = self.window is None or self.temperature_rule == "divides"
        self.require(fits, "temperature_rule", "divides with a window, which is measured by it")

    def focus(self, progress: float) -> float:
        """The focus when this share of training is done: 0, then linear, then 1/(2r²) for a window of radius r."""
        if self.window is None:
            return 0.0
        closed = 2 * (progress - self.window_from) / (1 - self.window_from)
        return min(max(closed, 0.0), 1.0) / (2 * self.window**2)


def to_descriptors(evidence: Heatmap, temperature: Float[Tensor, ""]) -> PrimitiveDescriptors:
    """Heat maps H → descriptors: spatial softmax, its mean and spread, and the maximum as presence."""
    if fused.usable(evidence):
        from parse_dg.model.fused import primitives as on_cuda

        if on_cuda.fits(evidence):
            return PrimitiveDescriptors(*on_cuda.to_descriptors(evidence, temperature))
    heatmap = (evidence / temperature).flatten(2).softmax(-1).view_as(evidence)
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


def focused(evidence: Heatmap, temperature: Float[Tensor, ""], focus: Float[Tensor, ""]) -> Heatmap:
    """H - T·f·d², of which `to_descriptors` makes H̃ ∝ exp(H/T - f·d²), d the distance in cells from the peak of H.

    A local soft-argmax: the mean of a map with several peaks lies at its highest, not between them. At the peak
    nothing changes, so that presence is what it was. No gradient goes through where the peak is, and T has that of
    H/T alone.
    """
    H, W = evidence.shape[2:]
    peak = evidence.detach().flatten(2).argmax(-1, keepdim=True)  # (B, K, 1): the first of equals
    dy = torch.arange(H, device=evidence.device) - peak // W  # (B, K, H)
    dx = torch.arange(W, device=evidence.device) - peak % W  # (B, K, W)
    squared = dy.square()[..., None] + dx.square()[..., None, :]  # (B, K, H, W)
    return evidence - temperature * focus * squared.to(evidence.dtype)


class PrimitiveBottleneck(nn.Module):
    """g_cb, a 1×1 convolution to K heat maps, followed by `to_descriptors`; computed in float32 or wider.

    With a window, maps are `focused` in between.
    """

    focus: Float[Tensor, ""]
    """f, kept with the weights; it is there only where the configuration has a window."""

    def __init__(self, channels: int, config: PrimitivesConfig, generator: torch.Generator | None = None):
        super().__init__()
        self.config = config
        self.projection = nn.Conv2d(channels, config.count, kernel_size=1)
        nn.init.normal_(self.projection.weight, std=channels**-0.5, generator=generator)
        assert self.projection.bias is not None
        nn.init.constant_(self.projection.bias, config.presence_bias)
        self.log_temperature = nn.Parameter(torch.tensor(config.temperature).log())
        if config.window is not None:
            self.register_buffer("focus", torch.zeros(()))

    def forward(self, features: Float[Tensor, "B C H W"]) -> PrimitiveDescriptors:
        """Feature map F → descriptors of the K primitives."""
        evidence = self.evidence(features)
        with torch.autocast(evidence.device.type, enabled=False):
            temperature = self.log_temperature.exp()
            if self.config.window is not None:
                evidence = focused(evidence, temperature, self.focus)
            return self._describe(evidence, temperature)

    def _describe(self, evidence: Heatmap, temperature: Float[Tensor, ""]) -> PrimitiveDescriptors:
        divided = to_descriptors(evidence, temperature)
        if self.config.temperature_rule == "divides":
            return divided
        return to_descriptors(evidence, 1 / temperature)._replace(extent=divided.extent)

    def advance(self, progress: float) -> None:
        """Close the window in as far as belongs to the share of training, from 0 to 1, that is done."""
        if self.config.window is not None:
            self.focus.fill_(self.config.focus(progress))

    def whole_maps(self, features: Float[Tensor, "B C H W"]) -> Heatmap:
        """softmax(H/T), as if there were no window."""
        evidence = self.evidence(features)
        with torch.autocast(evidence.device.type, enabled=False):
            return self._describe(evidence, self.log_temperature.exp()).heatmap

    def evidence(self, features: Float[Tensor, "B C H W"]) -> Heatmap:
        """The heat maps H before anything is normalised."""
        # A 1×1 convolution is a matrix product, and channels come last in memory.
        cells, weight = features.permute(0, 2, 3, 1), self.projection.weight.flatten(1)
        evidence = F.linear(cells, weight, self.projection.bias).permute(0, 3, 1, 2)
        return (evidence if evidence.dtype == torch.float64 else evidence.float()).contiguous()
