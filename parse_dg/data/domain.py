"""A benchmark in memory: named domains over one set of classes, each a row of images that can be read by number."""

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int, UInt8
from PIL import Image

from parse_dg.config import require
from parse_dg.data.framing import Framing, ImageFit, Picture, centre, fit_original
from parse_dg.data.images import ImageError, open_bytes, read_file
from parse_dg.errors import require_known

log = logging.getLogger(__name__)


@runtime_checkable
class Images(Protocol):
    """Images of one size, N × H × W × 3 uint8: an array, perhaps memory-mapped, or files decoded when read."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any) -> Any: ...


@dataclass(frozen=True)
class ImageFiles:
    """The files of a domain, and how they are opened."""

    root: Path
    paths: tuple[str, ...]
    keep_truncated: bool = False
    digests: tuple[str, ...] = ()  # SHA-256 of each when it was indexed; a file that has another now is refused
    fit: ImageFit = "squash"  # how they become squares

    def open(self, index: int) -> Image.Image:
        path = self.root / self.paths[index]
        data = read_file(path)
        if self.digests and hashlib.sha256(data).hexdigest() != self.digests[index]:
            raise ImageError(path, "it is not what it was when the data set was indexed: index it again")
        return open_bytes(data, path, self.keep_truncated)

    def decode(self, index: int, size: int) -> UInt8[np.ndarray, "S S 3"]:
        return Framing(size=size, fit=self.fit).square(self.open(index))


class DecodedFiles:
    """Files that look like an array: every image is decoded when it is read, several at a time."""

    def __init__(self, files: ImageFiles, size: int, pool: Executor):
        self.files, self.size, self.pool = files, size, pool
        self.shape = (len(files.paths), size, size, 3)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> UInt8[np.ndarray, "*n S S 3"]:
        chosen = np.arange(len(self))[index]  # a number, a slice, a mask: whatever an array takes
        result = np.empty((*chosen.shape, self.size, self.size, 3), np.uint8)
        images = self.pool.map(lambda i: self.files.decode(i, self.size), chosen.ravel().tolist())
        for place, image in zip(np.ndindex(chosen.shape), images, strict=True):
            result[place] = image
        return result


class CentreCrops:
    """The middle of larger images, cut out when they are read."""

    def __init__(self, images: Images, size: int):
        self.images, self.size = images, size
        self.shape = (len(images), size, size, 3)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> UInt8[np.ndarray, "*n S S 3"]:
        return centre(self.images[index], self.size)


@dataclass(frozen=True)
class Domain:
    """The images of one domain and the class of each."""

    name: str
    images: Images  # at the size the network sees
    labels: Int[np.ndarray, "N"]
    larger: Images | None = None  # the same images at the size training crops are cut from, where that is another
    files: ImageFiles | None = None  # the originals, where there are any: a drawn benchmark has none
    ids: tuple[
        str, ...
    ] = ()  # what each image shows: one photo in two domains has one id; empty: nothing is shared
    digests: tuple[str, ...] = ()  # SHA-256 of each file, where there are files
    captions: tuple[tuple[str, ...], ...] = ()  # sentences about each image, where the benchmark has any
    lists: Mapping[str, Int[np.ndarray, "n"]] | None = None  # positions in the lists of a published split, if any

    def original(self, index: int) -> Image.Image:
        """What random crops are cut from: the image before it was resized, where its file is known."""
        if self.files is None:
            return Image.fromarray(np.asarray(self.images[index]))
        return fit_original(self.files.open(index), self.files.fit)

    def picture(self, index: int, framing: Framing) -> Picture:
        """An image to be looked at: the original, where its file can still be read, else what a network sees."""
        try:
            if self.files is not None:
                return framing.picture(self.files.open(index))
        except ImageError as error:
            log.warning("%s: its stored pixels are shown", error)
        return Picture(np.asarray(self.images[index]))


@dataclass(frozen=True)
class Benchmark:
    """Domains that share their classes."""

    name: str
    classes: tuple[str, ...]
    domains: tuple[Domain, ...]
    fingerprint: str  # SHA-256 of every image and label, in order
    resize_to: int | None = (
        None  # the side to which images are resized, of whose middle is seen; none: what is seen
    )

    @classmethod
    def from_arrays(
        cls, name: str, classes: Sequence[str], domains: Mapping[str, tuple[np.ndarray, np.ndarray]]
    ) -> "Benchmark":
        """A benchmark of arrays: of every domain the images, N × S × S × 3 of uint8, and the class of each."""
        digest = hashlib.sha256(json.dumps([*classes, *domains]).encode())
        made = []
        for domain, (images, labels) in domains.items():
            square = images.ndim == 4 and images.shape[1] == images.shape[2] and images.shape[3] == 3
            found, expected = f"{images.shape} of {images.dtype}", "N × S × S × 3 of uint8"
            require(square and images.dtype == np.uint8, f"images of {domain}", found, expected)
            labels = labels.astype(np.int64)
            fits = labels.shape == images.shape[:1] and np.isin(labels, np.arange(len(classes))).all()
            require(bool(fits), f"labels of {domain}", labels, f"a number below {len(classes)} for each image")
            digest.update(np.ascontiguousarray(images).tobytes() + labels.tobytes())
            made.append(Domain(domain, images, labels))
        sizes = {domain.images.shape[1] for domain in made}
        require(len(sizes) == 1, f"images of {name}", sizes, "of one size in all domains")
        return cls(name, tuple(classes), tuple(made), digest.hexdigest())

    @property
    def image_size(self) -> int:
        return self.domains[0].images.shape[1]

    def domain(self, name: str) -> Domain:
        domains = {domain.name: domain for domain in self.domains}
        require_known(f"domain of {self.name}", name, domains)
        return domains[name]
