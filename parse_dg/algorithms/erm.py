"""ERM, empirical risk minimisation: cross-entropy on the images of all source domains together."""

from dataclasses import dataclass

from parse_dg.algorithms.pooled import Pooled, PooledConfig


class Erm(Pooled):
    """Cross-entropy on everything."""

    config: "ErmConfig"


@dataclass(frozen=True, kw_only=True)
class ErmConfig(PooledConfig):
    """Settings of ERM."""

    name = "erm"
    method = Erm
    summary = "cross-entropy on all source images"
    reference = "Gulrajani & Lopez-Paz 2021, arXiv:2007.01434"
