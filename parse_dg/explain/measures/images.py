"""The images that a run is judged by, looked at through the primitives of its model.

Those are the images of the target that the result is of, and of every source domain the ones held out of training:
nothing that is measured or drawn is of an image that was trained on (`OpenedRun.held_out`). Images are read once:
what is measured of many images is measured of the few numbers that are kept. Letters: N images, K primitives.
"""

from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from parse_dg.data.blueprints.store import open_blueprints
from parse_dg.data.listing import Progress
from parse_dg.data.loader import read_through
from parse_dg.data.public.cub_parts import PartAnnotations, read_parts
from parse_dg.data.splits import Subset
from parse_dg.deploy.model_file import Model
from parse_dg.errors import InputError
from parse_dg.model.primitives import PrimitiveDescriptors
from parse_dg.runs.afterwards.opened import OpenedRun

BATCH = 128
"""As in evaluation: the same images in the same batches give the same bits."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SubsetPrimitives:
    """The images of one subset as their primitives, K × 6 numbers an image, and what is predicted of them.

    The tensors are on the device of the model that read them.
    """

    domain: str
    labels: Int[Tensor, "N"]
    predicted: Int[Tensor, "N"]
    probability: Float[Tensor, "N"]
    """Of the predicted class."""
    centre: Float[Tensor, "N K 2"]
    presence: Float[Tensor, "N K"]
    extent: Float[Tensor, "N K 2"]
    heat_at_centre: Float[Tensor, "N K"]
    """The heat map's value at the centre, interpolated between cells, ÷ its maximum: from 0 to 1."""
    cells: tuple[int, int]
    """H and W of the heat maps."""
    guided: Int[Tensor, "N"] | None = None
    """The class that the guide alone predicts; None for a model that has none."""

    @property
    def right(self) -> Bool[Tensor, "N"]:
        """Which images are classified right."""
        return self.predicted == self.labels

    @property
    def descriptors(self) -> PrimitiveDescriptors:
        """What the structural layer needs; the heat maps, which it does not, are empty."""
        heatmap = self.centre.new_empty((*self.presence.shape, 0, 0))
        return PrimitiveDescriptors(self.centre, self.presence, self.extent, heatmap)


@torch.no_grad()
def locate(model: Model, subset: Subset, progress: Progress | None = None) -> SubsetPrimitives:
    """Every image of the subset, in its order, in one pass."""
    network, guide = model.parse_network(), model.algorithm.guide
    found: list[dict[str, Tensor]] = []
    cells = (1, 1)
    for images, labels in read_through(subset, BATCH, progress):
        output = network(model.prepare(images))
        probability, predicted = output.logits.softmax(1).max(1)
        z = output.descriptors
        heat = heat_at_centre(z.heatmap, z.centre)
        kept = {"centre": z.centre, "presence": z.presence, "extent": z.extent, "heat_at_centre": heat}
        kept |= {"labels": labels.to(heat.device), "predicted": predicted, "probability": probability}
        if guide is not None:
            kept["guided"] = guide(output.features.mean((2, 3))).argmax(1)
        found.append(kept)
        cells = (z.heatmap.shape[2], z.heatmap.shape[3])
    together = {name: torch.cat([each[name] for each in found]) for name in found[0]}
    return SubsetPrimitives(domain=subset.domain.name, cells=cells, **together)


def heat_at_centre(heatmap: Float[Tensor, "N K H W"], centre: Float[Tensor, "N K 2"]) -> Float[Tensor, "N K"]:
    """Each heat map at its primitive's centre, bilinear between cells, ÷ its maximum."""
    maps = heatmap.flatten(0, 1).unsqueeze(1)  # (N·K, 1, H, W)
    places = centre.flatten(0, 1)[:, None, None]  # (N·K, 1, 1, 2)
    # The corners of the grid are aligned, and of a single cell every place is that cell, as in the grid.
    heat = F.grid_sample(maps, places, mode="bilinear", padding_mode="border", align_corners=True)
    return heat.view(centre.shape[:2]) / heatmap.amax((2, 3))


def require_primitives(run: OpenedRun) -> None:
    """Raise unless it is a run whose model has primitives, as only PARSE has, and is one for the run's images."""
    run.config, run.model.parse_network()  # in this order, so that an error is of the first that is wrong
    run.require_fit()


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
    # What an image shows, class/image, is an id of CUB-DG; ids of other folders begin with the domain.
    names = [["/".join(s.domain.ids[n].split("/")[-2:]) for n in s.indices] for s in run.held_out]
    found = read_parts(folder, [name for some in names for name in some])
    ends = accumulate(map(len, names), initial=0)
    return [found.some(slice(*pair)) for pair in pairwise(ends)]
