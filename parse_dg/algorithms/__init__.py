"""One training method a file, and the table of their names."""

import torch
from jaxtyping import Int
from torch import Tensor

from parse_dg.algorithms.base import Algorithm
from parse_dg.algorithms.cdann import Cdann, CdannConfig
from parse_dg.algorithms.coral import Coral, CoralConfig
from parse_dg.algorithms.dann import Dann, DannConfig
from parse_dg.algorithms.erm import Erm, ErmConfig
from parse_dg.algorithms.erm_plus_plus import ErmPlusPlus, ErmPlusPlusConfig
from parse_dg.algorithms.group_dro import GroupDro, GroupDroConfig
from parse_dg.algorithms.gvrt.method import Gvrt, GvrtConfig
from parse_dg.algorithms.gvrt.text import Tokenizer
from parse_dg.algorithms.miro import Miro, MiroConfig
from parse_dg.algorithms.mixup import Mixup, MixupConfig
from parse_dg.algorithms.no_relations import NoRelations, NoRelationsConfig
from parse_dg.algorithms.parse import Parse, ParseConfig
from parse_dg.algorithms.sagnet import SagNet, SagNetConfig
from parse_dg.model.backbones.backbone import Backbone

__all__ = ["ALGORITHMS", "Algorithm", "AlgorithmConfig", "build_algorithm"]

AlgorithmConfig = (
    ErmConfig
    | DannConfig
    | CdannConfig
    | GroupDroConfig
    | MixupConfig
    | SagNetConfig
    | CoralConfig
    | GvrtConfig
    | MiroConfig
    | ErmPlusPlusConfig
    | NoRelationsConfig
    | ParseConfig
)

ALGORITHMS: dict[str, tuple[type[Algorithm], type[AlgorithmConfig]]] = {
    "erm": (Erm, ErmConfig),
    "dann": (Dann, DannConfig),
    "cdann": (Cdann, CdannConfig),
    "group_dro": (GroupDro, GroupDroConfig),
    "mixup": (Mixup, MixupConfig),
    "sagnet": (SagNet, SagNetConfig),
    "coral": (Coral, CoralConfig),
    "gvrt": (Gvrt, GvrtConfig),
    "miro": (Miro, MiroConfig),
    "erm_plus_plus": (ErmPlusPlus, ErmPlusPlusConfig),
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
    vocabulary: Tokenizer | None = None,
) -> Algorithm:
    """The method of `config` on a built backbone.

    `domains` is how many source domains there are, `vocabulary` the words of their captions, for a method that
    reads them; `columns` are those of a compacted PARSE.
    """
    smoothing = label_smoothing
    match config:
        case ErmConfig():
            return Erm(backbone, classes, config, label_smoothing=smoothing, generator=generator)
        case DannConfig():
            return Dann(backbone, classes, config, domains=domains, label_smoothing=smoothing, generator=generator)
        case CdannConfig():
            return Cdann(backbone, classes, config, domains=domains, label_smoothing=smoothing, generator=generator)
        case GroupDroConfig():
            return GroupDro(
                backbone, classes, config, domains=domains, label_smoothing=smoothing, generator=generator
            )
        case MixupConfig():
            return Mixup(backbone, classes, config, domains=domains, label_smoothing=smoothing, generator=generator)
        case SagNetConfig():
            return SagNet(
                backbone, classes, config, domains=domains, label_smoothing=smoothing, generator=generator
            )
        case CoralConfig():
            return Coral(backbone, classes, config, domains=domains, label_smoothing=smoothing, generator=generator)
        case GvrtConfig():
            return Gvrt(
                backbone,
                classes,
                config,
                domains=domains,
                vocabulary=vocabulary or Tokenizer(()),
                label_smoothing=smoothing,
                generator=generator,
            )
        case MiroConfig():
            return Miro(backbone, classes, config, label_smoothing=smoothing, generator=generator)
        case ErmPlusPlusConfig():
            return ErmPlusPlus(backbone, classes, config, label_smoothing=smoothing, generator=generator)
        case NoRelationsConfig():
            return NoRelations(backbone, classes, config, label_smoothing=smoothing, generator=generator)
        case ParseConfig():
            return Parse(backbone, classes, config, label_smoothing=smoothing, generator=generator, columns=columns)
