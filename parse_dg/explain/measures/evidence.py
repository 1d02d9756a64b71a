"""On its evidence: is there anything where a primitive is said to be?

The centre of a primitive is the mean of its heat map. The mean of a wide map, or of one with two peaks, may lie
where the map itself is all but empty, and relations then speak of a place at which nothing was found. A present
primitive is *on its evidence* if its heat map at the centre has at least `OF_MAXIMUM` of its maximum.
"""

from dataclasses import dataclass

from parse_dg.explain.measures.collapse import PRESENT
from parse_dg.explain.measures.localisation import SubsetPrimitives
from parse_dg.jsonable import Jsonable

OF_MAXIMUM = 0.5
"""The share of a map's maximum that its value at the centre must have."""


@dataclass(frozen=True, kw_only=True)
class Evidence(Jsonable):
    """How often the primitives of one domain are on their evidence."""

    domain: str
    present: int
    """Primitives that are present, counted over all images."""
    on_evidence: float | None
    """The share of them that are on their evidence; None if none is present."""
    heat_at_centre: float | None
    """The mean over them of the heat at the centre ÷ the map's maximum, from 0 to 1; None as above."""


def evidence(located: SubsetPrimitives, *, present: float = PRESENT, of_maximum: float = OF_MAXIMUM) -> Evidence:
    """Over the primitives that are present, of all images of a domain."""
    heat = located.heat_at_centre[located.presence >= present].double()
    return Evidence(
        domain=located.domain,
        present=len(heat),
        on_evidence=float((heat >= of_maximum).double().mean()) if len(heat) else None,
        heat_at_centre=float(heat.mean()) if len(heat) else None,
    )
