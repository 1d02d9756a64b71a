"""The hyper-parameters of a sweep: grids, random draws, and DomainBed's draws as fields of our configuration."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from parse_dg.config import change
from parse_dg.errors import InputError
from parse_dg.runs.recipes import build_config
from parse_dg.sweeps.search import (
    DOMAINBED,
    FIELDS,
    OURS_ARE,
    DomainBedSearch,
    RandomSearch,
    Range,
    SearchPoint,
    grid_points,
    map_hyperparameters,
    random_hparams,
)

RATE = "optimizer.head_rate"
DECAY = "optimizer.weight_decay"


def test_a_grid_has_every_combination_and_the_last_field_varies_fastest() -> None:
    points = grid_points({"training.steps": (10, 20), RATE: (0.1, 0.2, 0.3)})
    assert [point.settings for point in points] == [
        {"training.steps": steps, RATE: rate} for steps in (10, 20) for rate in (0.1, 0.2, 0.3)
    ]
    assert points[1] == SearchPoint("steps=10,head_rate=0.2", {"training.steps": 10, RATE: 0.2})


@pytest.mark.parametrize(
    ("field", "value", "mark"),
    [
        ("algorithm.primitives.count", 8, "K=8"),
        ("mixstyle.stages", [1, 2], "stages=1+2"),
        ("mixstyle.stages", [], "stages=none"),
        ("backbone.freeze_batchnorm", True, "freeze_batchnorm=true"),
        ("optimizer.schedule", "cosine", "schedule=cosine"),
        ("optimizer.head_rate", 1e-05, "head_rate=1e-05"),
    ],
)
def test_the_mark_of_a_value(field: str, value: Any, mark: str) -> None:
    assert grid_points({field: (value,)})[0].mark == mark


def draws(range_: Range, count: int = 400) -> list[Any]:
    random = np.random.RandomState(0)
    return [range_.draw(random) for _ in range(count)]


def test_logarithms_of_values_fill_their_range_evenly() -> None:
    values = draws(Range(kind="log", values=(1e-6, 1e-2)))
    assert all(1e-6 <= value <= 1e-2 for value in values)
    assert abs(np.mean(np.log10(values)) - -4) < 0.2


@pytest.mark.parametrize("kind", ["uniform", "log"])
def test_whole_numbers_have_both_ends(kind: Any) -> None:
    values = draws(Range(kind=kind, values=(3, 6), whole=True))
    assert set(values) == {3, 4, 5, 6}
    assert {type(value) for value in values} == {int}


@pytest.mark.parametrize(
    ("kind", "values", "whole", "message"),
    [
        ("choice", (), False, "choice must be a list of one value or more"),
        ("choice", (1, 2), True, "without whole"),
        ("log", (0, 1), False, r"log must be two numbers above 0, found \[0, 1\]"),
        ("uniform", (2, 1), False, "uniform must be two numbers that ascend"),
        ("uniform", (0.0, float("inf")), False, "uniform must be two numbers that ascend"),
        ("uniform", (0.5, 2), True, "uniform must be two whole numbers"),
    ],
)
def test_a_range_that_is_none(kind: Any, values: tuple[Any, ...], whole: bool, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Range(kind=kind, values=values, whole=whole)


def search(count: int, *fields: str) -> RandomSearch:
    return RandomSearch(draws=count, ranges={field: Range(kind="log", values=(1e-5, 1e-1)) for field in fields})


def test_draws_are_numbered_from_one_and_all_different() -> None:
    points = list(search(4, RATE, DECAY).points(0))
    assert [(point.mark, point.draw) for point in points] == [(f"draw{n}", n) for n in (1, 2, 3, 4)]
    assert len({value for point in points for value in point.settings.values()}) == 8


def test_a_draw_depends_on_number_seed_and_field_alone() -> None:
    few, many = list(search(2, RATE).points(3)), list(search(5, DECAY, RATE).points(3))
    assert [point.settings[RATE] for point in few] == [point.settings[RATE] for point in many[:2]]
    assert few == list(search(2, RATE).points(3))
    other = list(search(2, RATE).points(4))
    assert not {point.settings[RATE] for point in few} & {point.settings[RATE] for point in other}


def test_a_search_without_draws_or_fields_is_refused() -> None:
    with pytest.raises(InputError, match="draws must be at least 1, found 0"):
        search(0, RATE)
    with pytest.raises(InputError, match="must be given a field"):
        search(1)


@pytest.mark.parametrize("algorithm", DOMAINBED)
def test_every_hyper_parameter_has_a_place(algorithm: str) -> None:
    base = build_config("pretrained", algorithm, "pacs")
    for number in range(8):
        drawn = random_hparams(DOMAINBED[algorithm], "PACS", number, 1)
        assert set(drawn) <= {*FIELDS, *OURS_ARE, "lr_d"}
        settings = map_hyperparameters(drawn)
        config = change(base, settings)  # every field exists and takes the value
        assert config.training.batch_per_domain == drawn["batch_size"]
        assert config.optimizer.backbone_rate == config.optimizer.head_rate == drawn.get("lr_g", drawn["lr"])
        assert config.optimizer.weight_decay == drawn.get("weight_decay_g", drawn["weight_decay"])
        assert config.algorithm.dropout == drawn["resnet_dropout"]  # type: ignore[union-attr]
        if "mlp_dropout" in drawn:
            assert config.algorithm.discriminator_dropout == drawn["mlp_dropout"]  # type: ignore[union-attr]


@pytest.mark.golden
@pytest.mark.parametrize("algorithm", DOMAINBED)
def test_domainbeds_defaults_are_those_of_its_recipe(algorithm: str) -> None:
    config = build_config("domainbed", algorithm)
    assert change(config, map_hyperparameters(random_hparams(DOMAINBED[algorithm], "PACS", 0, 0))) == config


def test_the_two_players_of_dann_keep_their_rates() -> None:
    drawn = random_hparams("DANN", "PACS", 3, 0)
    settings = map_hyperparameters(drawn)
    rate = settings["algorithm.discriminator_rate"] * settings["optimizer.head_rate"]
    assert rate == pytest.approx(drawn["lr_d"], rel=1e-12)
    assert settings["algorithm.discriminator_decay"] == drawn["weight_decay_d"]
    assert settings["algorithm.weight"] == drawn["lambda"]
    assert drawn["lr"] != drawn["lr_d"]


def test_what_our_networks_lack_is_said_and_can_be_ignored() -> None:
    drawn = [
        list(DomainBedSearch(draws=9, ignore=names).points("dann", "PACS", 0)) for names in ((), ("mlp_dropout",))
    ]
    shares = {point.settings["algorithm.discriminator_dropout"] for point in drawn[0]}
    assert shares == {0.0, 0.1, 0.5}
    assert all("algorithm.discriminator_dropout" not in point.settings for point in drawn[1])
    with pytest.raises(InputError, match="resnet18=True has no field here, where it is always False"):
        map_hyperparameters({"resnet18": True})


@pytest.mark.parametrize(
    ("given", "message"), [((0, ()), "draws must be at least 1"), ((1, ("lr",)), "'lr': valid are")]
)
def test_a_search_of_domainbed_that_cannot_be(given: tuple[int, Sequence[str]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        DomainBedSearch(draws=given[0], ignore=tuple(given[1]))
