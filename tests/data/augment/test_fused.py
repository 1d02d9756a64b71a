"""Augmentation in two launches against the plain one, order by order, switch by switch.

Runs on CUDA, and without it in Triton's interpreter, where everything is small: TRITON_INTERPRET=1 pytest.
"""

import itertools
import os
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from parse_dg.data.augment.batches import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    AugmentConfig,
    AugmentDraws,
    augment,
    draw_augment,
    normalise,
    prepare_images,
)
from parse_dg.data.augment.randaugment import OPERATIONS, RandAugmentDraws, randaugment

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = torch.device("cpu" if INTERPRETED else "cuda")
RUNS = find_spec("triton") is not None and (INTERPRETED or torch.cuda.is_available())
PIXELS = 20 if INTERPRETED else 150

pytestmark = pytest.mark.skipif(not RUNS, reason="needs CUDA and Triton, or Triton and TRITON_INTERPRET=1")


@pytest.fixture(scope="module")
def kernels() -> ModuleType:
    return import_module("parse_dg.data.augment.fused")


def smooth(count: int, height: int = PIXELS, width: int = PIXELS) -> Tensor:
    """Images without sharp edges, channels last in memory as the store has them, some of them gray or flat."""
    coarse = torch.rand(count, 3, 5, 5, generator=torch.Generator().manual_seed(0)) * 255
    images = torch.nn.functional.interpolate(coarse, (height, width), mode="bilinear", align_corners=True)
    images[0] = images[0].mean(0)
    images[1] = 77
    return images.to(torch.uint8).to(DEVICE).contiguous(memory_format=torch.channels_last)


def fused(kernels: ModuleType, images: Tensor, config: AugmentConfig, draws: AugmentDraws, size: int) -> Tensor:
    switches = {name: getattr(config, name) for name in ("crop_scale", "flip", "jitter", "grayscale")}
    statistics = {"log_ratio": torch.tensor(4 / 3).log().item(), "mean": IMAGENET_MEAN, "std": IMAGENET_STD}
    uniform, shape = draws.uniform.to(DEVICE), (size, size)
    return kernels.augment_normalised(images, uniform, draws.order, shape, **switches, **statistics)


def assert_same(found: Tensor, expected: Tensor) -> None:
    """Normalised values, whose spread is about 4.4 for a range of 255: rounding, except where hue has a jump."""
    assert found.shape == expected.shape
    difference = (found - expected).abs()
    assert difference.median() < 1e-5
    assert (difference > 2e-3).float().mean() < 1e-3


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_every_order_of_the_jitter(order: tuple[int, ...], kernels: ModuleType) -> None:
    config, images = AugmentConfig(), smooth(4)
    draws = draw_augment(config, 4, torch.Generator().manual_seed(1))._replace(order=order)
    expected = normalise(augment(images, config, draws, 16))
    found = fused(kernels, images, config, draws, 16)
    assert found.is_contiguous(memory_format=torch.channels_last)
    assert_same(found, expected)


PLAIN = {"jitter": 0.0, "grayscale": 0.0}
SETTINGS: list[dict[str, Any]] = [PLAIN | {"flip": 0.0}, PLAIN | {"flip": 1.0}, PLAIN | {"grayscale": 1.0}]
SETTINGS += [{"jitter": 1.0}, {"crop_scale": (0.08, 0.1)}, {"crop_scale": (1.0, 1.0)}]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("shape", [(PIXELS, PIXELS), (PIXELS, 2 * PIXELS + 3), (2 * PIXELS + 1, PIXELS)])
def test_every_switch(settings: dict[str, Any], shape: tuple[int, int], kernels: ModuleType) -> None:
    config, images = AugmentConfig(**settings), smooth(4, *shape)
    for seed in range(2):
        draws = draw_augment(config, 4, torch.Generator().manual_seed(seed))
        assert_same(fused(kernels, images, config, draws, 18), normalise(augment(images, config, draws, 18)))


@pytest.mark.parametrize("magnitude", [0, 9, 30])
@pytest.mark.parametrize("shape", [(PIXELS, PIXELS + 13), (2, 1)])
def test_randaugment_of_every_operation_and_sign(shape: tuple[int, int], magnitude: int) -> None:
    """Exactly what the plain code gives, for smooth images, a flat one, noise and few levels; then once more."""
    fused_randaugment = import_module("parse_dg.data.augment.fused_randaugment").randaugment_fused
    noise = torch.randint(256, (2, 3, *shape), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    noise[1] = noise[1] // 100 * 90 + 7
    images = torch.cat([smooth(2, *shape), noise.to(DEVICE)])
    choices = torch.arange(len(OPERATIONS)).repeat_interleave(2 * len(images))
    signs = torch.tensor([1.0, -1.0]).repeat_interleave(len(images)).repeat(len(OPERATIONS))
    mixed = torch.randperm(len(choices), generator=torch.Generator().manual_seed(1))
    draws = RandAugmentDraws(torch.stack([choices, choices[mixed]]), torch.stack([signs, signs[mixed]]))
    every = images.repeat(len(choices) // len(images), 1, 1, 1)
    before = every.clone()
    found, expected = fused_randaugment(every, magnitude, draws), randaugment(every, magnitude, draws)
    wrong = (found != expected).flatten(1).any(1).nonzero().flatten()
    names = [*OPERATIONS]
    assert not [(names[choices[i]], names[choices[mixed][i]], signs[i].item()) for i in wrong.tolist()]
    assert torch.equal(every, before)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("ops", [0, 2])
def test_on_cuda_preparing_is_augmenting_and_normalising(ops: int) -> None:
    config, images = AugmentConfig(randaugment_ops=ops), smooth(8)
    draws = draw_augment(config, 8, torch.Generator().manual_seed(3))
    found = prepare_images(images, config, draws, 64)
    assert torch.equal(found, prepare_images(images, config, draws, 64))
    assert_same(found, normalise(augment(images, config, draws, 64)))
