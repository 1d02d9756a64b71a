"""RandAugment on CUDA in three launches a round, whatever was drawn: what `randaugment` says, said in Triton.

The magnitude is common to a batch, so an operation has two variants, one a sign, and a small table says what each
does: where a pixel is read (a matrix), what becomes of its 256 levels, and with what it is blended. Operations that
look at the whole image get their levels from its histograms. The launches count, tabulate and apply.
"""

from functools import lru_cache
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from parse_dg.data.augment.randaugment import OPERATIONS, ImageBatch, RandAugmentDraws, fixed_point
from parse_dg.devices import pinned

BLOCK = 1024  # pixels of one image that a program computes

COLOR, SHARPNESS, CONTRAST, AUTOCONTRAST, EQUALIZE = (tl.constexpr(number) for number in range(1, 6))
KINDS = {"Color": 1, "Sharpness": 2, "Contrast": 3, "AutoContrast": 4, "Equalize": 5}
"""Those that are more than a matrix and a table of levels; from 3 on the image is looked at first."""


class Variants(NamedTuple):
    """What every operation does, with either sign: V is twice as many as there are operations."""

    kinds: Int[Tensor, "V"]
    factors: Float[Tensor, "V"]  # of a blend
    matrices: Int[Tensor, "V 6"]  # where the pixel at (x, y) is read, in 1/65536 of a pixel
    levels: UInt8[Tensor, "V 256"]  # what becomes of each, in every channel


@lru_cache(maxsize=16)
def variants(magnitude: int, height: int, width: int, device: torch.device) -> Variants:
    """The table of a magnitude, from the plain operations themselves."""
    unit, level = fixed_point(torch.eye(2, 3)[None])[0], torch.arange(256, dtype=torch.uint8)
    kinds, factors, matrices, levels = [], [], [], []
    for name, operation in OPERATIONS.items():
        for sign in (1, -1 if operation.signed else 1):
            value = sign * torch.tensor([operation.magnitude(magnitude, height, width)])
            matrix = operation.matrix and fixed_point(operation.matrix(value, height, width))[0]
            pointwise = operation.apply if matrix is None and name not in KINDS else None
            kinds.append(KINDS.get(name, 0))
            factors.append(1 + value)
            matrices.append(unit if matrix is None else matrix)
            levels.append(pointwise(level.expand(1, 3, 1, 256), value)[0, 0, 0] if pointwise else level)
    tables = torch.tensor(kinds, dtype=torch.int32), torch.cat(factors), torch.stack(matrices), torch.stack(levels)
    return Variants(*(table.to(device) for table in tables))


def randaugment_fused(images: ImageBatch, magnitude: int, draws: RandAugmentDraws) -> ImageBatch:
    """As `randaugment`; channels last in memory."""
    count, _, height, width = images.shape
    device, pixels = images.device, height * width
    table = variants(magnitude, height, width, device)
    drawn = (2 * draws.choices + (draws.signs < 0)).int()
    drawn = pinned(drawn, device).to(device, non_blocking=True)
    histograms = torch.zeros((len(drawn), count, 4, 256), dtype=torch.int32, device=device)
    levels = torch.empty((count, 3, 256), dtype=torch.uint8, device=device)
    grid = count, triton.cdiv(pixels, BLOCK)
    for which, histogram in zip(drawn, histograms, strict=True):
        result = torch.empty(images.shape, dtype=torch.uint8, device=device, memory_format=torch.channels_last)
        if count:
            with torch.cuda.device_of(images):
                shape = *images.stride(), height, width
                _count[grid](images, which, table.kinds, histogram, *shape, BLOCK=BLOCK, num_warps=4)
                _tabulate[(count, 3)](
                    which, table.kinds, table.factors, table.levels, histogram, levels, pixels,
                    num_warps=1, enable_fp_fusion=False,
                )  # fmt: skip
                _apply[grid](
                    images, result, which, table.kinds, table.factors, table.matrices, levels, *shape,
                    BLOCK=BLOCK, num_warps=4, enable_fp_fusion=False,  # a blend is rounded as the plain one
                )  # fmt: skip
        images = result
    return images


@triton.jit
def _count(
    images, drawn, kinds, histogram, stride_image, stride_channel, stride_row, stride_column, H, W,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Histograms of red, green, blue and gray, of images whose operation needs them."""
    image = tl.program_id(0)
    kind = tl.load(kinds + tl.load(drawn + image))
    pixel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    gray = (pixel < H * W) & (kind == CONTRAST)
    coloured = (pixel < H * W) & (kind > CONTRAST)
    read = gray | coloured
    place = images + image.to(tl.int64) * stride_image + (pixel // W) * stride_row + (pixel % W) * stride_column
    r = tl.load(place, mask=read, other=0).to(tl.int32)
    g = tl.load(place + stride_channel, mask=read, other=0).to(tl.int32)
    b = tl.load(place + 2 * stride_channel, mask=read, other=0).to(tl.int32)
    counts, one = histogram + image * 1024, read.to(tl.int32)
    tl.atomic_add(counts + r, one, mask=coloured, sem="relaxed")
    tl.atomic_add(counts + 256 + g, one, mask=coloured, sem="relaxed")
    tl.atomic_add(counts + 512 + b, one, mask=coloured, sem="relaxed")
    tl.atomic_add(counts + 768 + _gray(r, g, b), one, mask=gray, sem="relaxed")


@triton.jit
def _tabulate(drawn, kinds, factors, constant, histogram, levels, pixels):
    """What becomes of the 256 levels of one channel of an image."""
    image, channel = tl.program_id(0), tl.program_id(1)
    variant = tl.load(drawn + image)
    kind = tl.load(kinds + variant)
    level = tl.arange(0, 256)
    result = tl.load(constant + variant * 256 + level).to(tl.int32)
    counts = tl.load(histogram + image * 1024 + tl.where(kind == CONTRAST, 3, channel) * 256 + level)
    low = tl.min(tl.where(counts > 0, level, 255))
    high = tl.max(tl.where(counts > 0, level, 0))
    if kind == CONTRAST:
        total = tl.sum(level.to(tl.int64) * counts)
        mean = (2 * total + pixels) // (2 * pixels)
        result = _blend(mean.to(tl.float32), level, tl.load(factors + variant))
    if (kind == AUTOCONTRAST) & (high > low):
        result = tl.maximum(level - low, 0) * 255 // (high - low)
    step = (pixels - tl.sum(tl.where(level == high, counts, 0))) // 255
    if (kind == EQUALIZE) & (step > 0):
        before = tl.cumsum(counts, 0) - counts
        result = tl.minimum((step // 2 + before) // step, 255)
    tl.store(levels + (image * 3 + channel) * 256 + level, result.to(tl.uint8))


@triton.jit
def _apply(
    images, result, drawn, kinds, factors, matrices, levels,
    stride_image, stride_channel, stride_row, stride_column, H, W, BLOCK: tl.constexpr,
):  # fmt: skip
    image = tl.program_id(0)
    variant = tl.load(drawn + image)
    kind, factor, matrix = tl.load(kinds + variant), tl.load(factors + variant), matrices + variant * 6
    pixel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = pixel < H * W
    x, y = pixel % W, pixel // W
    column = (tl.load(matrix) * x + tl.load(matrix + 1) * y + tl.load(matrix + 2)) >> 16
    row = (tl.load(matrix + 3) * x + tl.load(matrix + 4) * y + tl.load(matrix + 5)) >> 16
    there = inside & (column >= 0) & (column < W) & (row >= 0) & (row < H)
    place = images + image.to(tl.int64) * stride_image + row * stride_row + column * stride_column
    table = levels + image * 768
    r = _level(place, table, there)
    g = _level(place + stride_channel, table + 256, there)
    b = _level(place + 2 * stride_channel, table + 512, there)
    if kind == COLOR:
        gray = _gray(r, g, b).to(tl.float32)
        r, g, b = _blend(gray, r, factor), _blend(gray, g, factor), _blend(gray, b, factor)
    if kind == SHARPNESS:
        inner = inside & (x > 0) & (x < W - 1) & (y > 0) & (y < H - 1)
        r = _sharpen(place, r, factor, stride_row, stride_column, inner)
        g = _sharpen(place + stride_channel, g, factor, stride_row, stride_column, inner)
        b = _sharpen(place + 2 * stride_channel, b, factor, stride_row, stride_column, inner)
    place = result + (image.to(tl.int64) * H * W + pixel) * 3
    tl.store(place, r.to(tl.uint8), mask=inside)
    tl.store(place + 1, g.to(tl.uint8), mask=inside)
    tl.store(place + 2, b.to(tl.uint8), mask=inside)


@triton.jit
def _level(place, table, there):
    """The value of a pixel, 0 outside, by the table."""
    return tl.load(table + tl.load(place, mask=there, other=0).to(tl.int32)).to(tl.int32)


@triton.jit
def _sharpen(place, value, factor, stride_row, stride_column, inner):
    """Blended with (1 1 1, 1 5 1, 1 1 1) / 13 of the pixels around, rounded, except at the border."""
    total = 4 * value
    for down in tl.static_range(3):
        for across in tl.static_range(3):
            near = place + (down - 1) * stride_row + (across - 1) * stride_column
            total += tl.load(near, mask=inner, other=0).to(tl.int32)
    smooth = tl.where(inner, (2 * total + 13) // 26, value)
    return _blend(smooth.to(tl.float32), value, factor)


@triton.jit
def _blend(plain, value, factor):
    mixed = plain + factor * (value.to(tl.float32) - plain)
    return tl.minimum(tl.maximum(mixed, 0.0), 255.0).to(tl.int32)


@triton.jit
def _gray(r, g, b):
    return (19595 * r + 38470 * g + 7471 * b + 32768) >> 16
