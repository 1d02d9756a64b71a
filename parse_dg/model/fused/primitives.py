"""Descriptors and bottleneck regularisers on CUDA, a launch each for the value and for the gradient.

What is computed is said in `parse_dg.model.primitives.to_descriptors` and `parse_dg.model.regularisers`.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from parse_dg.model.fused import launch
from parse_dg.model.geometry import MIN_VARIANCE

MIN = tl.constexpr(MIN_VARIANCE)
LARGEST = 2**14
"""Cells of the maps of one image, padded to powers of two, that a program can hold."""


def fits(maps: Float[Tensor, "B K H W"]) -> bool:
    """Whether the maps of one image can be held by one program."""
    _, K, H, W = maps.shape
    return triton.next_power_of_2(K) * triton.next_power_of_2(H * W) <= LARGEST  # type: ignore[no-any-return]


def to_descriptors(
    evidence: Float[Tensor, "B K H W"], temperature: Float[Tensor, ""]
) -> tuple[Float[Tensor, "B K 2"], Float[Tensor, "B K"], Float[Tensor, "B K 2"], Float[Tensor, "B K H W"]]:
    """Heat maps H → centre, presence, extent, and the normalised heat maps."""
    centre, presence, extent, heatmap = _Describe.apply(evidence, temperature)
    return centre, presence, extent, heatmap


def diversity_and_concentration(
    heatmap: Float[Tensor, "B K H W"], epsilon: float
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """L_div and L_conc."""
    diversity, concentration = _Regularise.apply(heatmap, epsilon)
    return diversity, concentration


def _warps(size: int) -> int:
    return max(1, min(8, size // 256))


class _Describe(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, evidence: Tensor, temperature: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        B, K, H, W = evidence.shape
        evidence = evidence.contiguous()
        centre, extent = evidence.new_empty(B, K, 2), evidence.new_empty(B, K, 2)
        presence, heatmap = evidence.new_empty(B, K), torch.empty_like(evidence)
        size = triton.next_power_of_2(H * W)
        launch(
            _describe, (B * K,), evidence, evidence, temperature, centre, presence, extent, heatmap, H, W,
            SIZE=size, num_warps=_warps(size), enable_fp_fusion=False,
        )  # fmt: skip
        ctx.save_for_backward(evidence, temperature, centre, presence, extent, heatmap)
        ctx.set_materialize_grads(False)
        return centre, presence, extent, heatmap

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor, Tensor]:
        evidence, temperature, *found = ctx.saved_tensors
        B, K, H, W = evidence.shape
        of_evidence, of_temperature = torch.empty_like(evidence), evidence.new_empty(B * K)
        given = [g if g is None else g.contiguous() for g in gradients]
        size = triton.next_power_of_2(H * W)
        launch(
            _describe_backward, (B * K,), evidence,
            evidence, temperature, *found, *given, of_evidence, of_temperature, H, W,
            SIZE=size, num_warps=_warps(size), enable_fp_fusion=False,
        )  # fmt: skip
        return of_evidence, of_temperature.sum()


class _Regularise(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, heatmap: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
        B, K, H, W = heatmap.shape
        heatmap = heatmap.contiguous()
        terms = heatmap.new_empty(2, B)
        tile = triton.next_power_of_2(K), triton.next_power_of_2(H * W)
        launch(
            _regularise, (B,), heatmap, heatmap, terms, B, K, H * W, epsilon,
            MAPS=tile[0], SIZE=tile[1], num_warps=_warps(tile[0] * tile[1]),
        )  # fmt: skip
        ctx.save_for_backward(heatmap)
        ctx.epsilon = epsilon
        diversity, concentration = terms.mean(1).unbind()
        return diversity, concentration

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_diversity: Tensor, of_concentration: Tensor) -> tuple[Tensor, None]:
        (heatmap,) = ctx.saved_tensors
        B, K, H, W = heatmap.shape
        of_heatmap = torch.empty_like(heatmap)
        tile = triton.next_power_of_2(K), triton.next_power_of_2(H * W)
        launch(
            _regularise_backward, (B,), heatmap,
            heatmap, of_diversity, of_concentration, of_heatmap, B, K, H * W, ctx.epsilon,
            MAPS=tile[0], SIZE=tile[1], num_warps=_warps(tile[0] * tile[1]),
        )  # fmt: skip
        return of_heatmap, None


@triton.jit
def _axis(place, cells):
    """2i/(n-1) - 1; a single cell is at 0."""
    return tl.where(cells > 1, 2.0 * place / tl.maximum(cells - 1, 1) - 1.0, 0.0)


@triton.jit
def _describe(evidence, temperature, centre, presence, extent, heatmap, H, W, SIZE: tl.constexpr):
    """One map."""
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, SIZE)
    inside = lane < H * W
    e = tl.load(evidence + row * H * W + lane, mask=inside, other=float("-inf"))
    top = tl.max(e, 0)
    scaled = e / tl.load(temperature)
    p = tl.where(inside, tl.exp(scaled - tl.max(scaled, 0)), 0.0)
    p = p / tl.sum(p, 0)
    x, y = _axis(lane % W, W), _axis(lane // W, H)
    cx, cy = tl.sum(p * x, 0), tl.sum(p * y, 0)
    variance_x, variance_y = tl.sum(p * (x - cx) * (x - cx), 0), tl.sum(p * (y - cy) * (y - cy), 0)
    tl.store(centre + 2 * row, cx)
    tl.store(centre + 2 * row + 1, cy)
    tl.store(extent + 2 * row, 2.0 * tl.sqrt(tl.maximum(variance_x, MIN)))
    tl.store(extent + 2 * row + 1, 2.0 * tl.sqrt(tl.maximum(variance_y, MIN)))
    tl.store(presence + row, tl.sigmoid(top))
    tl.store(heatmap + row * H * W + lane, p, mask=inside)


@triton.jit
def _describe_backward(
    evidence, temperature, centre, presence, extent, heatmap, of_centre, of_presence, of_extent, of_heatmap,
    of_evidence, of_temperature, H, W, SIZE: tl.constexpr,
):  # fmt: skip
    """One map; a gradient that is None is zero."""
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, SIZE)
    inside = lane < H * W
    e = tl.load(evidence + row * H * W + lane, mask=inside, other=float("-inf"))
    p = tl.load(heatmap + row * H * W + lane, mask=inside, other=0.0)
    x, y = _axis(lane % W, W), _axis(lane // W, H)

    g = tl.zeros((SIZE,), tl.float32)
    if of_heatmap is not None:
        g += tl.load(of_heatmap + row * H * W + lane, mask=inside, other=0.0)
    if of_centre is not None:
        g += x * tl.load(of_centre + 2 * row) + y * tl.load(of_centre + 2 * row + 1)
    if of_extent is not None:
        from_x, from_y = x - tl.load(centre + 2 * row), y - tl.load(centre + 2 * row + 1)
        squared_x, squared_y = from_x * from_x, from_y * from_y
        variance_x, variance_y = tl.sum(p * squared_x, 0), tl.sum(p * squared_y, 0)
        # The derivative of 2√v is 1/√v, which is two over the extent.
        width, height = tl.load(extent + 2 * row), tl.load(extent + 2 * row + 1)
        g += tl.where(variance_x >= MIN, tl.load(of_extent + 2 * row) * 2.0 / width, 0.0) * squared_x
        g += tl.where(variance_y >= MIN, tl.load(of_extent + 2 * row + 1) * 2.0 / height, 0.0) * squared_y
    T = tl.load(temperature)
    of_scaled = p * (g - tl.sum(p * g, 0))
    result = of_scaled / T
    tl.store(of_temperature + row, -tl.sum(tl.where(inside, of_scaled * e, 0.0), 0) / (T * T))
    if of_presence is not None:
        largest = (e == tl.max(e, 0)).to(tl.float32)
        sigma = tl.load(presence + row)
        result += tl.load(of_presence + row) * sigma * (1.0 - sigma) * largest / tl.sum(largest, 0)
    tl.store(of_evidence + row * H * W + lane, result, mask=inside)


@triton.jit
def _maps(heatmap, K, cells, MAPS: tl.constexpr, SIZE: tl.constexpr):
    """The maps of one image, where they are, and which cells of the tile are real."""
    k, cell = tl.arange(0, MAPS)[:, None], tl.arange(0, SIZE)[None, :]
    place = (tl.program_id(0).to(tl.int64) * K + k) * cells + cell
    inside = (k < K) & (cell < cells)
    return tl.load(heatmap + place, mask=inside, other=0.0), place, inside


@triton.jit
def _regularise(heatmap, terms, B, K, cells, epsilon, MAPS: tl.constexpr, SIZE: tl.constexpr):
    """One image: the mean cosine of two of its maps, and the mean entropy of its maps."""
    p, _, _ = _maps(heatmap, K, cells, MAPS, SIZE)
    unit = p / tl.maximum(tl.sqrt(tl.sum(p * p, 1)), 1e-12)[:, None]
    together = tl.sum(unit, 0)
    cosines = tl.sum(together * together, 0) - tl.sum(tl.sum(unit * unit, 1), 0)
    entropy = -tl.sum(tl.sum(p * tl.log(p + epsilon), 1), 0)
    image = tl.program_id(0)
    tl.store(terms + image, cosines / tl.maximum(K * (K - 1), 1))
    tl.store(terms + B + image, entropy / K)


@triton.jit
def _regularise_backward(
    heatmap, of_diversity, of_concentration, of_heatmap, B, K, cells, epsilon,
    MAPS: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    p, place, inside = _maps(heatmap, K, cells, MAPS, SIZE)
    norm = tl.maximum(tl.sqrt(tl.sum(p * p, 1)), 1e-12)[:, None]
    unit = p / norm
    others = tl.sum(unit, 0)[None, :] - unit
    along = tl.sum(unit * others, 1)[:, None]
    diversity = tl.load(of_diversity) * 2.0 / (tl.maximum(K * (K - 1), 1) * B)
    concentration = -tl.load(of_concentration) / (K * B)
    g = diversity * (others - unit * along) / norm + concentration * (tl.log(p + epsilon) + p / (p + epsilon))
    tl.store(of_heatmap + place, g, mask=inside)
