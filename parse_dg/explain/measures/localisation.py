"""Localisation: do primitives sit on parts, where the true places of parts are known?

Letters: N images, K primitives, P parts.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from parse_dg.data.splits import Subset
from parse_dg.deploy.model_file import Model
from parse_dg.explain.measures.images import SubsetPrimitives, locate
from parse_dg.jsonable import Jsonable

FOLLOWS = 0.5
"""In what share of the images a part must be the nearest for a primitive to count as following it."""


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
    """The mean presence."""

    @property
    def follows(self) -> bool:
        """Whether it follows the part."""
        return self.share >= FOLLOWS


def primitive_places(
    model: Model, subset: Subset, centres: Float[np.ndarray, "N P 2"], parts: Sequence[str]
) -> tuple[PrimitivePlace, ...]:
    """For every primitive, the part it follows; `centres` are the true ones of the subset's images."""
    return places_among_parts([locate(model, subset)], [centres], parts)


def places_among_parts(
    located: Sequence[SubsetPrimitives], centres: Sequence[Float[np.ndarray, "_ P 2"]], parts: Sequence[str]
) -> tuple[PrimitivePlace, ...]:
    """For every primitive, the part it follows in all of these images together."""
    presence = np.concatenate([each.presence.cpu().numpy() for each in located])
    distance = np.concatenate([distances(each, true) for each, true in zip(located, centres, strict=True)])
    nearest = distance.argmin(-1)  # (N, K)
    report = []
    for k in range(presence.shape[1]):
        part, count = Counter(nearest[:, k].tolist()).most_common(1)[0]
        report.append(
            PrimitivePlace(
                primitive=k,
                part=parts[part],
                share=count / len(nearest),
                distance=float(np.median(distance[:, k, part])),
                presence=float(presence[:, k].mean()),
            )
        )
    return tuple(report)


@dataclass(frozen=True, kw_only=True)
class Localisation(Jsonable):
    """How well the primitives of one domain sit on the parts that they follow on the source domains.

    Only primitives that follow a part on the sources count: elsewhere there is nothing to be near to.
    """

    domain: str
    images: int
    primitives: int
    """K."""
    following: int
    """How many primitives follow a part, any part, in this domain."""
    expected: int
    """How many follow one on the sources; the figures below are of these."""
    error: float | None
    """The mean over them of the median distance to the part they follow on the sources, in units of the grid (the
    image is 2 wide); 0 is best. None if there are none, as below."""
    error_of_right: float | None
    """The same over the images that are classified right alone; None if there are none, too."""
    error_of_wrong: float | None
    error_by_chance: float | None
    """The same distance to where that part is in another image of the domain, drawn at random."""
    same_part: float | None
    """The share of them that are nearest to the same part here, in most images, as on the sources."""
    same_part_by_chance: float | None
    """What that would be if this domain's parts were dealt to these primitives at random."""


def localisation(
    located: SubsetPrimitives,
    centres: Float[np.ndarray, "N P 2"],
    parts: Sequence[str],
    followed: Mapping[int, str],
    generator: torch.Generator,
) -> Localisation:
    """`followed` says which primitive follows which part on the sources; `centres` are true, image by image."""
    places = places_among_parts([located], [centres], parts)
    shuffled = centres[torch.randperm(len(centres), generator=generator).numpy()]
    right = located.right.cpu().numpy()
    numbers = {k: parts.index(part) for k, part in followed.items()}
    distance = distances(located, centres)
    here = [places[k].part for k in followed]
    same = [found == part for found, part in zip(here, followed.values(), strict=True)]
    dealt = [found == part for found in here for part in followed.values()]
    return Localisation(
        domain=located.domain,
        images=len(located.labels),
        primitives=len(places),
        following=sum(place.follows for place in places),
        expected=len(followed),
        error=_error(distance, numbers),
        error_of_right=_error(distance[right], numbers),
        error_of_wrong=_error(distance[~right], numbers),
        error_by_chance=_error(distances(located, shuffled), numbers),
        same_part=float(np.mean(same)) if followed else None,
        same_part_by_chance=float(np.mean(dealt)) if followed else None,
    )


def _error(distance: Float[np.ndarray, "N K P"], followed: Mapping[int, int]) -> float | None:
    """The mean over primitives of the median distance to the part each is expected at."""
    if not followed or not len(distance):
        return None
    return float(np.mean([np.median(distance[:, k, part]) for k, part in followed.items()]))


def distances(located: SubsetPrimitives, centres: Float[np.ndarray, "N P 2"]) -> Float[np.ndarray, "N K P"]:
    """From every primitive to every part."""
    places = located.centre.cpu().numpy()
    return np.asarray(np.linalg.norm(places[:, :, None] - centres[:, None], axis=-1))
