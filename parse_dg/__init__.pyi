from ._version import __version__ as __version__
from .algorithms import (
    ALGORITHMS as ALGORITHMS,
    Algorithm as Algorithm,
    AlgorithmConfig as AlgorithmConfig,
    register_algorithm as register_algorithm,
)
from .algorithms.parse import ParseConfig as ParseConfig
from .cli.show.progress import print_checks as print_checks
from .config import change as change
from .data.augment.batches import (
    AUGMENTATIONS as AUGMENTATIONS,
    AugmentConfig as AugmentConfig,
    register_augmentation as register_augmentation,
)
from .data.benchmarks import (
    GENERATED_DATA_SETS as GENERATED_DATA_SETS,
    DataConfig as DataConfig,
    open_benchmark as open_benchmark,
    register_data_set as register_data_set,
)
from .data.domain import Benchmark as Benchmark, Domain as Domain
from .data.sampling import SamplingConfig as SamplingConfig
from .data.splits import SplitConfig as SplitConfig
from .deploy.compaction import compact as compact
from .deploy.model_file import Model as Model, load_model as load_model
from .deploy.predictor import Prediction as Prediction, Predictor as Predictor, load as load
from .errors import InputError as InputError
from .explain.classes import describe_classes as describe_classes
from .explain.contrast import contrast as contrast, counterfactual as counterfactual
from .explain.explanation import Explanation as Explanation, explain as explain, read_image as read_image
from .model.backbones.backbone import (
    BACKBONES as BACKBONES,
    BackboneConfig as BackboneConfig,
    register_backbone as register_backbone,
)
from .model.backbones.mixstyle import MixStyleConfig as MixStyleConfig
from .model.paper_predicates import PREDICATES as PREDICATES
from .model.predicate import BoundPrimitives as BoundPrimitives, Predicate as Predicate
from .model.predicates import register_predicate as register_predicate
from .runs.afterwards.opened import OpenedRun as OpenedRun, open_run as open_run
from .runs.config import RunConfig as RunConfig
from .runs.protocols import PROTOCOLS as PROTOCOLS
from .runs.recipes import RECIPES as RECIPES, build_config as build_config
from .runs.result import RunResult as RunResult
from .runs.run import execute as execute
from .runs.train import train as train
from .training.averaging import AveragingConfig as AveragingConfig
from .training.optimizer import OptimizerConfig as OptimizerConfig
from .training.protocol import ProtocolConfig as ProtocolConfig
from .training.trainer import TrainingConfig as TrainingConfig
