"""A convolution, BatchNorm with frozen statistics, what is added beside it, and the rectifier, on CUDA.

With frozen statistics BatchNorm is a factor and a shift a channel. The factor goes into the convolution's weight;
shift, sum and rectifier are one pass over the map, forward and backward, where the plain code makes five. Memory is
what limits such a step, so it is also what is saved: nothing is kept for the gradient but the block's own maps.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from parse_dg.model.fused import launch

TILE = 4096
"""How many entries of a map a program looks at together."""
MOST_PROGRAMS = 1024
"""About how many programs share a map in the backward pass: each writes a partial sum of its channels."""


def convolve(
    x: Float[Tensor, "B c h w"],
    conv: nn.Conv2d,
    norm: nn.BatchNorm2d,
    beside: Float[Tensor, "B _c _h _w"] | None,
    shortcut: nn.Sequential | None,
) -> Float[Tensor, "B C H W"]:
    """relu(norm(conv(x)) + shortcut(beside)); a shortcut is a convolution and its norm."""
    out, shift = _folded(x, conv, norm)
    if beside is not None and shortcut is not None:
        beside, other = _folded(beside, *shortcut)
        shift = shift + other
    result: Tensor = _ShiftAddRectify.apply(out, shift, beside)
    return result


def _folded(x: Tensor, conv: nn.Conv2d, norm: nn.BatchNorm2d) -> tuple[Tensor, Tensor]:
    """The convolution with the norm's factor in its weight, and the shift that is left to be added."""
    assert norm.running_var is not None
    assert norm.running_mean is not None
    factor = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
    weight = conv.weight * factor[:, None, None, None]
    out = F.conv2d(x, weight, None, conv.stride, conv.padding, conv.dilation, conv.groups)
    return out, norm.bias - norm.running_mean * factor


class _ShiftAddRectify(torch.autograd.Function):
    """relu(x + shift + beside), channel by channel; all maps lie channels last."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, shift: Tensor, beside: Tensor | None) -> Tensor:
        x = x.contiguous(memory_format=torch.channels_last)
        if beside is not None:
            beside = beside.to(x.dtype).contiguous(memory_format=torch.channels_last)
        out = torch.empty_like(x)
        rows, channels, across, down = _sizes(x)
        launch(
            _forward, (triton.cdiv(rows, down), triton.cdiv(channels, across)), x,
            x, shift, x if beside is None else beside, out, rows, channels,
            BESIDE=beside is not None, ACROSS=across, DOWN=down,
        )  # fmt: skip
        ctx.save_for_backward(out)
        ctx.beside = beside is not None
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        (out,) = ctx.saved_tensors
        gradient = gradient.contiguous(memory_format=torch.channels_last)
        through = torch.empty_like(out)
        rows, channels, across, down = _sizes(out)
        parts = max(1, min(triton.cdiv(rows, down), MOST_PROGRAMS // triton.cdiv(channels, across)))
        sums = torch.zeros(parts, channels, device=out.device, dtype=torch.float32)
        if rows:
            launch(
                _backward, (parts, triton.cdiv(channels, across)), out,
                gradient, out, through, sums, rows, channels, parts,
                ROUNDS=triton.cdiv(rows, parts * down), ACROSS=across, DOWN=down,
            )  # fmt: skip
        return through, sums.sum(0), through if ctx.beside else None


def _sizes(x: Tensor) -> tuple[int, int, int, int]:
    """Rows (a position of an image each), channels, and how many of both a program takes at once."""
    B, C, H, W = x.shape
    across = min(256, triton.next_power_of_2(C))
    return B * H * W, C, across, TILE // across


@triton.jit
def _forward(
    x, shift, beside, out, rows, channels,
    BESIDE: tl.constexpr, ACROSS: tl.constexpr, DOWN: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * DOWN + tl.arange(0, DOWN)
    channel = tl.program_id(1) * ACROSS + tl.arange(0, ACROSS)
    inside = (row < rows)[:, None] & (channel < channels)[None, :]
    place = row[:, None] * channels + channel[None, :]
    value = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
    value += tl.load(shift + channel, mask=channel < channels, other=0.0)[None, :]
    if BESIDE:
        value += tl.load(beside + place, mask=inside, other=0.0).to(tl.float32)
    # What is no number stays none.
    value = tl.where(value < 0, 0.0, value)
    tl.store(out + place, value.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _backward(
    gradient, out, through, sums, rows, channels, parts,
    ROUNDS: tl.constexpr, ACROSS: tl.constexpr, DOWN: tl.constexpr,
):  # fmt: skip
    part = tl.program_id(0)
    channel = tl.program_id(1) * ACROSS + tl.arange(0, ACROSS)
    total = tl.zeros((ACROSS,), tl.float32)
    for turn in range(ROUNDS):
        row = (turn * parts + part).to(tl.int64) * DOWN + tl.arange(0, DOWN)
        inside = (row < rows)[:, None] & (channel < channels)[None, :]
        place = row[:, None] * channels + channel[None, :]
        passes = tl.load(out + place, mask=inside, other=0.0) > 0
        value = tl.where(passes, tl.load(gradient + place, mask=inside, other=0.0).to(tl.float32), 0.0)
        tl.store(through + place, value.to(through.dtype.element_ty), mask=inside)
        total += tl.sum(value, 0)
    tl.store(sums + part * channels + channel, total, mask=channel < channels)
