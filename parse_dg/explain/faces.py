"""The faces of primitives: patches of source training images, cut out where a primitive is strongest.

They are found once, in some images of every source domain, with the mean places of primitives in every class, and
kept in faces.json in the run's folder; the same run gives the same bytes. The file says whose primitives they are,
so that those of an earlier training are made anew.
"""

import base64
import io
import json
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from PIL import Image
from torch import Tensor

from parse_dg.data.contact_sheets import spread
from parse_dg.data.loader import load_images, read_through
from parse_dg.data.splits import Subset
from parse_dg.deploy.model_file import Model
from parse_dg.deploy.names import fingerprint, to_text
from parse_dg.errors import InputError, about
from parse_dg.explain.explanation import PrimitivePosition
from parse_dg.explain.primitive_images import find_primitives
from parse_dg.explain.viewer_data import data_uri
from parse_dg.files import parse_json, write_file
from parse_dg.jsonable import Jsonable
from parse_dg.runs.afterwards.opened import OpenedRun
from parse_dg.wording import some

FACES = "faces.json"
COUNT = 3
"""Faces of a primitive, of different domains and classes as far as there are."""
IMAGES = 128
"""Of every source domain so many training images are looked at, spread evenly over its classes; one of each where
there are more classes."""
PATCH = 0.35
"""Side of a face, as a share of the image's."""
BATCH = 64
MOST_BYTES = 64 << 20
MOST_PIXELS = 1024
"""A longer file, or a face with longer sides, is not read."""
PICTURE = re.compile(r"data:image/(?:png|jpeg);base64,([A-Za-z0-9+/]{4,200000}={0,2})")

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Face(Jsonable):
    """One patch, cut out of a training image of a source domain."""

    domain: str
    index: int
    label: str
    evidence: float
    """The largest value of the primitive's map in this image, which is in the middle of the patch."""
    image: str
    """The patch, as `data:`."""

    def __post_init__(self) -> None:
        if not PICTURE.fullmatch(self.image):
            raise InputError("a face must be a PNG or JPEG as data:")

    @property
    def words(self) -> str:
        """Where it is from."""
        return f"{self.label}, {self.domain}"

    def pixels(self) -> UInt8[np.ndarray, "S S 3"]:
        """The patch as an image."""
        found = PICTURE.fullmatch(self.image)
        assert found is not None
        try:
            with Image.open(io.BytesIO(base64.b64decode(found[1])), formats=("PNG", "JPEG")) as picture:
                if max(picture.size) > MOST_PIXELS:
                    raise InputError(f"a face may have {MOST_PIXELS} pixels a side, found {picture.size}")
                return np.asarray(picture.convert("RGB"))
        except (OSError, ValueError) as error:
            raise InputError(f"a face cannot be read: {error}") from error


@dataclass(frozen=True, kw_only=True)
class ClassLayout(Jsonable):
    """Where primitives are in the images of a class: the mean, weighted by presence."""

    images: int
    """How many of those that were looked at are of the class."""
    places: tuple[PrimitivePosition, ...]


@dataclass(frozen=True, kw_only=True)
class PrimitiveFaces(Jsonable):
    """What faces.json holds: the faces of every primitive of a run's model, and where they are in every class."""

    primitives: str
    """Whose they are: `fingerprint` of the network."""
    images: Mapping[str, int]
    """How many training images of each source domain were looked at."""
    faces: tuple[tuple[Face, ...], ...]
    """By primitive, the strongest first."""
    layouts: tuple[ClassLayout, ...]

    @property
    def words(self) -> str:
        """What they are."""
        total, domains = sum(self.images.values()), some(list(self.images))
        return f"patches where it is strongest among {total:,} training images of the source domains ({domains})"


def known_primitives(names: Mapping[int, str], faces: PrimitiveFaces | None) -> dict[str, object]:
    """What the viewer is told of the primitives: names, faces with where each is from, and what faces are."""
    every = faces.faces if faces else ()
    shown = [[{"image": face.image, "words": face.words} for face in mine] for mine in every]
    return {"names": to_text(names), "faces": shown, "words": faces.words if faces else ""}


def faces_of(run: OpenedRun) -> PrimitiveFaces | None:
    """The faces of a run's primitives: read where they are kept, else found and kept.

    None where there are none to be had: another method, a model file alone, or images that are not here.
    """
    if not run.model.explains or not (run.path / "config.json").is_file():
        return None
    kept = read_faces(run.path, run.model)
    if kept is not None:
        return kept
    try:
        run.require_fit()
        found = find_faces(run)
    except InputError as error:
        log.info("no faces: %s", error)
        return None
    with suppress(OSError):  # it may be kept where nothing can be written
        write_file(run.path / FACES, json.dumps(found.to_dict(), separators=(",", ":")).encode(), shared=True)
    return found


def read_faces(folder: Path, model: Model) -> PrimitiveFaces | None:
    """The faces that are kept in a folder; None if there are none of this model's primitives that can be used."""
    path = folder / FACES
    try:
        if not path.is_file() or path.stat().st_size > MOST_BYTES:
            return None
        with about(path):
            found = PrimitiveFaces.from_dict(parse_json(path.read_bytes(), "it"))
    except (InputError, OSError) as error:
        log.warning("%s: the faces are made anew", error)
        return None
    network = model.parse_network()
    counts = (network.structure.vocabulary.primitives, len(model.spec.classes))
    fits = found.primitives == fingerprint(network) and (len(found.faces), len(found.layouts)) == counts
    return found if fits else None


def find_faces(run: OpenedRun) -> PrimitiveFaces:
    """Look through some training images of every source domain."""
    subsets = [sample(subset, max(IMAGES, len(run.classes))) for subset in run.split.training]
    subsets = [subset for subset in subsets if len(subset.indices)]
    if not subsets:
        raise InputError("there are no training images")
    evidence, peak, places = map(np.concatenate, zip(*(_look(run, subset) for subset in subsets), strict=True))
    images = [(subset, row) for subset in subsets for row in range(len(subset.indices))]
    domains = np.repeat(np.arange(len(subsets)), [len(subset.indices) for subset in subsets])
    labels = np.concatenate([subset.domain.labels[subset.indices] for subset in subsets])

    def face(n: int, k: int) -> Face:
        subset, row = images[n]
        image = load_images(subset, np.array([row]))[0][0]
        return Face(
            domain=subset.domain.name,
            index=int(subset.indices[row]),
            label=run.classes[int(labels[n])],
            evidence=round(float(evidence[n, k]), 4),
            image=data_uri(cut_out(image, peak[n, k])),
        )

    return PrimitiveFaces(
        primitives=fingerprint(run.model.parse_network()),
        images={subset.domain.name: len(subset.indices) for subset in subsets},
        faces=tuple(
            tuple(face(n, k) for n in choose(mine, domains, labels, COUNT)) for k, mine in enumerate(evidence.T)
        ),
        layouts=tuple(_layout(places[labels == label]) for label in range(len(run.classes))),
    )


def _layout(places: Float[np.ndarray, "n K 5"]) -> ClassLayout:
    presence = places[..., 4:]
    mean = (presence * places[..., :4]).sum(0) / np.maximum(presence.sum(0), 1e-12)
    whole = np.concatenate((mean, presence.sum(0) / max(1, len(places))), -1).round(4).tolist()
    found = tuple(PrimitivePosition(k, *each) for k, each in enumerate(whole))
    return ClassLayout(images=len(places), places=found)


def sample(subset: Subset, most: int) -> Subset:
    """At most so many images of a subset, in turns over its classes, evenly spread within each."""
    labels = subset.domain.labels[subset.indices]
    groups = [subset.indices[labels == label] for label in np.unique(labels)]
    each = max(1, most // max(1, len(groups)))
    chosen = [group[spread(len(group), each)] for group in groups]
    flat = np.concatenate(chosen) if chosen else subset.indices[:0]
    return Subset(subset.domain, flat[spread(len(flat), most)])


def choose(
    evidence: Float[np.ndarray, "N"], domains: Int[np.ndarray, "N"], labels: Int[np.ndarray, "N"], count: int
) -> list[int]:
    """The strongest of some images: each of a domain and a class of its own, as far as there are so many."""
    order = np.argsort(-evidence, kind="stable").tolist()
    chosen: list[int] = []
    for differing in ((domains, labels), (domains,), (labels,), ()):
        for n in order:
            new = all(of[n] != of[other] for of in differing for other in chosen)
            if new and n not in chosen and len(chosen) < count:
                chosen.append(n)
    return sorted(chosen, key=order.index)


def cut_out(image: UInt8[Tensor, "3 H W"], peak: Float[np.ndarray, "2"]) -> UInt8[np.ndarray, "S S 3"]:
    """The patch around a place; at the border it is moved inwards, so that it is whole."""
    height, width = image.shape[1:]
    side = max(1, round(PATCH * min(height, width)))
    left, top = (
        int(np.clip(round(float(at) * (length - 1) - (side - 1) / 2), 0, length - side))
        for at, length in zip(peak, (width, height), strict=True)
    )
    return image[:, top : top + side, left : left + side].permute(1, 2, 0).contiguous().numpy()


def _look(run: OpenedRun, subset: Subset) -> Iterator[Float[np.ndarray, "N K *_"]]:
    """Of every primitive in every image: its evidence; x and y of where that is largest, from 0, the centre of the
    first pixel, to 1, that of the last; and x, y, width, height and presence.
    """
    found = []
    for images, _ in read_through(subset, BATCH, run.progress, "faces in"):
        evidence, z = find_primitives(run.model, images)
        height, width = z.heatmap.shape[2:]
        cell = z.heatmap.flatten(2).argmax(2)
        peak = torch.stack((cell % width / max(1, width - 1), cell // width / max(1, height - 1)), -1)
        places = torch.cat((z.centre, z.extent, z.presence[..., None]), -1)
        found.append([part.double().cpu().numpy() for part in (evidence, peak, places)])
    return map(np.concatenate, zip(*found, strict=True))
