"""The guide's own accuracy: is it the head that loses points, or the features?

A PARSE that is trained with `algorithm.guidance` has a linear classifier on the pooled features of its backbone,
the guide, that no score depends on. Where it is right more often than the model itself, the features know more than
primitives and relations pass on; where it is right as rarely, points are lost before them.
"""

from dataclasses import dataclass

from parse_dg.explain.measures.localisation import SubsetPrimitives
from parse_dg.jsonable import Jsonable


@dataclass(frozen=True, kw_only=True)
class Guide(Jsonable):
    """The guide on the images of one domain."""

    domain: str
    images: int
    accuracy: float
    """The share of the images that the guide alone classifies right."""


def guide(located: SubsetPrimitives) -> Guide | None:
    """None for a model that has no guide: it was trained without, or is compacted."""
    if located.guided is None:
        return None
    right = located.guided == located.labels
    return Guide(domain=located.domain, images=len(right), accuracy=float(right.double().mean()))
