"""The state of a trainer to and from a checkpoint: training continues bit for bit."""

from collections import Counter

from parse_dg.data.loader import TrainingBatches
from parse_dg.errors import InputError
from parse_dg.training.check import Best, check_from_data, check_to_data
from parse_dg.training.checkpoint import Checkpoint, joined
from parse_dg.training.optimizer import restore_optimizer, save_optimizer
from parse_dg.training.trainer import Trainer
from parse_dg.wording import first_line

PLAIN = ("step", "means", "stopped")
"""What of a trainer's state is plain data."""
BESTS = ("best", "best_plain")
"""The checks that a trainer has kept, with their weights."""


def save_trainer(trainer: Trainer) -> Checkpoint:
    """Where a trainer stands after a step: weights, optimiser, averages, the best checks, every generator."""
    bests: dict[str, Best | None] = {name: getattr(trainer, name) for name in BESTS}
    own = {
        **{name: getattr(trainer, name) for name in PLAIN},
        "counts": dict(trainer.counts),
        **{name: best and check_to_data(best.check) for name, best in bests.items()},
    }
    return joined(
        {
            "trainer": Checkpoint({"generator": trainer.generator.get_state()}, own),
            "sums": Checkpoint(dict(trainer.sums), {}),
            "algorithm": Checkpoint(dict(trainer.algorithm.state_dict()), {}),
            "optimizer": save_optimizer(trainer.optimizer),
            "averaging": trainer.averaging.state(),
            **{name: Checkpoint(dict(best.state) if best else {}, {}) for name, best in bests.items()},
            "batches": Checkpoint(_batches(trainer).state(), {}),
        }
    )


def restore_trainer(trainer: Trainer, saved: Checkpoint) -> None:
    """Bring a new trainer of the same run to where another stood."""
    try:
        _restore(trainer, saved)
    except (RuntimeError, KeyError, IndexError, TypeError, ValueError) as error:
        reason = f"({first_line(error)}): it is of another version of parse-dg"
        raise InputError(f"the checkpoint does not fit this run {reason}; delete the run's folder") from error


def _restore(trainer: Trainer, saved: Checkpoint) -> None:
    own = saved.part("trainer")
    for name in PLAIN:
        setattr(trainer, name, own.data[name])
    trainer.counts = Counter(own.data["counts"])
    trainer.generator.set_state(own.tensors["generator"])
    sums = saved.part("sums").tensors
    trainer.sums = {name: sums[name].to(trainer.device) for name in trainer.counts}  # in the order they came
    trainer.algorithm.load_state_dict(saved.part("algorithm").tensors)
    restore_optimizer(trainer.optimizer, saved.part("optimizer"))
    trainer.averaging.restore(saved.part("averaging"))
    for name in BESTS:
        check = own.data[name]
        setattr(trainer, name, Best(check_from_data(check), saved.part(name).tensors) if check else None)
    _batches(trainer).restore(saved.part("batches").tensors)


def _batches(trainer: Trainer) -> TrainingBatches:
    assert isinstance(trainer.batches, TrainingBatches)
    return trainer.batches
