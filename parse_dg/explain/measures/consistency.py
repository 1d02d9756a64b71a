"""Is a primitive the same thing in two domains? Measured from images and labels alone, also without true parts.

A primitive is known by two profiles over the classes: its mean presence in the images of a class, and its mean
place there (weighted by presence). From both, the mean over all primitives is taken off, class by class: what is
left says what sets this primitive apart from the others, and a domain in which everything is stronger, or farther
to the left, is not blamed for it. Two domains *agree* on a primitive as far as the cosine of its two profiles says:
1 the same, 0 nothing in common, -1 the opposite.

Chance is the same cosine between *different* primitives of the two domains, over all such pairs: about 0, more if
some primitives are alike. A primitive is *recognised* if its own profiles are, of all the other domain's
primitives, the most alike (by the sum of both cosines); by chance that is 1/K. Every figure is a mean over
primitives weighted by their share in the class compositions, so that one that no class uses does not count.
Letters: N images, K primitives, C classes.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from parse_dg.errors import InputError
from parse_dg.explain.measures.images import SubsetPrimitives
from parse_dg.jsonable import Jsonable


@dataclass(frozen=True)
class PrimitiveConsistency(Jsonable):
    """How far two domains agree on one primitive."""

    primitive: int
    weight: float
    """Its share in the class compositions; all shares sum to one."""
    presence: float
    """In [-1, 1]: whether it is there for the same classes."""
    place: float
    """In [-1, 1]: whether it is at the same places for the same classes."""
    recognised: bool


@dataclass(frozen=True, kw_only=True)
class Consistency(Jsonable):
    """How far two domains agree on the primitives, weighted by their use."""

    domains: tuple[str, str]
    classes: int
    """How many classes have images in both: the figures are of these."""
    presence: float
    presence_by_chance: float
    place: float
    place_by_chance: float
    recognised: float
    """A share in [0, 1]."""
    recognised_by_chance: float
    primitives: tuple[PrimitiveConsistency, ...]


class Profiles(NamedTuple):
    """What the primitives are like, class by class; of a class without images, zeros."""

    images: Int[Tensor, "C"]
    presence: Float[Tensor, "C K"]
    place: Float[Tensor, "C K 2"]


def profiles(located: SubsetPrimitives, classes: int) -> Profiles:
    """The means over the images of each class, on the CPU."""
    labels = located.labels.cpu()
    presence, centre = located.presence.double().cpu(), located.centre.double().cpu()
    images = torch.bincount(labels, minlength=classes)
    total = presence.new_zeros(classes, presence.shape[1]).index_add_(0, labels, presence)
    moment = centre.new_zeros(classes, *centre.shape[1:]).index_add_(0, labels, presence.unsqueeze(2) * centre)
    place = moment / total.unsqueeze(2).clamp_min(torch.finfo(total.dtype).tiny)
    return Profiles(images, total / images.unsqueeze(1).clamp_min(1), place)


def consistency(one: SubsetPrimitives, other: SubsetPrimitives, weights: Float[Tensor, "C K"]) -> Consistency:
    """How far two domains agree; `weights` are the shares of primitives in class compositions."""
    classes, count = weights.shape
    first, second = profiles(one, classes), profiles(other, classes)
    shared = (first.images > 0) & (second.images > 0)
    if not shared.any():
        raise InputError(f"{one.domain} and {other.domain} have no class in common among the images that are read")
    presence = _cosines(first.presence[shared], second.presence[shared])
    place = _cosines(first.place[shared], second.place[shared])
    recognised = (presence + place).argmax(1) == torch.arange(count)
    use = weights.double().mean(0)
    use = use / use.sum()
    return Consistency(
        domains=(one.domain, other.domain),
        classes=int(shared.sum()),
        presence=float(presence.diagonal() @ use),
        presence_by_chance=float(_of_others(presence) @ use),
        place=float(place.diagonal() @ use),
        place_by_chance=float(_of_others(place) @ use),
        recognised=float(recognised.double() @ use),
        recognised_by_chance=1 / count,
        primitives=tuple(
            PrimitiveConsistency(k, float(use[k]), float(presence[k, k]), float(place[k, k]), bool(recognised[k]))
            for k in range(count)
        ),
    )


def _cosines(one: Float[Tensor, "C K *axes"], other: Float[Tensor, "C K *axes"]) -> Float[Tensor, "K K"]:
    """Between how every primitive of one domain, and every one of the other, differs from the mean primitive; 0 for
    one like the mean.
    """
    first, second = (
        F.normalize((means - means.mean(1, keepdim=True)).transpose(0, 1).flatten(1), dim=1)
        for means in (one, other)
    )
    return first @ second.T


def _of_others(cosines: Float[Tensor, "K K"]) -> Float[Tensor, "K"]:
    """The mean over the other primitives."""
    return (cosines.sum(1) - cosines.diagonal()) / max(len(cosines) - 1, 1)
