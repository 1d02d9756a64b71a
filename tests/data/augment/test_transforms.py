"""One image by Pillow against a batch by PyTorch: the same draws, the same picture but for rounding."""

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance
from torch import Tensor

from parse_dg.data.augment.batches import (
    AugmentConfig,
    adjust_brightness_,
    adjust_contrast_,
    adjust_saturation_,
    crop_box,
    crop_flip,
    jitter_,
    shift_hue_,
    to_unit,
)
from parse_dg.data.augment.transforms import crop_resize, shift_hue, transform_image

OFF: dict[str, Any] = {"crop_scale": (1.0, 1.0), "flip": 0.0, "jitter": 0.0, "grayscale": 0.0}
ORDER = (0, 1, 2, 3)
MIDDLE = np.full(10, 0.5, np.float32)
"""Draws that jitter nothing."""


def smooth(height: int, width: int, seed: int = 0, coarse: int = 5) -> Image.Image:
    """A colourful picture without fine texture: coarse noise, enlarged."""
    noise = np.random.default_rng(seed).integers(0, 256, (coarse, coarse, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize((width, height), Image.Resampling.BICUBIC)


def noise(height: int, width: int, seed: int = 0) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


def batch(*images: Image.Image) -> Tensor:
    return torch.stack([torch.from_numpy(np.array(image)).permute(2, 0, 1) for image in images])


def unbatch(images: Tensor) -> np.ndarray:
    """Float images in [0, 1] as arrays in steps of Pillow's, not rounded: B H W 3."""
    return (images * 255).permute(0, 2, 3, 1).numpy()


def draws(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random(10, dtype=np.float32)


def by_batch(
    image: Image.Image, config: AugmentConfig, row: np.ndarray, order: tuple[int, ...], size: int
) -> Tensor:
    """What the batched path does with the same draws, from its parts."""
    images, uniform = batch(image), torch.from_numpy(row)[None]
    box = crop_box(uniform[:, :4], config.crop_scale, images.shape[-2:])
    result = crop_flip(images, box, uniform[:, 4] < config.flip, (size, size))
    if config.jitter:
        jitter_(result, (2 * uniform[:, 5:9] - 1) * config.jitter, order)
    adjust_saturation_(result, (uniform[:, 9] >= config.grayscale).float())
    return result


@pytest.mark.parametrize("shape", [(24, 24), (18, 30), (30, 18)])
@pytest.mark.parametrize(("steps", "mean", "most"), [(3, 1.6, 6), (4, 2.0, 25)])
def test_one_by_one_and_batched_agree(shape: tuple[int, int], steps: int, mean: float, most: float) -> None:
    """Where the crop gets larger, so that no filter comes before it, only rounding differs.

    Without the hue: three truncations, of 1/2 on average, each enlarged by the factors after it, up to 1.3.
    Pillow's hue is off by up to 18 values (see below), and those are enlarged too.
    """
    differences = []
    for seed in range(40):
        image, row = smooth(*shape, seed), draws(seed)
        order = tuple(np.random.default_rng(seed).permutation(steps).tolist())
        config = AugmentConfig(crop_scale=(0.4, 1.0), jitter=0.3, grayscale=0.3)
        one = transform_image(image, config, row, order, 40)
        differences.append(np.abs(one - unbatch(by_batch(image, config, row, order, 40))[0]))
    assert np.mean(differences) < mean
    assert np.max(differences) < most


def test_the_order_of_the_jitter_matters_and_is_followed() -> None:
    image, row = smooth(24, 24), MIDDLE.copy()
    row[5:7] = 0.99, 0.01  # brighter, then flatter: what was clipped stays clipped
    config = AugmentConfig(**(OFF | {"jitter": 0.8}))
    one = transform_image(image, config, row, (0, 1, 2, 3), 24)
    other = transform_image(image, config, row, (1, 0, 2, 3), 24)
    assert np.abs(one.astype(int) - other).max() > 20
    for order, found in (((0, 1, 2, 3), one), ((1, 0, 2, 3), other)):
        assert np.abs(found - unbatch(by_batch(image, config, row, order, 24))[0]).max() < 8


@pytest.mark.parametrize("shape", [(16, 16), (11, 29), (29, 11)])
def test_crops_of_pillow_and_of_grid_sample_agree_when_they_get_larger(shape: tuple[int, int]) -> None:
    """Noise has the steepest slopes there are. Pillow rounds after each of its two passes, by 1/2 at most."""
    rows = torch.from_numpy(np.stack([draws(seed) for seed in range(60)]))
    image = noise(*shape)
    boxes = crop_box(rows[:, :4], (0.1, 1.0), shape)
    batched = crop_flip(batch(image).repeat(60, 1, 1, 1), boxes, torch.zeros(60, dtype=torch.bool), (32, 32))
    single = np.stack([np.array(crop_resize(image, row[:4], (0.1, 1.0), 32)) for row in rows.numpy()])
    assert np.abs(single - unbatch(batched)).max() < 1.1


@pytest.mark.parametrize("size", [5, 12])
def test_a_crop_that_gets_smaller_averages_what_it_covers(size: int) -> None:
    """Against a triangle filter written out, in float64; the one of grid_sample would alias."""
    image, row = noise(90, 70), draws(3)
    found = np.array(crop_resize(image, row[:4], (0.5, 1.0), size))
    box = crop_box(torch.from_numpy(row[None, :4]), (0.5, 1.0), (90, 70))[0].double().numpy()
    weights = []
    for start, extent, side in ((box[1], box[3], 90), (box[0], box[2], 70)):
        step = extent * side / size
        centres = start * side + (np.arange(size) + 0.5) * step
        triangle = np.maximum(0, 1 - np.abs(np.arange(side) + 0.5 - centres[:, None]) / step)
        weights.append(triangle / triangle.sum(1, keepdims=True))
    expected = np.einsum("yh,xw,hwc->yxc", *weights, np.array(image, dtype=np.float64))
    assert np.abs(found - expected).max() < 1.1
    box_of_one = torch.from_numpy(box).float()[None]
    aliased = unbatch(crop_flip(batch(image), box_of_one, torch.zeros(1, dtype=torch.bool), (size, size)))[0]
    assert np.abs(aliased - expected).max() > 20


def pictures() -> list[Image.Image]:
    flat = [Image.new("RGB", (8, 8), colour) for colour in ("black", "white", "red", "#808080", "#010203")]
    return [*(noise(8, 8, seed) for seed in range(8)), *(smooth(8, 8, seed) for seed in range(8)), *flat]


@pytest.mark.parametrize("factor", [0.0, 0.25, 0.7, 1.0, 1.3, 2.0])
@pytest.mark.parametrize(
    ("adjust", "enhancer", "most"),
    [
        (adjust_brightness_, ImageEnhance.Brightness, 1.0),  # truncated
        (
            adjust_contrast_,
            ImageEnhance.Contrast,
            2.0,
        ),  # its mean is of rounded grays, and rounded: 1 · |1 - factor|
        (adjust_saturation_, ImageEnhance.Color, 1.5),  # its gray is rounded: 1/2 · |1 - factor|
    ],
)
def test_enhancements_are_pillows(adjust: Any, enhancer: Any, most: float, factor: float) -> None:
    result = to_unit(batch(*pictures()))
    adjust(result, torch.full((len(result),), factor))
    expected = np.stack([np.array(enhancer(picture).enhance(factor)) for picture in pictures()])
    difference = unbatch(result) - expected
    assert difference.max() < most + 0.01
    assert difference.min() > -most + 0.99  # nothing is rounded up but the gray
    if factor == 1:
        assert np.abs(difference).max() < 1e-3


@pytest.mark.parametrize("turns", [-0.5, -0.3, -0.05, 0.0, 0.002, 0.1, 0.25, 0.5])
def test_hue_is_pillows_within_its_steps(turns: float) -> None:
    """Pillow keeps hue and saturation in a byte each, a turn being 255 steps.

    The hue loses up to a step by truncation, the shift another, and a third where it wraps at 256 instead of 255.
    A step is 6/255 of the climb of a channel by its chroma. Saturation and the result are rounded, a value each.
    """
    pillow = np.stack([np.array(shift_hue(picture, turns)).astype(float) for picture in pictures()])
    result = to_unit(batch(*pictures()))
    shift_hue_(result, torch.full((len(result),), turns))
    chroma = np.stack([np.ptp(np.array(picture).astype(float), axis=2) for picture in pictures()])
    difference = np.abs(unbatch(result) - pillow)
    assert (difference <= 3 * 6 / 255 * chroma[..., None] + 2).all()
    assert difference.mean() < 3.5


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "CMYK", "1", "LA"])
def test_every_mode_becomes_rgb(mode: str) -> None:
    image = noise(16, 16).convert("L").convert("RGBA").convert(mode)
    result = transform_image(image, AugmentConfig(**OFF), draws(0), ORDER, 16)
    assert np.array_equal(result, np.array(image.convert("RGB")))
