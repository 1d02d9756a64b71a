"""What a benchmark is: named domains over one set of classes, and the table of those that are known by name."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Int, UInt8

from parse_dg.config import require
from parse_dg.data.blueprints import BlueprintsConfig
from parse_dg.data.store import open_blueprints
from parse_dg.errors import unknown

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how many are done, how many there are."""


@dataclass(frozen=True)
class Domain:
    """The images of one domain, decoded, and the class of each."""

    name: str
    images: UInt8[np.ndarray, "N H W 3"]
    labels: Int[np.ndarray, "N"]


@dataclass(frozen=True)
class Benchmark:
    """Domains that share their classes."""

    name: str
    classes: tuple[str, ...]
    domains: tuple[Domain, ...]
    fingerprint: str
    """SHA-256 of every image and label, in order."""

    def domain(self, name: str) -> Domain:
        """The domain called `name`."""
        for domain in self.domains:
            if domain.name == name:
                return domain
        raise unknown(f"domain of {self.name}", name, [domain.name for domain in self.domains])


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Which benchmark, which domain is held out, and how much of the others validates."""

    benchmark: str = "blueprints"
    target: str = "sketch"
    holdout: float = 0.2
    """The fraction of each source domain that validates."""
    blueprints: BlueprintsConfig = field(default_factory=BlueprintsConfig)

    def __post_init__(self) -> None:
        if self.benchmark not in BENCHMARKS:
            raise unknown("benchmark", self.benchmark, BENCHMARKS)
        require(0 < self.holdout < 1, "data.holdout", self.holdout, "between 0 and 1")


def open_benchmark(config: DataConfig, progress: Progress | None = None) -> Benchmark:
    """The benchmark that `config` names, made first if need be."""
    return BENCHMARKS[config.benchmark](config, progress)


def _blueprints(config: DataConfig, progress: Progress | None) -> Benchmark:
    stored = open_blueprints(config.blueprints, progress)
    domains = tuple(Domain(name, part.images, part.labels) for name, part in stored.domains.items())
    return Benchmark("blueprints", stored.classes, domains, stored.fingerprint)


BENCHMARKS: dict[str, Callable[[DataConfig, Progress | None], Benchmark]] = {"blueprints": _blueprints}
"""Every benchmark that has a name."""
