"""Annotated parts of photographs: which primitives follow the parts that people have marked?

A primitive is near a part in a photograph if the two are within `WITHIN` of the diagonal of the box around the
bird, in pixels of the original photograph; the network saw a square of it (`Framing`). A part is followed if some
primitive is near it in at least `FOLLOWS` of the photographs in which it is visible. Which part a primitive follows
best is decided on the sources together. Chance is the same with the places of another image's primitives.
Letters: N photographs, K primitives, P parts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int

from parse_dg.data.framing import Framing, pixels_in
from parse_dg.data.public.cub_parts import PartAnnotations
from parse_dg.explain.measures.images import SubsetPrimitives
from parse_dg.jsonable import Jsonable

WITHIN = 0.1
"""How far from a part a primitive may be that is near it, as a share of the box's diagonal."""
FOLLOWS = 0.5
"""In what share of the photographs a primitive must be near a part for the part to count as followed."""
SOURCES = "sources together"


@dataclass(frozen=True, kw_only=True)
class PrimitiveOnPart(Jsonable):
    """A primitive, and the part it follows best on the sources, in the photographs of one domain."""

    primitive: int
    part: str
    photographs: int
    """In which the part is visible."""
    share: float | None
    """Of those in which the primitive is near it; None if there are none, as below."""
    by_chance: float | None


@dataclass(frozen=True, kw_only=True)
class NearestToPart(PrimitiveOnPart):
    """A part, and the primitive that is near it most often in this very domain.

    `by_chance` is the highest share that any primitive has by chance.
    """

    FIRST: ClassVar = ("part",)


P = TypeVar("P", bound=PrimitiveOnPart)


@dataclass(frozen=True, kw_only=True)
class PartsOfDomain(Jsonable):
    """Primitives and parts in the photographs of one domain, or of the sources together."""

    domain: str
    images: int
    followed: int
    """How many parts some primitive follows here."""
    followed_by_chance: int
    primitives: tuple[PrimitiveOnPart, ...]
    parts: tuple[NearestToPart, ...]


@dataclass(frozen=True, kw_only=True)
class AnnotatedParts(Jsonable):
    """Of a run: where its primitives are, beside where people have marked parts."""

    parts: tuple[str, ...]
    within: float
    sources: PartsOfDomain
    """The held-out images of all sources together, by which the part of a primitive is decided."""
    domains: tuple[PartsOfDomain, ...]
    """The sources in their order, the target last."""


class _Counts(NamedTuple):
    """Of some photographs; None is known of a part that is not visible."""

    images: int
    visible: Int[np.ndarray, "P"]
    near: Int[np.ndarray, "K P"]
    """In how many the part is visible and the primitive near it."""
    by_chance: Int[np.ndarray, "K P"]


def annotated_parts(
    located: Sequence[SubsetPrimitives],
    annotations: Sequence[PartAnnotations],
    framing: Framing,
    generator: torch.Generator,
) -> AnnotatedParts:
    """Of domains, the target last, each with the parts of its images in their order."""
    counts = [_count(*pair, framing, generator) for pair in zip(located, annotations, strict=True)]
    together = _Counts._make(map(sum, zip(*counts[:-1], strict=True)))
    names, parts = [SOURCES, *(each.domain for each in located)], annotations[0].parts
    followed = _shares(together.near, together.visible).argmax(1)
    sources, *domains = (
        _of_domain(*pair, parts, followed) for pair in zip(names, (together, *counts), strict=True)
    )
    return AnnotatedParts(parts=parts, within=WITHIN, sources=sources, domains=tuple(domains))


def _count(
    located: SubsetPrimitives, annotations: PartAnnotations, framing: Framing, generator: torch.Generator
) -> _Counts:
    centre = located.centre.double().cpu().numpy()
    order = torch.randperm(len(centre), generator=generator).numpy()
    seen = [framing.seen(*map(int, size)) for size in annotations.sizes]
    limit = WITHIN * annotations.diagonals[:, None]
    near = []
    for places in (centre, centre[order]):
        pixels = np.stack([pixels_in(part, each) for part, each in zip(seen, places, strict=True)])
        columns = []
        for part in range(len(annotations.parts)):
            distance = np.linalg.norm(pixels - annotations.places[:, None, part], axis=-1)  # (N, K)
            columns.append(((distance <= limit) & annotations.visible[:, part, None]).sum(0))
        near.append(np.stack(columns, 1))
    return _Counts(len(centre), annotations.visible.sum(0), *near)


def _shares(near: Int[np.ndarray, "K P"], visible: Int[np.ndarray, "P"]) -> Float[np.ndarray, "K P"]:
    """-1 for a part that is never visible: below all that are known."""
    return np.where(visible > 0, near / np.maximum(visible, 1), -1.0)


def _of_domain(name: str, count: _Counts, parts: tuple[str, ...], followed: Int[np.ndarray, "K"]) -> PartsOfDomain:
    share, by_chance = (_shares(near, count.visible) for near in (count.near, count.by_chance))

    def found(kind: type[P], primitive: int, part: int, chance: float) -> P:
        shares = [None if value < 0 else float(value) for value in (share[primitive, part], chance)]
        return kind(
            primitive=primitive,
            part=parts[part],
            photographs=int(count.visible[part]),
            share=shares[0],
            by_chance=shares[1],
        )

    own = enumerate(followed.tolist())
    best = enumerate(share.argmax(0).tolist())
    return PartsOfDomain(
        domain=name,
        images=count.images,
        followed=int((share.max(0) >= FOLLOWS).sum()),
        followed_by_chance=int((by_chance.max(0) >= FOLLOWS).sum()),
        primitives=tuple(found(PrimitiveOnPart, k, part, by_chance[k, part]) for k, part in own),
        parts=tuple(found(NearestToPart, k, part, by_chance[:, part].max()) for part, k in best),
    )
