"""One image file, whatever it holds, as upright RGB: or a short reason why not.

The content decides what a file is, not its name, and only common raster formats are tried. Colours are converted
as Pillow converts them to RGB: transparency is dropped (the colour beneath it is kept), CMYK and LAB become sRGB.
Of an animation the first frame is taken. Grey of 16 bits keeps its high byte, as colours of 16 bits do, where
Pillow would clip it.
"""

import importlib.util
import logging
import stat
import threading
import warnings
from collections.abc import Callable
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import cast

import numpy as np
from jaxtyping import UInt8
from PIL import ExifTags, Image, ImageFile, UnidentifiedImageError

from parse_dg.data.framing import Framing
from parse_dg.data.limits import JPEG_START, MAX_BYTES, MAX_PIXELS, endless
from parse_dg.errors import InputError
from parse_dg.wording import printable

# all that is tried, and HEIC where pillow-heif is installed: no format that would start another program
FORMATS = ("JPEG", "PNG", "PPM", "BMP", "TIFF", "WEBP", "GIF")
_HEIC = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
_JPEG_END = b"\xff\xd9"

_TURNS = ("FLIP_LEFT_RIGHT", "ROTATE_180", "FLIP_TOP_BOTTOM", "TRANSPOSE", "ROTATE_270", "TRANSVERSE", "ROTATE_90")
_UPRIGHT = {number: Image.Transpose[turn] for number, turn in enumerate(_TURNS, 2)}  # undoes an EXIF orientation

# Pillow logs what it makes of broken tags. Without any handler Python would print that to the user's screen.
logging.getLogger("PIL").addHandler(logging.NullHandler())


class ImageError(InputError):
    """A file that cannot be used, and the reason in a few words."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(path, reason)  # as arguments, so that it survives the way between processes
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"cannot read {printable(str(self.path))}: {self.reason}"


class TooManyPixelsError(ImageError):
    """An image that claims more pixels than are decoded; none of them was."""


class _Quiet:
    """Ignores Pillow's warnings (odd tags, large sizes, dropped transparency) while any thread is decoding.

    Filters belong to the whole process: the first thread in adds one, and the last one out takes it away.
    """

    def __init__(self) -> None:
        self._lock, self._threads = threading.Lock(), 0
        self._filter: object = None

    def __enter__(self) -> None:
        with self._lock:
            self._threads += 1
            if self._threads == 1:
                warnings.filterwarnings("ignore", module=r"PIL\.")
                self._filter = warnings.filters[0]

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._threads -= 1
            filters = cast(list[object], warnings.filters)
            if not self._threads and self._filter in filters:
                filters.remove(self._filter)


_quiet = _Quiet()


def read_file(path: Path, *, first_line: bool = False) -> bytes:
    """The bytes of a regular file, or of its first line alone; never waits for a pipe or a device."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            reason = "it is a folder" if stat.S_ISDIR(status.st_mode) else "it is not a regular file"
        elif status.st_size > MAX_BYTES:
            reason = f"it has {status.st_size:,} bytes, at most {MAX_BYTES:,} are read"
        else:
            with path.open("rb") as file:
                if data := file.readline() if first_line else file.read():
                    return data
            reason = "it is empty"
    except OSError as error:
        raise ImageError(path, (error.strerror or str(error)).lower()) from error
    except ValueError as error:  # a null character, or a lone half of a character
        raise ImageError(path, "no file can have this name") from error
    raise ImageError(path, reason)


@cache
def formats() -> tuple[str, ...]:
    """The formats that can be read here."""
    if importlib.util.find_spec("pillow_heif") is None:
        return FORMATS
    import pillow_heif

    pillow_heif.register_heif_opener()
    return (*FORMATS, "HEIF")


def open_file(path: Path, keep_truncated: bool = False) -> Image.Image:
    """The image of a file, upright and RGB."""
    return open_bytes(read_file(path), path, keep_truncated)


def decode(path: Path, framing: Framing, keep_truncated: bool = False) -> UInt8[np.ndarray, "S S 3"]:
    """What a network sees of the image of a file."""
    return framing.square(open_file(path, keep_truncated))


def open_bytes(
    data: bytes,
    path: Path,
    keep_truncated: bool = False,
    max_pixels: int | None = None,
    claim: Callable[[int], None] | None = None,
) -> Image.Image:
    """The image of a file's bytes as RGB, loaded and turned upright by its EXIF orientation; `path` is for errors.

    A file that ends too early is refused, or, with `keep_truncated`, used as far as it goes: the rest is black, or
    grey in a JPEG. Its pixels are then those that Pillow gives with LOAD_TRUNCATED_IMAGES. `claim` is told how many
    pixels are to be decoded before they are, and may wait.
    """
    limit = MAX_PIXELS if max_pixels is None else max_pixels
    if keep_truncated and data.startswith(JPEG_START):
        data += _JPEG_END  # lets libjpeg finish; after the image's own end it means nothing
    if reason := endless(data):
        raise ImageError(path, reason)
    try:
        with _quiet, Image.open(BytesIO(data), formats=formats()) as image:
            width, height = image.size
            if width * height > limit:
                raise TooManyPixelsError(
                    path, f"it claims {width} × {height} pixels, at most {limit:,} are decoded"
                )
            if claim is not None:
                claim(width * height)
            _load(image, keep_truncated)
            if image.mode == "F":
                raise ImageError(path, "its grey values are fractions, expected whole numbers")
            rgb = (_eight_bits(image) if image.mode.startswith("I") else image).convert("RGB")
            turn = _UPRIGHT.get(_orientation(image))
            return rgb if turn is None else rgb.transpose(turn)
    except ImageError:
        raise
    except Image.DecompressionBombError as error:
        raise TooManyPixelsError(path, f"it claims far more than the {limit:,} pixels that are decoded") from error
    except Exception as error:  # Pillow has no base class for what a broken file makes it raise
        raise ImageError(path, _reason(error, data[:12])) from error


def read_size(path: Path) -> tuple[int, int]:
    """The width and height that a file's header claims: no pixel is decoded, no image turned upright."""
    if not path.is_file():
        raise ImageError(path, "there is no such file")
    try:
        with _quiet, Image.open(path, formats=formats()) as image:
            return image.size
    except Exception as error:  # as above
        raise ImageError(path, _reason(error)) from error


def _load(image: ImageFile.ImageFile, keep_truncated: bool) -> None:
    """Decodes the pixels. Those before the end of a truncated file are in place when Pillow raises its error."""
    try:
        image.load()
    except OSError as error:
        if not (keep_truncated and "truncated" in str(error).lower()):
            raise
        image.tile = []  # nothing is left to decode
        image.load()


def _orientation(image: Image.Image) -> int:
    """The EXIF orientation, 1 where it cannot be read: a broken tag does not make the pixels worthless."""
    try:
        return int(image.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:  # as above, anything
        return 1


def _eight_bits(image: Image.Image) -> Image.Image:
    """The high byte of grey of 16 bits; of 32 bits only where some value does not fit into 16."""
    values = np.asarray(image)
    if values.dtype.itemsize == 4:
        values = values.view(np.uint32)
        values = values >> 16 if values.max() > 65535 else values
    return Image.fromarray((values >> 8).astype(np.uint8))


def _reason(error: Exception, start: bytes = b"") -> str:
    """In a few words; `start` are the file's first bytes."""
    message = " ".join(str(error).split())
    if isinstance(error, UnidentifiedImageError):
        if start[4:8] == b"ftyp" and start[8:12] in _HEIC and "HEIF" not in formats():
            return "it is a HEIC image: pip install 'parse-dg[heic]' to read those"
        return f"it is no {', '.join(FORMATS[:-1])} or {FORMATS[-1]} image, or its header is damaged"
    if isinstance(error, MemoryError):
        return "it needs more memory than there is"
    if "truncated" in message.lower():
        return "it is cut short"
    return f"it is damaged ({printable(message[:80]) or type(error).__name__})"
