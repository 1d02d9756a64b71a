"""What is read of an image file at most: the same in a data set, a prediction and an upload."""

import re

MAX_PIXELS = 50_000_000  # images that claim more are refused before any pixel is decoded
MAX_BYTES = 2**29  # longer files are not read: no image within MAX_PIXELS needs as much
SCANS = 64
"""How often a JPEG may go over its pixels. Progressive ones do so some ten times; each time costs as much."""
HEADER = 4096
"""In how many bytes the numbers of a PPM's header must have come, and how many comments its pixels may have: they
are read one by one."""

JPEG_START = b"\xff\xd8"
_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")
_SCAN, _END = 0xDA, 0xD9


def endless(data: bytes) -> str | None:
    """Why an image of so many bytes may take far more time than its pixels do; None if it does not."""
    if data.startswith(JPEG_START) and _scans(data) > SCANS:
        return f"it has more than {SCANS} scans"
    if re.match(rb"P[0-6fFy]", data) and _long_comments(data):
        return f"it has more than {HEADER:,} bytes of comments"
    return None


def _scans(data: bytes) -> int:
    """The scans of a JPEG up to its end: what lies in its tags, or follows it, is none of its own."""
    scans, place = 0, len(JPEG_START)
    while scans <= SCANS and (found := _MARKER.search(data, place)) and found[0][1] != _END:
        scans += found[0][1] == _SCAN
        place = found.end() + int.from_bytes(data[found.end() : found.end() + 2], "big")  # what the marker holds
    return scans


def _long_comments(data: bytes) -> bool:
    """Whether the header of a PPM goes on and on, or its pixels, where they are text, are full of comments."""
    head = re.sub(rb"#[^\r\n]*", b"", data[:HEADER])
    numbers = 2 if data[1:2] in b"14" else 3  # width, height, and the largest value
    return (len(data) > HEADER and len(head.split()) <= numbers) or (
        data[1:2] in b"123" and data.count(b"#") > HEADER
    )
