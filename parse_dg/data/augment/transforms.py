"""The classic path: what `augment` does to a batch on the device, done by Pillow to one original image.

Both take the same draws and cut out the same region. This one reads the original, of whatever size, and filters
before it makes it smaller, so that nothing aliases; Pillow rounds to whole values after each step.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Float, UInt8
from PIL import Image, ImageEnhance

from parse_dg.data.augment.batches import AugmentConfig, crop_box


def transform_image(
    image: Image.Image, config: AugmentConfig, draws: Float[np.ndarray, "10"], order: Sequence[int], size: int
) -> UInt8[np.ndarray, "S S 3"]:
    """One image, augmented, size × size; `draws` is a row of the draws of `augment`, `order` its jitter's."""
    result = crop_resize(image.convert("RGB"), draws[:4], config.crop_scale, size)
    if draws[4] < config.flip:
        result = result.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    if config.jitter:
        for step in order:
            result = _JITTER_STEPS[step](result, float(2 * draws[5 + step] - 1) * config.jitter)
    if draws[9] < config.grayscale:
        result = result.convert("L").convert("RGB")
    return np.array(result)


def crop_resize(
    image: Image.Image, draws: Float[np.ndarray, "4"], scale: tuple[float, float], size: int
) -> Image.Image:
    """The random box of `augment.crop_box`, resized to size × size: bilinear, antialiased where it gets smaller."""
    left, top, width, height = crop_box(torch.tensor(draws)[None], scale, (image.height, image.width))[0].tolist()
    # Pillow takes parts of a pixel, but nothing that rounding puts outside
    right, bottom = min(left + width, 1.0) * image.width, min(top + height, 1.0) * image.height
    cut = (left * image.width, top * image.height, right, bottom)
    return image.resize((size, size), Image.Resampling.BILINEAR, box=cut)


def shift_hue(image: Image.Image, turns: float) -> Image.Image:
    """Shifts the hue of Pillow's HSV by `turns` of the colour circle, as torchvision does for Pillow's images.

    A turn is 255 steps there, towards zero to a whole number, on a circle that has 256.
    """
    hue, saturation, value = image.convert("HSV").split()
    hue = hue.point([(start + int(turns * 255)) % 256 for start in range(256)])
    return Image.merge("HSV", (hue, saturation, value)).convert("RGB")


_JITTER_STEPS: tuple[Callable[[Image.Image, float], Image.Image], ...] = (
    lambda image, strength: ImageEnhance.Brightness(image).enhance(1 + strength),
    lambda image, strength: ImageEnhance.Contrast(image).enhance(1 + strength),
    lambda image, strength: ImageEnhance.Color(image).enhance(1 + strength),
    shift_hue,
)
"""Brightness, contrast, saturation, hue: the order of the draws."""
