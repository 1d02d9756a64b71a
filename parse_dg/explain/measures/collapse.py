"""Collapse: primitives that coincide, and whether that comes with errors, as the paper's error analysis says.

In an image, the primitives that are *present* (presence of at least `PRESENT`) are looked at. Two of them coincide
if their centres are at most `WITHIN` cells of the heat map apart: they point into one cell and no relation between
them means anything. Primitives that are linked by coinciding, directly or through others, are at one *place*.
An image with n present primitives at m places has the collapse (n - m)/(n - 1): 0 if all are apart, 1 if all are
at one place, and 0 if fewer than two are present.

A present primitive may also be where nothing is: its centre is the mean of its heat map, and that of a wide map, or
of one with two peaks, may lie where the map itself is all but empty. It is *on its evidence* if its heat map at the
centre has at least `OF_MAXIMUM` of its maximum. Letters: N images, K primitives.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from parse_dg.explain.measures.images import SubsetPrimitives
from parse_dg.jsonable import Jsonable

PRESENT = 0.5
"""The presence from which a primitive counts."""
WITHIN = 0.5
"""How far apart the centres of two that coincide may be, in cells of the heat map."""
PAIRS_AT_ONCE = 2**22
"""How many pairs of primitives are compared together, K × K an image."""
OF_MAXIMUM = 0.5
"""The share of a map's maximum that its value at the centre must have for a primitive to be on its evidence."""


class Coincidence(NamedTuple):
    """Which primitives coincide, image by image."""

    present: Bool[Tensor, "N K"]
    place: Int[Tensor, "N K"]
    """The number of the first primitive at the same place; one's own if it is alone or not present."""
    coinciding: Bool[Tensor, "N K"]
    """Present, and with another present one at the same place."""
    places: Int[Tensor, "N"]
    """How many different places the present primitives are at."""
    collapse: Float[Tensor, "N"]
    """In [0, 1]."""


def find_coinciding(located: SubsetPrimitives, *, within: float = WITHIN) -> Coincidence:
    """Compare every two primitives of every image."""
    height, width = located.cells
    pitch = located.centre.new_tensor([max(side - 1, 1) / 2 for side in (width, height)])  # cells in a unit
    centre, shown = located.centre * pitch, located.presence >= PRESENT
    images = max(1, PAIRS_AT_ONCE // centre.shape[1] ** 2)
    parts = zip(torch.split(centre, images), torch.split(shown, images), strict=True)
    place = torch.cat([_linked(c, p, within) for c, p in parts])
    at_place = torch.zeros_like(place).scatter_add_(1, place, shown.long())  # (N, K)
    coinciding = shown & (at_place.gather(1, place) > 1)
    places = ((place == torch.arange(place.shape[1], device=place.device)) & shown).sum(1)
    count = shown.sum(1)
    collapsed = (count - places) / (count - 1).clamp_min(1).to(centre.dtype)
    return Coincidence(shown, place, coinciding, places, collapsed)


def _linked(centre: Float[Tensor, "n K 2"], shown: Bool[Tensor, "n K"], within: float) -> Int[Tensor, "n K"]:
    """The first primitive that each one is linked to: the links are followed, and what was found behind them, until
    nothing changes.
    """
    count = centre.shape[1]
    first = torch.arange(count, device=centre.device)
    # Differences, not cdist: by a matrix product, what coincides exactly would be a little apart.
    apart = (centre[:, :, None] - centre[:, None]).square().sum(-1)
    both = shown[:, :, None] & shown[:, None, :]
    linked = (both & (apart <= within * within)) | (first[:, None] == first)
    first = first.expand_as(shown)
    for _ in range(count):
        nearer = torch.where(linked, first[:, None, :], count).amin(2)
        nearer = nearer.gather(1, nearer)
        if torch.equal(nearer, first):
            break
        first = nearer
    return first


@dataclass(frozen=True)
class CollapseOf(Jsonable):
    """Means over some images of a domain, None if there are no such images: how many primitives are present, how
    many of those coincide with another one, at how many different places they are, and the collapse in [0, 1].
    """

    images: int
    present: float | None
    coinciding: float | None
    places: float | None
    collapse: float | None


@dataclass(frozen=True, kw_only=True)
class Collapse(Jsonable):
    """Collapse in one domain, and whether the images that are classified wrong have more of it."""

    domain: str
    within: float
    """Cells of the heat map."""
    all: CollapseOf
    right: CollapseOf
    wrong: CollapseOf
    wrong_above_right: float | None
    """How often a wrong image has a larger collapse than a right one of the same true class, over all such pairs,
    ties counted half, in [0, 1] (the area under the curve): 0.5 if collapse has nothing to do with errors, more if
    errors come with collapse. None if no class has both."""
    by_chance: float | None
    """The standard deviation of that around 0.5 if right and wrong were dealt to a class's images at random."""


def collapse(located: SubsetPrimitives, *, within: float = WITHIN) -> Collapse:
    """The collapse of a domain's images."""
    found, right = find_coinciding(located, within=within), located.right
    counts = (found.present.sum(1), found.coinciding.sum(1), found.places, found.collapse)

    def mean(chosen: Bool[Tensor, "N"]) -> CollapseOf:
        images = int(chosen.sum())
        return CollapseOf(images, *(float(each[chosen].double().mean()) if images else None for each in counts))

    above, spread = wrong_above_right(found.collapse, right, located.labels)
    return Collapse(
        domain=located.domain,
        within=within,
        all=mean(torch.ones_like(right)),
        right=mean(right),
        wrong=mean(~right),
        wrong_above_right=above,
        by_chance=spread,
    )


def wrong_above_right(
    values: Float[Tensor, "N"], right: Bool[Tensor, "N"], labels: Int[Tensor, "N"]
) -> tuple[float | None, float | None]:
    """How often a wrong image has the larger value, within classes, and its standard deviation by chance.

    Mann and Whitney's U, summed over classes; its variance with ties is exact.
    """
    above = pairs = variance = 0.0
    for label in torch.unique(labels):
        mine = labels == label
        x, wrong = values[mine].double(), ~right[mine]
        n, n_wrong = len(x), int(wrong.sum())
        if not 0 < n_wrong < n:
            continue
        _, number, ties = torch.unique(x, return_inverse=True, return_counts=True)
        ranks = (ties.cumsum(0) - (ties - 1) / 2)[number]
        above += float(ranks[wrong].sum()) - n_wrong * (n_wrong + 1) / 2
        pairs += n_wrong * (n - n_wrong)
        tied = float((ties**3 - ties).sum()) / (n * (n - 1))
        variance += n_wrong * (n - n_wrong) / 12 * (n + 1 - tied)
    if not pairs:
        return None, None
    return above / pairs, variance**0.5 / pairs


@dataclass(frozen=True)
class Evidence(Jsonable):
    """How often the primitives of one domain are on their evidence."""

    domain: str
    present: int
    """Primitives that are present, counted over all images."""
    on_evidence: float | None
    """The share of them that are on their evidence; None if none is present."""
    heat_at_centre: float | None
    """The mean over them of the heat at the centre ÷ the map's maximum, from 0 to 1; None as above."""


def evidence(located: SubsetPrimitives) -> Evidence:
    """Over the primitives that are present, of all images of a domain."""
    heat = located.heat_at_centre[located.presence >= PRESENT].double()
    means = [float(each.mean()) if len(heat) else None for each in ((heat >= OF_MAXIMUM).double(), heat)]
    return Evidence(located.domain, len(heat), *means)
