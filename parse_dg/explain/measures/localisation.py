"""Where primitives are, in every image of a domain; and do they sit on parts, where the true places are known?

Images are read once (`locate`): what is measured of many images is measured of the few numbers that are kept.
Letters: N images, K primitives, P parts.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from parse_dg.data.loader import evaluation_batches
from parse_dg.data.splits import Subset
from parse_dg.deploy.model_file import Model
from parse_dg.errors import InputError
from parse_dg.jsonable import Jsonable
from parse_dg.model.primitives import PrimitiveDescriptors

BATCH = 128
"""As in evaluation: the same images in the same batches give the same bits."""
FOLLOWS = 0.5
"""In what share of the images a part must be the nearest for a primitive to count as following it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SubsetPrimitives:
    """The images of one subset as their primitives, K × 6 numbers an image, and what is predicted of them.

    The tensors are on the device of the model that read them.
    """

    domain: str
    labels: Int[Tensor, "N"]
    predicted: Int[Tensor, "N"]
    probability: Float[Tensor, "N"]
    """Of the predicted class."""
    centre: Float[Tensor, "N K 2"]
    presence: Float[Tensor, "N K"]
    extent: Float[Tensor, "N K 2"]
    heat_at_centre: Float[Tensor, "N K"]
    """The heat map's value at the centre, interpolated between cells, ÷ its maximum: from 0 to 1."""
    cells: tuple[int, int]
    """H and W of the heat maps."""
    guided: Int[Tensor, "N"] | None = None
    """The class that the guide alone predicts; None for a model that has none."""

    @property
    def right(self) -> Bool[Tensor, "N"]:
        """Which images are classified right."""
        return self.predicted == self.labels

    @property
    def descriptors(self) -> PrimitiveDescriptors:
        """What the structural layer needs; the heat maps, which it does not, are empty."""
        heatmap = self.centre.new_empty((*self.presence.shape, 0, 0))
        return PrimitiveDescriptors(self.centre, self.presence, self.extent, heatmap)


@torch.no_grad()
def locate(model: Model, subset: Subset, seen: Callable[[int], None] = lambda images: None) -> SubsetPrimitives:
    """Every image of the subset, in its order, in one pass; `seen` is told the size of every batch."""
    if len(subset.indices) == 0:
        raise InputError(f"no image of domain {subset.domain.name!r} was given: expected at least 1")
    network, guide = model.parse_network(), model.algorithm.guide
    found: list[tuple[Tensor, ...]] = []
    guided: list[Tensor] = []
    cells = (1, 1)
    for images, labels in evaluation_batches(subset, BATCH):
        output = network(model.prepare(images))
        probability, predicted = output.logits.softmax(1).max(1)
        z = output.descriptors
        heat = heat_at_centre(z.heatmap, z.centre)
        found.append((labels.to(predicted.device), predicted, probability, z.centre, z.presence, z.extent, heat))
        if guide is not None:
            guided.append(guide(output.features.mean((2, 3))).argmax(1))
        cells = (z.heatmap.shape[2], z.heatmap.shape[3])
        seen(len(labels))
    labels, predicted, probability, centre, presence, extent, heat = map(torch.cat, zip(*found, strict=True))
    return SubsetPrimitives(
        domain=subset.domain.name,
        labels=labels,
        predicted=predicted,
        probability=probability,
        centre=centre,
        presence=presence,
        extent=extent,
        heat_at_centre=heat,
        cells=cells,
        guided=torch.cat(guided) if guided else None,
    )


def heat_at_centre(heatmap: Float[Tensor, "N K H W"], centre: Float[Tensor, "N K 2"]) -> Float[Tensor, "N K"]:
    """Each heat map at its primitive's centre, bilinear between cells, ÷ its maximum."""
    maps = heatmap.flatten(0, 1).unsqueeze(1)  # (N·K, 1, H, W)
    places = centre.flatten(0, 1)[:, None, None]  # (N·K, 1, 1, 2)
    # The corners of the grid are aligned, and of a single cell every place is that cell, as in the grid.
    heat = F.grid_sample(maps, places, mode="bilinear", padding_mode="border", align_corners=True)
    return heat.view(centre.shape[:2]) / heatmap.amax((2, 3))


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
