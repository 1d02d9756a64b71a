"""Do primitives sit on parts, where the true places of parts are known?

`localisation` asks of every primitive which part it is on; many may be on one part. For `followed_parts` every part
is given one primitive, and a primitive serves one part only: of all pairs the one that is near most often on the
sources is taken first, then the best of what is left. Letters: N images, K primitives, P parts.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float

from parse_dg.data.splits import Subset
from parse_dg.deploy.model_file import Model
from parse_dg.explain.measures.images import SubsetPrimitives, locate
from parse_dg.jsonable import Jsonable

FOLLOWS = 0.5
"""In what share of the images a part must be the nearest for a primitive to count as following it."""
WITHIN = 6 / 64
"""How far from a part the primitive that is given to it may be, as a share of the image's side: 6 pixels of 64."""

TrueCentres = Float[np.ndarray, "_ P 2"]


@dataclass(frozen=True)
class PrimitivePlace(Jsonable):
    """Where one primitive sits, over many images."""

    primitive: int
    part: str
    """The part it is nearest to most often."""
    share: float
    """In what fraction of the images that part is the nearest one."""
    distance: float
    """The median distance to that part, in units of the grid (the image is 2 wide)."""
    presence: float

    @property
    def follows(self) -> bool:
        """Whether it follows the part."""
        return self.share >= FOLLOWS


def primitive_places(
    model: Model, subset: Subset, centres: TrueCentres, parts: Sequence[str]
) -> tuple[PrimitivePlace, ...]:
    """For every primitive, the part it follows; `centres` are the true ones of the subset's images."""
    return places_among_parts([locate(model, subset)], [centres], parts)


def places_among_parts(
    located: Sequence[SubsetPrimitives], centres: Sequence[TrueCentres], parts: Sequence[str]
) -> tuple[PrimitivePlace, ...]:
    """For every primitive, the part it follows in all of these images together."""
    presence = np.concatenate([each.presence.cpu().numpy() for each in located])
    distance = np.concatenate([distances(*pair) for pair in zip(located, centres, strict=True)])
    nearest = distance.argmin(-1)  # (N, K)
    places = []
    for k in range(presence.shape[1]):
        part, count = Counter(nearest[:, k].tolist()).most_common(1)[0]
        median, mean = float(np.median(distance[:, k, part])), float(presence[:, k].mean())
        places.append(PrimitivePlace(k, parts[part], count / len(nearest), median, mean))
    return tuple(places)


@dataclass(frozen=True, kw_only=True)
class Localisation(Jsonable):
    """How well the primitives of one domain sit on the parts that they follow on the source domains.

    Only primitives that follow a part on the sources count: elsewhere there is nothing to be near to.
    """

    domain: str
    images: int
    primitives: int
    following: int
    """How many primitives follow a part, any part, in this domain."""
    expected: int
    """How many follow one on the sources; the figures below are of these, None if there are none."""
    error: float | None
    """The mean over them of the median distance to the part they follow on the sources, in units of the grid (the
    image is 2 wide); 0 is best. Below, over images that are classified right or wrong alone."""
    error_of_right: float | None
    error_of_wrong: float | None
    error_by_chance: float | None
    """The same distance to where that part is in another image of the domain, drawn at random."""
    same_part: float | None
    """The share of them that are nearest to the same part here, in most images, as on the sources."""
    same_part_by_chance: float | None
    """What that would be if this domain's parts were dealt to these primitives at random."""


def localisation(
    located: SubsetPrimitives,
    centres: TrueCentres,
    parts: Sequence[str],
    followed: Mapping[int, str],
    generator: torch.Generator,
) -> Localisation:
    """`followed` says which primitive follows which part on the sources; `centres` are true, image by image."""
    places = places_among_parts([located], [centres], parts)
    right = located.right.cpu().numpy()
    distance = distances(located, centres)
    here = [places[k].part for k in followed]
    same = [found == part for found, part in zip(here, followed.values(), strict=True)]
    dealt = [found == part for found in here for part in followed.values()]

    def error(distance: Float[np.ndarray, "_ K P"]) -> float | None:
        if not followed or not len(distance):
            return None
        return float(np.mean([np.median(distance[:, k, parts.index(part)]) for k, part in followed.items()]))

    return Localisation(
        domain=located.domain,
        images=len(located.labels),
        primitives=len(places),
        following=sum(place.follows for place in places),
        expected=len(followed),
        error=error(distance),
        error_of_right=error(distance[right]),
        error_of_wrong=error(distance[~right]),
        error_by_chance=error(distances(located, shuffled(centres, generator))),
        same_part=float(np.mean(same)) if followed else None,
        same_part_by_chance=float(np.mean(dealt)) if followed else None,
    )


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
    """How many of the parts are followed in an image: the mean. By chance: with the parts of another image."""
    count_by_chance: float
    all: float
    """The share of the images in which all of them are."""
    all_by_chance: float


def assign_parts(
    located: Sequence[SubsetPrimitives], centres: Sequence[TrueCentres], parts: Sequence[str], image_size: int
) -> dict[str, int]:
    """The primitive of every part, as found in all of these images together; of equals the first part, then the
    first primitive.
    """
    share = np.concatenate([near(*pair, image_size) for pair in zip(located, centres, strict=True)]).mean(0).T
    assigned: dict[str, int] = {}
    for _ in range(min(share.shape)):
        part, primitive = (int(n) for n in np.unravel_index(share.argmax(), share.shape))
        assigned[parts[part]] = primitive
        share[part], share[:, primitive] = -1, -1
    return assigned


def followed_parts(
    located: SubsetPrimitives,
    centres: TrueCentres,
    parts: Sequence[str],
    assigned: Mapping[str, int],
    image_size: int,
    generator: torch.Generator,
) -> FollowedParts:
    """`assigned` says which primitive each part was given on the sources; `centres` are true, image by image."""

    def followed(true: TrueCentres) -> Bool[np.ndarray, "N P"]:
        close = near(located, true, image_size)
        none = np.zeros(len(close), dtype=bool)  # a part without a primitive is never followed
        columns = [close[:, assigned[part], p] if part in assigned else none for p, part in enumerate(parts)]
        return np.stack(columns, 1)

    found, by_chance = followed(centres), followed(shuffled(centres, generator))
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


def on_known_parts(
    located: Sequence[SubsetPrimitives], centres: Sequence[TrueCentres], parts: Sequence[str], size: int, seed: int
) -> list[tuple[Localisation, FollowedParts]]:
    """Of every domain, the target last, against the parts that primitives follow, and are given, on the sources
    together; `size` is the images' side, `seed` that of chance.
    """
    sources = located[:-1], centres[:-1], parts
    followed = {place.primitive: place.part for place in places_among_parts(*sources) if place.follows}
    assigned = assign_parts(*sources, size)
    one, other = (torch.Generator().manual_seed(seed) for _ in range(2))
    return [
        (localisation(*pair, parts, followed, one), followed_parts(*pair, parts, assigned, size, other))
        for pair in zip(located, centres, strict=True)
    ]


def distances(located: SubsetPrimitives, centres: TrueCentres) -> Float[np.ndarray, "N K P"]:
    """From every primitive to every part."""
    places = located.centre.cpu().numpy()
    return np.asarray(np.linalg.norm(places[:, :, None] - centres[:, None], axis=-1))


def near(located: SubsetPrimitives, centres: TrueCentres, image_size: int) -> Bool[np.ndarray, "N K P"]:
    """What is within `WITHIN`; the 2 of the grid are from the centre of the first pixel to that of the last."""
    return np.asarray(distances(located, centres) <= WITHIN * image_size * 2 / (image_size - 1))


def shuffled(centres: TrueCentres, generator: torch.Generator) -> TrueCentres:
    """Every image with the parts of another one, drawn at random."""
    return np.asarray(centres[torch.randperm(len(centres), generator=generator).numpy()])
