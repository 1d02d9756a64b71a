"""The bytes of an uploaded file → pixels as the network sees them, or a refusal."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8
from PIL import UnidentifiedImageError

from parse_dg.data.framing import Framing, Picture
from parse_dg.data.images import ImageError, TooManyPixelsError, open_bytes
from parse_dg.serve.limits import DecodingRoom, RefusedError


class DecodedImage(NamedTuple):
    """One image, as in evaluation."""

    pixels: UInt8[np.ndarray, "S S 3"]
    """What is predicted."""
    picture: Picture | None
    """The whole of it, to be looked at, where that was asked for."""


def decode_upload(
    data: bytes, framing: Framing, max_pixels: int, room: DecodingRoom, *, shown: bool = False
) -> DecodedImage:
    """Decode a file, or raise a `RefusedError`: 413 too many pixels, 415 no image, 400 a damaged one."""
    with room.claiming() as claim:
        try:
            image = open_bytes(data, Path("upload"), max_pixels=max_pixels, claim=claim)
        except ImageError as error:
            status = 415 if isinstance(error.__cause__, UnidentifiedImageError) else 400
            status = 413 if isinstance(error, TooManyPixelsError) else status
            raise RefusedError(status, f"the image cannot be read: {error.reason}") from error
        return DecodedImage(framing.square(image), framing.picture(image) if shown else None)
