"""What of a model's structure its accuracy rests on: presence, relations, and the geometry of this very image.

A class score is a sum over applications, weight × satisfaction. "Presence alone" keeps the terms of `has` and sets
all others to zero; "relations alone" keeps the others and sets `has` to zero. The weights stay as they are, nothing
is trained again, and the class with the highest sum is predicted (of equal ones the first). A relation may be gated
by the presence of what it binds (`predicates.gate`): relations alone still know of presence by that.

"Geometry swapped" gives every image the centres and extents of another one, drawn at random from the same images
whatever its class, and leaves it its own presence: what is lost is what the places of primitives are worth.

Beside it stands the *guide*: a PARSE trained with `algorithm.guidance` has a linear classifier on the pooled
features of its backbone that no score depends on. Where it is right more often than the model itself, the features
know more than primitives and relations pass on; where it is right as rarely, points are lost before them.
Letters: N images, n applications in use, C classes, K primitives.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from parse_dg.config import require
from parse_dg.deploy.model_file import Model
from parse_dg.explain.measures.images import SubsetPrimitives
from parse_dg.jsonable import Jsonable
from parse_dg.model.paper_predicates import PREDICATES
from parse_dg.model.primitives import PrimitiveDescriptors
from parse_dg.model.structure import AT_ONCE, StructuralLayer

SWAPS = 5
"""How many times geometry is swapped."""


@dataclass(frozen=True, kw_only=True)
class StructureUse(Jsonable):
    """Accuracies on the images of one domain, as fractions."""

    domain: str
    images: int
    whole: float
    """With everything: the model as it is."""
    relations: float
    """With relations alone."""
    presence: float
    """With presence alone."""
    swapped: float
    """With another image's geometry: the mean over `swaps` drawings."""
    swapped_deviation: float
    """The standard deviation over them; 0 for a single one."""
    swaps: int


@torch.no_grad()
def structure_use(
    model: Model, located: SubsetPrimitives, generator: torch.Generator, swaps: int = SWAPS
) -> StructureUse:
    """Predict the located images again, from parts of what is known of them; the network is not asked again."""
    require(swaps >= 1, "swaps", swaps, "at least 1")
    structure = model.parse_network().structure
    active = structure.composition.active()
    parts = structure.vocabulary.applications(active.applications)
    families = [torch.full_like(part.angle, PREDICATES[part.predicate].family == "presence") for part in parts]
    presence = torch.cat(families).bool()
    masked = [active.weights, active.weights * ~presence, active.weights * presence]
    z, labels = located.descriptors, located.labels
    whole, relations, alone = (_accuracy(p, labels) for p in _predict(structure, z, active.applications, masked))
    swapped = []
    for _ in range(swaps):
        order = torch.randperm(len(labels), generator=generator).to(labels.device)
        other = z._replace(centre=z.centre[order], extent=z.extent[order])
        (predicted,) = _predict(structure, other, active.applications, masked[:1])
        swapped.append(_accuracy(predicted, labels))
    spread = torch.tensor(swapped, dtype=torch.float64)
    return StructureUse(
        domain=located.domain,
        images=len(labels),
        whole=whole,
        relations=relations,
        presence=alone,
        swapped=float(spread.mean()),
        swapped_deviation=float(spread.std()) if swaps > 1 else 0.0,
        swaps=swaps,
    )


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


@torch.no_grad()
def primitive_weights(model: Model) -> Float[Tensor, "C K"]:
    """How much of each class's composition binds each primitive, on the CPU; a class's shares sum to one.

    The weight of an application is shared equally by the primitives it binds.
    """
    structure = model.parse_network().structure
    active = structure.composition.active()
    shares = []
    for part in structure.vocabulary.applications(active.applications):
        arity, count = part.primitives.shape
        share = active.weights.new_zeros(count, structure.vocabulary.primitives)
        shares.append(share.scatter_add_(1, part.primitives.T, share.new_full((count, arity), 1 / arity)))
    return (active.weights @ torch.cat(shares)).cpu()


def _predict(
    structure: StructuralLayer, z: PrimitiveDescriptors, columns: Int[Tensor, "n"], weights: list[Tensor]
) -> list[Int[Tensor, "N"]]:
    """The class of every image under each of the given weights (C × n)."""
    size = max(1, AT_ONCE // len(columns))
    found: list[list[Tensor]] = [[] for _ in weights]
    for parts in zip(*(torch.split(part, size) for part in z), strict=True):
        held = structure.evaluate(PrimitiveDescriptors(*parts), columns)
        for predicted, each in zip(found, weights, strict=True):
            predicted.append((held @ each.T).argmax(1))
    return [torch.cat(predicted) for predicted in found]


def _accuracy(predicted: Int[Tensor, "N"], labels: Int[Tensor, "N"]) -> float:
    return float((predicted == labels).double().mean())
