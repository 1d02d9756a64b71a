"""What of a model's structure its accuracy rests on, and what of it training selected.

A class score is a sum over applications, weight × satisfaction. "Presence alone" keeps the terms of `has` and sets
all others to zero; "relations alone" keeps the others and sets `has` to zero. The weights stay as they are, nothing
is trained again, and the class with the highest sum is predicted (of equal ones the first). A relation may be gated
by the presence of what it binds (`predicates.gate`): relations alone still know of presence by that.

"Geometry swapped" gives every image the centres and extents of another one, drawn at random from the same images
whatever its class, and leaves it its own presence: what is lost is what the places of primitives are worth.

Beside it stands the *guide*: a PARSE trained with `algorithm.guidance` has a linear classifier on the pooled
features of its backbone that no score depends on. Where it is right more often than the model itself, the features
know more than primitives and relations pass on; where it is right as rarely, points are lost before them.

*Selected* are the relations (columns of Λ, presence among them) that classes use at the end, with a weight above
zero, beside those they started with: only what a class uses has a gradient from its score, so that most of what it
ends with may be what it was dealt. Letters: N images, n applications in use, C classes, K primitives.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from parse_dg.config import require
from parse_dg.deploy.model_file import Model
from parse_dg.explain.measures.collapse import OF_MAXIMUM
from parse_dg.explain.measures.images import SubsetPrimitives
from parse_dg.jsonable import Jsonable
from parse_dg.model.composition import ActiveWeights
from parse_dg.model.paper_predicates import PREDICATES
from parse_dg.model.primitives import PrimitiveDescriptors
from parse_dg.model.structure import AT_ONCE, StructuralLayer

SWAPS = 5
"""How many times geometry is swapped."""
FIRST = 5
"""Of how many of a class's strongest relations the weight is summed."""


@dataclass(frozen=True, kw_only=True)
class StructureUse(Jsonable):
    """Accuracies on the images of one domain, as fractions."""

    domain: str
    images: int
    whole: float
    """With everything: the model as it is; below, with relations alone and with presence alone."""
    relations: float
    presence: float
    swapped: float
    """With another image's geometry: the mean over `swaps` drawings."""
    swapped_deviation: float
    """The standard deviation over them; 0 for a single one."""
    swaps: int
    on_evidence: float | None
    """Of the predicted classes' scores, summed over images: the share that comes from relations all of whose
    primitives are on their evidence (collapse.py), and so lie where they are drawn. None if all scores are 0."""


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
    whole, relations, alone = _accuracies(structure, z, active.applications, masked, labels)
    swapped = []
    for _ in range(swaps):
        order = torch.randperm(len(labels), generator=generator).to(labels.device)
        other = z._replace(centre=z.centre[order], extent=z.extent[order])
        swapped += _accuracies(structure, other, active.applications, masked[:1], labels)
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
        on_evidence=_share_on_evidence(structure, located, active),
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


def _accuracies(
    structure: StructuralLayer,
    z: PrimitiveDescriptors,
    columns: Int[Tensor, "n"],
    weights: list[Tensor],
    labels: Int[Tensor, "N"],
) -> list[float]:
    """The share of the images that are right under each of the given weights (C × n)."""
    size = max(1, AT_ONCE // len(columns))
    right = torch.zeros(len(weights), dtype=torch.int64)
    for true, *parts in zip(*(torch.split(part, size) for part in (labels, *z)), strict=True):
        held = structure.evaluate(PrimitiveDescriptors(*parts), columns)
        right += torch.stack([((held @ each.T).argmax(1) == true).sum() for each in weights]).cpu()
    return (right.double() / len(labels)).tolist()


def _share_on_evidence(
    structure: StructuralLayer, located: SubsetPrimitives, active: ActiveWeights
) -> float | None:
    parts = tuple(structure.vocabulary.applications(active.applications))
    on = located.heat_at_centre >= OF_MAXIMUM  # (N, K)
    size = max(1, AT_ONCE // len(active.applications))
    sums = []
    for predicted, on_each, *some in zip(
        *(torch.split(tensor, size) for tensor in (located.predicted, on, *located.descriptors)), strict=True
    ):
        held = structure.evaluate(PrimitiveDescriptors(*some), active.applications)
        score = (held * active.weights[predicted]).double()  # (b, n): its sum is the score
        drawn_right = torch.cat([on_each[:, part.primitives].all(1) for part in parts], 1)  # (b, n)
        sums.append(torch.stack(((score * drawn_right).sum(1), score.sum(1))).cpu())
    right, whole = torch.cat(sums, 1).sum(1).tolist()
    return right / whole if whole > 0 else None


@dataclass(frozen=True, kw_only=True)
class SelectedRelations(Jsonable):
    """The compositions of a model's classes beside those they started from."""

    classes: int
    relations: float
    """How many relations a class uses: the mean over classes."""
    relations_at_start: float | None
    """The same before the first step; None if the model is not of the run's vocabulary, as below."""
    after_start: float | None
    """Of all pairs of a class and a relation it uses, the share of those that it did not use before the first
    step."""
    first_five: float
    """The weight of a class's five strongest relations, as a share of its whole: the mean over classes."""


def selected(end: ActiveWeights, start: ActiveWeights | None) -> SelectedRelations:
    """Relations are compared by the applications they are: those of a compacted model have other columns."""
    used = end.weights > 0
    old = None
    if start is not None:
        at = torch.searchsorted(start.applications, end.applications).clamp_max(len(start.applications) - 1)
        old = (start.weights[:, at] > 0) & (start.applications[at] == end.applications)
    return SelectedRelations(
        classes=len(used),
        relations=float(used.sum() / len(used)),
        relations_at_start=None if start is None else float((start.weights > 0).sum() / len(used)),
        after_start=None if old is None else float((used & ~old).sum() / used.sum()),
        first_five=float(end.weights.double().topk(min(FIRST, used.shape[1])).values.sum(1).mean()),
    )
