"""Images in whatever form they are given → batches at the size a network sees, read ahead, few in memory at a time.

They become squares as a benchmark's do (`data/framing.py`), so that an image is predicted as evaluation would.
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Shaped, UInt8
from PIL import Image, ImageOps
from torch import Tensor

from parse_dg.data.framing import Framing
from parse_dg.data.images import ImageError, decode
from parse_dg.data.intake.folders import EXTENSIONS
from parse_dg.data.parallel import map_ahead
from parse_dg.errors import InputError
from parse_dg.wording import first_line, printable

ImageLike = str | os.PathLike[str] | Image.Image | Shaped[np.ndarray, "..."] | Tensor
"""A file, a Pillow image, or RGB as an array H × W × 3 or a tensor 3 × H × W: uint8, or floats in [0, 1], which are
rounded to the 256 levels of a file."""
ImageInput = ImageLike | Iterable[ImageLike]
"""One image, or many: also an array N × H × W × 3 or a tensor N × 3 × H × W, or a generator."""
Unreadable = Callable[[ImageError], None]
"""Is told of an image that cannot be read, and may raise."""

AHEAD = 32
"""How many images at least are read ahead."""

_one_at_a_time = threading.Lock()


class LoadedImage(NamedTuple):
    """An image as the network sees it, before normalisation."""

    position: int
    """Among those that were given, from 0, the unreadable ones counted too."""
    file: Path | None
    """Where it was read from; None if it came as pixels."""
    pixels: UInt8[np.ndarray, "S S 3"]


def load_batches(
    images: ImageInput, framing: Framing, batch: int, unreadable: Unreadable | None = None
) -> Iterator[list[LoadedImage]]:
    """What a network sees of images, in their order, `batch` at a time.

    Those that cannot be read are not there, if somebody is to be told of them; else the first is raised.
    """

    def load(numbered: tuple[int, object]) -> LoadedImage | ImageError:
        try:
            return load_image(*numbered, framing)
        except ImageError as error:
            return error

    waiting: list[LoadedImage] = []
    for loaded in map_ahead(load, enumerate(each_image(images)), ahead=max(batch, AHEAD)):
        if isinstance(loaded, ImageError):
            if unreadable is None:
                raise loaded
            unreadable(loaded)
            continue
        waiting.append(loaded)
        if len(waiting) == batch:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def each_image(images: ImageInput) -> Iterable[object]:
    """The images one by one, where a single one may have been given."""
    array = isinstance(images, np.ndarray | Tensor) and images.ndim != 4
    return [images] if array or isinstance(images, str | os.PathLike | Image.Image) else images


def load_image(position: int, image: object, framing: Framing) -> LoadedImage:
    """What a network sees of one image; `ImageError` if it is damaged, `InputError` if it is of no known form."""
    if isinstance(image, str | os.PathLike):
        file = Path(image)
        return LoadedImage(position, file, decode(file, framing))
    if isinstance(image, Image.Image):
        return LoadedImage(position, None, framing.square(_upright(position, image)))
    if isinstance(image, Tensor) and image.ndim == 3:
        plain = image.detach().cpu().permute(1, 2, 0)
        values = plain.double().numpy() if plain.is_floating_point() else plain.numpy()
        expected = "3 × H × W"
    elif isinstance(image, np.ndarray) and image.ndim == 3:
        values, expected = image, "H × W × 3"
    else:
        shape = f" of shape {tuple(image.shape)}" if isinstance(image, np.ndarray | Tensor) else ""
        valid = "a path, a Pillow image, an array H × W × 3 or a tensor 3 × H × W"
        raise InputError(f"image {position} is a {type(image).__name__}{shape}: expected {valid}")
    if values.shape[2] != 3 or not values.size or (values.dtype != np.uint8 and values.dtype.kind != "f"):
        found = f"{image.dtype} of shape {tuple(image.shape)}"
        valid = f"RGB of shape {expected}, uint8 from 0 to 255 or floats from 0 to 1"
        raise InputError(f"image {position} is {found}: expected {valid}")
    return LoadedImage(position, None, framing.square(Image.fromarray(_levels(position, values))))


def find_images(path: Path, unreadable: Unreadable) -> Iterator[Path]:
    """A file itself; of a folder the images in and below it: its own by name, then folder by folder by name.

    In a folder, an image is what is called one; hidden files and folders and links to folders are passed over.
    """
    if not os.path.isdir(path):  # noqa: PTH112 - a Path cannot be asked about every name
        yield path
        return

    def failed(error: OSError) -> None:
        reason = f"the folder cannot be listed ({(error.strerror or str(error)).lower()})"
        unreadable(ImageError(Path(error.filename), reason))

    found = False
    for place, folders, files in os.walk(path, onerror=failed):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if name.lower().endswith(EXTENSIONS) and not name.startswith("."):
                found = True
                yield Path(place, name)
    if not found:
        unreadable(ImageError(path, f"the folder has no image (of names in {', '.join(EXTENSIONS)})"))


def _levels(position: int, values: Shaped[np.ndarray, "H W 3"]) -> UInt8[np.ndarray, "H W 3"]:
    """RGB values as the 256 levels of a file."""
    if values.dtype == np.uint8:
        return values
    low, high = float(values.min()), float(values.max())
    if not (low >= 0 and high <= 1):  # also where one is not a number
        expected = "expected 0 to 1, not normalised; or uint8 from 0 to 255"
        raise InputError(f"image {position} has floats from {low:g} to {high:g}: {expected}")
    return np.rint(255 * values.astype(np.float64)).astype(np.uint8)


def _upright(position: int, image: Image.Image) -> Image.Image:
    """A Pillow image as RGB, turned by its EXIF orientation as a file's is."""
    if image.mode.startswith(("I", "F")):
        expected = "expected 8 bits a channel; where it has a file, give that"
        raise InputError(f"image {position} is a Pillow image of mode {image.mode}: {expected}")
    try:
        with _one_at_a_time:  # the same one may be given twice, and Pillow reads its file on first use
            image.load()
            turned = ImageOps.exif_transpose(image)
        return turned.convert("RGB")
    except Exception as error:  # Pillow has no base class for what a broken file makes it raise
        reason = f"it is damaged ({printable(first_line(error)[:80])})"
        raise ImageError(Path(f"image {position}"), reason) from error
