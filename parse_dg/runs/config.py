"""The configuration of a run: every section, each defined beside its owner."""

from dataclasses import dataclass, field

from parse_dg.algorithms import AlgorithmConfig
from parse_dg.algorithms.parse import ParseConfig
from parse_dg.config import require
from parse_dg.data.augment.batches import AugmentConfig
from parse_dg.data.benchmarks import DataConfig
from parse_dg.data.sampling import SamplingConfig
from parse_dg.data.splits import SplitConfig
from parse_dg.training.protocol import ProtocolConfig
from parse_dg.model.backbones.backbone import BackboneConfig
from parse_dg.model.backbones.mixstyle import MixStyleConfig
from parse_dg.training.averaging import AveragingConfig
from parse_dg.training.optimizer import OptimizerConfig
from parse_dg.training.trainer import TrainingConfig


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that is needed to repeat a run."""

    data: DataConfig = field(default_factory=DataConfig)
    split: SplitConfig = field(default_factory=SplitConfig)
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    backbone: BackboneConfig = field(default_factory=BackboneConfig)
    mixstyle: MixStyleConfig = field(default_factory=MixStyleConfig)
    algorithm: AlgorithmConfig = field(default_factory=ParseConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    averaging: AveragingConfig = field(default_factory=AveragingConfig)
    protocol: ProtocolConfig = field(default_factory=ProtocolConfig)
    seed: int = 0
    """Of the hold-out, the start, the batches and every draw."""

    def __post_init__(self) -> None:
        require(self.seed >= 0, "seed", self.seed, "0 or more")
        self.protocol.check_against(self.split)
        if self.averaging.kind == "swad":
            found, expected = self.protocol.selection, "training-domain or leave-one-domain-out"
            hint = "as averaging.kind=swad chooses its steps by validation"
            require(found != "oracle", "protocol.selection", found, f"{expected}, {hint}")
        if self.algorithm.trains_twice:
            self._check_two_stages()

    def _check_two_stages(self) -> None:
        """Stage 2 holds no image of the sources out: nothing can be chosen by such."""
        found, kind = self.protocol.selection, self.averaging.kind
        hint = "as algorithm.stages=2 trains on all images of the source domains (1: trained once)"
        require(found != "leave-one-domain-out", "protocol.selection", found, f"training-domain or oracle, {hint}")
        require(kind != "swad", "averaging.kind", kind, f"sma, ema or none, {hint}")
        also_plain = self.averaging.also_plain  # what the averages lose decides how long both stages are
        require(not also_plain, "averaging.also_plain", also_plain, f"false, {hint}")

    @property
    def method(self) -> str:
        """The name in tables: averaged weights make a method another, except where they are part of it."""
        kind = self.averaging.kind
        return self.algorithm.name if kind == self.algorithm.averaging else f"{self.algorithm.name}+{kind}"

    @property
    def trial(self) -> int:
        """The seed of the hold-out: what tells repetitions of one experiment apart."""
        return self.seed if self.split.seed is None else self.split.seed
