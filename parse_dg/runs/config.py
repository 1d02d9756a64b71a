"""The configuration of a run: every section, each defined beside its owner."""

from dataclasses import dataclass, field

from parse_dg.algorithms import AlgorithmConfig
from parse_dg.algorithms.parse import ParseConfig
from parse_dg.config import Config, Whole
from parse_dg.data.augment.batches import AugmentConfig
from parse_dg.data.benchmarks import DataConfig
from parse_dg.data.sampling import SamplingConfig
from parse_dg.data.splits import SplitConfig
from parse_dg.model.backbones.backbone import BackboneConfig
from parse_dg.model.backbones.mixstyle import MixStyleConfig
from parse_dg.training.averaging import AveragingConfig
from parse_dg.training.optimizer import OptimizerConfig
from parse_dg.training.protocol import ProtocolConfig
from parse_dg.training.trainer import TrainingConfig


@dataclass(frozen=True, kw_only=True)
class RunConfig(Config):
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
    seed: Whole = 0
    """Of the hold-out, the start, the batches and every draw."""

    def check(self) -> None:
        selection, beside = self.protocol.selection, self.split.validation_domain
        fits = selection != "oracle" or self.split.target_images == "in"
        self.require(fits, "split.target_images", "in with protocol.selection=oracle, which looks at the other 20%")
        fits = (selection == "leave-one-domain-out") == (beside is not None)
        expected = "a domain with protocol.selection=leave-one-domain-out, none with any other"
        self.require(fits, "split.validation_domain", expected)
        fits = self.averaging.kind != "swad" or selection != "oracle"
        expected = "training-domain or leave-one-domain-out, as averaging.kind=swad chooses its steps by validation"
        self.require(fits, "protocol.selection", expected)
        fits = self.data.target is not None or selection == "training-domain"
        self.require(fits, "protocol.selection", "training-domain with data.target=none, where every domain trains")
        fits = self.training.batch is None or not self.algorithm.compares_domains
        expected = f"none with {self.algorithm.name}, which needs as many images of every domain (batch_per_domain)"
        self.require(fits, "training.batch", expected)
        if self.algorithm.trains_twice:
            self._check_two_stages()

    def _check_two_stages(self) -> None:
        """Stage 2 holds no image of the sources out: nothing can be chosen by such."""
        hint = "as algorithm.stages=2 trains on all images of the source domains (1: trained once)"
        chosen_inside = self.protocol.selection != "leave-one-domain-out"
        self.require(chosen_inside, "protocol.selection", f"training-domain or oracle, {hint}")
        self.require(self.averaging.kind != "swad", "averaging.kind", f"sma, ema or none, {hint}")
        # what the averages lose decides how long both stages are
        self.require(not self.averaging.also_plain, "averaging.also_plain", f"false, {hint}")

    @property
    def method(self) -> str:
        """The name in tables: averaged weights make a method another, except where they are part of it."""
        kind = self.averaging.kind
        return self.algorithm.name if kind == self.algorithm.averaging else f"{self.algorithm.name}+{kind}"

    @property
    def trial(self) -> int:
        """The seed of the hold-out: what tells repetitions of one experiment apart."""
        return self.seed if self.split.seed is None else self.split.seed
