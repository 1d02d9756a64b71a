"""The state of a trainer to and from a checkpoint: training continues bit for bit."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from parse_dg.data.loader import TrainingBatches
from parse_dg.training.check import Best, check_from_data, check_to_data
from parse_dg.training.checkpoint import Checkpoint, UnfitError, joined, require_numbers
from parse_dg.training.optimizer import like_optimizer, restore_optimizer, save_optimizer
from parse_dg.training.trainer import Trainer
from parse_dg.wording import first_line, short

PLAIN = ("step", "means", "stopped", "unchecked")
"""What of a trainer's state is plain data; earlier versions did not write `unchecked`, which was false."""
NEVER_NEGATIVE = re.compile(r".*\.(running_var|num_batches_tracked)|\d+\.(step|exp_avg_sq)")
"""The variances and counts of BatchNorm and of Adam."""
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


@contextmanager
def fitting() -> Iterator[None]:
    """Within, what a checkpoint lacks or has of another kind is one line for the user."""
    try:
        yield
    except (RuntimeError, LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        reason = f"({first_line(error)}): it is of another version of parse-dg, or was changed"
        raise UnfitError(f"the checkpoint does not fit this run {reason}; delete the run's folder") from error


def require_fit(trainer: Trainer, saved: Checkpoint, *, same_images: bool = True) -> None:
    """Raise unless names, shapes, types and values are such as a trainer of this run would have saved.

    `same_images=False`: it may be of a stage that trains on others.
    """
    torch.Generator().set_state(saved.part("trainer").tensors["generator"])
    if same_images:
        _batches(trainer).sampler.check(saved.part("batches").tensors)
    own, weights = {"unchecked": False, **saved.part("trainer").data}, dict(trainer.algorithm.state_dict())
    counts = own["counts"]
    require_numbers("a state", [own["step"], *counts.values()], own["means"].values())
    if {type(own["stopped"]), type(own["unchecked"])} != {bool} or not 0 < own["step"] <= trainer.steps:
        raise ValueError(f"step {own['step']!r} of {trainer.steps} is none of this run")
    _require_like("the sums", saved.part("sums"), dict.fromkeys(counts, torch.tensor(0.0)))
    _require_like("the weights", saved.part("algorithm"), weights)
    for name in BESTS:
        if own[name]:
            check_from_data(own[name])
        _require_like(f"the {name} weights", saved.part(name), weights if own[name] else {})
    averaged, optimiser = saved.part("averaging"), saved.part("optimizer")
    _require_like("the averaged weights", averaged, trainer.averaging.like(averaged))
    _require_like("the optimiser", optimiser, like_optimizer(trainer.optimizer, optimiser))


def _require_like(what: str, saved: Checkpoint, expected: Mapping[str, Tensor]) -> None:
    """The tensors that are expected, in shape and type; finite but where the expected ones are not."""
    if set(saved.tensors) != set(expected):
        raise ValueError(f"{what}: found {short(sorted(saved.tensors))}, expected {short(sorted(expected))}")
    for name, like in expected.items():
        value = saved.tensors[name]
        if (value.shape, value.dtype) != (like.shape, like.dtype):
            found, wanted = (f"{t.dtype} {tuple(t.shape)}" for t in (value, like))
            raise ValueError(f"{name} of {what} is {found}, expected {wanted}")
        finite = value.isfinite()
        if not finite.all() and not (finite | ~like.isfinite().cpu()).all():
            raise ValueError(f"{name} of {what} is not finite")
        if NEVER_NEGATIVE.fullmatch(name) and (value < 0).any():
            raise ValueError(f"{name} of {what} is negative")


@fitting()
def restore_trainer(trainer: Trainer, saved: Checkpoint) -> None:
    """Bring a new trainer of the same run to where another stood."""
    own = saved.part("trainer")
    for name in PLAIN:
        setattr(trainer, name, own.data.get(name, False))
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
