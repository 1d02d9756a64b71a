"""The bytes of an uploaded file → pixels as the network sees them, or a refusal."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8
from PIL import UnidentifiedImageError

from parse_dg.data.images import ImageError, TooManyPixelsError, open_bytes, to_square
from parse_dg.serve.limits import RefusedError

SHOWN = 384
"""The side at which an image is shown, where the network sees a smaller one."""
SCANS = 64
"""How often a JPEG may go over its pixels. Progressive ones do so some ten times; each time costs as much."""

_JPEG, _SCAN = b"\xff\xd8", b"\xff\xda"


class DecodedImage(NamedTuple):
    """One image, resized as in evaluation."""

    pixels: UInt8[np.ndarray, "S S 3"]
    """What is predicted."""
    shown: UInt8[np.ndarray, "T T 3"] | None
    """The same square with more pixels, to be looked at, where that was asked for."""


def decode_upload(
    data: bytes, size: int, max_pixels: int, resize_to: int | None = None, *, shown: bool = False
) -> DecodedImage:
    """Decode a file, or raise a `RefusedError`: 413 too many pixels, 415 no image, 400 a damaged one."""
    if data.startswith(_JPEG) and data.count(_SCAN) > SCANS:
        raise RefusedError(400, f"the image cannot be read: it has more than {SCANS} scans")
    try:
        image = open_bytes(data, Path("upload"), max_pixels=max_pixels)
    except ImageError as error:
        status = 415 if isinstance(error.__cause__, UnidentifiedImageError) else 400
        status = 413 if isinstance(error, TooManyPixelsError) else status
        raise RefusedError(status, f"the image cannot be read: {error.reason}") from error
    side = max(size, min(SHOWN, max(image.size)))  # never more pixels than there are
    larger = None if resize_to is None else round(resize_to * side / size)
    return DecodedImage(to_square(image, size, resize_to), to_square(image, side, larger) if shown else None)
