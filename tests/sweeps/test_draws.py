"""Draws of hyper-parameters: DomainBed's own values, and those recorded in a sweep that it made."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from parse_dg.errors import InputError
from parse_dg.sweeps.draws import ALGORITHMS, default_hparams, job_seed, random_hparams

GOLDEN = Path(__file__).parent.parent / "golden"
DRAWS: list[dict[str, Any]] = json.loads((GOLDEN / "domainbed_draws.json").read_text())
SWEEP = (GOLDEN / "domainbed_sweep.jsonl").read_text()
RUNS: list[dict[str, Any]] = [json.loads(line) for line in SWEEP.splitlines()]


def name(draw: dict[str, Any]) -> str:
    return f"{draw['algorithm']}-{draw['data_set']}-{draw['hparams_seed']}-{draw['trial_seed']}"


# values that DomainBed's own code gives


@pytest.mark.parametrize("draw", DRAWS, ids=name)
def test_every_draw_is_that_of_domainbed(draw: dict[str, Any]) -> None:
    found = random_hparams(draw["algorithm"], draw["data_set"], draw["hparams_seed"], draw["trial_seed"])
    assert dict(found) == draw["hparams"]
    assert {key: type(value) for key, value in found.items()} == {
        key: type(value) for key, value in draw["hparams"].items()
    }


def test_the_draws_of_domainbed_are_of_every_algorithm() -> None:
    assert {draw["algorithm"] for draw in DRAWS} == set(ALGORITHMS)


def test_two_draws_of_erm_on_vlcs() -> None:
    first, second = (random_hparams("ERM", "VLCS", 1, trial) for trial in (0, 1))
    assert first["lr"] == 2.7028930742148706e-05
    assert first["batch_size"] == 39
    assert first["resnet_dropout"] == 0.5
    assert first["weight_decay"] == 4.4832883881609976e-04
    assert second["lr"] == 2.2352558725944602e-05
    assert second["batch_size"] == 8


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run["run"][:8])
def test_hyper_parameters_and_seed_are_those_of_the_sweep(run: dict[str, Any]) -> None:
    args = run["args"]
    drawn = random_hparams(args["algorithm"], args["dataset"], args["hparams_seed"], args["trial_seed"])
    assert dict(drawn) == run["hparams"]
    seed = job_seed(args["dataset"], args["algorithm"], args["test_envs"], args["hparams_seed"], args["trial_seed"])
    assert seed == args["seed"]


# defaults


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("data_set", ["VLCS", "DomainNet", "ColoredMNIST", "my own"])
def test_draw_number_zero_is_the_defaults(algorithm: str, data_set: str) -> None:
    defaults = default_hparams(algorithm, data_set)
    assert defaults == random_hparams(algorithm, data_set, 0, 2)
    small = data_set == "ColoredMNIST"
    assert defaults["lr"] == (1e-3 if small else 5e-5)
    assert defaults["batch_size"] == (64 if small else 32)
    assert defaults["weight_decay"] == 0
    assert list(defaults) == list(random_hparams(algorithm, data_set, 5, 0))


@pytest.mark.parametrize(
    ("algorithm", "own"),
    [
        ("GroupDRO", {"groupdro_eta": 1e-2}),
        ("Mixup", {"mixup_alpha": 0.2}),
        ("CORAL", {"mmd_gamma": 1.0}),
        ("SagNet", {"sag_w_adv": 0.1}),
        ("DANN", {"lambda": 1.0, "d_steps_per_g_step": 1, "grad_penalty": 0.0, "beta1": 0.5, "mlp_width": 256}),
        ("CDANN", {"mlp_depth": 3, "mlp_dropout": 0.0, "weight_decay_d": 0.0, "lr_d": 5e-5, "lr_g": 5e-5}),
    ],
)
def test_defaults_of_an_algorithm(algorithm: str, own: dict[str, float]) -> None:
    defaults = default_hparams(algorithm, "PACS")
    assert defaults | own == defaults
    assert not set(own) & set(default_hparams("ERM", "PACS"))


# ranges


@pytest.mark.parametrize("data_set", ["PACS", "DomainNet", "RotatedMNIST"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_draws_stay_in_their_ranges(algorithm: str, data_set: str) -> None:
    small = data_set == "RotatedMNIST"
    rate = (10**-4.5, 10**-2.5) if small else (1e-5, 10**-3.5)
    decay = (0, 0) if small else (1e-6, 1e-2)
    ranges = {
        "lr": rate,
        "lr_g": rate,
        "lr_d": rate,
        "weight_decay": decay,
        "weight_decay_g": decay,
        "weight_decay_d": (1e-6, 1e-2),
        "batch_size": (8, {"PACS": 45, "DomainNet": 31, "RotatedMNIST": 511}[data_set]),
        "resnet_dropout": (0, 0.5),
        "lambda": (1e-2, 1e2),
        "d_steps_per_g_step": (1, 7),
        "grad_penalty": (1e-2, 10),
        "beta1": (0, 0.5),
        "mlp_width": (64, 1023),
        "mlp_depth": (3, 5),
        "mlp_dropout": (0, 0.5),
        "groupdro_eta": (1e-3, 1e-1),
        "mixup_alpha": (0.1, 10),
        "mmd_gamma": (0.1, 10),
        "sag_w_adv": (1e-2, 10),
    }
    draws = [random_hparams(algorithm, data_set, seed, 0) for seed in range(1, 41)]
    for key in draws[0]:
        if key in ranges:
            low, high = ranges[key]
            assert all(low <= draw[key] <= high for draw in draws)
            assert (low == high) == (len({draw[key] for draw in draws}) == 1)
        else:
            assert {draw[key] for draw in draws} == {key == "data_augmentation"}


def test_algorithms_share_the_draws_of_what_they_have_in_common() -> None:
    erm, dann = random_hparams("ERM", "PACS", 3, 1), random_hparams("DANN", "PACS", 3, 1)
    assert {key: dann[key] for key in erm} == erm
    assert len(dann) > len(erm)


def test_another_draw_or_trial_has_other_values() -> None:
    rates = {random_hparams("ERM", "PACS", seed, trial)["lr"] for seed in (1, 2, 3) for trial in (0, 1, 2)}
    assert len(rates) == 9


# what is refused, and what cannot be changed


def test_hyper_parameters_cannot_be_changed() -> None:
    for found in (default_hparams("ERM", "PACS"), random_hparams("ERM", "PACS", 1, 0)):
        with pytest.raises(TypeError, match="does not support item assignment"):
            found["lr"] = 1.0  # type: ignore[index]


@pytest.mark.parametrize("algorithm", ["erm", "", "MIRO", "ERMPlusPlus"])
def test_an_unknown_algorithm_is_refused_with_those_there_are(algorithm: str) -> None:
    with pytest.raises(InputError, match=f"unknown algorithm of DomainBed '{algorithm}': valid are ERM, GroupDRO"):
        default_hparams(algorithm, "PACS")


def test_a_negative_draw_is_refused() -> None:
    with pytest.raises(InputError, match="hparams_seed must be 0 for the defaults, or a positive number, found -1"):
        random_hparams("ERM", "PACS", -1, 0)


@pytest.mark.parametrize("envs", [[2], [0, 3], (0, 3)])
def test_the_seed_of_a_job_does_not_depend_on_how_its_environments_are_held(envs: Sequence[int]) -> None:
    assert job_seed("PACS", "ERM", envs, 1, 2) == job_seed("PACS", "ERM", list(envs), 1, 2)
    assert job_seed("PACS", "ERM", envs, 1, 2) != job_seed("PACS", "ERM", envs, 2, 1)
