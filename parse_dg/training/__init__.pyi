from .accuracy import Accuracy as Accuracy, predict as predict
from .averaging import AveragingConfig as AveragingConfig
from .check import Check as Check, Observer as Observer
from .checkpoint import (
    Checkpoint as Checkpoint,
    read_checkpoint as read_checkpoint,
    write_checkpoint as write_checkpoint,
)
from .optimizer import OptimizerConfig as OptimizerConfig
from .protocol import ProtocolConfig as ProtocolConfig
from .team import Team as Team
from .trainer import Trainer as Trainer, TrainingConfig as TrainingConfig
