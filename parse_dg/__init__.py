"""PARSE-DG: image classifiers that keep working on domains they never saw, and show why."""

from parse_dg._version import __version__
from parse_dg.config import change
from parse_dg.data.benchmarks import open_benchmark
from parse_dg.deploy.compaction import compact
from parse_dg.deploy.model_file import load_model
from parse_dg.deploy.predictor import Prediction, Predictor, load
from parse_dg.errors import InputError
from parse_dg.explain.classes import describe_classes
from parse_dg.explain.contrast import contrast, counterfactual
from parse_dg.explain.explanation import Explanation, explain, read_image
from parse_dg.runs.config import RunConfig
from parse_dg.runs.recipes import build_config
from parse_dg.runs.run import execute

__all__ = [
    "Explanation",
    "InputError",
    "Prediction",
    "Predictor",
    "RunConfig",
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
    "read_image",
]
