"""Collapse: primitives that coincide, and whether that comes with errors, as the paper's error analysis says.

In an image, the primitives that are *present* (presence of at least `PRESENT`) are looked at. Two of them coincide
if their centres are at most `WITHIN` cells of the heat map apart: they point into one cell and no relation between
them means anything. Primitives that are linked by coinciding, directly or through others, are at one *place*.
An image with n present primitives at m places has the collapse (n - m)/(n - 1): 0 if all are apart, 1 if all are
at one place, and 0 if fewer than two are present. Letters: N images, K primitives.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from parse_dg.explain.measures.localisation import SubsetPrimitives
from parse_dg.jsonable import Jsonable

PRESENT = 0.5
"""The presence from which a primitive counts."""
WITHIN = 0.5
"""How far apart the centres of two that coincide may be, in cells of the heat map."""
AT_ONCE = 4096
"""Images compared together: K × K numbers each."""


class Coincidence(NamedTuple):
    """Which primitives coincide, image by image."""

    present: Bool[Tensor, "N K"]
    place: Int[Tensor, "N K"]
    """The number of the first primitive at the same place; one's own if it is alone or not present."""
    coinciding: Bool[Tensor, "N K"]
    """Present, and with another present one at the same place."""
    collapse: Float[Tensor, "N"]
    """In [0, 1]."""

    @property
    def places(self) -> Int[Tensor, "N"]:
        """How many different places the present primitives are at."""
        own = torch.arange(self.place.shape[1], device=self.place.device)
        return ((self.place == own) & self.present).sum(1)


def find_coinciding(located: SubsetPrimitives, *, within: float = WITHIN, present: float = PRESENT) -> Coincidence:
    """Compare every two primitives of every image."""
    height, width = located.cells
    pitch = located.centre.new_tensor(
        [max(width - 1, 1) / 2, max(height - 1, 1) / 2]
    )  # cells in a unit of the grid
    centre, shown = located.centre * pitch, located.presence >= present
    place = torch.cat([_first_at_place(c, p, within) for c, p in _parts(centre, shown)])
    same = place[:, :, None] == place[:, None, :]  # (N, K, K)
    coinciding = shown & ((same & shown[:, None, :]).sum(2) > 1)
    counted = Coincidence(shown, place, coinciding, centre.new_zeros(len(centre)))
    count = shown.sum(1)
    return counted._replace(collapse=(count - counted.places) / (count - 1).clamp_min(1).to(centre.dtype))


def _parts(centre: Float[Tensor, "N K 2"], shown: Bool[Tensor, "N K"]) -> "zip[tuple[Tensor, Tensor]]":
    return zip(torch.split(centre, AT_ONCE), torch.split(shown, AT_ONCE), strict=True)


def _first_at_place(
    centre: Float[Tensor, "n K 2"], shown: Bool[Tensor, "n K"], within: float
) -> Int[Tensor, "n K"]:
    """The first primitive that each one is linked to: the links are followed until nothing changes."""
    both = shown[:, :, None] & shown[:, None, :]
    # Differences, not cdist: by a matrix product, what coincides exactly would be a little apart.
    apart = (centre[:, :, None] - centre[:, None]).square().sum(-1)
    linked = (both & (apart <= within * within)) | torch.eye(
        centre.shape[1], dtype=torch.bool, device=centre.device
    )
    first = torch.arange(centre.shape[1], device=centre.device).expand_as(shown)
    for _ in range(centre.shape[1]):
        nearer = torch.where(linked, first[:, None, :], centre.shape[1]).amin(2)
        if torch.equal(nearer, first):
            break
        first = nearer
    return first


@dataclass(frozen=True, kw_only=True)
class CollapseOf(Jsonable):
    """Means over some images of a domain; None if there are no such images."""

    images: int
    present: float | None
    """Primitives that are present."""
    coinciding: float | None
    """Of those, how many coincide with another one."""
    places: float | None
    """At how many different places they are."""
    collapse: float | None
    """In [0, 1]."""


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


def collapse(located: SubsetPrimitives, *, within: float = WITHIN, present: float = PRESENT) -> Collapse:
    """The collapse of a domain's images."""
    found = find_coinciding(located, within=within, present=present)
    right = located.right
    above, spread = wrong_above_right(found.collapse, right, located.labels)
    return Collapse(
        domain=located.domain,
        within=within,
        all=_mean(found, torch.ones_like(right)),
        right=_mean(found, right),
        wrong=_mean(found, ~right),
        wrong_above_right=above,
        by_chance=spread,
    )


def _mean(found: Coincidence, chosen: Bool[Tensor, "N"]) -> CollapseOf:
    images = int(chosen.sum())
    counts = (found.present.sum(1), found.coinciding.sum(1), found.places, found.collapse)
    means = [float(values[chosen].double().mean()) if images else None for values in counts]
    return CollapseOf(images=images, present=means[0], coinciding=means[1], places=means[2], collapse=means[3])


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
