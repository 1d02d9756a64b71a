"""Parts followed at once: in how many images does every part have its own primitive on it?

`localisation` asks of every primitive which part it is on; many may be on one part. Here every part is given one
primitive, and a primitive serves one part only: of all pairs the one that is near most often on the sources is
taken first, then the best of what is left. A part is followed in an image if its primitive is within `WITHIN`.
Letters: N images, K primitives, P parts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float

from parse_dg.explain.measures.images import SubsetPrimitives
from parse_dg.explain.measures.localisation import distances
from parse_dg.jsonable import Jsonable

WITHIN = 6 / 64
"""How far from a part the primitive that follows it may be, as a share of the image's side: 6 pixels of 64."""


@dataclass(frozen=True)
class FollowedPart(Jsonable):
    """One part, in the images of one domain."""

    part: str
    primitive: int | None
    """The one that follows it best on the sources; None if there are fewer primitives than parts, and none left."""
    share: float
    """The share of the images in which that primitive is within `WITHIN` of the part."""


@dataclass(frozen=True, kw_only=True)
class FollowedParts(Jsonable):
    """How many parts are followed at once in the images of one domain."""

    domain: str
    images: int
    parts: tuple[FollowedPart, ...]
    count: float
    """How many of the parts are followed in an image: the mean."""
    count_by_chance: float
    """The same with the parts of another image of the domain, drawn at random."""
    all: float
    """The share of the images in which all of them are."""
    all_by_chance: float


def within_on_grid(image_size: int) -> float:
    """`WITHIN` in units of the grid, whose 2 are from the centre of the first pixel to that of the last."""
    return WITHIN * image_size * 2 / (image_size - 1)


def assign_parts(
    located: Sequence[SubsetPrimitives],
    centres: Sequence[Float[np.ndarray, "_ P 2"]],
    parts: Sequence[str],
    image_size: int,
) -> dict[str, int]:
    """The primitive of every part, as found in all of these images together; of equals the first part, then the
    first primitive.
    """
    pairs = zip(located, centres, strict=True)
    near = np.concatenate([distances(*pair) <= within_on_grid(image_size) for pair in pairs])
    share = near.mean(0).T  # (P, K)
    assigned: dict[str, int] = {}
    for _ in range(min(share.shape)):
        part, primitive = (int(n) for n in np.unravel_index(share.argmax(), share.shape))
        assigned[parts[part]] = primitive
        share[part], share[:, primitive] = -1, -1
    return assigned


def followed_parts(
    located: SubsetPrimitives,
    centres: Float[np.ndarray, "N P 2"],
    parts: Sequence[str],
    assigned: Mapping[str, int],
    image_size: int,
    generator: torch.Generator,
) -> FollowedParts:
    """`assigned` says which primitive each part was given on the sources; `centres` are true, image by image."""

    def followed(true: Float[np.ndarray, "N P 2"]) -> Bool[np.ndarray, "N P"]:
        near = distances(located, true) <= within_on_grid(image_size)
        none = np.zeros(len(near), dtype=bool)  # a part without a primitive is never followed
        columns = [near[:, assigned[part], p] if part in assigned else none for p, part in enumerate(parts)]
        return np.stack(columns, 1)

    found = followed(centres)
    by_chance = followed(centres[torch.randperm(len(centres), generator=generator).numpy()])
    shares = zip(parts, found.mean(0).tolist(), strict=True)
    return FollowedParts(
        domain=located.domain,
        images=len(found),
        parts=tuple(FollowedPart(part, assigned.get(part), share) for part, share in shares),
        count=float(found.sum(1).mean()),
        count_by_chance=float(by_chance.sum(1).mean()),
        all=float(found.all(1).mean()),
        all_by_chance=float(by_chance.all(1).mean()),
    )
