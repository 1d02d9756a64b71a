"""Do primitives sit on parts? Measured where the true places of parts are known, as in Blueprints."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from parse_dg.data.augment import IMAGENET_MEAN, IMAGENET_STD, normalise, to_unit
from parse_dg.data.loader import evaluation_batches
from parse_dg.data.splits import Subset
from parse_dg.deploy.model_file import Model


@dataclass(frozen=True)
class PrimitivePlace:
    """Where one primitive sits, over many images."""

    primitive: int
    part: str
    """The part it is nearest to most often."""
    share: float
    """In what fraction of the images that part is the nearest one."""
    distance: float
    """The median distance to that part, in units of the grid (the image is 2 wide)."""
    presence: float
    """The mean presence."""


@torch.no_grad()
def primitive_places(
    model: Model, subset: Subset, centres: Float[np.ndarray, "N P 2"], parts: Sequence[str]
) -> tuple[PrimitivePlace, ...]:
    """For every primitive, the part it follows; `centres` are the true ones of the subset's images."""
    network = model.parse().network
    found, presence = [], []
    for images, _ in evaluation_batches(subset, 128):
        z = network(normalise(to_unit(images), IMAGENET_MEAN, IMAGENET_STD)).descriptors
        found.append(z.centre)
        presence.append(z.presence)
    places, present = torch.cat(found).numpy(), torch.cat(presence).numpy()
    distance = np.linalg.norm(places[:, :, None] - centres[:, None], axis=-1)  # (N, K, P)
    nearest = distance.argmin(-1)  # (N, K)
    report = []
    for k in range(places.shape[1]):
        part, count = Counter(nearest[:, k].tolist()).most_common(1)[0]
        report.append(
            PrimitivePlace(
                primitive=k,
                part=parts[part],
                share=count / len(nearest),
                distance=float(np.median(distance[:, k, part])),
                presence=float(present[:, k].mean()),
            )
        )
    return tuple(report)
