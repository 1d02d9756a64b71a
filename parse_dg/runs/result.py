"""What a run found: result.json, split.json and environment.json as dataclasses."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from parse_dg.data.domain import Benchmark
from parse_dg.errors import InputError
from parse_dg.jsonable import Jsonable
from parse_dg.training.accuracy import Accuracy
from parse_dg.training.averaging import AveragingReport


@dataclass(frozen=True, kw_only=True)
class BenchmarkVersion(Jsonable):
    """A benchmark, and which images it has."""

    name: str
    fingerprint: str

    @classmethod
    def of(cls, benchmark: Benchmark) -> "BenchmarkVersion":
        return cls(name=benchmark.name, fingerprint=benchmark.fingerprint)


@dataclass(frozen=True, kw_only=True)
class TargetAccuracy(Accuracy):
    """The accuracy on the target domain: which number is the result of a run, and on which images."""

    domain: str
    part: str
    """Which of its images, in words."""
    share: float
    """Of its images, the fraction that is scored."""

    def to_dict(self) -> dict[str, Any]:
        return {"domain": self.domain, "part": self.part, "share": self.share, **super().to_dict()}


@dataclass(frozen=True, kw_only=True)
class ScoredWeights(Jsonable):
    """The weights of a check: their accuracy, and how they were chosen."""

    target: TargetAccuracy | None = None
    """None where no domain was held out."""
    validation: Mapping[str, Accuracy]
    """By source domain."""
    validation_mean_accuracy: float
    selection: str
    selected_step: int
    oracle: Accuracy | None = None
    """On the target's held-out images, where hyper-parameters are to be chosen by them."""
    active_applications: int | None = None
    """PARSE: how many predicate applications some class uses."""
    active_applications_per_class: tuple[int, ...] | None = None

    @property
    def on_target(self) -> TargetAccuracy:
        if self.target is None:
            raise InputError("the run trained on all domains, so that it has no target")
        return self.target


@dataclass(frozen=True, kw_only=True)
class StageReport(Jsonable):
    """One of two stages of training."""

    stage: int
    trained_on: str
    steps: int
    rates_fall_after: tuple[int, ...]
    ended_by: str


@dataclass(frozen=True, kw_only=True)
class ProtocolReport(Jsonable):
    """The rules by which a run was scored, a sentence each."""

    name: str
    rules: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Leakage(Jsonable):
    """How many of the target's scored images show a picture that is also trained on."""

    images: int
    of: int
    words: str


@dataclass(frozen=True, kw_only=True)
class RunResult(ScoredWeights):
    """What a run found: result.json."""

    FIRST: ClassVar = ("algorithm", "benchmark", "domains", "seed", "trial")

    algorithm: str
    benchmark: BenchmarkVersion
    domains: tuple[str, ...]
    """All of the benchmark's, in their order."""
    seed: int
    trial: int
    """The seed of the split."""
    validation_part: str
    """Which images the weights were chosen by, in words."""
    steps: int
    averaging: AveragingReport | None = None
    stages: tuple[StageReport, ...] | None = None
    protocol: ProtocolReport
    leakage: Leakage
    without_averaging: ScoredWeights | None = None
    """With `averaging.also_plain`: of the weights that the same run without averaging would have kept."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The SHA-256 of the run's other files, but for environment.json; earlier versions wrote none."""

    def plain(self) -> "RunResult | None":
        """The result of the same run without averaging, where it is known."""
        scored = self.without_averaging
        return None if scored is None else replace(self, **vars(scored), without_averaging=None)


@dataclass(frozen=True, kw_only=True)
class SplitRecord(Jsonable):
    """How a run divided its benchmark: split.json, with the positions of images in their domains."""

    benchmark: BenchmarkVersion
    scheme: str
    trial: int
    training_images: Mapping[str, int]
    """How many of each source domain train."""
    validation: Mapping[str, tuple[int, ...]]
    target: Mapping[str, Any]
    """`all`, or those that are scored."""
    training: Mapping[str, tuple[int, ...]] | None = None
    """Only where lists say which train; otherwise they are all the others."""
    target_held_out: Mapping[str, tuple[int, ...]] | None = None
    validation_domain: Mapping[str, tuple[int, ...]] | None = None


@dataclass(frozen=True, kw_only=True)
class RunEnvironment(Jsonable):
    """Versions, hardware and time: environment.json, the one file that differs when a run is repeated."""

    parse_dg: str
    python: str
    torch: str
    device: str
    processes: int | None
    threads: int | None
    seconds: float
    commit: str | None = None
    """Of the checkout that parse_dg was imported from, `+changes` where files differ from it."""
