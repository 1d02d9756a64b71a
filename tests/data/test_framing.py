"""How an image becomes a square, and where that square lies in it."""

from typing import get_args

import numpy as np
import pytest
from PIL import Image

from parse_dg.data.framing import BORDER, SHOWN, Framing, ImageFit, fit_original, pixels_in

FITS = get_args(ImageFit)


def photo(width: int, height: int, spot: tuple[int, int], radius: int = 20) -> Image.Image:
    """A dark image with one bright square around a pixel."""
    pixels = np.zeros((height, width, 3), np.uint8)
    x, y = spot
    pixels[y - radius : y + radius + 1, x - radius : x + radius + 1] = 255
    return Image.fromarray(pixels)


def test_each_fit_makes_the_square_that_it_says() -> None:
    wide = Image.fromarray(np.arange(8 * 16 * 3, dtype=np.uint8).reshape(8, 16, 3))
    squashed = np.array(wide.resize((8, 8), Image.Resampling.BILINEAR))
    assert np.array_equal(Framing(size=8).square(wide), squashed)
    assert np.array_equal(Framing(size=8, fit="crop").square(wide), np.array(wide)[:, 4:12])
    padded = Framing(size=8, fit="pad").square(wide)
    assert np.array_equal(padded[2:6], np.array(wide.resize((8, 4), Image.Resampling.BILINEAR)))
    assert (padded[[0, 1, 6, 7]] == BORDER).all()
    whole = Framing(size=8, fit="pad").square(wide)
    assert np.array_equal(Framing(size=4, fit="pad", resize_to=8).square(wide), whole[2:6, 2:6])
    tall = Framing(size=6, fit="crop", resize_to=8).square(wide.transpose(Image.Transpose.TRANSPOSE))
    assert np.array_equal(tall, np.array(wide.transpose(Image.Transpose.TRANSPOSE))[5:11, 1:7])


@pytest.mark.parametrize("size", [(640, 480), (300, 500), (200, 200)])
@pytest.mark.parametrize("resize_to", [None, 74])
@pytest.mark.parametrize("fit", FITS)
def test_a_place_in_the_square_is_found_again_in_the_picture(
    fit: ImageFit, resize_to: int | None, size: tuple[int, int]
) -> None:
    """A spot of the photo is looked for in what the network sees; its place there leads back to the spot."""
    framing = Framing(size=64, fit=fit, resize_to=resize_to)
    width, height = size
    spot = (width // 2 + min(size) // 5, height // 2 - min(size) // 7)
    image = photo(width, height, spot)
    y, x = (axis.mean() for axis in np.nonzero(framing.square(image)[..., 0] > 200))
    centres = np.array([[2 * x / 63 - 1, 2 * y / 63 - 1]])
    pixel = max(size) / 64  # of the network's, in the photo
    assert pixels_in(framing.seen(width, height), centres)[0] == pytest.approx(spot, abs=pixel)
    picture = framing.picture(image)
    scale = min(1, SHOWN / max(size))
    shape = (round(height * scale), round(width * scale))
    assert picture.pixels.shape[:2] == ((max(shape), max(shape)) if fit == "pad" else shape)
    y, x = (axis.mean() for axis in np.nonzero(picture.pixels[..., 0] > 200))
    assert pixels_in(picture.seen, centres)[0] == pytest.approx((x, y), abs=pixel * scale)


def test_an_image_a_thousand_times_as_wide_as_high_is_padded_within_bounds() -> None:
    strip = Image.new("RGB", (50_000, 50))
    assert Framing(size=64, fit="pad").square(strip).shape == (64, 64, 3)
    assert fit_original(strip, "pad").size == (4096, 4096)
    assert fit_original(strip, "crop").size == (50, 50)
    assert fit_original(strip, "squash") is strip
