"""ERM++: ERM whose head is trained alone first, meant for an average of its weights and for training twice.

Teterwak et al. 2025, arXiv:2304.01973. The average (`averaging.kind=sma`) and the two stages
(runs/two_stage.py) are the run's affair; here are the phases of a step.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import torch

from parse_dg.algorithms.base import Minibatch, Turn
from parse_dg.algorithms.pooled import Counted, PooledConfig
from parse_dg.config import Whole


class ErmPlusPlus(Counted):
    """Cross-entropy on everything; at first only the head moves."""

    config: "ErmPlusPlusConfig"

    def turns(self, example: Minibatch, generator: torch.Generator) -> Iterator[Turn]:
        """The head alone with an optimiser of its own, then everything with a fresh one."""
        alone = self.config.linear_steps + 1 - self.count_step()  # steps left to the head after this
        if alone < 0:
            yield Turn(self.losses(example, generator), afresh=alone == -1)
            return
        with torch.no_grad():  # BatchNorm statistics move all the same
            features = self.features(example.images, generator)
        logits = self.classifier(features)
        yield Turn({"cross_entropy": self.cross_entropy(logits, example.labels)}, groups=("head",))


@dataclass(frozen=True, kw_only=True)
class ErmPlusPlusConfig(PooledConfig):
    """Settings of ERM++."""

    name = "erm_plus_plus"
    method = ErmPlusPlus
    averaging = "sma"
    as_domainbed = False
    summary = "ERM with a head start for the head, averaged weights and a second training on all source images"
    reference = "Teterwak et al. 2025, arXiv:2304.01973"
    linear_steps: Whole = 500
    """The head alone moves in the first steps: in one more than this, as in the authors' program."""
    stages: Literal[1, 2] = 2
    """1: trained once, like any other method. 2: once on the training images to find how long and at which rates,
    then anew on all images of the source domains (runs/two_stage.py)."""

    @property
    def trains_twice(self) -> bool:
        return self.stages == 2

    @property
    def head_steps(self) -> int:
        return self.linear_steps

    def without_beginning(self) -> "ErmPlusPlusConfig":
        return replace(self, linear_steps=0)
