"""How an image of any shape becomes the square that a network sees, and where that square lies in the image.

First `fit` makes it square: `squash` resizes both sides, `crop` takes the largest square in its middle, `pad`
keeps the whole of it and fills two borders. Then the network sees all of that square or, with `resize_to`, its
middle. What a person is shown is the whole image, its shape kept (`Picture`).
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image

ImageFit = Literal["squash", "crop", "pad"]
BORDER = (124, 116, 104)  # what `pad` fills with: the mean of ImageNet, about 0 once it is normalised
SHOWN = 384  # the longer side, in pixels, of a picture to be looked at
LARGEST = 4096  # the side of a padded original, at most: an image may be a thousand times as wide as it is high


class SeenPart(NamedTuple):
    """A part of an image, in its pixels from its top left corner; beyond its edges where it was padded."""

    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True, eq=False)
class Picture:
    """An image to be looked at, its shape kept, and the part of it that a network saw (none: all)."""

    pixels: UInt8[np.ndarray, "H W 3"]
    part: SeenPart | None = None

    @property
    def seen(self) -> SeenPart:
        return self.part or SeenPart(0, 0, self.pixels.shape[1], self.pixels.shape[0])


def pixels_in(seen: SeenPart, centres: Float[np.ndarray, "*n 2"]) -> Float[np.ndarray, "*n 2"]:
    """Places in the grid's [-1, 1]², which ends at the centres of the outer pixels seen, as pixels of the image."""
    start, side = np.array(seen[:2]), np.array([seen.right - seen.left, seen.bottom - seen.top])
    return np.asarray(start + (centres + 1) / 2 * (side - 1))


@dataclass(frozen=True, kw_only=True)
class Framing:
    """What a network sees of an image."""

    size: int  # side of the square, in pixels
    fit: ImageFit = "squash"
    resize_to: int | None = None  # side of a larger square, of which the middle is seen; none: size

    @property
    def words(self) -> str:
        """How that is said: "squashed to 256 × 256, of which the middle 224 × 224 is seen"."""
        done = {"squash": "squashed", "crop": "cropped in the middle and resized", "pad": "padded and resized"}
        whole = self.resize_to or self.size
        middle = "" if whole == self.size else f", of which the middle {self.size} × {self.size} is seen"
        return f"{done[self.fit]} to {whole} × {whole}{middle}"

    def square(self, image: Image.Image) -> UInt8[np.ndarray, "S S 3"]:
        whole = fit_square(image, self.resize_to or self.size, self.fit)
        return np.ascontiguousarray(centre(np.array(whole), self.size))

    def seen(self, width: int, height: int) -> SeenPart:
        whole = self.resize_to or self.size
        if self.fit == "pad":
            wide, high = _within(width, height, whole)
            x, y = width / wide, height / high  # the image's pixels in one of the square's
            left, top = -((whole - wide) // 2) * x, -((whole - high) // 2) * y
        else:
            left, top, right, bottom = _middle(width, height) if self.fit == "crop" else (0, 0, width, height)
            x, y = (right - left) / whole, (bottom - top) / whole
        first = _first(whole, self.size)
        left, top = left + first * x, top + first * y
        return SeenPart(left, top, left + self.size * x, top + self.size * y)

    def picture(self, image: Image.Image, longest: int = SHOWN) -> Picture:
        """The whole image in its shape, with the borders of a padded one, where primitives may be; what is seen."""
        side = min(longest, max(image.size))
        image = fit_square(image, side, "pad") if self.fit == "pad" else image
        width, height = _within(*image.size, side)
        small = image if image.size == (width, height) else image.resize((width, height), Image.Resampling.BILINEAR)
        x, y = width / image.width, height / image.height
        part = (side * scale for side, scale in zip(self.seen(*image.size), (x, y, x, y), strict=True))
        return Picture(np.array(small), SeenPart(*part))


def fit_square(image: Image.Image, side: int, fit: ImageFit) -> Image.Image:
    """An RGB image as a square, resized with Pillow's bilinear filter (antialiased) unless it has its size."""
    if fit == "crop":
        image = image.crop(_middle(*image.size))
    size = _within(*image.size, side) if fit == "pad" else (side, side)
    if image.size != size:
        image = image.resize(size, Image.Resampling.BILINEAR)
    if size == (side, side):
        return image
    padded = Image.new("RGB", (side, side), BORDER)
    padded.paste(image, ((side - size[0]) // 2, (side - size[1]) // 2))
    return padded


def fit_original(image: Image.Image, fit: ImageFit) -> Image.Image:
    """What random crops of the original are cut from: `squash` leaves its shape to the crop."""
    if fit == "pad":
        return fit_square(image, min(max(image.size), LARGEST), fit)
    return image.crop(_middle(*image.size)) if fit == "crop" else image


def centre(images: UInt8[np.ndarray, "*n R R 3"], size: int) -> UInt8[np.ndarray, "*n S S 3"]:
    """The middle size × size pixels."""
    first = _first(images.shape[-2], size)
    return images[..., first : first + size, first : first + size, :]


def _first(whole: int, size: int) -> int:
    return round((whole - size) / 2)


def _middle(width: int, height: int) -> tuple[int, int, int, int]:
    """The largest square in the middle."""
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    return left, top, left + side, top + side


def _within(width: int, height: int, side: int) -> tuple[int, int]:
    """A size of the same shape whose longer side is `side`."""
    longer = max(width, height)
    return max(1, round(width * side / longer)), max(1, round(height * side / longer))
