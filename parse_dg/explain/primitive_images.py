"""What a primitive looks for: the images of each domain where it is strongest.

Its presence is σ(e), where e, the evidence, is the largest value of its map. Images are ranked by e: of a primitive
that is all but certain everywhere the presence is 1 to the last digit, and tells nothing apart.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from parse_dg.config import require
from parse_dg.data.listing import Progress
from parse_dg.data.loader import read_through
from parse_dg.data.splits import Subset
from parse_dg.deploy.model_file import Model
from parse_dg.deploy.predictor import Predictor
from parse_dg.explain.explanation import model_of
from parse_dg.jsonable import Jsonable
from parse_dg.model.primitives import PrimitiveDescriptors

BATCH = 128
TOP = 8
"""How many images of a domain are found, unless more or fewer are asked for."""


@dataclass(frozen=True)
class StrongImage(Jsonable):
    """One image where a primitive is strong."""

    index: int
    """The image's number in its domain."""
    file: str | None
    """Where it was read from; None where the benchmark has no files."""
    label: int
    """Its class, a number in the benchmark's order."""
    evidence: float
    """The largest value of the primitive's map before the softmax."""
    presence: float
    """σ of the evidence, in (0, 1)."""
    x: float
    """Its centre in [-1, 1]², x to the right, y downwards."""
    y: float


@dataclass(frozen=True)
class PrimitiveImages(Jsonable):
    """Where one primitive is strongest in one domain."""

    primitive: int
    domain: str
    looked_at: int
    mean_evidence: float
    """Over all of them: what the evidence in the strongest compares with, and `mean_presence` likewise."""
    mean_presence: float
    images: tuple[StrongImage, ...]
    """The largest evidence first; equal ones in the order of their numbers."""


def strongest_images(
    model: Model | Predictor, subsets: Iterable[Subset], top: int = TOP, progress: Progress | None = None
) -> tuple[PrimitiveImages, ...]:
    """For every primitive and, within it, every subset: the `top` images where there is most evidence for it."""
    require(top >= 1, "top", top, "at least 1")
    model = model_of(model)
    read = []
    for subset in subsets:
        parts = []
        for images, _ in read_through(subset, BATCH, progress):
            evidence, z = find_primitives(model, images)
            parts.append(torch.cat((evidence[..., None], z.presence[..., None], z.centre), -1).cpu())
        read.append((subset, torch.cat(parts).numpy()))
    count = model.parse_network().structure.vocabulary.primitives
    return tuple(_strongest(subset, k, numbers[:, k], top) for k in range(count) for subset, numbers in read)


def _strongest(subset: Subset, primitive: int, numbers: Float[np.ndarray, "N 4"], top: int) -> PrimitiveImages:
    """`numbers` are evidence, presence, x and y of the primitive in every image."""
    images, domain = [], subset.domain
    for n in np.lexsort((subset.indices, -numbers[:, 0]))[:top]:
        index = int(subset.indices[n])
        file = None if domain.files is None else str(domain.files.root / domain.files.paths[index])
        images.append(StrongImage(index, file, int(domain.labels[index]), *numbers[n].tolist()))
    evidence, presence = (float(each.mean()) for each in numbers.T[:2])
    return PrimitiveImages(primitive, domain.name, len(numbers), evidence, presence, tuple(images))


@torch.no_grad()
def find_primitives(
    model: Model, images: UInt8[Tensor, "B 3 H W"]
) -> tuple[Float[Tensor, "B K"], PrimitiveDescriptors]:
    """The evidence for every primitive in some images, the largest value of its map before the softmax, and where
    it is, on the model's device; no relation is looked at.
    """
    network = model.parse_network()
    features = network.backbone(model.prepare(images))
    return network.bottleneck.evidence(features).amax((2, 3)), network.bottleneck(features)
