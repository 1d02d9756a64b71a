"""Augmentation on CUDA in two launches: what `parse_dg.data.augment.batches` says, said in Triton.

The first launch measures what contrast needs, the mean luma of every image at that point of its jitter; the second
does everything, from stored bytes to normalised floats with channels last, and reads every image once more instead
of keeping anything in between. Without Triton, which comes with PyTorch's CUDA builds, the plain path is taken.
"""

import torch
import triton
import triton.language as tl
from jaxtyping import Float, UInt8
from torch import Tensor

BLOCK = 1024  # pixels of one image that a program computes


def augment_normalised(
    images: UInt8[Tensor, "B 3 H W"],
    uniform: Float[Tensor, "B 10"],
    order: tuple[int, ...],
    size: tuple[int, int],
    *,
    crop_scale: tuple[float, float],
    log_ratio: float,
    flip: float,
    jitter: float,
    grayscale: float,
    mean: tuple[float, float, float],
    std: tuple[float, float, float],
) -> Float[Tensor, "B 3 h w"]:
    """Cropped, flipped, jittered, perhaps gray, normalised; channels last in memory."""
    count, _, high, wide = images.shape
    height, width = size
    result = torch.empty((count, 3, height, width), device=images.device, memory_format=torch.channels_last)
    blocks = triton.cdiv(height * width, BLOCK)
    partial = torch.empty((count, blocks), device=images.device)
    arguments = (
        images, uniform.contiguous(), partial, result, *images.stride(), high, wide, height, width, blocks,
        *crop_scale, log_ratio, flip, jitter, grayscale, *order, *mean, *std,
    )  # fmt: skip
    if count:
        with torch.cuda.device_of(images):
            for measure in (True, False) if jitter else (False,):
                _augment[(count, blocks)](*arguments, BLOCK=BLOCK, MEASURE=measure, num_warps=4)
    return result


@triton.jit(do_not_specialize=["first", "second", "third", "fourth"])  # else a compilation for every order
def _augment(
    images, uniform, partial, result, stride_image, stride_channel, stride_row, stride_column,
    H, W, height, width, blocks, scale_low, scale_high, log_ratio, flip, jitter, grayscale,
    first, second, third, fourth, mean_r, mean_g, mean_b, std_r, std_g, std_b,
    BLOCK: tl.constexpr, MEASURE: tl.constexpr,
):  # fmt: skip
    image = tl.program_id(0)
    draws = uniform + image * 10
    pixel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = pixel < height * width
    x, y = _source(draws, pixel, H, W, height, width, scale_low, scale_high, log_ratio, flip)
    place = images + image.to(tl.int64) * stride_image
    r = _bilinear(place, x, y, H, W, stride_row, stride_column, inside)
    g = _bilinear(place + stride_channel, x, y, H, W, stride_row, stride_column, inside)
    b = _bilinear(place + 2 * stride_channel, x, y, H, W, stride_row, stride_column, inside)
    level = 0.0
    if jitter > 0:
        if not MEASURE:
            slots = tl.arange(0, 1024)
            level = tl.sum(tl.load(partial + image * blocks + slots, mask=slots < blocks, other=0.0))
            level /= height * width
        measuring = 1
        for slot in tl.static_range(4):
            step = first if slot == 0 else second if slot == 1 else third if slot == 2 else fourth
            strength = (2 * tl.load(draws + 5 + step) - 1) * jitter
            if MEASURE and step == 1:
                measuring = 0
            if measuring == 1:
                r, g, b = _jitter(r, g, b, step, strength, level)
    if MEASURE:
        total = tl.sum(tl.where(inside, 0.299 * r + 0.587 * g + 0.114 * b, 0.0))
        tl.store(partial + image * blocks + tl.program_id(1), total)
    else:
        if tl.load(draws + 9) < grayscale:
            r, g, b = _saturate(r, g, b, 0.0)
        place = result + (image.to(tl.int64) * height * width + pixel) * 3
        tl.store(place, (r - mean_r) / std_r, mask=inside)
        tl.store(place + 1, (g - mean_g) / std_g, mask=inside)
        tl.store(place + 2, (b - mean_b) / std_b, mask=inside)


@triton.jit
def _source(draws, pixel, H, W, height, width, scale_low, scale_high, log_ratio, flip):
    """Where each pixel of the result is read, in pixels of the image: the crop's box, as `crop_box` draws it."""
    area = scale_low + (scale_high - scale_low) * tl.load(draws)
    ratio = tl.exp((2 * tl.load(draws + 1) - 1) * log_ratio) * H / W
    ratio = tl.minimum(tl.maximum(ratio, area), 1 / area)
    wide, high = tl.minimum(tl.sqrt(area * ratio), 1.0), tl.minimum(tl.sqrt(area / ratio), 1.0)
    across = ((pixel % width).to(tl.float32) + 0.5) / width
    down = ((pixel // width).to(tl.float32) + 0.5) / height
    if tl.load(draws + 4) < flip:
        across = 1 - across
    x = tl.load(draws + 2) * (1 - wide) + wide * across
    y = tl.load(draws + 3) * (1 - high) + high * down
    x = tl.minimum(tl.maximum(x * W - 0.5, 0.0), W - 1.0)
    return x, tl.minimum(tl.maximum(y * H - 0.5, 0.0), H - 1.0)


@triton.jit
def _bilinear(plane, x, y, H, W, stride_row, stride_column, inside):
    """The value between the four nearest pixels, in [0, 1]."""
    left, top = x.to(tl.int32), y.to(tl.int32)
    right, below = tl.minimum(left + 1, W - 1), tl.minimum(top + 1, H - 1)
    dx, dy = x - left, y - top
    upper = _pixel(plane, top, left, stride_row, stride_column, inside) * (1 - dx)
    upper += _pixel(plane, top, right, stride_row, stride_column, inside) * dx
    lower = _pixel(plane, below, left, stride_row, stride_column, inside) * (1 - dx)
    lower += _pixel(plane, below, right, stride_row, stride_column, inside) * dx
    return (upper * (1 - dy) + lower * dy) / 255


@triton.jit
def _pixel(plane, row, column, stride_row, stride_column, inside):
    return tl.load(plane + row * stride_row + column * stride_column, mask=inside, other=0).to(tl.float32)


@triton.jit
def _jitter(r, g, b, step, strength, level):
    """Brightness, contrast, saturation or hue, by number."""
    factor = 1 + strength
    if step == 0:
        r, g, b = _clamp(r * factor), _clamp(g * factor), _clamp(b * factor)
    elif step == 1:
        toward = -level * strength
        r, g, b = _clamp(r * factor + toward), _clamp(g * factor + toward), _clamp(b * factor + toward)
    elif step == 2:
        r, g, b = _saturate(r, g, b, factor)
    else:
        r, g, b = _shift_hue(r, g, b, strength)
    return r, g, b


@triton.jit
def _saturate(r, g, b, factor):
    gray = (0.299 * r + 0.587 * g + 0.114 * b) * (1 - factor)
    return _clamp(r * factor + gray), _clamp(g * factor + gray), _clamp(b * factor + gray)


@triton.jit
def _shift_hue(r, g, b, turns):
    """As `shift_hue_`: hue in sixths of a turn, chroma and minimum kept."""
    low = tl.minimum(tl.minimum(g, b), r)
    chroma = tl.maximum(tl.maximum(g, b), r) - low
    hue = tl.where(g >= b, b - r + 2 * chroma, r - g + 4 * chroma)
    hue = tl.where(r >= tl.maximum(g, b), g - b, hue)
    hue = turns + 2 + hue / tl.maximum(chroma, 1e-8) / 6
    hue = (hue - tl.floor(hue)) * 6
    r = _clamp(tl.abs(hue - 3) - 1) * chroma + low
    g = _clamp(2 - tl.abs(hue - 2)) * chroma + low
    b = _clamp(2 - tl.abs(hue - 4)) * chroma + low
    return r, g, b


@triton.jit
def _clamp(value):
    return tl.minimum(tl.maximum(value, 0.0), 1.0)
