"""The support of sparsemax on CUDA, in two launches and one read of the matrix.

The same search as `parse_dg.model.sparsemax`: the largest entry of every block gives a lower bound of τ, and only
the blocks above it are read again. Nothing is decided on the CPU, so nothing waits for it.
"""

import torch
import triton
import triton.language as tl
from jaxtyping import Bool, Float
from torch import Tensor

from parse_dg.model.fused import launch

WIDTH = 128
"""Columns of a block."""
BLOCKS = 64
"""Blocks whose largest entry one program of the first kernel finds."""
CHUNK = 1024
"""Blocks that the second kernel looks at together."""
TILE = 32
"""Blocks that the second kernel reads again together."""
PART = 2048
"""Columns of a row that one program of the elementwise kernels goes through."""
SLACK = 5e-7
"""How far under the computed bound an entry is still looked at, for the rounding of the sums."""


def find_support(z: Float[Tensor, "R M"]) -> tuple[Float[Tensor, "R 1"], Float[Tensor, "R 1"], Bool[Tensor, "M"]]:
    """The largest entry of every row, τ relative to it, and which columns lie above τ in some row."""
    R, M = z.shape
    z = z.contiguous()
    blocks = triton.cdiv(M, WIDTH)
    largest = z.new_empty(R, blocks)
    near = torch.empty(R, blocks, dtype=torch.int32, device=z.device)
    highest, depth = z.new_empty(R, 1), z.new_empty(R, 1)
    used = torch.zeros(M, dtype=torch.bool, device=z.device)
    launch(_largest, (R, triton.cdiv(blocks, BLOCKS)), z, z, largest, M, blocks, WIDTH=WIDTH, BLOCKS=BLOCKS)
    launch(
        _search, (R,), z, z, largest, near, highest, depth, used, M, blocks, SLACK,
        WIDTH=WIDTH, CHUNK=CHUNK, TILE=TILE, num_warps=8,
    )  # fmt: skip
    return highest, depth, used


def weights(
    z: Float[Tensor, "R n"], highest: Float[Tensor, "R 1"], depth: Float[Tensor, "R 1"]
) -> Float[Tensor, "R n"]:
    """max(z - τ, 0)."""
    R, n = z.shape
    z = z.contiguous()
    result = torch.empty_like(z)
    launch(_weights, (R, triton.cdiv(n, PART)), z, z, highest, depth, result, n, PART=PART)
    return result


def backward_on_support(gradient: Float[Tensor, "R n"], weights: Float[Tensor, "R n"]) -> Float[Tensor, "R n"]:
    """The gradient less its mean over the support, on the support, which is all that is read of it; else zero."""
    R, n = weights.shape
    gradient, weights = gradient.contiguous(), weights.contiguous()
    result, sums = torch.empty_like(weights), weights.new_zeros(2, R)
    grid = (R, triton.cdiv(n, PART))
    launch(_sums_on_support, grid, weights, gradient, weights, sums, R, n, PART=PART)
    launch(_from_mean, grid, weights, gradient, weights, sums, result, R, n, PART=PART)
    return result


def sign_times(z: Float[Tensor, "R M"], factor: Float[Tensor, ""]) -> Float[Tensor, "R M"]:
    """sign(z) · factor in one pass: the gradient of factor · Σ|z|."""
    z = z.contiguous()
    result = torch.empty_like(z)
    grid = (triton.cdiv(z.numel(), 4096),)
    launch(_sign_times, grid, z, z, factor, result, z.numel(), BLOCK=4096, num_warps=8)
    return result


@triton.jit
def _weights(z, highest, depth, result, n, PART: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * PART + tl.arange(0, PART)
    entries = tl.load(z + row * n + column, mask=column < n, other=0.0)
    above = entries - tl.load(highest + row) - tl.load(depth + row)
    above = tl.where(above <= 0, 0.0, above)  # NaN stays
    tl.store(result + row * n + column, above, mask=column < n)


@triton.jit
def _sums_on_support(gradient, weights, sums, R, n, PART: tl.constexpr):
    """Of every row, the sum of the gradient over the support, and the size of the support."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * PART + tl.arange(0, PART)
    inside = tl.load(weights + row * n + column, mask=column < n, other=0.0) > 0
    size = tl.sum(inside.to(tl.float32), 0)
    if size > 0:
        g = tl.load(gradient + row * n + column, mask=inside, other=0.0)
        tl.atomic_add(sums + row, tl.sum(g, 0), sem="relaxed")
        tl.atomic_add(sums + R + row, size, sem="relaxed")


@triton.jit
def _from_mean(gradient, weights, sums, result, R, n, PART: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * PART + tl.arange(0, PART)
    inside = tl.load(weights + row * n + column, mask=column < n, other=0.0) > 0
    mean = tl.load(sums + row) / tl.load(sums + R + row)  # NaN for a row without a projection
    g = tl.load(gradient + row * n + column, mask=inside, other=0.0)
    tl.store(result + row * n + column, tl.where(inside, g - mean, 0.0 * mean), mask=column < n)


@triton.jit
def _sign_times(z, factor, result, size, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    entries = tl.load(z + place, mask=place < size, other=0.0)
    scale = tl.load(factor)
    tl.store(result + place, tl.where(entries > 0, scale, tl.where(entries < 0, -scale, 0.0)), mask=place < size)


@triton.jit
def _largest(z, largest, M, blocks, WIDTH: tl.constexpr, BLOCKS: tl.constexpr):
    """The largest entry of every block of WIDTH columns; NaN counts as +∞."""
    row = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1) * BLOCKS + tl.arange(0, BLOCKS)
    column = block[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    entries = tl.load(z + row * M + column, mask=column < M, other=float("-inf"))
    entries = tl.where(entries == entries, entries, float("inf"))
    tl.store(largest + row * blocks + block, tl.max(entries, 1), mask=block < blocks)


@triton.jit
def _search(
    z, largest, near, highest, depth, used, M, blocks, slack,
    WIDTH: tl.constexpr, CHUNK: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """One row: its highest entry, a bound, the blocks above it, Newton's method on those, and what is inside."""
    row = tl.program_id(0).to(tl.int64)
    z += row * M
    largest += row * blocks
    near += row * blocks

    lane = tl.arange(0, CHUNK)
    best = tl.full((CHUNK,), float("-inf"), tl.float32)
    for first in range(0, blocks, CHUNK):
        best = tl.maximum(best, tl.load(largest + first + lane, mask=first + lane < blocks, other=float("-inf")))
    top = tl.max(best, 0)
    projected = (top > float("-inf")) & (top < float("inf"))

    # Newton's method on the largest entries of the blocks.
    t = -1.0
    before = -1
    size = 0
    while before != size:
        total = tl.zeros((CHUNK,), tl.float64)
        number = tl.zeros((CHUNK,), tl.int32)
        for first in range(0, blocks, CHUNK):
            d = tl.load(largest + first + lane, mask=first + lane < blocks, other=float("-inf")) - top
            total += tl.where(d > t, d, 0.0)
            number += (d > t).to(tl.int32)
        before = size
        size = tl.sum(number, 0)
        t = tl.maximum(t, ((tl.sum(total, 0) - 1.0) / size).to(tl.float32))

    # The blocks above the bound, side by side.
    count = 0
    for first in range(0, blocks, CHUNK):
        d = tl.load(largest + first + lane, mask=first + lane < blocks, other=float("-inf")) - top
        above = (d > t - slack).to(tl.int32)
        tl.store(near + count + tl.cumsum(above, 0) - 1, first + lane, mask=above > 0)
        count += tl.sum(above, 0)
    tl.debug_barrier()

    # Newton's method on all entries of those blocks, from the bound on.
    t -= slack
    before = -1
    size = 0
    tile, wide = tl.arange(0, TILE), tl.arange(0, WIDTH)
    while before != size:
        total2 = tl.zeros((TILE, WIDTH), tl.float64)
        number2 = tl.zeros((TILE, WIDTH), tl.int32)
        for first in range(0, count, TILE):
            block = tl.load(near + first + tile, mask=first + tile < count, other=blocks)
            column = block[:, None] * WIDTH + wide[None, :]
            d = tl.load(z + column, mask=column < M, other=float("-inf")) - top
            total2 += tl.where(d > t, d, 0.0)
            number2 += (d > t).to(tl.int32)
        before = size
        size = tl.sum(tl.sum(number2, 1), 0)
        t = tl.maximum(t, ((tl.sum(tl.sum(total2, 1), 0) - 1.0) / size).to(tl.float32))

    for first in range(0, count, TILE):
        block = tl.load(near + first + tile, mask=first + tile < count, other=blocks)
        column = block[:, None] * WIDTH + wide[None, :]
        d = tl.load(z + column, mask=column < M, other=float("-inf")) - top
        tl.store(used + column, tl.full((TILE, WIDTH), 1, tl.int1), mask=d > t)
    if projected:
        tl.store(depth + row, t)
    else:  # no projection: everything becomes NaN, and somebody must see it
        tl.store(depth + row, float("nan"))
        tl.store(used, True)
    tl.store(highest + row, top)
