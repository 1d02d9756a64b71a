"""A run that was trained before, opened to be looked into: everything is read when it is first asked for.

What can be asked of it: its accuracy on named images, and the class weights that it began with.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

import torch

from parse_dg.data.benchmarks import open_benchmark
from parse_dg.data.domain import Benchmark
from parse_dg.data.listing import Progress
from parse_dg.data.splits import LeaveOneOut, Subset, leaked, leave_one_out, whole
from parse_dg.deploy.image_batches import ImageLike
from parse_dg.deploy.model_file import Model, load_model
from parse_dg.deploy.predictor import Predictor
from parse_dg.devices import pick_device
from parse_dg.errors import InputError
from parse_dg.model.composition import ActiveWeights
from parse_dg.plugins import load_plugins
from parse_dg.runs.config import RunConfig
from parse_dg.runs.folder import read_config, read_whole, require_same_images
from parse_dg.runs.metrics import CheckLine, read_checks
from parse_dg.runs.result import RunResult
from parse_dg.runs.run import build_start
from parse_dg.runs.scoring import target_part, validation_part
from parse_dg.runs.two_stage import all_of_sources
from parse_dg.training.accuracy import Accuracy, accuracy
from parse_dg.wording import percent

NUMBERED = re.compile(r"(.+):(\d{1,9})")
"""An image of the run's benchmark: `sketch:12`."""


class GivenImage(NamedTuple):
    """An image that a run is asked about."""

    name: str
    image: ImageLike
    truth: str | None
    """Its class, where that is known."""


class OpenedRun:
    """A run in its folder: its configuration, result, model, benchmark and split.

    Each is read once, when it is first asked for, so that what is missing (the images are on another machine, the
    run is not finished) is only missed by who asks for it. Of a model file alone there is the model.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        model: str | Path | None = None,
        device: str = "auto",
        progress: Progress | None = None,
        benchmark: Benchmark | None = None,
        store: Literal["auto", "always", "never"] | None = None,
        plugins: Iterable[str] = (),
    ) -> None:
        """`path` is a run's folder or a model file; `model` another file to take the weights from.

        `device`: auto (CUDA where there is one), cpu, cuda or mps. `progress` is told what takes long. `benchmark`:
        the images, where they are in memory; `store` replaces the configuration's `data.store`. `plugins` are the
        modules that the run needs; they are imported first.
        """
        load_plugins(plugins)
        self.path = Path(path)
        self.model_file = None if model is None else Path(model)
        self.progress: Progress = progress or (lambda what, done, total: None)
        self._device, self._benchmark, self._store = device, benchmark, store
        if self.model_file is not None:
            self.config  # noqa: B018 - or says that this is no run

    def __repr__(self) -> str:
        if not (self.path / "config.json").is_file():
            return f"OpenedRun({str(self.path)!r})"
        found = "not finished"
        if self.finished:
            target = self.result.target
            found = f"{percent(target.accuracy)} on {target.domain}" if target else "no domain held out"
        return f"OpenedRun({self.config.method} on {self.config.data.benchmark}: {found}; {str(self.path)!r})"

    @cached_property
    def config(self) -> RunConfig:
        return read_config(self.path)

    @property
    def finished(self) -> bool:
        return (self.path / "result.json").exists()

    @cached_property
    def result(self) -> RunResult:
        result = read_whole(self.path)
        if result is None:
            raise InputError(f"{self.path} is not finished: `parse-dg train` with the same options goes on")
        return result

    @cached_property
    def checks(self) -> tuple[CheckLine, ...]:
        """Every check on the way."""
        return read_checks(self.path)

    @cached_property
    def device(self) -> torch.device:
        return pick_device(self._device)

    @cached_property
    def model(self) -> Model:
        """The trained model, on its device."""
        self._require_whole()
        model = load_model(self.model_file or self.path)
        model.algorithm.to(self.device)
        return model

    @cached_property
    def predictor(self) -> Predictor:
        """The same, ready to be asked about images."""
        return Predictor(self.model, str(self.device))

    @property
    def classes(self) -> tuple[str, ...]:
        """Their names, in the order of the labels."""
        return self.model.spec.classes

    @property
    def target(self) -> str:
        """The name of the domain that was held out; raises where all of them trained."""
        if self.config.data.target is None:
            instead = f"`parse-dg evaluate {self.path} --data FOLDER` scores it on new images"
            raise InputError(f"{self.path} trained on all domains, so that it has no target for this: {instead}")
        return self.config.data.target

    @property
    def target_images(self) -> Subset:
        """Those of its images that the result is of."""
        self.target  # noqa: B018 - or says that there is none
        assert self.split.target is not None
        return self.split.target

    @cached_property
    def benchmark(self) -> Benchmark:
        """The images that the run is of; refused if they are others now."""
        self._require_whole()
        data = replace(self.config.data, store=self._store or self.config.data.store, definitions=None)
        if data.evaluation == "resize":
            data = replace(data, crop_from=None)  # nothing is trained
        benchmark = self._benchmark or open_benchmark(data, self.progress)
        require_same_images(self.path, benchmark)
        return benchmark

    @cached_property
    def split(self) -> LeaveOneOut:
        """Which images trained, which are held out, and which the result is of."""
        config = self.config
        split = leave_one_out(self.benchmark, config.data.target, config.seed, config.split)
        return all_of_sources(split) if config.algorithm.trains_twice else split

    @property
    def held_out(self) -> tuple[Subset, ...]:
        """The images that it may be judged by, a domain each: the sources' in their order, the target's last."""
        last = (self.split.validation_domain, self.split.target)
        return (*self.split.validation, *(some for some in last if some))

    def find_image(self, given: str) -> GivenImage:
        """A file of any size, or DOMAIN:NUMBER, an image of the run's benchmark, from 0; a file comes first."""
        numbered = NUMBERED.fullmatch(given)
        if numbered is None or Path(given).exists():
            return GivenImage(given, given, None)
        domain, number = self.benchmark.domain(numbered[1]), int(numbered[2])
        if number >= len(domain.labels):
            raise InputError(f"{domain.name} has no image {number}: valid are 0 to {len(domain.labels) - 1}")
        return GivenImage(given, domain.images[number], self.benchmark.classes[domain.labels[number]])

    def counter(self, what: str, total: int) -> Callable[[int], None]:
        """Tells `progress` how many of so many images have been seen, batch by batch."""
        done = 0

        def seen(images: int) -> None:
            nonlocal done
            done += images
            self.progress(what, done, total)

        return seen

    def _require_whole(self) -> None:
        """Raise if the run is finished and a file of it is not what was written."""
        if self.finished:
            self.result  # noqa: B018 - is checked when it is read

    def require_fit(self) -> None:
        """Raise unless the model is of the classes and the size of the run's images."""
        spec, benchmark = self.model.spec, self.benchmark
        if spec.classes != benchmark.classes or spec.image_size != benchmark.image_size:
            found, expected = (f"{len(o.classes)} classes and {o.image_size} pixels" for o in (spec, benchmark))
            named = self.model_file or self.path
            raise InputError(f"{named} is a model of {found}: expected those of {benchmark.name}, {expected}")


open_run = OpenedRun
"""`open_run("runs/blueprints/parse/sketch/seed0").result.target.accuracy`"""


@torch.no_grad()
def weights_at_start(config: RunConfig, model: Model) -> ActiveWeights | None:
    """The class weights that training begins with, on the model's device; None if it has another vocabulary.

    The start is not kept: it is drawn again, as it was.
    """
    end = model.parse_network().structure
    config = replace(config, backbone=replace(config.backbone, weights=None))
    start = build_start(config, len(model.spec.classes), model.spec.domains).train().parse_network
    if start is None:
        return None
    structure = start.structure.to(end.composition.weight.device)
    known = structure.vocabulary
    same = (known.primitives, known.config) == (end.vocabulary.primitives, end.vocabulary.config)
    return structure.composition.active() if same else None


def applications_at_start(config: RunConfig, model: Model) -> int | None:
    """How many applications some class used before training; None as above."""
    start = weights_at_start(config, model)
    return None if start is None else len(start.applications)


@dataclass(frozen=True)
class NamedAccuracy:
    """An accuracy, and which images it is of."""

    domain: str
    images: str
    accuracy: Accuracy


def evaluate_run(run: OpenedRun, domain: str | None = None) -> list[NamedAccuracy]:
    """Accuracy of a run's model on its target and its held-out source images, or on one whole domain."""
    subsets = scored_parts(run.config, run.split)
    if domain is None and not subsets:
        found = f"{run.path} trained on all images of all domains, so that none is left to score it on"
        raise InputError(f"{found}: --data FOLDER scores new ones")
    if domain is not None:
        everything = whole(run.benchmark.domain(domain))
        role = "target" if domain == run.config.data.target else "source"
        subsets = [(everything, f"{role}: all images, {_seen(run.split, everything)}")]
    model = run.model.algorithm
    return [NamedAccuracy(s.domain.name, words, accuracy(model, s, run.device)) for s, words in subsets]


def scored_parts(config: RunConfig, split: LeaveOneOut) -> list[tuple[Subset, str]]:
    """The images a run is scored and validated on, in words; none of them are augmented here."""
    found = []
    if split.target:
        found.append((split.target, f"target: {target_part(config.split)}, {_seen(split, split.target)}"))
    if split.target_held_out:
        found.append((split.target_held_out, f"target: the others, {_seen(split, split.target_held_out)}"))
    if split.validation_domain:
        found.append((split.validation_domain, f"source: {validation_part(config.split, config.protocol)}"))
    plain = "held-out images, not augmented" if config.protocol.augment_validation else "held-out images"
    return [*found, *((subset, f"source: {plain}") for subset in split.validation)]


def _seen(split: LeaveOneOut, subset: Subset) -> str:
    trained = sum(len(source.indices) for source in split.training if source.domain is subset.domain)
    if trained:
        return f"{'most' if 2 * trained > len(subset.indices) else 'some'} of them trained on"
    again = leaked(replace(split, target=subset))
    return f"{again:,} show a picture that is also trained on" if again else "never seen in training"
