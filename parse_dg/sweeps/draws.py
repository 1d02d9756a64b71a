"""DomainBed's hyper-parameters: the defaults, and the draws of its random search, value for value.

Names, defaults and ranges are those of DomainBed in 2023: after the range of `mixup_alpha` was corrected from
10^U(-1, -1), which is always 0.1, to 10^U(-1, 1), and before the release of ERM++ changed the defaults of them all.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from parse_dg.config import require
from parse_dg.data.splits import seed_hash
from parse_dg.errors import require_known

Value = bool | int | float
HyperParameters = Mapping[str, Value]


class Choice(NamedTuple):
    """A hyper-parameter: its default, and how the random search draws it."""

    default: Value
    draw: Callable[[np.random.RandomState], Value]


def fixed(value: Value) -> Choice:
    """Never varied."""
    return Choice(value, lambda _: value)


def decades(default: float, low: float, high: float) -> Choice:
    """10^U(low, high)."""
    return Choice(default, lambda random: float(10 ** random.uniform(low, high)))


def octaves(default: int, low: float, high: float) -> Choice:
    """2^U(low, high), rounded down."""
    return Choice(default, lambda random: int(2 ** random.uniform(low, high)))


def among(default: Value, values: Sequence[Value]) -> Choice:
    """One of a few values, each as likely."""
    return Choice(default, lambda random: values[int(random.choice(len(values)))])


SMALL_IMAGES = ("Debug28", "RotatedMNIST", "ColoredMNIST")
"""Data sets of 28 pixels, trained from scratch at higher rates."""

COMMON: Mapping[str, Choice] = {
    "data_augmentation": fixed(True),
    "resnet18": fixed(False),
    "resnet_dropout": among(0.0, (0.0, 0.1, 0.5)),
    "class_balanced": fixed(False),
    "nonlinear_classifier": fixed(False),
}
ADVERSARIAL: Mapping[str, Choice] = {
    "lambda": decades(1.0, -2, 2),
    "weight_decay_d": decades(0.0, -6, -2),
    "d_steps_per_g_step": octaves(1, 0, 3),
    "grad_penalty": decades(0.0, -2, 1),
    "beta1": among(0.5, (0.0, 0.5)),
    "mlp_width": octaves(256, 6, 10),
    "mlp_depth": among(3, (3, 4, 5)),
    "mlp_dropout": among(0.0, (0.0, 0.1, 0.5)),
}
ALGORITHMS: Mapping[str, Mapping[str, Choice]] = {
    "ERM": {},
    "GroupDRO": {"groupdro_eta": decades(1e-2, -3, -1)},
    "Mixup": {"mixup_alpha": decades(0.2, -1, 1)},
    "CORAL": {"mmd_gamma": decades(1.0, -1, 1)},
    "DANN": ADVERSARIAL,
    "CDANN": ADVERSARIAL,
    "SagNet": {"sag_w_adv": decades(0.1, -2, 1)},
}
"""What an algorithm has besides the common ones."""


def default_hparams(algorithm: str, data_set: str) -> HyperParameters:
    """The hyper-parameters an algorithm has when nothing is drawn."""
    return MappingProxyType({name: choice.default for name, choice in _choices(algorithm, data_set).items()})


def random_hparams(algorithm: str, data_set: str, hparams_seed: int, trial_seed: int) -> HyperParameters:
    """Draw number `hparams_seed` of a trial; number 0 is the defaults.

    Every hyper-parameter has a generator of its own, seeded by its name, so that two algorithms share the draws
    of what they have in common.
    """
    require(hparams_seed >= 0, "hparams_seed", hparams_seed, "0 for the defaults, or a positive number")
    if hparams_seed == 0:
        return default_hparams(algorithm, data_set)
    seed = seed_hash(hparams_seed, trial_seed)
    random = ((name, choice, seed_hash(seed, name)) for name, choice in _choices(algorithm, data_set).items())
    return MappingProxyType({name: choice.draw(np.random.RandomState(own)) for name, choice, own in random})


def job_seed(data_set: str, algorithm: str, test_envs: Sequence[int], hparams_seed: int, trial_seed: int) -> int:
    """The seed of everything else in a run (start, order of images, dropout), as DomainBed's launcher sets it."""
    return seed_hash(data_set, algorithm, list(test_envs), hparams_seed, trial_seed)


def _choices(algorithm: str, data_set: str) -> dict[str, Choice]:
    require_known("algorithm of DomainBed", algorithm, ALGORITHMS)
    own = ALGORITHMS[algorithm]
    small = data_set in SMALL_IMAGES
    rate = decades(1e-3, -4.5, -2.5) if small else decades(5e-5, -5, -3.5)
    decay = fixed(0.0) if small else decades(0.0, -6, -2)
    batch = octaves(64, 3, 9) if small else octaves(32, 3, 5 if data_set == "DomainNet" else 5.5)
    choices = {**COMMON, **own, "lr": rate, "weight_decay": decay, "batch_size": batch}
    if own is ADVERSARIAL:
        choices |= {"lr_g": rate, "lr_d": rate, "weight_decay_g": decay}
    return choices
