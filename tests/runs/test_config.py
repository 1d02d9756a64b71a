"""A run's configuration: every value that cannot be is refused with the path that can be typed."""

from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest

from parse_dg.algorithms import ALGORITHMS
from parse_dg.config import change, fault, field_types, from_dict, to_dict
from parse_dg.errors import InputError
from parse_dg.runs.afterwards.opened import evaluate_run, open_run
from parse_dg.runs.config import RunConfig
from parse_dg.runs.recipes import build_config
from parse_dg.runs.train import default_folder
from tests.conftest import FinishedRun
from tests.parts import refusal

CANDIDATES: tuple[object, ...] = (
    *(-1, 0, 31, 4097, 2**32, -0.1, 0.0, 1.0, 1.1, "", " ", "nonsense"),
    *((1, 1), (0.9, 0.5), (0.0, 1.0, 1.0, 1.0)),
)
"""Values on both sides of what fields take; which those are says docs/configuration.md, which is compared."""
UNBOUNDED = {"algorithm.primitives.presence_bias"}


def fields_of(config: Any, where: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Every field: its path, its type, and its type with what else it must be."""
    for name, kind in field_types(type(config)).items():
        value = getattr(config, name)
        if is_dataclass(value):
            yield from fields_of(value, f"{where}{name}.")
        else:
            yield where + name, kind, field_types(type(config), rules=True)[name]


@pytest.mark.parametrize("method", ALGORITHMS)
def test_a_value_that_cannot_be_is_refused_by_its_path(method: str) -> None:
    config = build_config("blueprints", method)
    for path, kind, ruled in fields_of(config):
        fits = [value for value in CANDIDATES if get_origin(kind) is Literal or fault(kind, value) is None]
        wrong = {value: expected for value in fits if (expected := fault(ruled, value))}
        for value, expected in wrong.items():
            assert refusal(change, config, {path: value}).startswith(f"{path} must be {expected}, found ")
        number = {int, float} & {kind, *get_args(kind)} and get_origin(kind) not in (tuple, Literal)
        assert wrong or not number or path in UNBOUNDED, f"{path} takes any number"
        for huge in (1e308, 2**64, "9" * 5000) if number else ():
            message = refusal(change, config, {path: huge})
            assert message.startswith(f"{path} must be ")
            assert len(message) < 400


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True])
def test_what_is_no_number_is_refused_in_python_too(value: Any) -> None:
    config = RunConfig()
    assert refusal(type(config.optimizer), head_rate=value).startswith("head_rate must be a number, found")


TOGETHER: dict[str, tuple[dict[str, object], str]] = {
    "crops from smaller images": (
        {"data.image_size": 224, "data.crop_from": 223},
        "data.crop_from must be from data.image_size to 4096, or none, found 223",
    ),
    "a budget below the primitives": (
        {"algorithm.vocabulary.budget": 15},
        "algorithm.vocabulary.budget must be at least 16, for the presence of 16 primitives and for every target a",
    ),
    "a share for presence, which is not there": (
        {"algorithm.vocabulary.families": "relations", "algorithm.composition.presence_share": 0.5},
        "algorithm.composition.presence_share must be none where algorithm.vocabulary.families leaves presence or "
        "relations out, found 0.5",
    ),
    "a share for relations, which are not there": (
        {"algorithm.vocabulary.families": "none", "algorithm.composition.presence_share": 0.5},
        "algorithm.composition.presence_share must be none where",
    ),
    "a share for relations that start with nothing": (
        {
            "algorithm.vocabulary.families": "binary",
            "algorithm.composition.presence_share": 0.5,
            "algorithm.composition.start_mass": (0.5, 0.0, 0.5, 0.0),
        },
        "algorithm.composition.start_mass must be something for the relations there are, where they have a share",
    ),
    "a share and one relation": (
        {"algorithm.composition.presence_share": 0.5, "algorithm.composition.relations_per_class": 1},
        "algorithm.composition.relations_per_class must be 2 or more where presence has a share (presence_share)",
    ),
    "two results of one training": (
        {"averaging.also_plain": True},
        "averaging.also_plain must be false with averaging.kind=none: only ema and sma leave training as it is",
    ),
    "lists score the target": (
        {"split.scheme": "gvrt-split", "split.target_images": "in"},
        "split.target_images must be all, as gvrt-split has lists of its own, found 'in'",
    ),
    "lists validate": (
        {"split.scheme": "gvrt-split", "split.validation_domain": "art"},
        "split.validation_domain must be none, as gvrt-split has lists of its own, found 'art'",
    ),
    "lists are not drawn": (
        {"split.scheme": "gvrt-split", "split.seed": 0},
        "split.seed must be none, as gvrt-split has lists of its own, found 0",
    ),
    "an oracle needs images that are not scored": (
        {"protocol.selection": "oracle"},
        "split.target_images must be in with protocol.selection=oracle, which looks at the other 20%, found 'all'",
    ),
    "a domain to choose by": (
        {"protocol.selection": "leave-one-domain-out"},
        "split.validation_domain must be a domain with protocol.selection=leave-one-domain-out, none with any",
    ),
    "a domain that nothing is chosen by": (
        {"protocol.selection": "oracle", "split.target_images": "in", "split.validation_domain": "cartoon"},
        "split.validation_domain must be a domain with protocol.selection=leave-one-domain-out, none with any",
    ),
    "swad with an oracle": (
        {"protocol.selection": "oracle", "split.target_images": "in", "averaging.kind": "swad"},
        "protocol.selection must be training-domain or leave-one-domain-out, as averaging.kind=swad chooses its",
    ),
    "no larger images to cut the middle of": (
        {"data.evaluation": "centre"},
        "data.crop_from must be a side with data.evaluation=centre, found None",
    ),
    "nobody to learn from": (
        {"algorithm.distillation": 1.0},
        "algorithm.distillation must be 0 without algorithm.guidance",
    ),
    "a start on what is left out": (
        {"algorithm.vocabulary.families": "relations", "algorithm.composition.start": "presence"},
        "algorithm.composition.start must be another start where vocabulary.families=relations leaves presence out",
    ),
    "single images in whole batches": (
        {"augment.per_image": True, "augment.randaugment_ops": 2},
        "augment.randaugment_ops must be 0 with augment.per_image=true, as they work on whole batches",
    ),
}


@pytest.mark.parametrize("case", TOGETHER)
def test_what_does_not_go_together(case: str) -> None:
    settings, expected = TOGETHER[case]
    assert refusal(change, RunConfig(), settings).startswith(expected)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_domains_are_joined_unless_a_method_compares_them(algorithm: str) -> None:
    config = build_config("domainbed", algorithm)
    if algorithm not in ("group_dro", "mixup", "coral", "gvrt"):
        assert change(config, {"training.batch": 32}).training.batch_size(3) == 32
        return
    with pytest.raises(InputError, match=rf"^training.batch must be none with {algorithm}, which needs as many"):
        change(config, {"training.batch": 32})


@pytest.mark.parametrize(
    "settings",
    [
        {"protocol.selection": "oracle", "split.target_images": "in"},
        {"protocol.selection": "leave-one-domain-out", "split.validation_domain": "photo"},
        {"averaging.kind": "swad", "split.target_images": "in"},
        {"split.scheme": "gvrt-split"},
    ],
)
def test_what_goes_together(settings: dict[str, object]) -> None:
    config = change(RunConfig(), settings)
    assert from_dict(RunConfig, to_dict(config)) == config


def test_a_field_that_is_gone_is_read_where_it_was_off_and_refused_where_it_was_not() -> None:
    data = to_dict(RunConfig())
    data["algorithm"]["primitives"] |= {"window": None, "window_from": 0.5}
    assert from_dict(RunConfig, data) == RunConfig()
    data["algorithm"]["composition"]["start_std"] = 0.5  # of a start that is gone, too
    assert from_dict(RunConfig, data) == RunConfig()
    data["algorithm"]["primitives"]["window"] = 1.5
    with pytest.raises(InputError, match=r"^algorithm.primitives.window must be none: it is gone .* found 1.5$"):
        from_dict(RunConfig, data)


@pytest.mark.parametrize("algorithm", ["parse", "no_relations"])
def test_a_section_that_is_gone_is_read_where_it_was_off_and_refused_where_it_was_not(algorithm: str) -> None:
    config = build_config("blueprints", algorithm)
    data = to_dict(config)
    data["algorithm"]["equivariance"] = {"weight": 0.0, "restyle": False}
    assert from_dict(RunConfig, data) == config
    data["algorithm"]["equivariance"]["weight"] = 2.0
    expected = "algorithm.equivariance.weight must be 0.0: it is gone from this version"
    assert refusal(from_dict, RunConfig, data) == f"{expected}, which cannot read what used it, found 2.0"


# What a run is called in tables and folders: averaged weights make a method another


@pytest.mark.parametrize(
    ("algorithm", "averaging", "name"),
    [
        ("erm", "none", "erm"),
        ("erm", "swad", "erm+swad"),
        ("parse", "ema", "parse+ema"),
        ("erm_plus_plus", "sma", "erm_plus_plus"),
        ("erm_plus_plus", "none", "erm_plus_plus+none"),
    ],
)
def test_the_name_of_a_method(algorithm: str, averaging: str, name: str) -> None:
    config = change(build_config("blueprints", algorithm), {"averaging.kind": averaging, "seed": 2})
    assert config.method == name
    assert default_folder(config) == Path("runs") / "blueprints" / name / "sketch" / "seed2"


def test_a_run_in_two_stages_has_no_held_out_images(finished_run: FinishedRun) -> None:
    rows = evaluate_run(open_run(finished_run("erm_plus_plus"), device="cpu"))
    assert [row.domain for row in rows] == ["sketch"]
    assert rows[0].images.endswith("never seen in training")
