"""A finished run, opened to be looked into: its model, and the images that it is judged by.

Those are the images of the target that the result is of, and of every source domain the ones held out of training:
nothing that is measured or drawn is of an image that was trained on.
"""

from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
from jaxtyping import Float

from parse_dg.data.benchmarks import open_benchmark
from parse_dg.data.blueprints.store import open_blueprints
from parse_dg.data.listing import Progress
from parse_dg.data.public.cub_parts import PartAnnotations, read_parts
from parse_dg.data.splits import LeaveOneOut, Subset, leave_one_out
from parse_dg.deploy.model_file import Model, load_model
from parse_dg.devices import pick_device
from parse_dg.errors import InputError
from parse_dg.explain.measures.localisation import SubsetPrimitives, locate
from parse_dg.runs.config import RunConfig
from parse_dg.runs.folder import read_config, require_same_images


@dataclass(frozen=True, eq=False)
class OpenedRun:
    """A run of PARSE, its model on a device, and its images."""

    config: RunConfig
    model: Model
    split: LeaveOneOut

    @property
    def target(self) -> str:
        """The name of the domain that was held out."""
        return self.split.target.domain.name

    @property
    def classes(self) -> tuple[str, ...]:
        """Their names, in the order of the labels."""
        return self.model.spec.classes

    @property
    def subsets(self) -> tuple[Subset, ...]:
        """The images to look at, a domain each: the sources in their order, the target last."""
        unseen = self.split.validation_domain
        return (*self.split.validation, *((unseen,) if unseen else ()), self.split.target)

    def locate(self, subset: Subset, progress: Progress | None = None) -> SubsetPrimitives:
        """The primitives of some images, read with a bar."""
        done = 0

        def seen(images: int) -> None:
            nonlocal done
            done += images
            if progress:
                progress(f"reading {subset.domain.name}", done, len(subset.indices))

        return locate(self.model, subset, seen)

    def true_centres(self, subset: Subset) -> Float[np.ndarray, "N P 2"] | None:
        """Where the parts of a subset's images are in truth, in its order; None where that is not known."""
        if self.config.data.benchmark != "blueprints":
            return None
        stored = open_blueprints(self.config.data.blueprints)
        return np.asarray(stored.domains[subset.domain.name].centres[subset.indices])

    def annotated_parts(self, folder: Path) -> list[PartAnnotations]:
        """Where people have marked the parts of the images of every subset, in a folder like CUB_200_2011."""
        nameless = [subset.domain.name for subset in self.subsets if not subset.domain.ids]
        if nameless:
            raise InputError(
                "--parts needs images that have files named as those of CUB-200-2011, as cub-dg has: the images "
                f"of {self.config.data.benchmark} have none"
            )
        names = [[_photograph(subset.domain.ids[n]) for n in subset.indices] for subset in self.subsets]
        found = read_parts(folder, [name for some in names for name in some])
        ends = list(accumulate(map(len, names), initial=0))
        return [found.some(slice(*ends_of)) for ends_of in pairwise(ends)]


def open_run(
    folder: Path, model_file: Path | None = None, device_name: str = "auto", progress: Progress | None = None
) -> OpenedRun:
    """The run in `folder`, with the model of another file if one is given; it must be one of PARSE."""
    config = read_config(folder)
    model = load_model(model_file or folder)
    model.parse_network()  # or an error: no other method has primitives
    model.algorithm.to(pick_device(device_name))
    benchmark = open_benchmark(config.data, progress)
    require_same_images(folder, benchmark)
    if model.spec.classes != benchmark.classes or model.spec.image_size != benchmark.image_size:
        raise InputError(
            f"{model_file or folder} is a model of {len(model.spec.classes)} classes and images of "
            f"{model.spec.image_size} pixels: expected those of {benchmark.name}, {len(benchmark.classes)} classes "
            f"and {benchmark.image_size} pixels"
        )
    return OpenedRun(config, model, leave_one_out(benchmark, config.data.target, config.seed, config.split))


def _photograph(image: str) -> str:
    """What an image shows, class/image. That is an id of CUB-DG; ids of other folders begin with the domain."""
    return "/".join(image.split("/")[-2:])
