"""An uploaded image: its bytes out of a request's body, counted as they come, never written to a disk; its pixels.

The image is the body itself (`image/*`, `application/octet-stream`) or the only part, called `image`, of a
`multipart/form-data` form.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8
from PIL import UnidentifiedImageError
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from parse_dg.data.framing import Framing, Picture
from parse_dg.data.images import ImageError, TooManyPixelsError, open_bytes
from parse_dg.serve.limits import DecodingRoom, RefusedError, ServiceLimits
from parse_dg.wording import UNPRINTABLE

FIELD = "image"
"""The name of the form's part."""
HEADERS, HEADER_BYTES = 8, 4096
"""Of a form's part: how many headers, and how long all of them."""
BOUNDARY_BYTES = 70
"""As RFC 2046 has it."""
NAME = 120
"""Longer file names are cut."""

# The parser logs what it raises; whoever sends broken forms would fill the log.
logging.getLogger("python_multipart").setLevel(logging.CRITICAL)


class Upload(NamedTuple):
    """One image file as it was sent."""

    name: str
    """Of the file, without folders, fit to be shown; empty where none was given. It is never opened."""
    data: bytes


async def read_upload(request: Request, limits: ServiceLimits, hold: Callable[[int], None]) -> Upload:
    """The image of a request; a `RefusedError` as soon as it is clear that there is none to be had.

    `hold` is told of the bytes that are kept as they come, and may refuse them.
    """
    kind, options = parse_options_header(request.headers.get("content-type"))
    boundary = options.get(b"boundary", b"") if kind == b"multipart/form-data" else None
    if boundary is not None and not 1 <= len(boundary) <= BOUNDARY_BYTES:
        raise RefusedError(400, f"the form has no boundary of 1 to {BOUNDARY_BYTES} characters")
    if boundary is None and not (kind.startswith(b"image/") or kind == b"application/octet-stream"):
        found = UNPRINTABLE.sub("?", kind.decode("latin-1"))[:60] or "nothing"
        expected = f"image/*, application/octet-stream, or multipart/form-data with a file called {FIELD}"
        raise RefusedError(415, f"the content type says {found}: expected {expected}")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise RefusedError(415, "the body is compressed: expected the image file as it is")
    body = await _read(request, limits, hold)
    upload = Upload("", body) if boundary is None else read_form(body, boundary)
    if not upload.data:
        raise RefusedError(400, "the upload is empty: expected an image file")
    return upload


async def _read(request: Request, limits: ServiceLimits, hold: Callable[[int], None]) -> bytes:
    too_long = RefusedError(413, f"the upload is too long: at most {limits.max_bytes:,} bytes are taken")
    if int(request.headers.get("content-length", 0)) > limits.max_bytes:  # it is a number: the parser checks
        raise too_long
    body = bytearray()
    try:
        async with asyncio.timeout(limits.timeout):
            async for chunk in request.stream():
                if len(body) + len(chunk) > limits.max_bytes:
                    raise too_long
                hold(len(chunk))
                body += chunk
    except TimeoutError:
        raise RefusedError(408, f"the upload did not arrive within {limits.timeout:g} s") from None
    return bytes(body)


def read_form(body: bytes, boundary: bytes) -> Upload:
    """The only part of a form."""
    form = _Form()
    parser = MultipartParser(
        boundary,
        {
            "on_part_begin": form.begin,
            "on_header_begin": form.begin_header,
            "on_header_field": partial(form.add_header, 0),
            "on_header_value": partial(form.add_header, 1),
            "on_headers_finished": form.end_headers,
            "on_part_data": form.add_data,
            "on_end": form.end,
        },
    )
    try:
        parser.write(body)
    except FormParserError as error:
        raise RefusedError(400, "the form is damaged: expected multipart/form-data") from error
    if not form.ended:
        raise RefusedError(400, "the form is cut short: its last boundary is missing")
    if not form.parts:
        raise RefusedError(400, f"the form is empty: expected one file called {FIELD}")
    return Upload(form.file_name, bytes(form.data))


class _Form:
    """What the parser finds, part by part; refuses all but one file."""

    def __init__(self) -> None:
        self.parts = 0
        self.ended = False
        self.file_name = ""
        self.data = bytearray()
        self._headers: list[tuple[bytearray, bytearray]] = []
        self._header_bytes = 0

    def begin(self) -> None:
        self.parts += 1
        if self.parts > 1:
            raise RefusedError(400, f"the form has more than one part: expected one file called {FIELD}")

    def begin_header(self) -> None:
        self._headers.append((bytearray(), bytearray()))
        if len(self._headers) > HEADERS:
            raise RefusedError(400, f"the form's part has more than {HEADERS} headers")

    def add_header(self, which: int, data: bytes, start: int, end: int) -> None:
        """To its name, or to its value."""
        self._header_bytes += end - start
        if self._header_bytes > HEADER_BYTES:
            raise RefusedError(400, f"the headers of the form's part have more than {HEADER_BYTES:,} bytes")
        self._headers[-1][which].extend(data[start:end])

    def end_headers(self) -> None:
        headers = {bytes(name).lower(): bytes(value) for name, value in self._headers}
        kind, options = parse_options_header(headers.get(b"content-disposition"))
        if kind != b"form-data" or options.get(b"name") != FIELD.encode():
            raise RefusedError(400, f"the form's part is not called {FIELD}: expected one file of that name")
        if headers.get(b"content-transfer-encoding", b"binary").lower() not in (b"binary", b"8bit", b"7bit"):
            raise RefusedError(400, "the form's file is encoded: expected its bytes as they are")
        given = options.get(b"filename", b"").decode("utf-8", "replace")
        last = given.replace("\\", "/").rpartition("/")[2]  # to be shown, on one line, not too long
        self.file_name = UNPRINTABLE.sub("", last).strip()[:NAME]

    def add_data(self, data: bytes, start: int, end: int) -> None:
        self.data += memoryview(data)[start:end]

    def end(self) -> None:
        self.ended = True


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
    with room.holding() as claim:
        try:
            image = open_bytes(data, Path("upload"), max_pixels=max_pixels, claim=claim)
        except ImageError as error:
            status = 415 if isinstance(error.__cause__, UnidentifiedImageError) else 400
            status = 413 if isinstance(error, TooManyPixelsError) else status
            raise RefusedError(status, f"the image cannot be read: {error.reason}") from error
        return DecodedImage(framing.square(image), framing.picture(image) if shown else None)
