"""What a primitive looks for: the images of each domain where it is strongest."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from parse_dg.config import require
from parse_dg.data.augment import IMAGENET_MEAN, IMAGENET_STD, normalise, to_unit
from parse_dg.data.loader import evaluation_batches
from parse_dg.data.splits import Subset
from parse_dg.deploy.model_file import Model
from parse_dg.errors import InputError
from parse_dg.explain.explanation import plain

BATCH = 128


@dataclass(frozen=True)
class StrongImage:
    """One image where a primitive is strong."""

    index: int
    """The image's number in its domain."""
    presence: float
    """σ of the primitive in (0, 1)."""
    x: float
    """Its centre in [-1, 1]², x to the right, y downwards."""
    y: float

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return plain(self)


@dataclass(frozen=True)
class PrimitiveImages:
    """Where one primitive is strongest in one domain."""

    primitive: int
    domain: str
    mean_presence: float
    """Over all images that were looked at: what the presence in the strongest compares with."""
    images: tuple[StrongImage, ...]
    """The largest presence first; equal ones in the order of their numbers."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return plain(self) | {"images": [image.to_dict() for image in self.images]}


def strongest_images(model: Model, subsets: Iterable[Subset], top: int = 8) -> tuple[PrimitiveImages, ...]:
    """For every primitive and, within it, every subset: the `top` images where its presence is largest."""
    require(top >= 1, "top", top, "at least 1")
    read = [(subset, *_presence(model, subset)) for subset in subsets]
    count = model.parse().network.structure.vocabulary.primitives
    return tuple(
        _strongest(subset, k, presence[:, k], centre[:, k], top)
        for k in range(count)
        for subset, presence, centre in read
    )


def _strongest(
    subset: Subset, primitive: int, presence: Float[np.ndarray, "N"], centre: Float[np.ndarray, "N 2"], top: int
) -> PrimitiveImages:
    order = np.lexsort((subset.indices, -presence))[:top]
    images = (StrongImage(int(subset.indices[n]), float(presence[n]), *centre[n].tolist()) for n in order)
    return PrimitiveImages(primitive, subset.domain.name, float(presence.mean()), tuple(images))


@torch.no_grad()
def _presence(model: Model, subset: Subset) -> tuple[Float[np.ndarray, "N K"], Float[np.ndarray, "N K 2"]]:
    """The presence and the centre of every primitive in every image of the subset, in its order."""
    if len(subset.indices) == 0:
        raise InputError(f"no image of domain {subset.domain.name!r} was given: expected at least 1")
    network = model.parse().network
    weight = network.structure.composition.weight
    presence, centre = [], []
    for images, _ in evaluation_batches(subset, BATCH):
        unit = to_unit(images.to(weight.device)).to(weight.dtype)
        z = network.bottleneck(network.backbone(normalise(unit, IMAGENET_MEAN, IMAGENET_STD)))
        presence.append(z.presence.cpu())
        centre.append(z.centre.cpu())
    return torch.cat(presence).numpy(), torch.cat(centre).numpy()
