"""Names that could be given to primitives, where it is known where parts are: with their share.

A primitive is proposed the name of the part that it follows on the held-out images of the sources: on Blueprints
the part that is the nearest of all, in photographs with annotated parts one that it is near (annotated_parts.py).
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from parse_dg.data.blueprints.benchmark import PARTS
from parse_dg.errors import InputError
from parse_dg.explain.measures.annotated_parts import FOLLOWS as FOLLOWS_ANNOTATED, annotated_parts
from parse_dg.explain.measures.images import locate, part_annotations, require_primitives, true_centres
from parse_dg.explain.measures.localisation import FOLLOWS, distances, places_among_parts, shuffled
from parse_dg.jsonable import Jsonable
from parse_dg.runs.afterwards.opened import OpenedRun

SEED = 0
"""Of what is drawn for chance."""
OF_ONE_PART = 3
"""So many primitives may be called after one part: `leg`, `leg 2`, `leg 3`."""


@dataclass(frozen=True)
class ProposedName(Jsonable):
    """The part that a primitive follows best."""

    primitive: int
    name: str | None
    """What it could be called: the part, after the best one with a number; None unless it follows the part in half
    of the images, more often than by chance, and among the `OF_ONE_PART` best."""
    part: str
    share: float
    """Of the images, those in which it follows the part."""
    by_chance: float
    """The same with the places of another image."""
    images: int
    """How many there are: all that were looked at, or the photographs in which the part is visible."""


def propose_names(run: OpenedRun, parts: Path | None = None) -> tuple[ProposedName, ...]:
    """Of every primitive; `parts` is a folder like CUB_200_2011, in which the parts of photographs are marked."""
    require_primitives(run)
    found = _of_blueprints(run) if parts is None else _of_photographs(run, parts)
    return tuple(_named(found, FOLLOWS if parts is None else FOLLOWS_ANNOTATED))


def _of_blueprints(run: OpenedRun) -> list[ProposedName]:
    subsets = run.held_out[:-1]
    centres = [known for subset in subsets if (known := true_centres(run, subset)) is not None]
    if not centres:
        raise InputError(
            f"it is not known where parts are in the images of {run.config.data.benchmark}: names are proposed for "
            "blueprints, and with --parts, the folder of CUB-200-2011, for cub-dg"
        )
    located = [locate(run.model, subset, run.progress) for subset in subsets]
    generator = torch.Generator().manual_seed(SEED)
    dealt = [shuffled(each, generator) for each in centres]
    nearest = np.concatenate([distances(*pair).argmin(-1) for pair in zip(located, dealt, strict=True)])
    chance = [(nearest == part).mean(0) for part in range(len(PARTS))]
    return [
        ProposedName(k, None, at.part, at.share, float(chance[PARTS.index(at.part)][k]), len(nearest))
        for k, at in enumerate(places_among_parts(located, centres, PARTS))
    ]


def _of_photographs(run: OpenedRun, parts: Path) -> list[ProposedName]:
    marked = part_annotations(run, parts)
    located = [locate(run.model, subset, run.progress) for subset in run.held_out]
    generator = torch.Generator().manual_seed(SEED)
    on_sources = annotated_parts(located, marked, run.model.spec.framing, generator).sources
    return [
        ProposedName(each.primitive, None, each.part, each.share or 0.0, each.by_chance or 0.0, each.photographs)
        for each in on_sources.primitives
    ]


def _named(found: Iterable[ProposedName], follows: float) -> list[ProposedName]:
    """With names where they follow: of a part's primitives the best is called as the part, the next `part 2`."""
    count: Counter[str] = Counter()
    named = []
    for each in sorted(found, key=lambda proposal: (-proposal.share, proposal.primitive)):
        name = None
        if each.share >= follows and each.share > each.by_chance and count[each.part] < OF_ONE_PART:
            count[each.part] += 1
            name = each.part if count[each.part] == 1 else f"{each.part} {count[each.part]}"
        named.append(replace(each, name=name))
    return sorted(named, key=lambda proposal: proposal.primitive)
