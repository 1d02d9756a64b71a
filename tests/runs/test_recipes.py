"""Recipes: complete for every method, and what each promises."""

import json
from dataclasses import replace

import pytest

from parse_dg.algorithms import ALGORITHMS
from parse_dg.algorithms.gvrt.method import GvrtConfig
from parse_dg.algorithms.parse import ParseConfig
from parse_dg.config import from_dict, to_dict
from parse_dg.errors import InputError
from parse_dg.model.vocabulary import Vocabulary
from parse_dg.runs.config import RunConfig
from parse_dg.runs.recipes import RECIPES, build_config, default_recipe

EVERY = [(recipe, algorithm) for recipe in RECIPES for algorithm in ALGORITHMS]


@pytest.mark.parametrize(("recipe", "algorithm"), EVERY)
def test_every_recipe_is_there_for_every_method(recipe: str, algorithm: str) -> None:
    config = build_config(recipe, algorithm)
    assert type(config.algorithm) is ALGORITHMS[algorithm]
    assert config.algorithm.name == algorithm
    assert config.seed == 0
    assert build_config(recipe, algorithm) == config


@pytest.mark.parametrize(("recipe", "algorithm"), EVERY)
def test_every_configuration_survives_its_file(recipe: str, algorithm: str) -> None:
    config = build_config(recipe, algorithm)
    text = json.dumps(to_dict(config), allow_nan=False)
    again = from_dict(RunConfig, json.loads(text))
    assert again == config
    assert type(again.algorithm) is type(config.algorithm)
    assert json.dumps(to_dict(again)) == text


@pytest.mark.parametrize("recipe", RECIPES)
def test_methods_of_a_recipe_differ_in_the_method_alone(recipe: str) -> None:
    """A table compares methods: data, schedule and length are common; rates, style mixing, frozen statistics and
    averaged weights are the method's own."""
    shared = [to_dict(build_config(recipe, algorithm)) for algorithm in ALGORITHMS]
    for config in shared:
        del config["algorithm"], config["mixstyle"], config["averaging"], config["backbone"]["freeze_batchnorm"]
        for rate in ("backbone_rate", "head_rate", "composition_rate", "composition_warmup_steps"):
            del config["optimizer"][rate]
    assert all(config == shared[0] for config in shared)


def test_the_papers_recipe_is_the_papers_text() -> None:
    config = build_config("paper", "parse")
    parse = config.algorithm
    assert isinstance(parse, ParseConfig)
    assert parse.primitives.count == 16
    assert Vocabulary(parse.primitives.count, parse.vocabulary).size == 130_176
    assert parse.vocabulary.families == "all"
    assert parse.predicates.gate is False
    assert parse.predicates.edge_softness == 0
    assert parse.predicates.edge_fade == 0
    assert parse.predicates.alignment_tolerance == 0.1
    assert parse.predicates.near_tolerance == 0.2
    assert parse.composition.logit_scale == "fixed"
    assert parse.composition.scale_start == 10
    assert parse.composition.start == "zeros"
    assert parse.primitives.presence_bias == 0
    assert parse.primitives.temperature == 1
    assert (parse.bottleneck.weight, parse.bottleneck.concentration) == (1.0, 0.1)
    assert (parse.sparsity, parse.angle_repulsion) == (0.01, 0.001)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_papers_recipe_trains_as_its_authors_published(algorithm: str) -> None:
    config = build_config("paper", algorithm)
    optimizer = config.optimizer
    assert (optimizer.backbone_rate, optimizer.head_rate, optimizer.composition_rate) == (1e-4, 1e-3, 1e-3)
    assert (optimizer.weight_decay, optimizer.schedule) == (1e-4, "cosine")
    assert (optimizer.warmup_steps, optimizer.composition_warmup_steps, optimizer.clip_norm) == (0, 0, None)
    assert (config.training.epochs, config.training.label_smoothing) == (50.0, 0.1)
    assert (config.augment.randaugment_ops, config.augment.randaugment_magnitude) == (2, 9)
    assert (config.augment.jitter, config.augment.grayscale) == (0.0, 0.0)
    assert config.split.holdout == 0.2


def test_an_unknown_recipe_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        InputError, match="unknown recipe 'papr': valid are blueprints, pretrained, fine_grained, domainbed, paper"
    ):
        build_config("papr", "erm")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_only_methods_whose_loss_is_about_styles_go_without_style_mixing(algorithm: str) -> None:
    mixes = build_config("pretrained", algorithm).mixstyle.stages != ()
    assert mixes == (algorithm not in ("sagnet", "miro"))


def test_domainbeds_recipe_is_its_codes() -> None:
    config = build_config("domainbed", "erm", "pacs")
    optimizer = config.optimizer
    assert (optimizer.backbone_rate, optimizer.head_rate, optimizer.schedule) == (5e-5, 5e-5, "constant")
    assert (config.training.label_smoothing, config.augment.randaugment_ops, config.mixstyle.stages) == (0, 0, ())
    assert (config.augment.crop_scale, config.augment.jitter, config.augment.grayscale) == ((0.7, 1.0), 0.3, 0.1)


def test_authors_settings_of_gvrt_and_erm_plus_plus() -> None:
    """GVRT: all but the backbone ten times as fast; 0.1 and shorter texts on DomainBed's data sets."""
    for data, weight, length in (("cub-dg", 1.0, 64), ("pacs", 0.1, 32), ("domainnet", 0.1, 64)):
        config = build_config("domainbed", "gvrt", data)
        assert (config.optimizer.backbone_rate, config.optimizer.head_rate) == (5e-5, 5e-4)
        for recipe in ("domainbed", "paper"):
            gvrt = build_config(recipe, "gvrt", data).algorithm
            theirs = GvrtConfig(tokens=weight, reinforce=weight, caption_length=length)
            assert gvrt == replace(theirs, repeat_end=recipe == "domainbed")
    for recipe in RECIPES:
        assert build_config(recipe, "erm_plus_plus", "pacs").averaging.kind == "sma"


def test_every_data_set_gets_the_recipe_that_fits_it() -> None:
    found = {data: default_recipe(data) for data in ("blueprints", "pacs", "domainnet", "cub-dg", "my/photos")}
    assert found == {
        "blueprints": "blueprints",
        "pacs": "pretrained",
        "domainnet": "pretrained",
        "cub-dg": "fine_grained",
        "my/photos": "pretrained",
    }


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_fine_grained_classes_keep_their_colours(algorithm: str) -> None:
    """Crop and flip alone; what else trains is that of `pretrained`, and the rates of heads."""
    config, coloured = build_config("fine_grained", algorithm), build_config("pretrained", algorithm)
    augment = config.augment
    assert (augment.jitter, augment.grayscale, augment.randaugment_ops) == (0, 0, 0)
    assert (augment.crop_scale, augment.flip) == ((0.7, 1.0), 0.5)
    assert config.optimizer.head_rate == 1e-3
    assert (config.backbone, config.mixstyle, config.training) == (
        coloured.backbone,
        coloured.mixstyle,
        coloured.training,
    )
