"""RandAugment: every operation against Pillow, the magnitudes against torchvision's table, the batching."""

import re
from collections.abc import Callable

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from parse_dg.data.augment.randaugment import MAGNITUDE_BINS, OPERATIONS, draw_randaugment, randaugment
from tests.parts import refusal, seeded


def drawn(images: Tensor, ops: int, magnitude: int, generator: torch.Generator) -> Tensor:
    """Draw, then apply."""
    return randaugment(images, magnitude, draw_randaugment(len(images), ops, generator))


def random_images(count: int = 6, height: int = 24, width: int = 32) -> Tensor:
    """Noise of several ranges, so that stretching and equalizing have something to do."""
    noise = torch.rand(count, 3, height, width, generator=seeded(0))
    low = torch.linspace(0, 80, count)[:, None, None, None]
    high = torch.linspace(255, 120, count)[:, None, None, None]
    return (low + (high - low) * noise).round().to(torch.uint8)


def to_pillow(image: Tensor) -> Image.Image:
    return Image.fromarray(image.permute(1, 2, 0).contiguous().numpy())


def from_pillow(image: Image.Image) -> Tensor:
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def by_pillow(images: Tensor, operation: Callable[[Image.Image], Image.Image]) -> Tensor:
    return torch.stack([from_pillow(operation(to_pillow(image))) for image in images])


def affine(*matrix: float) -> Callable[[Image.Image], Image.Image]:
    return lambda image: image.transform(image.size, Image.Transform.AFFINE, matrix, Image.Resampling.NEAREST)


COLOUR: dict[str, Callable[[Image.Image, float], Image.Image]] = {
    "Brightness": lambda image, m: ImageEnhance.Brightness(image).enhance(1 + m),
    "Color": lambda image, m: ImageEnhance.Color(image).enhance(1 + m),
    "Contrast": lambda image, m: ImageEnhance.Contrast(image).enhance(1 + m),
    "Sharpness": lambda image, m: ImageEnhance.Sharpness(image).enhance(1 + m),
    "Posterize": lambda image, m: ImageOps.posterize(image, int(m)),
    "Solarize": lambda image, m: ImageOps.solarize(image, m),
    "AutoContrast": lambda image, m: ImageOps.autocontrast(image),
    "Equalize": lambda image, m: ImageOps.equalize(image),
}

GEOMETRY: dict[str, Callable[[float], Callable[[Image.Image], Image.Image]]] = {
    "ShearX": lambda m: affine(1, m, 0, 0, 1, 0),
    "ShearY": lambda m: affine(1, 0, 0, m, 1, 0),
    "TranslateX": lambda m: affine(1, 0, -int(m), 0, 1, 0),
    "TranslateY": lambda m: affine(1, 0, 0, 0, 1, -int(m)),
    "Rotate": lambda m: lambda image: image.rotate(m, Image.Resampling.NEAREST),
}


def every_magnitude(name: str, height: int, width: int) -> list[float]:
    operation = OPERATIONS[name]
    values = [float(operation.magnitude(step, height, width)) for step in range(MAGNITUDE_BINS)]
    return values + [-value for value in values] if operation.signed else values


@pytest.mark.parametrize("name", COLOUR)
def test_colour_operations_are_those_of_pillow(name: str) -> None:
    images = random_images()
    exact = name in ("Posterize", "Solarize", "Equalize")
    for magnitude in every_magnitude(name, 24, 32):
        result = OPERATIONS[name].apply(images, torch.full((len(images),), magnitude))
        expected = by_pillow(images, lambda image, m=magnitude: COLOUR[name](image, m))
        assert result.dtype == torch.uint8
        # a blend that falls on a whole number may be truncated to the one below it
        assert (result.int() - expected.int()).abs().max() <= (0 if exact else 1), magnitude


@pytest.mark.parametrize("name", GEOMETRY)
def test_geometric_operations_are_those_of_pillow(name: str) -> None:
    images = random_images()
    for magnitude in every_magnitude(name, 24, 32):
        result = OPERATIONS[name].apply(images, torch.full((len(images),), magnitude))
        expected = by_pillow(images, GEOMETRY[name](magnitude))
        differs = (result != expected).any(1).float().mean()
        # sines in single precision may move a pixel that is read from the edge of another
        assert differs < 0.002 if name == "Rotate" else differs == 0, magnitude


def test_magnitudes_are_those_of_torchvision() -> None:
    height, width = 24, 32
    bins = torch.arange(MAGNITUDE_BINS)
    ends = {"Identity": 0, "ShearX": 0.3, "ShearY": 0.3, "TranslateX": 150 / 331 * width}
    ends |= {"TranslateY": 150 / 331 * height, "Rotate": 30, "Brightness": 0.9, "Color": 0.9, "Contrast": 0.9}
    ends |= {"Sharpness": 0.9, "Posterize": 0, "Solarize": 0, "AutoContrast": 0, "Equalize": 0}
    expected = {name: torch.linspace(0, end, 31) for name, end in ends.items()}
    expected["Posterize"] = 8 - (bins / ((31 - 1) / 4)).round()
    expected["Solarize"] = torch.linspace(255, 0, 31)
    assert list(OPERATIONS) == list(expected)
    for name, values in expected.items():
        found = torch.tensor([float(OPERATIONS[name].magnitude(i, height, width)) for i in range(31)])
        torch.testing.assert_close(found, values, msg=name)
    signed = {name for name, operation in OPERATIONS.items() if operation.signed}
    assert signed == {*GEOMETRY, "Brightness", "Color", "Contrast", "Sharpness"}


def test_same_generator_same_result_and_input_untouched() -> None:
    images = random_images(count=32)
    before = images.clone()
    first = drawn(images, 2, 9, seeded(1))
    assert torch.equal(first, drawn(images, 2, 9, seeded(1)))
    assert not torch.equal(first, drawn(images, 2, 9, seeded(2)))
    assert torch.equal(images, before)
    assert first.dtype == torch.uint8
    assert first.shape == images.shape


def test_every_sample_is_one_operation_of_the_table() -> None:
    images = random_images(count=1).repeat(200, 1, 1, 1)
    outcomes = [images[:1]]
    for operation in (each for each in OPERATIONS.values() if each.apply):
        for sign in (1, -1) if operation.signed else (1,):
            outcomes.append(operation.apply(images[:1], torch.tensor([sign * operation.magnitude(15, 24, 32)])))
    possible = torch.cat(outcomes)
    result = drawn(images, 1, 15, seeded(3))
    matches = (result[:, None] == possible).flatten(2).all(2)  # sample, outcome
    assert matches.any(1).all()
    assert matches.any(0).all()


@pytest.mark.parametrize(
    ("ops", "magnitude", "field"),
    [(-1, 9, "ops must be 0 or more, found -1"), (2, 31, "magnitude must be from 0 to 30, found 31")],
)
def test_impossible_settings_are_named(ops: int, magnitude: int, field: str) -> None:
    assert re.search(field, refusal(drawn, random_images(), ops, magnitude, seeded(0)))
