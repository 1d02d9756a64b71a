"""PARSE-DG: image classifiers that keep working on domains they never saw, and show why.

A public name is imported when it is first used: `import parse_dg` and `parse-dg --help` do without PyTorch.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from parse_dg._version import __version__
from parse_dg.config import change
from parse_dg.errors import InputError

if TYPE_CHECKING:
    from parse_dg.algorithms import ALGORITHMS, Algorithm, AlgorithmConfig, register_algorithm
    from parse_dg.algorithms.parse import ParseConfig
    from parse_dg.cli.show.progress import print_checks
    from parse_dg.data.augment.batches import AUGMENTATIONS, AugmentConfig, register_augmentation
    from parse_dg.data.benchmarks import GENERATED_DATA_SETS, DataConfig, open_benchmark, register_data_set
    from parse_dg.data.domain import Benchmark, Domain
    from parse_dg.data.sampling import SamplingConfig
    from parse_dg.data.splits import SplitConfig
    from parse_dg.deploy.compaction import compact
    from parse_dg.deploy.model_file import Model, load_model
    from parse_dg.deploy.predictor import Prediction, Predictor, load
    from parse_dg.explain.classes import describe_classes
    from parse_dg.explain.contrast import contrast, counterfactual
    from parse_dg.explain.explanation import Explanation, explain, read_image
    from parse_dg.model.backbones.backbone import BACKBONES, BackboneConfig, register_backbone
    from parse_dg.model.backbones.mixstyle import MixStyleConfig
    from parse_dg.model.paper_predicates import PREDICATES
    from parse_dg.model.predicate import BoundPrimitives, Predicate
    from parse_dg.model.predicates import register_predicate
    from parse_dg.runs.config import RunConfig
    from parse_dg.runs.opened import OpenedRun, open_run
    from parse_dg.runs.protocols import PROTOCOLS
    from parse_dg.runs.recipes import RECIPES, build_config
    from parse_dg.runs.result import RunResult
    from parse_dg.runs.run import execute
    from parse_dg.runs.train import train
    from parse_dg.training.averaging import AveragingConfig
    from parse_dg.training.optimizer import OptimizerConfig
    from parse_dg.training.protocol import ProtocolConfig
    from parse_dg.training.trainer import TrainingConfig

__all__ = [
    "ALGORITHMS",
    "AUGMENTATIONS",
    "BACKBONES",
    "GENERATED_DATA_SETS",
    "PREDICATES",
    "PROTOCOLS",
    "RECIPES",
    "Algorithm",
    "AlgorithmConfig",
    "AugmentConfig",
    "AveragingConfig",
    "BackboneConfig",
    "Benchmark",
    "BoundPrimitives",
    "DataConfig",
    "Domain",
    "Explanation",
    "InputError",
    "MixStyleConfig",
    "Model",
    "OpenedRun",
    "OptimizerConfig",
    "ParseConfig",
    "Predicate",
    "Prediction",
    "Predictor",
    "ProtocolConfig",
    "RunConfig",
    "RunResult",
    "SamplingConfig",
    "SplitConfig",
    "TrainingConfig",
    "__version__",
    "build_config",
    "change",
    "compact",
    "contrast",
    "counterfactual",
    "describe_classes",
    "execute",
    "explain",
    "load",
    "load_model",
    "open_benchmark",
    "open_run",
    "print_checks",
    "read_image",
    "register_algorithm",
    "register_augmentation",
    "register_backbone",
    "register_data_set",
    "register_predicate",
    "train",
]

_NAMES = {
    "algorithms": ("ALGORITHMS", "Algorithm", "AlgorithmConfig", "register_algorithm"),
    "algorithms.parse": ("ParseConfig",),
    "cli.show.progress": ("print_checks",),
    "data.augment.batches": ("AUGMENTATIONS", "AugmentConfig", "register_augmentation"),
    "data.benchmarks": ("GENERATED_DATA_SETS", "DataConfig", "open_benchmark", "register_data_set"),
    "data.domain": ("Benchmark", "Domain"),
    "data.sampling": ("SamplingConfig",),
    "data.splits": ("SplitConfig",),
    "deploy.compaction": ("compact",),
    "deploy.model_file": ("Model", "load_model"),
    "deploy.predictor": ("Prediction", "Predictor", "load"),
    "explain.classes": ("describe_classes",),
    "explain.contrast": ("contrast", "counterfactual"),
    "explain.explanation": ("Explanation", "explain", "read_image"),
    "model.backbones.backbone": ("BACKBONES", "BackboneConfig", "register_backbone"),
    "model.backbones.mixstyle": ("MixStyleConfig",),
    "model.paper_predicates": ("PREDICATES",),
    "model.predicate": ("BoundPrimitives", "Predicate"),
    "model.predicates": ("register_predicate",),
    "runs.config": ("RunConfig",),
    "runs.opened": ("OpenedRun", "open_run"),
    "runs.protocols": ("PROTOCOLS",),
    "runs.recipes": ("RECIPES", "build_config"),
    "runs.result": ("RunResult",),
    "runs.run": ("execute",),
    "runs.train": ("train",),
    "training.averaging": ("AveragingConfig",),
    "training.optimizer": ("OptimizerConfig",),
    "training.protocol": ("ProtocolConfig",),
    "training.trainer": ("TrainingConfig",),
}
"""Where the names are that are imported when they are used; the same as above, for Python."""
_HOMES = {name: f"parse_dg.{module}" for module, names in _NAMES.items() for name in names}


class _Package(ModuleType):
    """`explain` is a room and a function; `parse_dg.explain` is the function, also once the room is imported."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) and name in _HOMES):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'parse_dg' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
