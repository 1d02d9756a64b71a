"""RandAugment (Cubuk et al., 2020), batched: each operation is applied at once to all samples that drew it.

Operations, magnitudes and signs are those of torchvision's `RandAugment`, the arithmetic Pillow's (uint8 in,
uint8 out, blends truncate). Geometric operations read the nearest pixel, as both do by default, and fill with
black.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from parse_dg.config import require
from parse_dg.devices import pinned

MAGNITUDE_BINS = 31

ImageBatch = UInt8[Tensor, "B 3 H W"]
Magnitudes = Float[Tensor, "B"]
# magnitudes, height and width → B 2 3: maps an output position to the input position it is read from, in pixels
# from the upper left corner, the centre of the first pixel being (0.5, 0.5). Pillow's convention
Matrix = Callable[[Tensor, int, int], Tensor]
Magnitude = Callable[[int, int, int], float]  # of a step from 0 to 30 on images of a height and a width


class Operation(NamedTuple):
    """One operation: what it does to a batch, and what a magnitude means to it."""

    apply: Callable[[Tensor, Tensor], Tensor] | None  # images and a magnitude for each → images; None: as they are
    magnitude: Magnitude = lambda step, height, width: 0.0
    signed: bool = False  # whether the magnitude is negated, with probability 1/2
    matrix: "Matrix | None" = None  # of a geometric operation


class RandAugmentDraws(NamedTuple):
    """Which operation every image gets in every round, and the sign of its magnitude."""

    choices: Int[Tensor, "ops B"]
    signs: Float[Tensor, "ops B"]


def draw_randaugment(count: int, ops: int, generator: torch.Generator) -> RandAugmentDraws:
    """`ops` operations for each of `count` images, drawn with replacement from OPERATIONS by a CPU generator."""
    require(ops >= 0, "ops", ops, "0 or more")
    choices = torch.randint(len(OPERATIONS), (ops, count), generator=generator)
    return RandAugmentDraws(choices, 1.0 - 2.0 * torch.randint(2, (ops, count), generator=generator))


def randaugment(images: ImageBatch, magnitude: int, draws: RandAugmentDraws) -> ImageBatch:
    """The operations that were drawn, one after another; `magnitude` is one of 31 bins, 0 to 30, common to all."""
    require(0 <= magnitude < MAGNITUDE_BINS, "magnitude", magnitude, f"from 0 to {MAGNITUDE_BINS - 1}")
    height, width = images.shape[-2:]
    table = [(operation.magnitude(magnitude, height, width), operation.signed) for operation in OPERATIONS.values()]
    value, signed = torch.tensor([value for value, _ in table]), torch.tensor([signed for _, signed in table])
    order = draws.choices.argsort(dim=1, stable=True)  # images that drew the same operation side by side
    drawn = draws.choices.gather(1, order)
    values = value[drawn] * torch.where(signed[drawn], draws.signs.gather(1, order), 1.0)
    # copied without waiting: the CPU goes on at once, whatever is queued there
    moved = [pinned(each, images.device).to(images.device, non_blocking=True) for each in (order, values)]
    result = images.clone()
    for number, choice in enumerate(draws.choices):
        parts = torch.bincount(choice, minlength=len(OPERATIONS)).tolist()
        rows_of, values_of = (torch.split(one[number], parts) for one in moved)
        for operation, rows, their_values in zip(OPERATIONS.values(), rows_of, values_of, strict=True):
            if len(rows) and operation.apply is not None:
                result[rows] = operation.apply(result[rows], their_values)
    return result


def fixed_point(matrix: Float[Tensor, "B 2 3"]) -> Int[Tensor, "B 6"]:
    """The matrix for whole positions (x, y) in 1/65536 of a pixel, as Pillow's: ties go the same way anywhere."""
    first = matrix[:, :, 2] + 0.5 * (matrix[:, :, 0] + matrix[:, :, 1])  # B 2, where the first centre is read
    whole = torch.cat([matrix[:, :, :2], first[:, :, None]], dim=2).mul_(65536).add_(0.5).floor_()
    return whole.long().flatten(1)


def _geometric(matrix: Matrix, magnitude: Magnitude) -> Operation:
    """Reads each output pixel from the input pixel that holds its mapped centre, or black outside."""

    def apply(images: ImageBatch, magnitudes: Magnitudes) -> ImageBatch:
        height, width = images.shape[-2:]
        x = torch.arange(width, device=images.device)
        y = torch.arange(height, device=images.device)[:, None]
        fixed = fixed_point(matrix(magnitudes, height, width))
        a, b, c, d, e, f = fixed[:, :, None, None].unbind(1)  # each B 1 1
        column = (a * x + b * y + c) >> 16  # B H W
        row = (d * x + e * y + f) >> 16
        inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
        source = (row * width + column).masked_fill_(~inside, 0).flatten(1)
        moved = images.flatten(2).gather(2, source[:, None].expand(-1, 3, -1)).view_as(images)
        return moved.mul_(inside[:, None])

    return Operation(apply, magnitude, signed=True, matrix=matrix)


def _shift(row: int, column: int) -> Matrix:
    """The magnitude in one entry of the unit matrix: a shear, or a shift by whole pixels, towards zero."""

    def matrix(magnitude: Magnitudes, height: int, width: int) -> Float[Tensor, "B 2 3"]:
        result = torch.eye(2, 3, device=magnitude.device).repeat(len(magnitude), 1, 1)
        result[:, row, column] = magnitude if column < 2 else -magnitude.trunc()
        return result

    return matrix


def _rotation(magnitude: Magnitudes, height: int, width: int) -> Float[Tensor, "B 2 3"]:
    """By magnitude degrees, counter-clockwise, about the centre."""
    angle = torch.deg2rad(magnitude)
    cos, sin = angle.cos(), angle.sin()
    y, x = height / 2, width / 2
    first = torch.stack([cos, -sin, x - cos * x + sin * y], dim=1)
    second = torch.stack([sin, cos, y - sin * x - cos * y], dim=1)
    return torch.stack([first, second], dim=1)


# Colour. An enhancement blends with what the image is without the property: black, gray, flat or smooth.


def _blend(plain: Tensor | float, images: Tensor, magnitude: Tensor) -> Tensor:
    """The blend plain + (1 + magnitude) · (images - plain), clipped and truncated to uint8."""
    factor = 1 + magnitude[:, None, None, None]
    return (plain + factor * (images - plain)).clamp_(0, 255).to(torch.uint8)


def _gray(images: Tensor) -> Tensor:
    """Pillow's grayscale as whole float numbers, B 1 H W: 16-bit fixed point, exact in float32."""
    red, green, blue = images.float().unbind(1)
    gray = 19595 * red + 38470 * green + 7471 * blue + 32768
    return gray.div_(65536).floor_()[:, None]


def contrast(images: ImageBatch, magnitude: Magnitudes) -> ImageBatch:
    """Blends with the mean of the grayscale image, a whole number, by 1 + magnitude."""
    total, pixels = _gray(images).long().sum((1, 2, 3), keepdim=True), images[0, 0].numel()
    return _blend(((2 * total + pixels) // (2 * pixels)).float(), images, magnitude)


def sharpness(images: ImageBatch, magnitude: Magnitudes) -> ImageBatch:
    """Blends with the image smoothed by (1 1 1, 1 5 1, 1 1 1) / 13, except its border, by 1 + magnitude."""
    smooth = images.float()
    if min(images.shape[-2:]) > 2:
        ring = F.avg_pool2d(smooth, 3, stride=1) * 9  # the sum of a pixel and its eight neighbours
        inner = smooth[:, :, 1:-1, 1:-1]
        inner.copy_((ring + 4 * inner).div_(13).add_(0.5).floor_())
    return _blend(smooth, images, magnitude)


def posterize(images: ImageBatch, magnitude: Magnitudes) -> ImageBatch:
    """Keeps the highest `magnitude` bits of a value, a whole number from 0 to 8."""
    mask = 256 - torch.exp2(8 - magnitude)
    return images & mask.to(torch.uint8)[:, None, None, None]


def solarize(images: ImageBatch, magnitude: Magnitudes) -> ImageBatch:
    """Inverts the values that are not below the threshold `magnitude`."""
    return torch.where(images >= magnitude[:, None, None, None], 255 - images, images)


def autocontrast(images: ImageBatch, magnitude: Magnitudes) -> ImageBatch:
    """Stretches each channel to 0..255; one that has a single value stays."""
    low = images.amin((2, 3), keepdim=True).float()
    span = images.amax((2, 3), keepdim=True).float() - low
    stretched = ((images - low) * 255).div_(span.clamp(min=1)).to(torch.uint8)
    return torch.where(span > 0, stretched, images)


def equalize(images: ImageBatch, magnitude: Magnitudes) -> ImageBatch:
    """Equalizes each channel's histogram by Pillow's table; one that has a single value stays."""
    planes = images.flatten(2).flatten(0, 1).long()  # 3B HW
    offsets = 256 * torch.arange(len(planes), device=images.device)[:, None]
    counts = torch.zeros(256 * len(planes), dtype=torch.long, device=images.device)
    values = (planes + offsets).flatten()
    counts = counts.scatter_add_(0, values, torch.ones_like(values)).view(-1, 256)  # bincount would wait for CUDA
    # all pixels but those of the highest value, spread over 255 steps
    step = (planes.shape[1] - counts.gather(1, planes.amax(1, keepdim=True))) // 255  # 3B 1
    before = counts.cumsum(1) - counts
    table = ((step // 2 + before) // step.clamp(min=1)).clamp_(max=255)
    table = torch.where(step > 0, table, torch.arange(256, device=images.device))
    return table.gather(1, planes).to(torch.uint8).view_as(images)


def _linear(top: float) -> Magnitude:
    return lambda step, height, width: top * step / (MAGNITUDE_BINS - 1)


OPERATIONS: dict[str, Operation] = {
    "Identity": Operation(None),
    "ShearX": _geometric(_shift(0, 1), _linear(0.3)),
    "ShearY": _geometric(_shift(1, 0), _linear(0.3)),
    "TranslateX": _geometric(_shift(0, 2), lambda step, height, width: 150 / 331 * width * step / 30),
    "TranslateY": _geometric(_shift(1, 2), lambda step, height, width: 150 / 331 * height * step / 30),
    "Rotate": _geometric(_rotation, _linear(30)),
    "Brightness": Operation(lambda images, m: _blend(0.0, images, m), _linear(0.9), signed=True),
    "Color": Operation(lambda images, m: _blend(_gray(images), images, m), _linear(0.9), signed=True),
    "Contrast": Operation(contrast, _linear(0.9), signed=True),
    "Sharpness": Operation(sharpness, _linear(0.9), signed=True),
    "Posterize": Operation(posterize, lambda step, height, width: 8.0 - round(step / 7.5)),
    "Solarize": Operation(solarize, lambda step, height, width: 255 * (30 - step) / 30),
    "AutoContrast": Operation(autocontrast),
    "Equalize": Operation(equalize),
}
