"""A run's configuration: every value that cannot be is refused with the path that can be typed."""

from typing import Any

import pytest

from parse_dg.algorithms import ALGORITHMS
from parse_dg.config import change, field_paths, from_dict, to_dict
from parse_dg.errors import InputError
from parse_dg.runs.config import RunConfig
from parse_dg.runs.recipes import build_config

NOT_NEGATIVE, POSITIVE, COUNT, WHOLE = (-0.1, "0 or more"), (0.0, "positive"), (0, "at least 1"), (-1, "0 or more")
SHARE, PROBABILITY = (1.0, "0 or more and below 1"), (1.1, "from 0 to 1")

OF_A_RUN: dict[str, tuple[object, str]] = {
    "seed": WHOLE,
    "data.benchmark": (" ", "a name or a path"),
    "data.image_size": (4097, "from 1 to 4096"),
    "data.crop_from": (223, "from data.image_size to 4096, or none"),
    "data.evaluation": ("both", "one of resize, centre"),
    "data.definitions": ("", "a file, or none"),
    "data.store": ("sometimes", "one of auto, always, never"),
    "data.blueprints.seed": (2**32, "from 0 to 4294967295"),
    "data.blueprints.images_per_class": COUNT,
    "split.scheme": ("thirds", "one of holdout20, gvrt-split, train-valid"),
    "split.holdout": (1.0, "between 0 and 1"),
    "split.seed": (-1, "0 or more, or none"),
    "split.target_images": ("out", "one of all, in"),
    "sampling.replacement": ("maybe", "true or false"),
    "sampling.balance": ("domains", "one of images, classes"),
    "augment.crop": ("random", "one of resized, fixed"),
    "augment.crop_scale": ((0.9, 0.5), "two shares that ascend, above 0 and at most 1"),
    "augment.flip": PROBABILITY,
    "augment.jitter": PROBABILITY,
    "augment.grayscale": PROBABILITY,
    "augment.randaugment_ops": WHOLE,
    "augment.randaugment_magnitude": (31, "from 0 to 30"),
    "backbone.weights": ("", "a file or a name, or none"),
    "backbone.stride_at": ("1x1", "one of 3x3, first_1x1"),
    "backbone.last_stride": (3, "one of 1, 2"),
    "mixstyle.stages": ((1, 1), "different stages out of 1 to 4"),
    "mixstyle.probability": PROBABILITY,
    "mixstyle.alpha": POSITIVE,
    "mixstyle.mode": ("all", "one of random, crossdomain"),
    "optimizer.backbone_rate": NOT_NEGATIVE,
    "optimizer.head_rate": NOT_NEGATIVE,
    "optimizer.composition_rate": NOT_NEGATIVE,
    "optimizer.weight_decay": NOT_NEGATIVE,
    "optimizer.composition_decay": NOT_NEGATIVE,
    "optimizer.schedule": ("linear", "one of constant, cosine"),
    "optimizer.warmup_steps": WHOLE,
    "optimizer.composition_warmup_steps": WHOLE,
    "optimizer.composition_until": (0.0, "positive, or none"),
    "optimizer.clip_norm": (0.0, "positive, or none"),
    "training.steps": COUNT,
    "training.epochs": (1e7, "at most 1000000, or none"),
    "training.batch_per_domain": COUNT,
    "training.batch": (0, "at least 1, or none"),
    "training.check_every": COUNT,
    "training.check_from": WHOLE,
    "training.label_smoothing": SHARE,
    "training.precision": ("fp8", "one of auto, float32, bf16"),
    "averaging.kind": ("swa", "one of none, ema, sma, swad"),
    "averaging.decay": SHARE,
    "averaging.start": COUNT,
    "averaging.n_converge": COUNT,
    "averaging.n_tolerance": COUNT,
    "averaging.tolerance_ratio": NOT_NEGATIVE,
    "averaging.statistics_batches": COUNT,
    "averaging.also_plain": (
        True,
        "false with averaging.kind=none: only ema and sma leave training as it is without them",
    ),
    "protocol.selection": ("best", "one of training-domain, leave-one-domain-out, oracle"),
    "protocol.checks": ("all", "one of validation, target, everything"),
}
ADVERSARIAL: dict[str, tuple[object, str]] = {
    "weight": NOT_NEGATIVE,
    "discriminator_steps": COUNT,
    "gradient_penalty": NOT_NEGATIVE,
    "beta1": SHARE,
    "width": COUNT,
    "depth": (1, "at least 2"),
    "discriminator_rate": NOT_NEGATIVE,
    "discriminator_decay": NOT_NEGATIVE,
    "discriminator_dropout": SHARE,
    "dropout": SHARE,
}
PRIMITIVES: dict[str, tuple[object, str]] = {
    "primitives.count": COUNT,
    "primitives.temperature": POSITIVE,
    "primitives.temperature_rule": ("adds", "one of divides, multiplies"),
    "bottleneck.weight": NOT_NEGATIVE,
    "bottleneck.concentration": NOT_NEGATIVE,
    "bottleneck.spread": NOT_NEGATIVE,
    "bottleneck.ownership": NOT_NEGATIVE,
    "equivariance.weight": NOT_NEGATIVE,
    "guidance": NOT_NEGATIVE,
}
TOLERANCES = ("alignment", "near", "distance", "angle", "orientation")
OF_A_METHOD: dict[str, dict[str, tuple[object, str]]] = {
    "erm": {"dropout": SHARE},
    "dann": ADVERSARIAL,
    "cdann": ADVERSARIAL,
    "group_dro": {"eta": NOT_NEGATIVE, "dropout": SHARE},
    "mixup": {"alpha": POSITIVE, "dropout": SHARE},
    "sagnet": {"weight": NOT_NEGATIVE, "dropout": SHARE},
    "coral": {"gamma": NOT_NEGATIVE, "dropout": SHARE},
    "gvrt": {
        "dropout": SHARE,
        "encoder": ("bert", "one of trained, clip-vit-b-32, clip-vit-b-16, clip-vit-l-14"),
        "width": COUNT,
        **dict.fromkeys(("align", "tokens", "reinforce", "discriminator"), NOT_NEGATIVE),
        "word_count": COUNT,
        "caption_length": (2, "at least 3"),
        "sample_length": COUNT,
    },
    "miro": {"weight": NOT_NEGATIVE, "rate_factor": NOT_NEGATIVE, "dropout": SHARE},
    "erm_plus_plus": {"linear_steps": WHOLE, "dropout": SHARE, "stages": (3, "one of 1, 2")},
    "no_relations": PRIMITIVES,
    "parse": {
        **PRIMITIVES,
        "sparsity": NOT_NEGATIVE,
        "angle_repulsion": NOT_NEGATIVE,
        "distillation": NOT_NEGATIVE,
        "probe": NOT_NEGATIVE,
        "miro.weight": NOT_NEGATIVE,
        "miro.rate_factor": NOT_NEGATIVE,
        "vocabulary.enumeration": ("some", "one of distinct, paper"),
        "vocabulary.families": ("unary", "one of none, binary, binary+ternary, binary+quaternary, all, relations"),
        **{f"vocabulary.{angle}_angles": COUNT for angle in ("triangle", "turning", "orientation")},
        "vocabulary.budget": (15, "at least 16, for the presence of 16 primitives and for every target angle"),
        "vocabulary.draw": WHOLE,
        "predicates.edge_softness": NOT_NEGATIVE,
        "predicates.edge_fade": NOT_NEGATIVE,
        "predicates.steepness": POSITIVE,
        **{f"predicates.{what}_tolerance": POSITIVE for what in TOLERANCES},
        "composition.logit_scale": ("free", "one of learnable, fixed, none"),
        "composition.scale_start": POSITIVE,
        "composition.start": ("ones", "one of presence, simplex, normal, zeros"),
        "composition.start_mass": ((0.0, 1.0, 1.0, 1.0), "four shares, 0 or more, the first positive"),
        "composition.start_entries": COUNT,
        "composition.start_margin": POSITIVE,
        "composition.start_std": NOT_NEGATIVE,
        "composition.select_every": WHOLE,
        "composition.relations_per_class": (0, "at least 1, or none"),
    },
}
CASES = [("erm", path, *wrong) for path, wrong in OF_A_RUN.items()] + [
    (method, f"algorithm.{path}", *wrong)
    for method, fields in OF_A_METHOD.items()
    for path, wrong in fields.items()
]


@pytest.mark.parametrize(("method", "path", "value", "expected"), CASES)
def test_a_value_that_cannot_be_is_refused_by_its_path(
    method: str, path: str, value: object, expected: str
) -> None:
    with pytest.raises(InputError) as error:
        change(build_config("blueprints", method), {path: value})
    assert str(error.value) == f"{path} must be {expected}, found {value!r}"


def test_every_number_is_bounded_and_none_may_be_huge() -> None:
    covered = {(method, path) for method, path, *_ in CASES}
    for method in OF_A_METHOD:
        config = build_config("blueprints", method)
        for path in field_paths(config):
            value: Any = config
            for name in path.split("."):
                value = getattr(value, name)
            if isinstance(value, int | float) and not isinstance(value, bool):
                may_be_negative = path == "algorithm.primitives.presence_bias"
                assert may_be_negative or {(method, path), ("erm", path)} & covered, path
                for huge in (1e308, 2**64, "9" * 5000):
                    with pytest.raises(InputError, match=rf"^{path} must be ") as error:
                        change(config, {path: huge})
                    assert len(str(error.value)) < 400


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True])
def test_what_is_no_number_is_refused_in_python_too(value: Any) -> None:
    config = RunConfig()
    with pytest.raises(InputError, match=r"^head_rate must be a number, found"):
        type(config.optimizer)(head_rate=value)


TOGETHER: dict[str, tuple[dict[str, object], str]] = {
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
    with pytest.raises(InputError) as error:
        change(RunConfig(), settings)
    assert str(error.value).startswith(expected)


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
    data["algorithm"]["primitives"]["window"] = 1.5
    with pytest.raises(InputError, match=r"^algorithm.primitives.window must be none: it is gone .* found 1.5$"):
        from_dict(RunConfig, data)
