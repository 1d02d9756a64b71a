from .afterwards.new_data import Evaluation as Evaluation, evaluate_new as evaluate_new
from .afterwards.opened import OpenedRun as OpenedRun, open_run as open_run
from .config import RunConfig as RunConfig
from .folder import read_config as read_config, read_result as read_result
from .protocols import PROTOCOLS as PROTOCOLS
from .recipes import RECIPES as RECIPES, build_config as build_config
from .result import RunResult as RunResult
from .run import execute as execute
