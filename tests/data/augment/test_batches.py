"""The augmentation pipeline: switches, draws, crops, flips, and colours against Pillow and colorsys."""

import colorsys
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from parse_dg.data.augment import batches
from parse_dg.data.augment.batches import AugmentConfig, augment, crop_box, crop_flip, draw_augment, to_unit
from parse_dg.data.augment.randaugment import randaugment
from parse_dg.errors import InputError
from tests.parts import seeded

OFF: dict[str, Any] = {"crop_scale": (1.0, 1.0), "flip": 0.0, "jitter": 0.0, "grayscale": 0.0}


def augmented(images: Tensor, config: AugmentConfig, generator: torch.Generator, size: int | None = None) -> Tensor:
    """Draw, then apply."""
    return augment(images, config, draw_augment(config, len(images), generator), size)


def random_images(count: int = 8, height: int = 24, width: int = 24) -> Tensor:
    return torch.randint(0, 256, (count, 3, height, width), generator=seeded(0), dtype=torch.uint8)


def gradient(count: int, height: int = 32, width: int = 32) -> Tensor:
    """Red rises with x, green with y, by 4 a pixel; blue is 0."""
    image = torch.zeros(3, height, width, dtype=torch.uint8)
    image[0] = 4 * torch.arange(width, dtype=torch.uint8)
    image[1] = 4 * torch.arange(height, dtype=torch.uint8)[:, None]
    return image.repeat(count, 1, 1, 1)


@pytest.mark.parametrize("ops", [0, 2])
@pytest.mark.parametrize(("size", "shape"), [(None, (20, 24)), (24, (24, 24)), (9, (9, 9)), (40, (40, 40))])
def test_shape_dtype_and_range(ops: int, size: int | None, shape: tuple[int, int]) -> None:
    config = AugmentConfig(randaugment_ops=ops, jitter=1.0)
    result = augmented(random_images(height=20), config, seeded(0), size)
    assert result.shape == (8, 3, *shape)
    assert result.dtype == torch.float32
    assert result.min() >= 0
    assert result.max() <= 1
    assert result.std() > 0.05


@pytest.mark.parametrize("ops", [0, 2])
def test_same_generator_same_result(ops: int) -> None:
    images, config = random_images(), AugmentConfig(randaugment_ops=ops)
    before, state, generator = images.clone(), torch.get_rng_state(), seeded(5)
    first = augmented(images, config, generator)
    assert torch.equal(first, augmented(images, config, seeded(5)))
    assert not torch.equal(first, augmented(images, config, generator))  # it moved on
    assert torch.equal(images, before)
    assert torch.equal(torch.get_rng_state(), state)  # global randomness is neither used nor moved


def test_switching_a_step_off_keeps_the_other_draws() -> None:
    images = random_images()
    whole = augmented(images, AugmentConfig(jitter=0, grayscale=0), seeded(0))
    flipped = augmented(images, AugmentConfig(jitter=0, grayscale=0, flip=1), seeded(0))
    kept = (whole == flipped).flatten(1).all(1)
    assert kept.any()
    torch.testing.assert_close(whole[~kept], flipped[~kept].flip(-1), atol=1e-4, rtol=0)


def test_flip_and_gray_come_as_often_as_asked() -> None:
    images = gradient(2000, 4, 4)
    flipped = augmented(images, AugmentConfig(**(OFF | {"flip": 0.5})), seeded(0))
    assert 0.46 < (flipped[:, 0, 0, 0] > 0).float().mean() < 0.54
    gray = augmented(images, AugmentConfig(**(OFF | {"grayscale": 0.1})), seeded(0))
    assert 0.07 < (gray[:, 2, 3, 3] > 0).float().mean() < 0.13


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_does_what_the_cpu_does() -> None:
    images, config = random_images(count=64), AugmentConfig(randaugment_ops=2)
    there = augmented(images.cuda(), config, seeded(0), 20)
    assert there.is_cuda
    difference = (there.cpu() - augmented(images, config, seeded(0), 20)).abs()
    # a blend truncated the other way is one step of 255, which contrast and hue may then amplify
    assert (difference > 0.01).float().mean() < 0.01


@pytest.mark.parametrize("shape", [(32, 32), (20, 60), (60, 20)])
def test_boxes_lie_inside_and_have_the_area_drawn(shape: tuple[int, int]) -> None:
    draws = torch.rand(5000, 4, generator=seeded(0))
    left, top, width, height = crop_box(draws, (0.3, 0.9), shape).unbind(1)
    assert left.min() >= 0
    assert top.min() >= 0
    assert (left + width).max() <= 1 + 1e-6
    assert (top + height).max() <= 1 + 1e-6
    torch.testing.assert_close(width * height, 0.3 + 0.6 * draws[:, 0])
    if shape == (32, 32):
        ratio = width / height
        assert 0.749 < ratio.min() < 0.76
        assert 1.32 < ratio.max() < 1.334
        assert abs(float(ratio.log().mean())) < 0.01
        assert abs(float((left + width / 2).mean()) - 0.5) < 0.01


def test_crop_reads_the_box_and_nothing_else() -> None:
    count, side = 64, 32
    boxes = crop_box(torch.rand(count, 4, generator=seeded(1)), (0.2, 0.8), (side, side))
    flip = torch.arange(count) % 2 == 0
    result = crop_flip(gradient(count), boxes, flip, (side, side)) * (255 / 4)  # now in pixels
    assert result[:, 2].max() == 0
    assert result.max() <= side - 1 + 1e-3
    left, top, width, height = (boxes * side).unbind(1)
    # along a row of the output: centres of equal cells of the box; the image has its first centre at 0.5
    cells = (torch.arange(side) + 0.5) / side
    x = (left[:, None] + width[:, None] * torch.where(flip[:, None], cells.flip(0), cells) - 0.5).clamp(0, side - 1)
    y = (top[:, None] + height[:, None] * cells - 0.5).clamp(0, side - 1)
    torch.testing.assert_close(result[:, 0], x[:, None, :].expand(-1, side, -1), atol=1e-3, rtol=0)
    torch.testing.assert_close(result[:, 1], y[:, :, None].expand(-1, -1, side), atol=1e-3, rtol=0)


@pytest.mark.parametrize("ops", [0, 2])
def test_crops_of_a_fixed_size_are_pixels_as_they_are_and_come_before_randaugment(ops: int) -> None:
    images = random_images(200, 9, 11)
    config = AugmentConfig(crop="fixed", jitter=0.0, grayscale=0.0, randaugment_ops=ops)
    draws = draw_augment(config, 200, seeded(3))
    places, cut = set(), torch.empty(200, 3, 6, 6, dtype=torch.uint8)
    for number, (u, image) in enumerate(zip(draws.uniform.tolist(), images, strict=True)):
        left, top = int(u[2] * 6), int(u[3] * 4)
        part = image[:, top : top + 6, left : left + 6]
        cut[number] = part.flip(-1) if u[4] < 0.5 else part
        places.add((left, top))
    assert len(places) == 24
    expected = randaugment(cut, 9, draws.randaugment) if draws.randaugment else cut
    assert torch.equal(augment(images, config, draws, 6), to_unit(expected))
    with pytest.raises(InputError, match=r"data.crop_from must be at least the 12 × 12 pixels of a crop"):
        augment(images, config, draws, 12)


def test_hue_is_that_of_colorsys() -> None:
    images = random_images(count=9, height=8, width=8)
    images[:, :, 0] = 90  # gray
    images[:, 0, 1] = images[:, 1, 1]  # two equal channels
    images[:, 1, 2] = images[:, 2, 2]
    images[:, 2, 3] = images[:, 0, 3]
    images[:, :, 4, :3] = 255 * torch.eye(3, dtype=torch.uint8)
    turns = [-1.0, -0.5, -0.3, -0.01, 0.0, 0.2, 0.5, 0.99, 2.4]
    result = to_unit(images)
    batches.shift_hue_(result, torch.tensor(turns))
    assert result.min() >= 0
    assert result.max() <= 1
    for image, shifted, turn in zip((images / 255).double(), result, turns, strict=True):
        for pixel, found in zip(image.flatten(1).T.tolist(), shifted.flatten(1).T.tolist(), strict=True):
            hue, saturation, value = colorsys.rgb_to_hsv(*pixel)
            expected = colorsys.hsv_to_rgb((hue + turn) % 1, saturation, value)
            assert found == pytest.approx(expected, abs=2e-5)


def test_to_unit_scales_and_resizes() -> None:
    images = random_images(height=32, width=32)
    assert torch.equal(to_unit(images), images / 255)
    assert torch.equal(to_unit(images, 32), images / 255)
    for image, found in zip(images, to_unit(images, 16), strict=True):
        whole = Image.fromarray(image.permute(1, 2, 0).contiguous().numpy())
        expected = torch.from_numpy(np.array(whole.resize((16, 16), Image.Resampling.BILINEAR)))
        assert (found - expected.permute(2, 0, 1) / 255).abs().max() < 1.5 / 255
