"""What can be measured of a run of PARSE beyond accuracy: do its primitives mean something, and are they used?"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import torch

from parse_dg.config import require
from parse_dg.data.blueprints.benchmark import PARTS
from parse_dg.data.splits import Subset
from parse_dg.deploy.names import to_text
from parse_dg.explain.measures.annotated_parts import AnnotatedParts, annotated_parts
from parse_dg.explain.measures.collapse import WITHIN, Collapse, Evidence, collapse, evidence
from parse_dg.explain.measures.consistency import Consistency, consistency
from parse_dg.explain.measures.images import locate, part_annotations, require_primitives, true_centres
from parse_dg.explain.measures.localisation import FollowedParts, Localisation, on_known_parts
from parse_dg.explain.measures.structure_use import (
    SWAPS,
    Guide,
    SelectedRelations,
    StructureUse,
    guide,
    primitive_weights,
    selected,
    structure_use,
)
from parse_dg.jsonable import Jsonable
from parse_dg.runs.afterwards.opened import OpenedRun, weights_at_start
from parse_dg.runs.scoring import target_part, validation_part

SEED = 0
"""Of everything that is drawn at random here."""


@dataclass(frozen=True, kw_only=True)
class MeasuredDomain(Jsonable):
    """Which images of one domain are measured, and everything that is measured of them alone."""

    domain: str
    role: str  # source or target
    images: str
    """Which of the domain's images, in words."""
    structure: StructureUse
    guide: Guide | None
    """None for a model that has none."""
    collapse: Collapse
    evidence: Evidence
    localisation: Localisation | None
    """None, as below, where the true places of parts are not known."""
    followed_parts: FollowedParts | None


@dataclass(frozen=True, kw_only=True)
class RunMeasures(Jsonable):
    """All that is measured of a run."""

    run: str
    target: str
    heat_map_cells: tuple[int, int]
    """H and W of the heat maps."""
    image_size: int  # pixels
    domains: tuple[MeasuredDomain, ...]
    """The sources in their order, the target last."""
    consistency: tuple[Consistency, ...]
    """Of every two domains: those with the target last."""
    selected: SelectedRelations
    """Of the model, whatever the images."""
    annotated_parts: AnnotatedParts | None
    """None unless a folder of them is given."""
    names: Mapping[str, str] = field(default_factory=dict)
    """What people call the primitives, where they gave them names: {"p3": "beak"}."""


def measure_run(
    run: OpenedRun, *, within: float = WITHIN, swaps: int = SWAPS, parts: Path | None = None
) -> RunMeasures:
    """Read the run's images once, and measure; `within` and `swaps` are those of collapse and structure use,
    `parts` is a folder like CUB_200_2011, in which the parts of the run's photographs are marked.
    """
    require(within > 0, "--within", within, "a positive number of cells")
    require(swaps >= 1, "--swaps", swaps, "at least 1")
    require_primitives(run)
    run.target  # noqa: B018 - what is measured there is compared with the sources
    marked = part_annotations(run, parts) if parts else None
    located = [locate(run.model, subset, run.progress) for subset in run.held_out]
    size = run.model.spec.image_size
    known = [true for subset in run.held_out if (true := true_centres(run, subset)) is not None]
    on_parts = on_known_parts(located, known, PARTS, size, SEED) if known else [(None, None)] * len(located)
    generator = torch.Generator().manual_seed(SEED)
    domains = tuple(
        MeasuredDomain(
            domain=each.domain,
            role="target" if each.domain == run.target else "source",
            images=_which(run, subset),
            structure=structure_use(run.model, each, generator, swaps),
            guide=guide(each),
            collapse=collapse(each, within=within),
            evidence=evidence(each),
            localisation=place,
            followed_parts=at_once,
        )
        for subset, each, (place, at_once) in zip(run.held_out, located, on_parts, strict=True)
    )
    with torch.no_grad():
        end = run.model.parse_network().structure.composition.active()
    weights = primitive_weights(run.model)
    chance = torch.Generator().manual_seed(SEED)
    *sources, target = located
    pairs = [*combinations(sources, 2), *((source, target) for source in sources)]
    return RunMeasures(
        run=str(run.path),
        target=run.target,
        heat_map_cells=located[0].cells,
        image_size=size,
        domains=domains,
        consistency=tuple(consistency(*pair, weights) for pair in pairs),
        selected=selected(end, weights_at_start(run.config, run.model)),
        annotated_parts=annotated_parts(located, marked, run.model.spec.framing, chance) if marked else None,
        names=to_text(run.model.names),
    )


def _which(run: OpenedRun, subset: Subset) -> str:
    config = run.config
    if subset is run.split.target:
        return target_part(config.split)
    if subset is run.split.validation_domain:
        return validation_part(config.split, config.protocol)
    return "held-out images"
