"""Requests that are broken or meant to harm, always the same ones; each by a name that says what it is."""

import gzip
import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tests.serve.conftest import encoded, picture

FORMATS = ("JPEG", "PNG", "PPM", "BMP", "TIFF", "WEBP", "GIF")
MAX_UPLOAD = 256 * 1024
"""The service that is attacked takes no more."""
BOUNDARY = "b0undary"
GOOD = encoded(picture(5))


class Attack(NamedTuple):
    """What is sent, and how."""

    name: str
    request: bytes
    pause: float = 0.0
    """Seconds between one byte of `drip` and the next."""
    drip: bytes = b""
    closed: bool = False
    """Whether the connection may be closed without an answer: there was no request."""


def head(path: str = "/predict", kind: str | None = "image/png", method: str = "POST", **headers: str) -> bytes:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    lines = {"Host": "localhost", **({} if kind is None else {"Content-Type": kind}), **named}
    text = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return text.encode("latin-1")


def post(body: bytes, path: str = "/predict", kind: str | None = "image/png", **headers: str) -> bytes:
    return head(path, kind, **headers) + b"Content-Length: %d\r\n\r\n" % len(body) + body


def part(data: bytes, name: str = "image", file: str = "a.png", more: str = "") -> bytes:
    disposition = f'Content-Disposition: form-data; name="{name}"; filename="{file}"'
    return f"--{BOUNDARY}\r\n{disposition}\r\n{more}\r\n".encode() + data + b"\r\n"


def form(data: bytes, boundary: str = BOUNDARY, path: str = "/predict") -> bytes:
    return post(data, path, f"multipart/form-data; boundary={boundary}")


END = f"--{BOUNDARY}--\r\n".encode()


def png_claiming(width: int, height: int, data: bytes = b"") -> bytes:
    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def bombs() -> Iterator[Attack]:
    zeros = zlib.compress(bytes(20_000_000), 9)  # 20 KB that become 20 MB
    claims = [(65_535, 65_535), (2**31 - 1, 2**31 - 1), (8000, 8000), (1, 60_000_000), (60_000_000, 1), (0, 0)]
    for size in claims:
        yield Attack(f"PNG of {size}", post(png_claiming(*size, zeros)))
        yield Attack(f"PNG of {size} in a form", form(part(png_claiming(*size, zeros)) + END, path="/case"))
    for side in (20_000, 65_535):
        screen = struct.pack("<HH", side, side)
        gif = b"GIF89a" + screen + b"\x80\0\0" + bytes(6) + b",\0\0\0\0" + screen + b"\0"
        yield Attack(f"GIF of {side}", post(gif))
        frame = b"\xff\xc0" + struct.pack(">HBHHB", 17, 8, side, side, 3) + b"\1\x22\0\2\x11\1\3\x11\1"
        scan = b"\xff\xda\0\x0c\3\1\0\2\x11\3\x11\0?\0" + bytes(99)
        yield Attack(f"JPEG of {side}", post(b"\xff\xd8" + frame + scan))
        bitmap = struct.pack("<IiiHHIIiiII", 40, side, side, 1, 24, 0, 0, 0, 0, 0, 0)
        yield Attack(f"BMP of {side}", post(b"BM" + struct.pack("<IHHI", 99, 0, 0, 54) + bitmap + bytes(99)))
        yield Attack(f"PPM of {side}", post(b"P6 %d %d 255\n" % (side, side) + bytes(99)))
        values = {256: side, 257: side, 258: 8, 259: 1, 262: 1, 273: 8, 278: side, 279: 9}
        tags = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in values.items())
        yield Attack(f"TIFF of {side}", post(b"II*\0\x08\0\0\0" + struct.pack("<H", 8) + tags + bytes(4)))
    vp8x = b"VP8X" + struct.pack("<I", 10) + bytes(4) + (16_383).to_bytes(3, "little") * 2
    yield Attack("WEBP of 16384", post(b"RIFF" + struct.pack("<I", len(vp8x) + 4) + b"WEBP" + vp8x))
    jpeg = encoded(picture(1), "JPEG", progressive=True)
    at = jpeg.rindex(b"\xff\xda")
    yield Attack("JPEG of 5000 scans", post(jpeg[:-2] + jpeg[at : at + 20] * 5000 + jpeg[-2:]))
    for kind in ("gzip", "deflate", "br", "zstd"):
        yield Attack(f"body of {kind}", post(gzip.compress(bytes(10_000_000)), content_encoding=kind))


def truncated() -> Iterator[Attack]:
    """Every format cut in many places. The noise fills the file, so that any cut takes pixels away."""
    for kind in FORMATS:
        whole = encoded(picture(7), kind)
        for step in range(24):
            cut = max(1, len(whole) * step // 26)
            yield Attack(f"{kind} cut at {cut}", post(whole[:cut], "/predict" if step % 2 else "/case"))


def no_images() -> Iterator[Attack]:
    draw = np.random.default_rng(11)
    begins = {
        "PDF": b"%PDF-1.7\n",
        "ZIP": b"PK\x03\x04",
        "EPS": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
        "SVG": b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        "HTML": b"<!doctype html><script>1</script>",
        "ELF": b"\x7fELF",
        "PSD": b"8BPS\0\1",
        "ICO": b"\0\0\1\0\1\0",
        "MP4": b"\0\0\0 ftypisom",
        "script": b"#!/bin/sh\n",
        "pickle": b"\x80\x04\x95cos\nsystem\n",
        "JSON": b'{"image": 1}',
        "XML": b"<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]>",
        "FITS": b"SIMPLE  =",
        "WMF": b"\xd7\xcd\xc6\x9a\0\0",
        "JPEG 2000": b"\0\0\0\x0cjP  \r\n\x87\n",
        "AVIF": b"\0\0\0 ftypavif",
        "TGA": b"\0\0\2\0\0\0\0\0",
        "XBM": b"#define w 9\n#define h 9\n",
        "MSP": b"DanM",
        "PCX": b"\n\5\1\x08",
        "HDF5": b"\x89HDF\r\n\x1a\n",
    }
    for name, begin in begins.items():
        yield Attack(f"a {name}", post(begin + bytes(200)))
        yield Attack(f"a {name} in a form", form(part(begin + bytes(200), file=f"a.{name.lower()}") + END))
    for number in range(20):
        yield Attack(f"noise {number}", post(draw.bytes(10 + 50 * number)))
    for kind in FORMATS:
        whole = encoded(picture(8), kind)
        yield Attack(f"{kind} without its beginning", post(whole[20:]))
        yield Attack(f"{kind} with zeros before it", post(bytes(16) + whole))
        yield Attack(f"{kind} backwards", post(whole[::-1]))
    for path in ("/predict", "/case"):
        yield Attack(f"nothing to {path}", post(b"", path))
        yield Attack(f"no body to {path}", head(path) + b"\r\n")
        yield Attack(f"no length to {path}", head(path) + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
