"""Recipes: complete for every method, and what each promises."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from parse_dg.algorithms import ALGORITHMS
from parse_dg.algorithms.gvrt.method import GvrtConfig
from parse_dg.algorithms.parse import ParseConfig
from parse_dg.config import as_typed, from_dict, to_dict
from parse_dg.model.backbones.backbone import BackboneConfig
from parse_dg.model.vocabulary import Vocabulary
from parse_dg.runs.config import RunConfig
from parse_dg.runs.recipes import PAPERS, RECIPES, build_config, default_recipe
from parse_dg.tables.records import flatten

EVERY = [(recipe, algorithm) for recipe in RECIPES for algorithm in ALGORITHMS]


@pytest.mark.parametrize(("recipe", "algorithm"), EVERY)
def test_every_recipe_is_there_for_every_method_and_survives_its_file(recipe: str, algorithm: str) -> None:
    config = build_config(recipe, algorithm)
    assert type(config.algorithm) is ALGORITHMS[algorithm]
    assert config.algorithm.name == algorithm
    assert config.seed == 0
    assert build_config(recipe, algorithm) == config
    text = json.dumps(to_dict(config), allow_nan=False)
    again = from_dict(RunConfig, json.loads(text))
    assert again == config
    assert type(again.algorithm) is type(config.algorithm)
    assert json.dumps(to_dict(again)) == text


@pytest.mark.parametrize("recipe", [name for name in RECIPES if name not in PAPERS])
def test_methods_of_a_recipe_differ_in_the_method_alone(recipe: str) -> None:
    """A table compares methods: data, schedule and length are common; rates, style mixing, frozen statistics and
    averaged weights are the method's own."""
    shared = [to_dict(build_config(recipe, algorithm)) for algorithm in ALGORITHMS]
    for config in shared:
        del config["algorithm"], config["mixstyle"], config["averaging"], config["backbone"]["freeze_batchnorm"]
        for rate in (
            "backbone_rate",
            "head_rate",
            "composition_rate",
            "composition_warmup_steps",
            "composition_until",
        ):
            del config["optimizer"][rate]
    assert all(config == shared[0] for config in shared)


OF_A_RUN = {"data.benchmark", "data.target", "data.store", "algorithm.name", "seed"}


def documented() -> dict[str, str]:
    """Every `field=value` of the first column of the table in docs/paper_map.md."""
    page = (Path(__file__).parents[2] / "docs" / "paper_map.md").read_text()
    section = page.partition("### The recipe `paper`")[2].partition("| field | the text")[2].partition("\n\n")[0]
    found = [re.findall(r"`([a-z_.]+)=([^`]*)`", line.split(" | ")[0]) for line in section.splitlines()]
    named = [pair for line in found for pair in line]
    assert len(dict(named)) == len(named)
    return dict(named)


def test_every_field_of_the_papers_recipe_is_in_the_documents_table() -> None:
    fields: dict[str, object] = {}
    for algorithm in ("parse", "no_relations"):
        mine = flatten(build_config("paper", algorithm, "pacs"))
        assert all(fields.get(name, value) == value for name, value in mine.items() if name not in OF_A_RUN)
        fields |= mine
    known = {name: as_typed(value) for name, value in fields.items()}
    assert documented() == {
        name: value
        for name, value in known.items()
        if name not in OF_A_RUN and not name.startswith("data.blueprints")
    }


def test_where_text_and_code_disagree_both_have_a_name() -> None:
    for algorithm, own in (
        ("parse", {"algorithm.composition.logit_scale": ("fixed", "none")}),
        ("no_relations", {"algorithm.extents": (False, True)}),
    ):
        code, text = (flatten(build_config(recipe, algorithm, "pacs")) for recipe in ("paper", "paper_text"))
        assert {name: (code[name], text[name]) for name in code if code[name] != text[name]} == {
            "backbone.weights": ("imagenet-v2", "imagenet-v1"),
            "algorithm.primitives.temperature_rule": ("multiplies", "divides"),
            "algorithm.bottleneck.weight": (0.0, 1.0),
            **own,
        }


def test_the_papers_recipe_has_other_methods_as_their_authors_release_them() -> None:
    for algorithm in set(ALGORITHMS) - {"parse", "no_relations"}:
        for data in ("pacs", "cub-dg"):
            theirs = build_config("domainbed", algorithm, data)
            assert build_config("paper", algorithm, data) == build_config("paper_text", algorithm, data) == theirs
    parse = build_config("paper", "parse").algorithm
    assert isinstance(parse, ParseConfig)
    assert Vocabulary(parse.primitives.count, parse.vocabulary).size == 130_176
    assert build_config("paper", "parse", "blueprints").backbone == BackboneConfig()


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
            assert gvrt == replace(theirs, repeat_end=True)
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
