"""Which hyper-parameters a sweep tries: all combinations of a grid, random draws, or DomainBed's own draws.

DomainBed's names, defaults and ranges are those of 2023, value for value: after the range of `mixup_alpha` was
corrected from 10^U(-1, -1), which is always 0.1, and before the release of ERM++ changed the defaults of them all.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np

from parse_dg.config import Config, Count, require
from parse_dg.data.splits import seed_hash
from parse_dg.errors import InputError, about, require_known

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


def random_hparams(algorithm: str, data_set: str, hparams_seed: int, trial_seed: int) -> HyperParameters:
    """Draw number `hparams_seed` of a trial; number 0 is the defaults.

    Every hyper-parameter has a generator of its own, seeded by its name, so that two algorithms share the draws
    of what they have in common.
    """
    choices, seed = _choices(algorithm, data_set), seed_hash(hparams_seed, trial_seed)
    if hparams_seed == 0:
        return {name: choice.default for name, choice in choices.items()}
    own = {name: np.random.RandomState(seed_hash(seed, name)) for name in choices}
    return {name: choice.draw(own[name]) for name, choice in choices.items()}


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


SHORT = {"algorithm.primitives.count": "K"}
"""What fields are called in the names of folders, where it is not the last part of their path."""


class SearchPoint(NamedTuple):
    """Hyper-parameters to try."""

    mark: str
    """What tells them apart in the name of a folder: `K=8`, `draw3`; empty where there is one point only."""
    settings: Mapping[str, Any]
    draw: int | None = None


@dataclass(frozen=True, kw_only=True)
class Range(Config):
    """The distribution that a hyper-parameter is drawn from."""

    kind: Literal["log", "uniform", "choice"]
    """`log`: as many between 1 and 10 as between 10 and 100. `uniform`: all alike. `choice`: one of a few."""
    values: tuple[Any, ...]
    """The lowest and the highest; or all there are."""
    whole: bool = False
    """Only whole numbers, both ends included."""

    def check(self) -> None:
        found = list(self.values)
        if self.kind == "choice":
            require(bool(found) and not self.whole, "choice", found, "a list of one value or more, without whole")
            return
        numbers = all(isinstance(v, int | float) and not isinstance(v, bool) and math.isfinite(v) for v in found)
        require(numbers and len(found) == 2 and found[0] < found[1], self.kind, found, "two numbers that ascend")
        require(self.kind == "uniform" or found[0] > 0, self.kind, found, "two numbers above 0")
        require(not self.whole or all(v == int(v) for v in found), self.kind, found, "two whole numbers")

    def draw(self, random: np.random.RandomState) -> Any:
        if self.kind == "choice":
            return self.values[int(random.choice(len(self.values)))]
        low, high = self.values[0], self.values[1] + (1 if self.whole else 0)
        if self.kind == "uniform":
            value = float(random.uniform(low, high))
        else:
            value = math.exp(random.uniform(math.log(low), math.log(high)))
        return min(int(value), int(self.values[1])) if self.whole else value


@dataclass(frozen=True, kw_only=True)
class RandomSearch(Config):
    """Random search."""

    draws: Count
    """How many; they are numbered from 1."""
    ranges: Mapping[str, Range]

    def check(self) -> None:
        require(bool(self.ranges), "ranges", "no field", "given a field, such as optimizer.head_rate")

    def points(self, trial: int) -> Iterator[SearchPoint]:
        """The draws of a trial. Each field has a generator of its own, seeded by the number of the draw, the trial
        and the field's name: a further field, draw or method leaves the others as they are.
        """
        for number in range(1, self.draws + 1):
            seed = seed_hash(number, trial)
            drawn = {f: r.draw(np.random.RandomState(seed_hash(seed, f))) for f, r in self.ranges.items()}
            yield SearchPoint(f"draw{number}", drawn, number)


@dataclass(frozen=True, kw_only=True)
class DomainBedSearch(Config):
    """DomainBed's random search: number 0 is its defaults."""

    draws: Count
    """How many, the defaults among them."""
    ignore: tuple[str, ...] = ()

    def check(self) -> None:
        for name in self.ignore:
            require_known("hyper-parameter of [domainbed] ignore", name, IGNORABLE)

    def points(self, algorithm: str, data_set: str, trial: int) -> Iterator[SearchPoint]:
        for number in range(self.draws):
            drawn = random_hparams(domainbed_name(algorithm), data_set, number, trial)
            with about(f"draw {number} of {algorithm}, seed {trial}"):
                yield SearchPoint(f"draw{number}", map_hyperparameters(drawn, self.ignore), number)


DOMAINBED = {
    **{"erm": "ERM", "dann": "DANN", "cdann": "CDANN", "group_dro": "GroupDRO"},
    **{"mixup": "Mixup", "sagnet": "SagNet", "coral": "CORAL"},
}
"""The methods whose draws are known, and what DomainBed calls them."""

OF_ALGORITHM = {
    **{"resnet_dropout": "dropout", "groupdro_eta": "eta", "mixup_alpha": "alpha", "mmd_gamma": "gamma"},
    **{"sag_w_adv": "weight", "lambda": "weight", "d_steps_per_g_step": "discriminator_steps"},
    **{"grad_penalty": "gradient_penalty", "beta1": "beta1", "mlp_width": "width", "mlp_depth": "depth"},
    **{"mlp_dropout": "discriminator_dropout", "weight_decay_d": "discriminator_decay"},
}
FIELDS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("lr", "lr_g"), ("optimizer.backbone_rate", "optimizer.head_rate")),
    **dict.fromkeys(("weight_decay", "weight_decay_g"), ("optimizer.weight_decay",)),
    "batch_size": ("training.batch_per_domain",),
    **{name: (f"algorithm.{field}",) for name, field in OF_ALGORITHM.items()},
}
"""The fields that DomainBed's hyper-parameters are here. `lr_d`, which is a factor here, is apart."""
OURS_ARE = {"data_augmentation": True, "resnet18": False, "class_balanced": False, "nonlinear_classifier": False}
"""Hyper-parameters without a field, and the one value that our networks have."""
IGNORABLE = (*OURS_ARE, "mlp_dropout")
"""What a sweep may leave as it is here; discriminators had no dropout once."""


def domainbed_name(algorithm: str) -> str:
    """What DomainBed calls a method, if its draws are known."""
    if algorithm not in DOMAINBED:
        known = ", ".join(DOMAINBED)
        raise InputError(f"DomainBed's draws for {algorithm} are not known: [domainbed] takes {known}")
    return DOMAINBED[algorithm]


def map_hyperparameters(drawn: Mapping[str, Any], ignore: Sequence[str] = ()) -> dict[str, Any]:
    """DomainBed's hyper-parameters as fields of our configuration."""
    settings: dict[str, Any] = {}
    players = "lr_d" in drawn
    for name, value in drawn.items():
        if name in ignore:
            continue
        if name in OURS_ARE:
            if value != OURS_ARE[name]:
                ours = f"has no field here, where it is always {OURS_ARE[name]}"
                raise InputError(f'{name}={value} {ours}: [domainbed] ignore = ["{name}"] leaves it at that')
        elif name == "lr_d":  # a factor of the head's rate
            settings["algorithm.discriminator_rate"] = value / drawn["lr_g"]
        elif not (players and name in ("lr", "weight_decay")):  # two players have rates of their own
            settings |= dict.fromkeys(FIELDS[name], value)
    return settings


def grid_points(grid: Mapping[str, Sequence[Any]]) -> list[SearchPoint]:
    """Every combination; the last field varies fastest."""
    names = short_names(list(grid))
    points = []
    for values in product(*grid.values()):
        chosen = dict(zip(grid, values, strict=True))
        mark = ",".join(f"{names[field]}={in_words(value)}" for field, value in chosen.items())
        points.append(SearchPoint(mark, chosen))
    return points


def combine(chosen: SearchPoint, drawn: SearchPoint) -> SearchPoint:
    """Both at once; they set different fields."""
    mark = ",".join(filter(None, (chosen.mark, drawn.mark)))
    return SearchPoint(mark, {**chosen.settings, **drawn.settings}, drawn.draw)


def in_words(value: Any) -> str:
    """A value in the name of a folder."""
    if isinstance(value, list | tuple):
        return "+".join(map(in_words, value)) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def short_names(fields: Sequence[str], own: Mapping[str, str] = SHORT) -> dict[str, str]:
    """The last part of each path, where no other ends alike; `own`: those that have another name."""
    short = {field: own.get(field, field.rpartition(".")[2]) for field in fields}
    names = list(short.values())
    return {field: name if names.count(name) == 1 else field for field, name in short.items()}
