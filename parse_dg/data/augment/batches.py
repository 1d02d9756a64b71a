"""Batched augmentation: a batch of uint8 images → float images in [0, 1], on the device the batch is on.

The order is fixed: RandAugment (off by default), then random resized crop and flip as one resampling (crops of a
fixed size, which need none, come before RandAugment), then colour jitter, then grayscale, then what was registered
and is named in `extra`. Every sample has its own draws, made beforehand, on the CPU, by `draw_augment`; `augment`
is then a function of images and draws alone, whatever the device and whenever it runs. A step switched off still
draws, so that the others stay as they were; only RandAugment and what was registered, which draw last, do not.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Annotated, Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, UInt8
from torch import Tensor

from parse_dg.config import Config, Probability, Rule, Whole, at_most, require
from parse_dg.data.augment.randaugment import (
    MAGNITUDE_BINS,
    ImageBatch,
    RandAugmentDraws,
    draw_randaugment,
    randaugment,
)
from parse_dg.errors import InputError
from parse_dg.registry import Registry

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

LARGEST = 1024 * 1024  # pixels of an augmented image that the fused path can take
CPU_PIXELS = 4 * 224 * 224  # of images that are augmented together on a CPU: as many as stay in its cache
_LOG_RATIO = math.log(4 / 3)  # width / height of a crop is log-uniform in [3/4, 4/3]
AREA = Rule("two shares that ascend, above 0 and at most 1", lambda shares: 0 < shares[0] <= shares[1] <= 1)
MAGNITUDE = Rule(f"from 0 to {MAGNITUDE_BINS - 1}", lambda value: 0 <= value < MAGNITUDE_BINS)

FloatBatch = Float[Tensor, "B 3 h w"]
# a float batch (B, 3, h, w) in [0, 1], on any device → another of its shape; the generator is on the CPU
BatchAugmentation = Callable[[Tensor, torch.Generator], Tensor]
AUGMENTATIONS: Registry[BatchAugmentation] = Registry("augmentation", "augment.extra")
register_augmentation = AUGMENTATIONS.register


@dataclass(frozen=True, kw_only=True)
class AugmentConfig(Config):
    """What is done to a training batch; each step has a value that turns it off.

    Jitter of strength j draws the factors of brightness, contrast and saturation from [1 - j, 1 + j], and the
    shift of hue from [-j, j] turns of the colour circle.
    """

    crop: Literal["resized", "fixed"] = "resized"
    """`resized`: a box of random area and shape, resized. `fixed`: data.image_size pixels at a random place of an
    image of data.crop_from, as they are; RandAugment then comes after crop and flip."""
    crop_scale: Annotated[tuple[float, float], AREA] = (0.7, 1.0)
    """crop=resized: the smallest and the largest share of the area that a crop has; (1, 1): no crop."""
    flip: Probability = 0.5
    """Probability of a horizontal flip."""
    jitter: Probability = 0.3
    """Strength of colour jitter; 0: none."""
    grayscale: Probability = 0.1
    """Probability of losing all colour."""
    randaugment_ops: Annotated[Whole, at_most(100)] = 0
    """RandAugment operations on each image; 0: none."""
    randaugment_magnitude: Annotated[int, MAGNITUDE] = 9
    """Of all RandAugment operations."""
    per_image: bool = False
    """The classic path: one original after another, by Pillow, on the CPU."""
    extra: tuple[str, ...] = ()
    """What is done to a batch after all of this, in order, by the names it was registered with (docs/extend.md)."""

    def check(self) -> None:
        batches = "with augment.per_image=true, as they work on whole batches"
        for name, alone in (("randaugment_ops", 0), ("extra", ()), ("crop", "resized")):
            self.require(not self.per_image or getattr(self, name) == alone, name, f"{alone} {batches}")
        for name in self.extra:
            AUGMENTATIONS.find(name)


class AugmentDraws(NamedTuple):
    """Everything random about the augmentation of a batch."""

    uniform: Float[Tensor, "B 10"]  # in [0, 1): 4 for the crop, 1 for the flip, 4 for the jitter, 1 for grayscale
    order: tuple[int, ...]  # of brightness, contrast, saturation and hue; one for the batch
    randaugment: RandAugmentDraws | None  # None where RandAugment is off; always on the CPU
    seeds: tuple[int, ...] = ()  # of each registered augmentation, which makes its own draws

    def of(self, share: slice) -> "AugmentDraws":
        """The draws of some of the images; registered augmentations draw anew for each share."""
        ops = self.randaugment
        some = ops and RandAugmentDraws(ops.choices[:, share], ops.signs[:, share])
        seeds = tuple(seed + (share.start or 0) for seed in self.seeds)
        return AugmentDraws(self.uniform[share], self.order, some, seeds)


def draw_augment(config: AugmentConfig, count: int, generator: torch.Generator) -> AugmentDraws:
    """The draws for a batch of `count` images, from a CPU generator."""
    uniform = torch.rand(count, 10, generator=generator)
    order = tuple(torch.randperm(len(_JITTER_STEPS), generator=generator).tolist())
    ops, extra = config.randaugment_ops, len(config.extra)
    drawn = draw_randaugment(count, ops, generator) if ops else None
    seeds = torch.randint(2**62, (extra,), generator=generator).tolist() if extra else ()
    return AugmentDraws(uniform, order, drawn, tuple(seeds))


def augment(images: ImageBatch, config: AugmentConfig, draws: AugmentDraws, size: int | None = None) -> FloatBatch:
    """A randomly augmented float32 copy of a batch in [0, 1], size × size pixels, or H × W where size is None."""
    result = _augmented(*_cut(images, config, draws, size), draws, lambda part: part)
    for name, seed in zip(config.extra, draws.seeds, strict=True):
        shape, result = result.shape, AUGMENTATIONS[name](result, torch.Generator().manual_seed(seed))
        if result.shape != shape:
            raise InputError(f"augmentation {name} must return images {tuple(shape)}, found {tuple(result.shape)}")
    return result


def prepare_images(
    images: ImageBatch, config: AugmentConfig, draws: AugmentDraws, size: int | None = None
) -> FloatBatch:
    """Augmented and normalised with ImageNet's statistics, channels last in memory; on CUDA in a few launches."""
    if config.extra:
        return normalise(augment(images, config, draws, size)).contiguous(memory_format=torch.channels_last)
    images, config, shape = _cut(images, config, draws, size)
    cropped = config.crop_scale[0] < 1 or shape != images.shape[-2:]
    if not (images.is_cuda and cropped and shape[0] * shape[1] <= LARGEST and find_spec("triton")):
        return _augmented(images, config, shape, draws, normalise, torch.channels_last)
    from parse_dg.data.augment.fused import augment_normalised

    images = randaugmented(images, config, draws)
    return augment_normalised(
        images, draws.uniform.to(images.device), draws.order, shape,
        crop_scale=config.crop_scale, log_ratio=_LOG_RATIO, flip=config.flip, jitter=config.jitter,
        grayscale=config.grayscale, mean=IMAGENET_MEAN, std=IMAGENET_STD,
    )  # fmt: skip


def _cut(
    images: ImageBatch, config: AugmentConfig, draws: AugmentDraws, size: int | None
) -> tuple[UInt8[Tensor, "B 3 h w"], AugmentConfig, tuple[int, int]]:
    """Random crops of a fixed size, perhaps flipped; what is left to do to them; the shape (h, w) of the result."""
    require(size is None or size >= 1, "size", size, "at least 1, or none")
    height, width = images.shape[-2:]
    h, w = (height, width) if size is None else (size, size)
    if config.crop == "resized":
        return images, config, (h, w)
    fits = h <= height and w <= width
    require(fits, "data.crop_from", f"images of {height} × {width}", f"at least the {h} × {w} pixels of a crop")
    uniform = draws.uniform.to(images.device)
    top = (uniform[:, 3] * (height - h + 1)).long().clamp(max=height - h)  # a product may be rounded up
    left = (uniform[:, 2] * (width - w + 1)).long().clamp(max=width - w)
    rows = top[:, None] + torch.arange(h, device=images.device)
    columns = left[:, None] + torch.arange(w, device=images.device)
    columns = torch.where(uniform[:, 4:5] < config.flip, columns.flip(1), columns)
    number = torch.arange(len(images), device=images.device)[:, None, None]
    crops = images.permute(0, 2, 3, 1)[number, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
    return crops, replace(config, crop="resized", crop_scale=(1.0, 1.0), flip=0.0), (h, w)


def randaugmented(images: ImageBatch, config: AugmentConfig, draws: AugmentDraws) -> ImageBatch:
    """After RandAugment, if it is on; on CUDA in three launches a round."""
    if draws.randaugment is None:
        return images
    if images.is_cuda and find_spec("triton"):
        from parse_dg.data.augment.fused_randaugment import randaugment_fused

        return randaugment_fused(images, config.randaugment_magnitude, draws.randaugment)
    return randaugment(images, config.randaugment_magnitude, draws.randaugment)


def _augmented(
    images: Tensor,
    config: AugmentConfig,
    shape: tuple[int, int],
    draws: AugmentDraws,
    finish: Callable[[Tensor], Tensor],
    layout: torch.memory_format = torch.contiguous_format,
) -> Tensor:
    """The batch augmented and finished; on a CPU some rows at a time."""
    images = randaugmented(images, config, draws)
    uniform = draws.uniform.to(images.device)
    result = torch.empty((len(images), 3, *shape), device=images.device, memory_format=layout)
    together = max(1, CPU_PIXELS // (shape[0] * shape[1]) if images.device.type == "cpu" else len(images))
    for start in range(0, len(images), together):
        rows = slice(start, start + together)
        result[rows] = finish(_augment(images[rows], config, uniform[rows], draws.order, shape))
    return result


def _augment(
    images: ImageBatch,
    config: AugmentConfig,
    uniform: Float[Tensor, "B 10"],
    order: tuple[int, ...],
    shape: tuple[int, int],
) -> FloatBatch:
    flip = uniform[:, 4] < config.flip
    if config.crop_scale[0] == 1 and shape == images.shape[-2:]:
        unit = to_unit(images)  # nothing to resample: pixels stay exactly as they are
        result = torch.where(flip[:, None, None, None], unit.flip(-1), unit)
    else:
        box = crop_box(uniform[:, :4], config.crop_scale, images.shape[-2:])
        result = crop_flip(images, box, flip, shape)
    if config.jitter:
        jitter_(result, (2 * uniform[:, 5:9] - 1) * config.jitter, order)
    if config.grayscale:
        adjust_saturation_(result, (uniform[:, 9] >= config.grayscale).float())
    return result


def crop_box(draws: Float[Tensor, "B 4"], scale: tuple[float, float], shape: Sequence[int]) -> Float[Tensor, "B 4"]:
    """Random crops (left, top, width, height), as shares of an image of shape (H, W), from draws in [0, 1).

    The area is uniform in `scale`; width / height, in pixels, is log-uniform in [3/4, 4/3], then clipped so
    that a crop of that area fits into the image; its place is uniform.
    """
    low, high = scale
    sides = shape[1] / shape[0]
    area = low + (high - low) * draws[:, 0]
    ratio = torch.exp((2 * draws[:, 1] - 1) * _LOG_RATIO) / sides  # in shares of the sides
    ratio = ratio.clamp(area, 1 / area)
    width, height = (area * ratio).sqrt().clamp(max=1), (area / ratio).sqrt().clamp(max=1)
    return torch.stack([draws[:, 2] * (1 - width), draws[:, 3] * (1 - height), width, height], dim=1)


def crop_flip(
    images: ImageBatch, box: Float[Tensor, "B 4"], flip: Bool[Tensor, "B"], shape: tuple[int, int]
) -> FloatBatch:
    """The box of each image, resized to `shape` and flipped where `flip` is set, by one bilinear resampling.

    The resampling reads the four nearest pixels, without a filter before it: where a crop is much larger than
    the output, fine texture aliases (from 256 to 224 pixels that matters little); keep images near the size
    they are trained at. Nothing outside the image is read: its border is repeated, by half a pixel at most.
    """
    left, top, width, height = box[:, :, None].unbind(1)  # each B 1
    across = torch.linspace(0, 1, 2 * shape[1] + 1, device=images.device)[1::2]  # centres of pixels
    down = torch.linspace(0, 1, 2 * shape[0] + 1, device=images.device)[1::2]
    x = left + width * torch.where(flip[:, None], 1 - across, across)  # B w
    y = top + height * down  # B h
    # an affine grid, but with no matrix product: the axes do not mix. grid_sample counts from -1 to 1
    grid = images.new_empty((len(images), *shape, 2), dtype=torch.float32)
    grid[..., 0] = (2 * x - 1)[:, None, :]
    grid[..., 1] = (2 * y - 1)[:, :, None]
    sampled = F.grid_sample(to_unit(images), grid, "bilinear", padding_mode="border", align_corners=False)
    return sampled.clamp_(0, 1)


def jitter_(images: FloatBatch, strengths: Float[Tensor, "B 4"], order: Sequence[int]) -> None:
    """Colour jitter in place: columns are brightness, contrast, saturation (factor - 1) and hue (turns)."""
    for step in order:
        _JITTER_STEPS[step](images, strengths[:, step] + _JITTER_NEUTRAL[step])


def adjust_brightness_(images: FloatBatch, factor: Float[Tensor, "B"]) -> None:
    """Blends with black, in place: 0 is black, 1 changes nothing, above 1 brightens; clamped to [0, 1]."""
    images.mul_(factor[:, None, None, None]).clamp_(0, 1)


def adjust_contrast_(images: FloatBatch, factor: Float[Tensor, "B"]) -> None:
    """Blends with the mean of the luma, in place: 0 is flat, 1 changes nothing; clamped to [0, 1]."""
    means = images.mean((2, 3))
    mean = 0.299 * means[:, 0] + 0.587 * means[:, 1] + 0.114 * means[:, 2]  # of the luma, without building it
    images.mul_(factor[:, None, None, None]).add_((mean * (1 - factor))[:, None, None, None]).clamp_(0, 1)


def adjust_saturation_(images: FloatBatch, factor: Float[Tensor, "B"]) -> None:
    """Blends with the luma (0.299 R + 0.587 G + 0.114 B), in place: 0 is gray, 1 changes nothing; clamped."""
    red, green, blue = images.unbind(1)
    luma = (red * 0.299).add_(green, alpha=0.587).add_(blue, alpha=0.114)
    gray = luma.mul_((1 - factor)[:, None, None])
    images.mul_(factor[:, None, None, None]).add_(gray[:, None]).clamp_(0, 1)


def shift_hue_(images: FloatBatch, turns: Float[Tensor, "B"]) -> None:
    """Shifts the hue of HSV, in place, by `turns` of the colour circle; value and saturation stay.

    Written over hue and chroma, which needs neither the saturation nor a table of sectors: with minimum m,
    chroma c and hue h (in sixths), red is m + c·clip(|h - 3| - 1), green m + c·clip(2 - |h - 2|) and blue
    m + c·clip(2 - |h - 4|), clip being to [0, 1].
    """
    red, green, blue = images.unbind(1)
    is_green = green >= blue
    highest = torch.maximum(green, blue)
    is_red = red >= highest
    low = torch.minimum(green, blue)
    torch.minimum(low, red, out=low)
    chroma = torch.maximum(highest, red, out=highest).sub_(low)
    # hue · chroma, in sixths of a turn
    hue = torch.where(is_green, (blue - red).add_(chroma, alpha=2), (red - green).add_(chroma, alpha=4))
    hue = torch.where(is_red, green - blue, hue)
    # in turns; + 2 makes it positive, as frac keeps the sign. A gray pixel has chroma 0, so any hue will do
    start = turns.frac()[:, None, None] + 2
    hue = torch.addcdiv(start, hue, chroma.clamp(min=1e-8), value=1 / 6).frac_().mul_(6)
    for channel, centre, slope, offset in ((red, 3, 1, -1), (green, 2, -1, 2), (blue, 4, -1, 2)):
        torch.sub(hue, centre, out=channel)
        channel.abs_().mul_(slope).add_(offset).clamp_(0, 1).mul_(chroma).add_(low)


_JITTER_STEPS = (adjust_brightness_, adjust_contrast_, adjust_saturation_, shift_hue_)
_JITTER_NEUTRAL = (1.0, 1.0, 1.0, 0.0)  # what each step's parameter is where nothing changes


def to_unit(images: ImageBatch, size: int | None = None) -> FloatBatch:
    """The evaluation path: float32 images in [0, 1], resized to size × size (antialiased) if that differs."""
    unit = images.float().div_(255)
    if size is None or tuple(images.shape[-2:]) == (size, size):
        return unit
    return F.interpolate(unit, (size, size), mode="bilinear", align_corners=False, antialias=True).clamp_(0, 1)


def normalise(
    images: FloatBatch, mean: Sequence[float] = IMAGENET_MEAN, std: Sequence[float] = IMAGENET_STD
) -> FloatBatch:
    """(images - mean) / std, channel by channel; by default with ImageNet's statistics."""
    centre = torch.tensor(mean, dtype=images.dtype, device=images.device)[:, None, None]
    spread = torch.tensor(std, dtype=images.dtype, device=images.device)[:, None, None]
    return (images - centre) / spread
