"""Named protocols: the numbers of each, for every data set; a recipe below them, a setting above."""

from dataclasses import replace
from typing import Any

import pytest

from parse_dg.algorithms import ALGORITHMS
from parse_dg.cli import build_parser
from parse_dg.cli.train import configure
from parse_dg.config import as_typed, change, lookup
from parse_dg.data.augment.batches import AugmentConfig
from parse_dg.data.public.catalogue import DATA_SETS
from parse_dg.plugins import as_options
from parse_dg.runs.config import RunConfig
from parse_dg.runs.protocols import apply_protocol
from parse_dg.runs.recipes import RECIPES, build_config

EVERY = (*DATA_SETS, "blueprints", "a/folder/of/mine")


def under(
    protocol: str, data: str = "pacs", recipe: str = "pretrained", algorithm: str = "erm", **settings: Any
) -> RunConfig:
    config = change(build_config(recipe, algorithm, data), {"data.benchmark": data, **settings})
    return apply_protocol(protocol, config)


def checked(config: RunConfig) -> list[int]:
    """The steps after which there is a check: those of the schedule, and the last."""
    steps = config.training.steps
    return [step for step in range(1, steps + 1) if config.training.checks_at(step) or step == steps]


@pytest.mark.parametrize("data", EVERY)
def test_domainbed_checks_when_domainbed_does(data: str) -> None:
    """It counts steps from 0, and looks after step 0, every so many, and the last."""
    often = {"pacs": 300, "vlcs": 300, "officehome": 300, "terraincognita": 300, "domainnet": 1000}.get(data, 100)
    config = under("domainbed", data)
    assert config.training.steps == 5001
    assert checked(config) == [step + 1 for step in range(5001) if step % often == 0 or step == 5000]


def test_domainbed_is_its_paper() -> None:
    config = under("domainbed")
    assert config.protocol.name == "domainbed"
    assert config.protocol.augment_validation
    assert config.protocol.checks == "everything"
    assert config.protocol.selection == "training-domain"
    assert config.split.target_images == "in"
    assert (config.split.scheme, config.split.holdout, config.split.seed) == ("holdout20", 0.2, None)


@pytest.mark.parametrize("data", EVERY)
def test_swad_checks_when_swad_does(data: str) -> None:
    often = {"vlcs": 50, "domainnet": 500}.get(data, 100)
    steps = 15_000 if data == "domainnet" else 5000
    config = under("swad", data)
    assert config.training.steps == (steps // often) * often + 1
    assert checked(config) == list(range(1, steps + 2, often))


def test_miro_checks_as_rarely_under_swad_as_its_authors() -> None:
    often = {"pacs": 200, "vlcs": 200, "officehome": 200, "terraincognita": 200, "domainnet": 1000, "cub-dg": 100}
    for data, every in often.items():
        config = under("swad", data, algorithm="miro")
        assert checked(config) == list(range(1, config.training.steps + 1, every))
        assert config.training.steps == (15001 if data == "domainnet" else 5001)


@pytest.mark.parametrize("name", ["domainbed", "swad"])
def test_erm_plus_plus_draws_and_normalises_as_its_authors(name: str) -> None:
    mine, others = under(name, recipe="domainbed", algorithm="erm_plus_plus"), under(name, recipe="domainbed")
    assert (mine.sampling.replacement, mine.backbone.freeze_batchnorm) == (False, False)
    assert mine.averaging.kind == "sma"
    same = replace(mine, averaging=others.averaging, algorithm=others.algorithm, sampling=others.sampling)
    assert replace(same, backbone=others.backbone) == others


@pytest.mark.parametrize("recipe", RECIPES)
def test_gvrt_is_its_authors_program(recipe: str) -> None:
    """It counts steps from 1, looks after every 300th and the last, and cuts 448 pixels from 512 as they are."""
    config = under("gvrt", "cub-dg", recipe)
    assert checked(config) == [*range(300, 5000, 300), 5000]
    data, augment = config.data, config.augment
    assert (data.image_size, data.crop_from, data.evaluation) == (448, 512, "centre")
    assert (augment.crop, augment.flip, augment.jitter, augment.grayscale) == ("fixed", 0.5, 0, 0)
    assert augment.randaugment_ops == 0
    assert (config.split.scheme, config.protocol.checks) == ("gvrt-split", "target")
    assert not config.protocol.augment_validation
    assert (config.training.batch_per_domain, config.training.batch, config.training.epochs) == (32, None, None)
    assert (config.sampling.replacement, config.backbone.freeze_batchnorm) == (True, True)
    assert under("gvrt", "pacs").split.scheme == "holdout20"


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_only_the_split_of_swad_depends_on_the_seed(seed: int) -> None:
    config = under("swad", seed=seed)
    assert (config.seed, config.split.seed, config.trial) == (0, seed, seed)
    assert replace(config, split=replace(config.split, seed=0)) == under("swad", seed=0)


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("name", ["domainbed", "swad"])
def test_what_domainbed_and_swad_share(name: str, recipe: str) -> None:
    config = under(name, recipe=recipe)
    assert config.training.batch_per_domain == 32
    assert config.training.epochs is None
    assert config.sampling.replacement
    assert config.sampling.balance == "images"
    assert config.backbone.freeze_batchnorm
    assert (config.data.image_size, config.data.crop_from, config.data.evaluation) == (224, 256, "resize")
    assert config.augment == AugmentConfig()
    augment = config.augment
    assert (augment.crop_scale, augment.flip, augment.jitter, augment.grayscale) == ((0.7, 1.0), 0.5, 0.3, 0.1)
    assert augment.randaugment_ops == 0


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("name", ["domainbed", "swad"])
def test_rates_and_the_method_stay_the_recipes(name: str, recipe: str) -> None:
    for algorithm in ALGORITHMS:
        plain = build_config(recipe, algorithm)
        config = apply_protocol(name, plain)
        assert (config.optimizer, config.algorithm, config.mixstyle) == (
            plain.optimizer,
            plain.algorithm,
            plain.mixstyle,
        )


def configured(*arguments: str) -> RunConfig:
    return configure(build_parser().parse_args(["train", "--algorithm", "erm", *arguments]))


def test_a_setting_after_a_protocol_wins() -> None:
    more: dict[str, object] = {"training.steps": 7, "split.target_images": "all", "sampling.replacement": False}
    more |= {"data.crop_from": None, "protocol.augment_validation": False, "backbone.freeze_batchnorm": False}
    typed = as_options((f"{path}={as_typed(value)}" for path, value in more.items()), "--set")
    config = configured("--protocol", "domainbed", *typed)
    more |= {"training.check_from": 1, "training.batch_per_domain": 32}  # what is not set stays the protocol's
    assert {path: lookup(config, path) for path in more} == more


def test_a_protocol_wins_over_a_recipe() -> None:
    config = configured("--recipe", "paper", "--protocol", "domainbed")
    assert config.training.epochs is None  # the recipe's 50
    assert config.training.steps == 5001
    assert config.augment.randaugment_ops == 0
