"""Class cards: a class as its few strongest relations, where their primitives are in its images on average.

The mean is over training images of the source domains, weighted by presence, in the grid's units. What is there
alone ("p3 is there") has no layout and is left out, unless a class has nothing else.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from parse_dg.data.contact_sheets import spread
from parse_dg.data.loader import evaluation_batches
from parse_dg.data.splits import Subset
from parse_dg.explain.classes import ClassComposition, Term, describe_classes
from parse_dg.explain.explanation import PrimitivePosition
from parse_dg.explain.primitive_images import find_primitives
from parse_dg.jsonable import Jsonable
from parse_dg.runs.opened import OpenedRun

RELATIONS = 4
"""How many a card shows."""
IMAGES = 16
"""Of every class and source domain the mean layout is of so many images, at most."""
ALL_IMAGES = 2048
"""Of a source domain, where there are many classes."""
BATCH = 64


@dataclass(frozen=True, kw_only=True)
class ClassCard(Jsonable):
    """One class."""

    name: str
    relations: tuple[Term, ...]
    """The strongest between primitives, by weight."""
    places: tuple[PrimitivePosition, ...]
    """Where the primitives of these relations are, the mean over the images; empty where there are none."""
    images: int
    """How many training images of the source domains that is over."""


def class_cards(run: OpenedRun, classes: Sequence[str] = ()) -> tuple[ClassCard, ...]:
    """The cards of the named classes, or of all."""
    wanted = [n for n, name in enumerate(run.classes) if not classes or name in classes]
    related = describe_classes(run.model, RELATIONS, presence=False)
    chosen = [each if each.terms else _present(run, each) for each in (related[n] for n in wanted)]
    layouts, images = _layouts(run, wanted)
    cards = []
    for number, composition in zip(wanted, chosen, strict=True):
        bound = sorted({k for term in composition.terms for k in term.primitives}) if images[number] else []
        places = tuple(
            PrimitivePosition(k, *(round(value, 4) for value in layouts[number, k].tolist())) for k in bound
        )
        cards.append(
            ClassCard(name=composition.name, relations=composition.terms, places=places, images=images[number])
        )
    return tuple(cards)


def _present(run: OpenedRun, composition: ClassComposition) -> ClassComposition:
    """The same class with what is there, for one that has no relation."""
    return next(each for each in describe_classes(run.model, RELATIONS) if each.name == composition.name)


def _layouts(run: OpenedRun, labels: Sequence[int]) -> tuple[Float[np.ndarray, "C K 5"], list[int]]:
    """x, y, width, height and presence of every primitive in every class, and how many images that is over."""
    primitives = run.model.parse_network().structure.vocabulary.primitives
    sums, weights = np.zeros((len(run.classes), primitives, 4)), np.zeros((len(run.classes), primitives))
    images = [0] * len(run.classes)
    for subset in run.split.training:
        some = _some(subset, labels)
        done = 0
        for pixels, of in evaluation_batches(some, BATCH):
            z = find_primitives(run.model, pixels).descriptors
            presence = z.presence.double().cpu().numpy()
            place = torch.cat((z.centre, z.extent), -1).double().cpu().numpy()  # (B, K, 4)
            for row, label in enumerate(of.tolist()):
                sums[label] += presence[row, :, None] * place[row]
                weights[label] += presence[row]
                images[label] += 1
            done += len(of)
            run.progress(f"layouts in {subset.domain.name}", done, len(some.indices))
    mean = sums / np.maximum(weights, 1e-12)[..., None]
    presence = weights / np.maximum(np.array(images), 1)[:, None]
    return np.concatenate((mean, presence[..., None]), -1), images


def _some(subset: Subset, labels: Sequence[int]) -> Subset:
    each = max(1, min(IMAGES, ALL_IMAGES // max(1, len(labels))))
    of = subset.domain.labels[subset.indices]
    groups = [subset.indices[of == label] for label in labels]
    return Subset(subset.domain, np.concatenate([group[spread(len(group), each)] for group in groups]))
