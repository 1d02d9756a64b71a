"""One training method a file, and the table of their names."""

from typing import TypeVar

from parse_dg.algorithms.base import Algorithm, AlgorithmConfig, BuildContext
from parse_dg.algorithms.cdann import CdannConfig
from parse_dg.algorithms.coral import CoralConfig
from parse_dg.algorithms.dann import DannConfig
from parse_dg.algorithms.erm import ErmConfig
from parse_dg.algorithms.erm_plus_plus import ErmPlusPlusConfig
from parse_dg.algorithms.group_dro import GroupDroConfig
from parse_dg.algorithms.gvrt.method import GvrtConfig
from parse_dg.algorithms.miro import MiroConfig
from parse_dg.algorithms.mixup import MixupConfig
from parse_dg.algorithms.no_relations import NoRelationsConfig
from parse_dg.algorithms.parse import ParseConfig
from parse_dg.algorithms.sagnet import SagNetConfig
from parse_dg.errors import InputError

__all__ = ["ALGORITHMS", "Algorithm", "AlgorithmConfig", "BuildContext", "register_algorithm"]

ALGORITHMS = AlgorithmConfig.family
"""Every method by name: the class of its settings."""

AnyConfig = TypeVar("AnyConfig", bound=type[AlgorithmConfig])


def register_algorithm(config: AnyConfig) -> AnyConfig:
    """Make a method known by the `name` of its settings; can stand above the class as a decorator."""
    if not hasattr(config, "name"):
        raise InputError(f"{config.__name__} must have a class variable `name`, by which it is chosen, found none")
    ALGORITHMS.add(config.name, config)
    return config


for _config in (
    *(ErmConfig, DannConfig, CdannConfig, GroupDroConfig, MixupConfig, SagNetConfig, CoralConfig, GvrtConfig),
    *(MiroConfig, ErmPlusPlusConfig, NoRelationsConfig, ParseConfig),
):
    register_algorithm(_config)
