"""What a sweep is: data sets × targets × methods × seeds × hyper-parameters.

What can be known without opening data is checked here, when it is built; the rest when it is planned (plan.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple, get_args

from parse_dg.algorithms import ALGORITHMS
from parse_dg.config import Config, Whole, require
from parse_dg.errors import InputError, require_known, unknown
from parse_dg.runs.protocols import PROTOCOLS
from parse_dg.runs.recipes import RECIPES
from parse_dg.sweeps.search import DomainBedSearch, RandomSearch
from parse_dg.training.averaging import AveragingKind

Settings = Mapping[str, Any]

GIVEN_ELSEWHERE = {
    "data.benchmark": "data",
    "data.target": "targets",
    "seed": "seeds",
    "split.seed": "seeds",
    "split.validation_domain": "leave_one_domain_out",
    "algorithm": "methods",
    "algorithm.name": "methods",
    "averaging.kind": 'methods, as in "erm+swad"',
}
"""Fields that a sweep decides itself, and by what."""


def _require_distinct(what: str, values: Sequence[Any]) -> None:
    require(bool(values), what, [], "a list of one or more")
    twice = [value for number, value in enumerate(values) if value in values[:number]]
    if twice:
        raise InputError(f"{what} must be different from each other, found {twice[0]!r} twice")


@dataclass(frozen=True, kw_only=True)
class SweptData(Config):
    """A data set of a sweep."""

    name: str
    """`blueprints`, one that was added, or a path."""
    targets: tuple[str, ...] | None = None
    """The domains that are held out, each in runs of its own; none: all."""
    settings: Settings = field(default_factory=dict)

    def check(self) -> None:
        require(bool(self.name.strip()), "data", self.name, "a name or a path")
        if self.targets is not None:
            _require_distinct(f"targets of {self.name}", self.targets)


@dataclass(frozen=True, kw_only=True)
class Variant(Config):
    """Some methods under settings of their own: a row with a name."""

    name: str
    settings: Settings = field(default_factory=dict)
    methods: tuple[str, ...] | None = None
    """None: all of the sweep."""

    def check(self) -> None:
        ok = bool(self.name.strip()) and self.name == self.name.strip() and self.name not in (".", "..")
        require(ok and not set(self.name) & set("/\\\n"), "name of a variant", self.name, "one word or a few")
        if self.methods is not None:
            _require_distinct(f"methods of the variant {self.name}", self.methods)


@dataclass(frozen=True, kw_only=True)
class SweepConfig(Config):
    """Everything that is needed to plan a sweep."""

    out: Path
    methods: tuple[str, ...]
    """Algorithms; with `+ema`, `+sma` or `+swad` their weights are averaged."""
    data: tuple[SweptData, ...] = (SweptData(name="blueprints"),)
    seeds: tuple[Whole, ...] = (0,)
    recipe: str | None = None
    """None: that of each data set, as in `parse-dg train`."""
    protocol: str = "parse"
    settings: Settings = field(default_factory=dict)
    """For every run; those of a data set come on top, and those of a variant on top of these."""
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    random: RandomSearch | None = None
    domainbed: DomainBedSearch | None = None
    variants: tuple[Variant, ...] = ()
    """A method that has none is trained as it is."""
    leave_one_domain_out: bool = False
    """Whether to plan also the runs with a second domain held out, by which leave-one-domain-out selects."""

    def check(self) -> None:
        _require_distinct("methods", self.methods)
        for method in self.methods:
            split_method(method)
        _require_distinct("data", [data.name for data in self.data])
        _require_distinct("seeds", self.seeds)
        if self.recipe is not None:
            require_known("recipe", self.recipe, RECIPES)
        require_known("protocol", self.protocol, PROTOCOLS)
        if self.variants:
            _require_distinct("names of variants", [variant.name for variant in self.variants])
        for variant in self.variants:
            for method in variant.methods or ():
                require_known(f"method of the variant {variant.name}", method, self.methods)
        self._check_search()

    def places(self) -> dict[str, tuple[Mapping[str, Any], tuple[str, ...]]]:
        """Where fields are given: what is said there, and of which methods; what is tried comes first."""
        all_, ranges = self.methods, self.random.ranges if self.random else {}
        return {
            "[grid]": (self.grid, all_),
            "[random]": (ranges, all_),
            "[set]": (self.settings, all_),
            **{f"set of {data.name}": (data.settings, all_) for data in self.data},
            **{f"set of the variant {v.name}": (v.settings, v.methods or all_) for v in self.variants},
        }

    def _check_search(self) -> None:
        if self.random and self.domainbed:
            raise InputError("[random] and [domainbed] are two ways to draw: give one of them")
        for path, values in self.grid.items():
            _require_distinct(f"[grid] {path}", values)
        for place, (given, _) in self.places().items():
            for path in given:
                if path in GIVEN_ELSEWHERE:
                    raise InputError(f"{path} cannot be in {place}: it is given by {GIVEN_ELSEWHERE[path]}")
        for (place, (tried, _)), (other, (given, _)) in combinations(self.places().items(), 2):
            for path in tried if place in ("[grid]", "[random]") else ():
                if path in given:
                    raise InputError(f"{path} is in {place} and in {other}: give it once")


def override(sweep: SweepConfig, settings: Settings) -> SweepConfig:
    """The sweep with fields that win over its own, for every run; what its variants differ in is refused."""
    for variant in sweep.variants:
        for path in settings:
            if path in variant.settings:
                raise InputError(f"{path} cannot be set for every run: the variant {variant.name} has its own")
    data = tuple(
        replace(one, settings={path: value for path, value in one.settings.items() if path not in settings})
        for one in sweep.data
    )
    return replace(sweep, data=data, settings={**sweep.settings, **settings})


class Method(NamedTuple):
    """A method's name, taken apart."""

    algorithm: str
    averaging: str | None


def split_method(method: str) -> Method:
    """`erm+swad` → erm, swad; refuses what is no method."""
    algorithm, plus, kind = method.partition("+")
    own = ALGORITHMS[algorithm].averaging if algorithm in ALGORITHMS else "none"  # without saying so
    kinds = [kind for kind in get_args(AveragingKind) if kind != own]
    if algorithm not in ALGORITHMS:
        raise unknown("method", method, (*ALGORITHMS, *(f"METHOD+{kind}" for kind in kinds)))
    if plus and kind not in kinds:
        raise unknown("method", method, (algorithm, *(f"{algorithm}+{kind}" for kind in kinds)))
    return Method(algorithm, kind if plus else None)
