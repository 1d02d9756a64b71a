"""MIRO, mutual information regularisation with an oracle: cross-entropy, and features held to those at the start.

The pretrained network stands in for the oracle, which is out of reach (Cha et al. 2022).
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch

from parse_dg.algorithms.base import BuildContext, Group, GroupSettings, LossTerms, Minibatch
from parse_dg.algorithms.pooled import Pooled, PooledConfig
from parse_dg.config import NotNegative
from parse_dg.model.mutual_information import MutualInformation


class TunedSettings(NamedTuple):
    """Settings for one benchmark."""

    rate: float
    """Of backbone and classifier."""
    dropout: float
    weight_decay: float
    weight: float
    """Of the regulariser."""


TUNED = {
    "pacs": TunedSettings(rate=3e-5, dropout=0.0, weight_decay=0.0, weight=0.01),
    "vlcs": TunedSettings(rate=1e-5, dropout=0.5, weight_decay=1e-6, weight=0.01),
    "officehome": TunedSettings(rate=3e-5, dropout=0.1, weight_decay=1e-6, weight=0.1),
    "terraincognita": TunedSettings(rate=3e-5, dropout=0.0, weight_decay=1e-4, weight=0.1),
    "domainnet": TunedSettings(rate=3e-5, dropout=0.1, weight_decay=0.0, weight=0.1),
}
"""What the authors found best, by benchmark."""


class Miro(Pooled):
    """Cross-entropy, and the divergence of the features from those of the network at the start."""

    config: "MiroConfig"
    apart = (("encoders", "mutual_information."),)

    def __init__(self, config: "MiroConfig", context: BuildContext):
        super().__init__(config, context)
        self.mutual_information = MutualInformation(context.backbone)

    def losses(self, example: Minibatch, generator: torch.Generator) -> LossTerms:
        with self.backbone.tapped() as maps:
            logits = self.classifier(self.features(example.images, generator))
        return {
            "cross_entropy": self.cross_entropy(logits, example.labels),
            "mutual_information": self.config.weight * self.mutual_information(example.images, maps),
        }

    def settings(self) -> dict[Group, GroupSettings]:
        return {"encoders": GroupSettings(rate_factor=self.config.rate_factor)}


@dataclass(frozen=True, kw_only=True)
class MiroConfig(PooledConfig):
    """Settings of MIRO."""

    name = "miro"
    method = Miro
    summary = "ERM whose features are held close to those of the pretrained network"
    reference = "Cha et al. 2022, arXiv:2203.10789"
    weight: NotNegative = 0.1
    """Of the regulariser in the loss."""
    rate_factor: NotNegative = 10.0
    """The learning rate of the variances, times that of the backbone."""

    def check_interval(self, data_set: str) -> int | None:
        return 1000 if data_set == "domainnet" else 200 if data_set in TUNED else None
