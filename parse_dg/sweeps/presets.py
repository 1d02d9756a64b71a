"""The paper's tables and figures as sweeps, for any data set.

Settings are those of the recipe `paper`, and seeds as many as in the paper; on Blueprints, where anybody can try
them, its own recipe and one seed. CUB-DG is split by its published lists, as in GVRT: under a hold-out of single
images the target's photographs are among the sources (docs/protocol.md).
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from parse_dg.data.intake.library import added
from parse_dg.data.public.catalogue import SUITE_DATA_SETS
from parse_dg.errors import InputError, unknown
from parse_dg.model.vocabulary import SWITCHES
from parse_dg.sweeps.config import SweepConfig, SweptData, Variant

THREE_SEEDS, ONE_SEED = (0, 1, 2), (0,)
METHODS = (
    *("dann", "cdann", "group_dro", "mixup", "sagnet", "coral", "gvrt", "erm_plus_plus", "miro", "erm+swad"),
    "parse",
)
"""The rows of table 1, in its order; its SWAD is ERM with averaged weights."""
CAPTIONED = ("cub-dg", "blueprints")
"""Where images have captions of their own, for GVRT."""
COUNTS = (4, 8, 12, 16, 20, 24)
"""K. The text names 16, the default, and 24; the other values of its figure are not given."""


class Preset(NamedTuple):
    """A table or figure of the paper."""

    summary: str
    view: str
    """How `parse-dg table` shows its runs."""
    data: tuple[str, ...]
    """The paper's data sets."""
    build: Callable[[str, bool], SweepConfig]
    """The sweep that makes it, on any data set; whether its classes are defined, so that GVRT can be trained."""


def _main_a(data: str, defined: bool) -> SweepConfig:
    return _sweep("paper-main-a", data, _methods(data, defined), THREE_SEEDS)


def _main_b(data: str, defined: bool) -> SweepConfig:
    return _sweep("paper-main-b", data, _methods(data, defined), ONE_SEED)


def _ablation(data: str, _: bool) -> SweepConfig:
    """No Relations, then PARSE with every set of families; presence alone (`none`) is not in the paper's table."""
    variants = tuple(
        Variant(name=f"parse,{families}", methods=("parse",), settings={"algorithm.vocabulary.families": families})
        for families in SWITCHES
        if families != "relations"
    )
    return replace(
        _sweep("paper-ablation", data, ("no_relations", "parse"), THREE_SEEDS),
        variants=variants,
    )


def _count(data: str, _: bool) -> SweepConfig:
    sweep = _sweep("paper-k", data, ("parse",), ONE_SEED)
    if data == "domainnet":  # the paper's figure has this target alone
        sweep = replace(sweep, data=(replace(sweep.data[0], targets=("sketch",)),))
    return replace(sweep, grid={"algorithm.primitives.count": COUNTS})


def _compaction(data: str, _: bool) -> SweepConfig:
    return _sweep("paper-compaction", data, ("parse",), ONE_SEED)


PRESETS: dict[str, Preset] = {
    "paper-main-a": Preset("table 1 (a): eleven methods, three seeds", "main", ("cub-dg",), _main_a),
    "paper-main-b": Preset(
        "table 1 (b): the same, one seed; GVRT where --set data.definitions=FILE says what classes are",
        "main",
        SUITE_DATA_SETS,
        _main_b,
    ),
    "paper-ablation": Preset(
        "table 2 (a): PARSE with some predicate families and with all, and without relations; three seeds",
        "ablation",
        ("cub-dg",),
        _ablation,
    ),
    "paper-compaction": Preset(
        "table 2 (b) and that of the appendix: PARSE on every target, to be compacted; one seed",
        "compaction",
        ("cub-dg", *SUITE_DATA_SETS),
        _compaction,
    ),
    "paper-k": Preset(
        f"accuracy against the number of primitives, K = {', '.join(map(str, COUNTS))}; one seed",
        "k",
        ("domainnet",),
        _count,
    ),
}
"""Every preset by name. On Blueprints each has one seed."""


def find_preset(name: str) -> Preset:
    """The preset of that name."""
    if name not in PRESETS:
        raise unknown("preset", name, PRESETS)
    return PRESETS[name]


def preset_sweep(name: str, data: str | None = None, *, defined: bool = False) -> SweepConfig:
    """The sweep of a preset: on one data set, or on those of the paper that have been added.

    `defined`: there are sentences about every class (data.definitions), so that GVRT is trained on any data set.
    """
    preset = find_preset(name)
    here = [data] if data is not None else [data_set for data_set in preset.data if data_set in added()]
    if not here:
        raise InputError(
            f"{name} is for {', '.join(preset.data)}, and none of them has been added: `parse-dg data list` says "
            "how, or give another, as in --data blueprints"
        )
    sweeps = [preset.build(data_set, defined) for data_set in here]
    return replace(sweeps[0], data=tuple(chosen for sweep in sweeps for chosen in sweep.data))


def _sweep(name: str, data: str, methods: tuple[str, ...], seeds: tuple[int, ...]) -> SweepConfig:
    settings = {"split.scheme": "gvrt-split"} if data == "cub-dg" else {}
    return SweepConfig(
        out=Path("runs") / name,
        methods=methods,
        data=(SweptData(name=data, settings=settings),),
        seeds=ONE_SEED if data == "blueprints" else seeds,
        recipe=None if data == "blueprints" else "paper",
    )


def _methods(data: str, defined: bool) -> tuple[str, ...]:
    return METHODS if defined or data in CAPTIONED else tuple(method for method in METHODS if method != "gvrt")
