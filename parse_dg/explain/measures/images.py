"""The images that a run is judged by, looked at through the primitives of its model.

Those are the images of the target that the result is of, and of every source domain the ones held out of training:
nothing that is measured or drawn is of an image that was trained on (`OpenedRun.held_out`).
"""

from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
from jaxtyping import Float

from parse_dg.data.blueprints.store import open_blueprints
from parse_dg.data.public.cub_parts import PartAnnotations, read_parts
from parse_dg.data.splits import Subset
from parse_dg.errors import InputError
from parse_dg.explain.measures.localisation import SubsetPrimitives, locate
from parse_dg.runs.opened import OpenedRun


def require_primitives(run: OpenedRun) -> None:
    """Raise unless it is a run whose model has primitives, as only PARSE has, and is one for the run's images."""
    _, model = run.config, run.model
    model.parse_network()
    run.require_fit()


def locate_primitives(run: OpenedRun, subset: Subset) -> SubsetPrimitives:
    """The primitives of some images."""
    done = 0

    def seen(images: int) -> None:
        nonlocal done
        done += images
        run.progress(f"reading {subset.domain.name}", done, len(subset.indices))

    return locate(run.model, subset, seen)


def true_centres(run: OpenedRun, subset: Subset) -> Float[np.ndarray, "N P 2"] | None:
    """Where the parts of a subset's images are in truth, in its order; None where that is not known."""
    if run.config.data.benchmark != "blueprints":
        return None
    stored = open_blueprints(run.config.data.blueprints)
    return np.asarray(stored.domains[subset.domain.name].centres[subset.indices])


def part_annotations(run: OpenedRun, folder: Path) -> list[PartAnnotations]:
    """Where people have marked the parts of the held-out images, in a folder like CUB_200_2011."""
    if not all(subset.domain.ids for subset in run.held_out):
        raise InputError(
            "--parts needs images that have files named as those of CUB-200-2011, as cub-dg has: the images "
            f"of {run.config.data.benchmark} have none"
        )
    names = [[_photograph(subset.domain.ids[n]) for n in subset.indices] for subset in run.held_out]
    found = read_parts(folder, [name for some in names for name in some])
    ends = list(accumulate(map(len, names), initial=0))
    return [found.some(slice(*ends_of)) for ends_of in pairwise(ends)]


def _photograph(image: str) -> str:
    """What an image shows, class/image. That is an id of CUB-DG; ids of other folders begin with the domain."""
    return "/".join(image.split("/")[-2:])
