"""One training method a file, and the table of their names."""

import torch
from jaxtyping import Int
from torch import Tensor

from parse_dg.algorithms.base import Algorithm
from parse_dg.algorithms.erm import Erm, ErmConfig
from parse_dg.algorithms.no_relations import NoRelations, NoRelationsConfig
from parse_dg.algorithms.parse import Parse, ParseConfig
from parse_dg.model.backbone import Backbone

__all__ = ["ALGORITHMS", "Algorithm", "AlgorithmConfig", "build_algorithm"]

AlgorithmConfig = ErmConfig | NoRelationsConfig | ParseConfig

ALGORITHMS: dict[str, tuple[type[Algorithm], type[AlgorithmConfig]]] = {
    "erm": (Erm, ErmConfig),
    "no_relations": (NoRelations, NoRelationsConfig),
    "parse": (Parse, ParseConfig),
}
"""Every method by name: its class and its settings."""


def build_algorithm(
    backbone: Backbone,
    classes: int,
    config: AlgorithmConfig,
    *,
    label_smoothing: float = 0.0,
    generator: torch.Generator | None = None,
    columns: Int[Tensor, "M"] | None = None,
    domains: int = 3,
) -> Algorithm:
    """The method of `config` on a built backbone.

    `domains` is how many source domains there are; `columns` are those of a compacted PARSE.
    """
    match config:
        case ErmConfig():
            return Erm(backbone, classes, config, label_smoothing=label_smoothing, generator=generator)
        case NoRelationsConfig():
            return NoRelations(backbone, classes, config, label_smoothing=label_smoothing, generator=generator)
        case ParseConfig():
            return Parse(
                backbone,
                classes,
                config,
                label_smoothing=label_smoothing,
                generator=generator,
                columns=columns,
            )
