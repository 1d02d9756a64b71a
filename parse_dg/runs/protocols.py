"""Named protocols: the rules of one paper or another, laid over a recipe (docs/protocol.md).

A protocol says how long, how often checked, on which images, chosen how. Rates and the algorithm's own settings
belong to the recipe. Where a method's authors leave DomainBed's ways (`AlgorithmConfig.as_domainbed`,
`check_interval`), so does its protocol.
"""

from collections.abc import Callable
from dataclasses import replace

from parse_dg.data.augment.batches import AugmentConfig
from parse_dg.data.sampling import SamplingConfig
from parse_dg.errors import require_known
from parse_dg.runs.config import RunConfig
from parse_dg.training.protocol import ProtocolConfig

OF_DOMAINBED = ("pacs", "vlcs", "officehome", "terraincognita")
"""DomainBed's data sets of photographs, DomainNet apart."""


def parse(config: RunConfig) -> RunConfig:
    """Ours: the target scored on all images, the best validation step, as long as the recipe says."""
    return replace(config, protocol=ProtocolConfig(name="parse"))


def domainbed(config: RunConfig) -> RunConfig:
    """DomainBed's: 5,001 steps, augmented validation, drawing with replacement, the target on its 80%."""
    data = config.data.benchmark
    every = 1000 if data == "domainnet" else 300 if data in OF_DOMAINBED else 100
    config = _classic(config, steps=5001, check_every=every)
    protocol = ProtocolConfig(name="domainbed", augment_validation=True, checks="everything")
    return replace(config, protocol=protocol)


def swad(config: RunConfig) -> RunConfig:
    """SWAD's: as DomainBed's, but validation is not augmented, 15,001 steps on DomainNet, only the split seeded."""
    data = config.data.benchmark
    every = config.algorithm.check_interval(data) or {"vlcs": 50, "domainnet": 500}.get(data, 100)
    config = _classic(config, steps=15001 if data == "domainnet" else 5001, check_every=every)
    config = replace(config, split=replace(config.split, seed=config.seed), seed=0)
    return replace(config, protocol=ProtocolConfig(name="swad", checks="target"))


def gvrt(config: RunConfig) -> RunConfig:
    """GVRT's, for CUB-DG: crops of 448 pixels from images of 512, crop and flip alone, the lists of its archive."""
    config = _classic(config, steps=5000, check_every=300, check_from=0)
    scheme = "gvrt-split" if config.data.benchmark == "cub-dg" else config.split.scheme
    return replace(
        config,
        data=replace(config.data, image_size=448, crop_from=512, evaluation="centre"),
        split=replace(config.split, scheme=scheme, target_images="all"),
        augment=AugmentConfig(crop="fixed", jitter=0.0, grayscale=0.0),
        protocol=ProtocolConfig(name="gvrt", checks="target"),
    )


def _classic(config: RunConfig, *, steps: int, check_every: int, check_from: int = 1) -> RunConfig:
    length = replace(config.training, steps=steps, epochs=None, check_every=check_every, check_from=check_from)
    return replace(
        config,
        data=replace(config.data, image_size=224, crop_from=256, evaluation="resize"),
        split=replace(config.split, target_images="in"),
        sampling=SamplingConfig(replacement=config.algorithm.as_domainbed),
        augment=AugmentConfig(),
        backbone=replace(config.backbone, freeze_batchnorm=config.algorithm.as_domainbed),
        training=replace(length, batch_per_domain=32, batch=None),
    )


ProtocolRules = Callable[[RunConfig], RunConfig]
PROTOCOLS: dict[str, ProtocolRules] = {"parse": parse, "domainbed": domainbed, "swad": swad, "gvrt": gvrt}
"""Every protocol by name; each changes a configuration whose data set and seed are set."""


def apply_protocol(name: str, config: RunConfig) -> RunConfig:
    """The configuration under a protocol's rules."""
    require_known("protocol", name, PROTOCOLS)
    return PROTOCOLS[name](config)
