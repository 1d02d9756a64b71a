"""The paper's tables and figures as sweeps, for any data set.

Settings are those of the recipe `paper`, and seeds as many as in the paper; on Blueprints, where anybody can try
them, its own recipe and one seed. CUB-DG is split by its published lists, as in GVRT: under a hold-out of single
images the target's photographs are among the sources (docs/protocol.md).
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from parse_dg.data.intake.library import added
from parse_dg.data.public.catalogue import SUITE_DATA_SETS
from parse_dg.errors import InputError, require_known
from parse_dg.model.vocabulary import SWITCHES
from parse_dg.sweeps.config import SweepConfig, SweptData, Variant

METHODS = (
    *("dann", "cdann", "group_dro", "mixup", "sagnet", "coral", "gvrt", "erm_plus_plus", "miro", "erm+swad"),
    "parse",
)
"""The rows of table 1, in its order; its SWAD is ERM with averaged weights."""
CAPTIONED = ("cub-dg", "blueprints")
COUNTS = (4, 8, 12, 16, 20, 24)
"""K. The text names 16, the default, and 24; the other values of its figure are not given."""
FAMILIES = "algorithm.vocabulary.families"


class Preset(NamedTuple):
    """A table or figure of the paper."""

    summary: str
    view: str
    data: tuple[str, ...]
    methods: tuple[str, ...] = ("parse",)
    """GVRT is left out where images have no captions and classes no definitions."""
    seeds: tuple[int, ...] = (0,)
    targets: tuple[str, ...] | None = None
    """On the paper's data sets; none: all."""
    variants: tuple[Variant, ...] = ()
    grid: Mapping[str, tuple[int, ...]] = MappingProxyType({})


PRESETS: dict[str, Preset] = {
    "paper-main-a": Preset(
        "table 1 (a): eleven methods, three seeds", "main", ("cub-dg",), methods=METHODS, seeds=(0, 1, 2)
    ),
    "paper-main-b": Preset(
        "table 1 (b): the same, one seed; GVRT where --set data.definitions=FILE says what classes are",
        "main",
        SUITE_DATA_SETS,
        methods=METHODS,
    ),
    "paper-ablation": Preset(
        "table 2 (a): PARSE with some predicate families and with all, and without relations; three seeds",
        "ablation",
        ("cub-dg",),
        methods=("no_relations", "parse"),
        seeds=(0, 1, 2),
        variants=tuple(  # presence alone (`none`) is not in the paper's table
            Variant(name=f"parse,{families}", methods=("parse",), settings={FAMILIES: families})
            for families in SWITCHES
            if families != "relations"
        ),
    ),
    "paper-compaction": Preset(
        "table 2 (b) and that of the appendix: PARSE on every target, to be compacted; one seed",
        "compaction",
        ("cub-dg", *SUITE_DATA_SETS),
    ),
    "paper-k": Preset(
        f"accuracy against the number of primitives, K = {', '.join(map(str, COUNTS))}; one seed",
        "k",
        ("domainnet",),
        targets=("sketch",),
        grid={"algorithm.primitives.count": COUNTS},
    ),
}
"""Every preset by name. On Blueprints each has one seed."""


def find_preset(name: str) -> Preset:
    """The preset of that name."""
    require_known("preset", name, PRESETS)
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
    captioned, blueprints = defined or here[0] in CAPTIONED, here[0] == "blueprints"
    return SweepConfig(
        out=Path("runs") / name,
        methods=tuple(method for method in preset.methods if captioned or method != "gvrt"),
        data=tuple(
            SweptData(
                name=data_set,
                targets=preset.targets if data_set in preset.data else None,
                settings={"split.scheme": "gvrt-split"} if data_set == "cub-dg" else {},
            )
            for data_set in here
        ),
        seeds=(0,) if blueprints else preset.seeds,
        recipe=None if blueprints else "paper",
        variants=preset.variants,
        grid=preset.grid,
    )
