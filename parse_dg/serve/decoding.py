"""The bytes of an uploaded file → pixels as the network sees them, or a refusal."""

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8
from PIL import UnidentifiedImageError

from parse_dg.data.framing import Framing, Picture
from parse_dg.data.images import ImageError, TooManyPixelsError, open_bytes
from parse_dg.serve.limits import DecodingRoom, RefusedError

SCANS = 64
"""How often a JPEG may go over its pixels. Progressive ones do so some ten times; each time costs as much."""

HEADER = 4096
"""In how many bytes the numbers of a PPM's header must have come, and how many comments its pixels may have: they
are read one by one."""

_JPEG, _SCAN = b"\xff\xd8", b"\xff\xda"


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
    if data.startswith(_JPEG) and data.count(_SCAN) > SCANS:
        raise RefusedError(400, f"the image cannot be read: it has more than {SCANS} scans")
    if data[:1] == b"P" and _long_comments(data):
        raise RefusedError(400, f"the image cannot be read: more than {HEADER:,} bytes of comments")
    with room.claiming() as claim:
        try:
            image = open_bytes(data, Path("upload"), max_pixels=max_pixels, claim=claim)
        except ImageError as error:
            status = 415 if isinstance(error.__cause__, UnidentifiedImageError) else 400
            status = 413 if isinstance(error, TooManyPixelsError) else status
            raise RefusedError(status, f"the image cannot be read: {error.reason}") from error
        return DecodedImage(framing.square(image), framing.picture(image) if shown else None)


def _long_comments(data: bytes) -> bool:
    """Whether the header of a PPM goes on and on, or its pixels, where they are text, are full of comments."""
    head = re.sub(rb"#[^\r\n]*", b"", data[:HEADER])
    numbers = 2 if data[1:2] in b"14" else 3  # width, height, and the largest value
    return (len(data) > HEADER and len(head.split()) <= numbers) or (
        data[1:2] in b"123" and data.count(b"#") > HEADER
    )
