"""Draws of hyper-parameters: DomainBed's own values, and those recorded in a sweep that it made."""

import json
from typing import Any

import pytest

from parse_dg.errors import InputError
from parse_dg.sweeps.search import ALGORITHMS, job_seed, random_hparams
from tests.algorithms import golden

DRAWS: list[dict[str, Any]] = golden.records("domainbed_draws")
SWEEP = golden.find("domainbed_sweep.jsonl").read_text()
RUNS: list[dict[str, Any]] = [json.loads(line) for line in SWEEP.splitlines()]


def name(draw: dict[str, Any]) -> str:
    return f"{draw['algorithm']}-{draw['data_set']}-{draw['hparams_seed']}-{draw['trial_seed']}"


@pytest.mark.golden
@pytest.mark.parametrize("draw", DRAWS, ids=name)
def test_every_draw_is_that_of_domainbed(draw: dict[str, Any]) -> None:
    found = random_hparams(draw["algorithm"], draw["data_set"], draw["hparams_seed"], draw["trial_seed"])
    assert dict(found) == draw["hparams"]
    assert {key: type(value) for key, value in found.items()} == {
        key: type(value) for key, value in draw["hparams"].items()
    }


@pytest.mark.golden
@pytest.mark.parametrize("run", RUNS, ids=lambda run: run["run"][:8])
def test_hyper_parameters_and_seed_are_those_of_the_sweep(run: dict[str, Any]) -> None:
    args = run["args"]
    drawn = random_hparams(args["algorithm"], args["dataset"], args["hparams_seed"], args["trial_seed"])
    assert dict(drawn) == run["hparams"]
    seed = job_seed(args["dataset"], args["algorithm"], args["test_envs"], args["hparams_seed"], args["trial_seed"])
    assert seed == args["seed"]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("data_set", ["ColoredMNIST", "my own"])
def test_draw_number_zero_is_the_defaults(algorithm: str, data_set: str) -> None:
    defaults = random_hparams(algorithm, data_set, 0, 2)
    assert defaults == random_hparams(algorithm, data_set, 0, 0)
    small = data_set == "ColoredMNIST"
    assert defaults["lr"] == (1e-3 if small else 5e-5)
    assert defaults["batch_size"] == (64 if small else 32)
    assert defaults["weight_decay"] == 0
    assert list(defaults) == list(random_hparams(algorithm, data_set, 5, 0))


@pytest.mark.parametrize("algorithm", ["erm", "", "MIRO", "ERMPlusPlus"])
def test_an_unknown_algorithm_is_refused_with_those_there_are(algorithm: str) -> None:
    with pytest.raises(InputError, match=f"unknown algorithm of DomainBed '{algorithm}': valid are ERM, GroupDRO"):
        random_hparams(algorithm, "PACS", 0, 0)
