"""ERM, empirical risk minimisation: cross-entropy on the images of all source domains together.

The network is the backbone, global average pooling and a linear layer (Gulrajani & Lopez-Paz 2021,
arXiv:2007.01434).
"""

from dataclasses import dataclass

from parse_dg.algorithms.base import BuildContext
from parse_dg.algorithms.pooled import Pooled, PooledConfig


@dataclass(frozen=True, kw_only=True)
class ErmConfig(PooledConfig):
    """Settings of ERM."""

    name = "erm"
    summary = "cross-entropy on all source images"
    reference = "Gulrajani & Lopez-Paz 2021, arXiv:2007.01434"

    def build(self, context: BuildContext) -> "Erm":
        return Erm(self, context)


class Erm(Pooled):
    """Cross-entropy on everything."""

    config: ErmConfig
