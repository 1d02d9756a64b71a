"""From a configuration to a benchmark: the embedded one, one that was added, or anybody's folder or list."""

import logging
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np

from parse_dg.config import Config, Rule
from parse_dg.data.blueprints.benchmark import CLASSES, DOMAINS, SIZE, BlueprintsConfig
from parse_dg.data.blueprints.store import open_blueprints
from parse_dg.data.domain import Benchmark, CentreCrops, DecodedFiles, Domain, Images
from parse_dg.data.framing import ImageFit
from parse_dg.data.intake.library import added, domain_names, find_path, open_manifest
from parse_dg.data.lines import read_lines
from parse_dg.data.listing import Progress
from parse_dg.data.manifest import Manifest
from parse_dg.data.parallel import default_workers
from parse_dg.data.public.cub_dg import read_extras
from parse_dg.data.splits import require_several
from parse_dg.data.store import NoRoomError, image_files, open_store
from parse_dg.errors import InputError, require_known
from parse_dg.registry import Registry
from parse_dg.wording import some

log = logging.getLogger(__name__)

Side = Annotated[int, Rule("from 1 to 4096", lambda value: 1 <= value <= 4096)]  # of an image, in pixels


@dataclass(frozen=True, kw_only=True)
class DataConfig(Config):
    """Which benchmark, which domain is held out, at what size."""

    benchmark: Annotated[str, Rule("a name or a path", lambda value: bool(value.strip()))] = "blueprints"
    """`blueprints`, the name of a data set that was added or registered (docs/extend.md), or the path of a folder
    domain/class/image or a list."""
    target: str | None = "sketch"
    """The domain that is held out; none: all of them train, for a model that is to be used."""
    image_size: Side = 224
    """Side of the images the network sees, in pixels; those of Blueprints are always 64."""
    fit: ImageFit = "squash"
    """How an image becomes a square: `squash` resizes both sides, `crop` takes the largest square in its middle,
    `pad` keeps all of it between two grey borders. The same in training, prediction and service."""
    crop_from: Side | None = None
    """Side of that square in training, of which crops are cut; none: image_size."""
    evaluation: Literal["resize", "centre"] = "resize"
    """What is evaluated of that square: all of it at image_size (`resize`), its middle at crop_from (`centre`)."""
    store: Literal["auto", "always", "never"] = "auto"
    """Decoded images are kept on the disk (`always`), decoded whenever they are read (`never`), or kept if they
    fit (`auto`)."""
    definitions: Annotated[str, Rule("a file", bool)] | None = None
    """A text file with a line `class: sentence` for every class: what images have as captions, for GVRT."""
    blueprints: BlueprintsConfig = field(default_factory=BlueprintsConfig)

    def check(self) -> None:
        larger = self.crop_from is None or self.image_size <= self.crop_from
        self.require(larger, "crop_from", "from data.image_size to 4096, or none")
        fits = self.evaluation == "resize" or self.crop_from is not None
        self.require(fits, "crop_from", "a side with data.evaluation=centre")


def open_benchmark(config: DataConfig | str | Path, progress: Progress | None = None) -> Benchmark:
    """The benchmark that `config` names, or that has this name or path; made or decoded first if need be."""
    if not isinstance(config, DataConfig):
        config = DataConfig(benchmark=str(config))
    if config.benchmark in GENERATED_DATA_SETS:
        benchmark = GENERATED_DATA_SETS[config.benchmark](config, progress)
    else:
        benchmark = _from_manifest(open_manifest(config.benchmark, progress), config, progress)
    return _with_definitions(benchmark, Path(config.definitions)) if config.definitions else benchmark


def _with_definitions(benchmark: Benchmark, path: Path) -> Benchmark:
    """The benchmark whose images have the sentences about their class as captions; classes may have several lines,
    and others are passed over, so that one file can serve several data sets.
    """
    found: dict[str, list[str]] = {}
    for line in read_lines(path, "`class: sentence`", re.compile(r"([^:]+?)\s*:\s*(.+)").fullmatch):
        found.setdefault(line[1], []).append(line[2])
    if missing := [name for name in benchmark.classes if name not in found]:
        raise InputError(f"{path} has no line `class: sentence` for {some(missing)}: every class needs one")
    said = [tuple(found[name]) for name in benchmark.classes]
    domains = (replace(each, captions=tuple(said[n] for n in each.labels.tolist())) for each in benchmark.domains)
    return replace(benchmark, domains=tuple(domains))


def outline(config: DataConfig) -> Benchmark:
    """The benchmark for counting its images: nothing is drawn, decoded or written (but a plug-in's is made)."""
    if config.benchmark == "blueprints":
        labels = np.repeat(np.arange(len(CLASSES)), config.blueprints.images_per_class)
        blank = np.broadcast_to(np.uint8(0), (len(labels), SIZE, SIZE, 3))
        return Benchmark("blueprints", CLASSES, tuple(Domain(name, blank, labels) for name in DOMAINS), "")
    if config.benchmark in GENERATED_DATA_SETS:
        return open_benchmark(config)
    return _from_manifest(open_manifest(config.benchmark, keep=False), replace(config, store="never"), None)


def _blueprints(config: DataConfig, progress: Progress | None) -> Benchmark:
    stored = open_blueprints(config.blueprints, progress)
    domains = tuple(
        Domain(name, part.images, part.labels, captions=tuple((c,) for c in part.captions))
        for name, part in stored.domains.items()
    )
    return Benchmark("blueprints", stored.classes, domains, stored.fingerprint)


DataSetMaker = Callable[[DataConfig, Progress | None], Benchmark]
GENERATED_DATA_SETS: Registry[DataSetMaker] = Registry("data set", "data.benchmark")  # made, not read
GENERATED_DATA_SETS.add("blueprints", _blueprints)
register_data_set = GENERATED_DATA_SETS.register


def find_domains(name: str) -> tuple[str, ...]:
    """The domains of a data set; only one that a plug-in makes is made for it."""
    if name == "blueprints":
        return DOMAINS
    if name in GENERATED_DATA_SETS:
        return tuple(domain.name for domain in open_benchmark(DataConfig(benchmark=name)).domains)
    return domain_names(name)


def require_target(config: DataConfig) -> None:
    """Raise, before anything is drawn or decoded, unless the target is a domain; a plug-in's are not known yet."""
    if config.benchmark == "blueprints" or config.benchmark not in GENERATED_DATA_SETS:
        domains = find_domains(config.benchmark)
        if config.target is not None:
            require_several(config.benchmark, domains)
            require_known(f"domain of {Path(config.benchmark).stem}", config.target, domains)


def benchmark_name(name: str) -> str:
    """A data set's name as it is, a path made absolute: a run is repeated from wherever one stands."""
    path = None if name in (*GENERATED_DATA_SETS, *added()) else find_path(name)
    return name if path is None else str(path)


def _from_manifest(manifest: Manifest, config: DataConfig, progress: Progress | None) -> Benchmark:
    size, crop_from = config.image_size, config.crop_from or config.image_size
    central = config.evaluation == "centre"
    images = _images(manifest, sorted({crop_from if central else size, crop_from}), config, progress)
    if central:
        images[size] = [CentreCrops(each, size) for each in images[crop_from]]
    files, extras = image_files(manifest, config.fit), read_extras(manifest)
    domains = tuple(
        Domain(
            name,
            images[size][number],
            np.array([image.label for image in mine], dtype=np.int64),
            larger=images[crop_from][number] if crop_from != size else None,
            files=files[number],
            ids=tuple(image.id for image in mine),
            digests=files[number].digests,
            captions=extras[number].captions,
            lists=extras[number].lists,
        )
        for number, (name, mine) in enumerate(zip(manifest.domains, manifest.by_domain, strict=True))
    )
    return Benchmark(manifest.name, manifest.classes, domains, manifest.fingerprint, crop_from if central else None)


def _images(
    manifest: Manifest, sizes: Sequence[int], config: DataConfig, progress: Progress | None
) -> dict[int, list[Images]]:
    """The images of every domain, at every size: from the store, or decoded when they are read."""
    images: dict[int, list[Images]] = {}
    refused = []
    for size in sizes:
        try:
            if config.store != "never":
                images[size] = list(open_store(manifest, size, progress, config.fit))
        except NoRoomError as error:
            if config.store == "always":
                raise InputError(f"{error}: set PARSE_DG_CACHE to another disk, or data.store=auto") from error
            refused.append(f"at {size} pixels {error}")
        if size not in images:
            pool = ThreadPoolExecutor(default_workers(), thread_name_prefix="decode")
            images[size] = [DecodedFiles(files, size, pool) for files in image_files(manifest, config.fit)]
    if refused:
        log.warning("%s: images are decoded whenever they are read, which is slower", "; ".join(refused))
    return images
