"""A sweep as a short TOML file.

    methods = ["erm", "erm+swad", "parse"]      # algorithms; `+ema`, `+sma`, `+swad` average the weights
    seeds = [0, 1, 2]                           # left out: [0]
    data = ["pacs", "vlcs"]                     # left out: blueprints
    targets = "all"                             # or a list; left out: all

    [set]                                       # for every run, as `parse-dg train --set`
    training.steps = 2000

    [grid]                                      # all combinations
    optimizer.head_rate = [1e-3, 3e-3]

docs/sweep_example.toml has every key there is.
"""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from parse_dg.algorithms import ALGORITHMS
from parse_dg.config import SCALARS, require
from parse_dg.errors import InputError, unknown
from parse_dg.files import attempting
from parse_dg.sweeps.config import SweepConfig, SweptData, Variant
from parse_dg.sweeps.search import DomainBedSearch, RandomSearch, Range

__all__ = ["SweepConfig", "parse_sweep", "read_sweep_file"]


def read_sweep_file(path: Path) -> SweepConfig:
    """A sweep from a TOML file; runs go to `runs/NAME-OF-THE-FILE` unless it has `out`."""
    with attempting(f"read {path}"):
        data = path.read_bytes()
    try:
        content = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path} is not valid TOML: {error}") from error
    try:
        return parse_sweep(content, out=Path("runs") / path.stem)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


RANGES: tuple[Literal["log", "uniform", "choice"], ...] = ("log", "uniform", "choice")
KEYS = (
    *("methods", "data", "targets", "seeds", "recipe", "protocol", "out", "leave_one_domain_out"),
    *("set", "grid", "random", "domainbed", "variants"),
)


def parse_sweep(content: Mapping[str, Any], out: Path) -> SweepConfig:
    """The content of a sweep file, checked; `out` is where runs go unless it says so."""
    _only(content, KEYS, "key")
    if "methods" not in content:
        raise InputError(
            f'methods is missing: give some of {", ".join(ALGORITHMS)}, as in methods = ["erm", "parse"]'
        )
    given: dict[str, Any] = {
        key: _typed(content[key], str, key) for key in ("recipe", "protocol") if key in content
    }
    if "leave_one_domain_out" in content:
        given["leave_one_domain_out"] = _typed(content["leave_one_domain_out"], bool, "leave_one_domain_out")
    if "seeds" in content:
        given["seeds"] = tuple(_typed(seed, int, "seeds") for seed in _list(content["seeds"], "seeds"))
    if "grid" in content:
        grid = _flatten(_table(content["grid"], "[grid]"), "[grid]")
        require(bool(grid), "[grid]", "no field", "given a field with a list of values")
        given["grid"] = {field: tuple(_list(values, f"[grid] {field}")) for field, values in grid.items()}
    if "random" in content:
        given["random"] = _random(_table(content["random"], "[random]"))
    if "domainbed" in content:
        given["domainbed"] = _domainbed(_table(content["domainbed"], "[domainbed]"))
    return SweepConfig(
        out=Path(_typed(content["out"], str, "out")).expanduser() if "out" in content else out,
        methods=_names(content["methods"], "methods"),
        data=_data(content.get("data", "blueprints"), _targets(content.get("targets", "all"), "targets")),
        settings=_settings(content, "[set]"),
        variants=tuple(_variant(variant) for variant in _list(content.get("variants", []), "variants")),
        **given,
    )


def _data(found: Any, targets: tuple[str, ...] | None) -> tuple[SweptData, ...]:
    """Names, or a table of each by its name."""
    if not isinstance(found, Mapping):
        return tuple(SweptData(name=name, targets=targets) for name in _names(found, "data"))
    chosen = []
    for name, about in found.items():
        _only(_table(about, f"[data.{name}]"), ("targets", "set"), f"key of [data.{name}]")
        own = _targets(about["targets"], f"targets of {name}") if "targets" in about else targets
        chosen.append(SweptData(name=name, targets=own, settings=_settings(about, f"set of {name}")))
    return tuple(chosen)


def _targets(found: Any, where: str) -> tuple[str, ...] | None:
    return None if found == "all" else _names(found, where)


def _variant(found: Any) -> Variant:
    _only(_table(found, "[[variants]]"), ("name", "methods", "set"), "key of [[variants]]")
    if "name" not in found:
        raise InputError('a variant has no name: expected name = "..." in every [[variants]]')
    name = _typed(found["name"], str, "name of a variant")
    methods = _names(found["methods"], f"methods of the variant {name}") if "methods" in found else None
    return Variant(name=name, methods=methods, settings=_settings(found, f"set of the variant {name}"))


def _random(found: Mapping[str, Any]) -> RandomSearch:
    fields = _flatten({key: value for key, value in found.items() if key != "draws"}, "[random]")
    ranges = {}
    for path, range_ in fields.items():
        try:
            ranges[path] = _range(range_)
        except InputError as error:
            raise InputError(f"[random] {path}: {error}") from error
    return RandomSearch(draws=_draws(found, "[random]"), ranges=ranges)


def _range(found: Any) -> Range:
    for kind in RANGES:
        if isinstance(found, Mapping) and kind in found and set(found) <= {kind, "whole"}:
            whole = _typed(found.get("whole", False), bool, "whole")
            return Range(kind=kind, values=tuple(_list(found[kind], kind)), whole=whole)
    raise InputError(
        f"expected {{log = [low, high]}}, {{uniform = [low, high]}} or {{choice = [...]}}, found {found!r}"
    )


def _domainbed(found: Mapping[str, Any]) -> DomainBedSearch:
    _only(found, ("draws", "ignore"), "key of [domainbed]")
    ignore = _names(found["ignore"], "[domainbed] ignore") if "ignore" in found else ()
    return DomainBedSearch(draws=_draws(found, "[domainbed]"), ignore=ignore)


def _draws(found: Mapping[str, Any], where: str) -> int:
    if "draws" not in found:
        raise InputError(f"{where} must say how many: draws = 20")
    return int(_typed(found["draws"], int, f"{where} draws"))


def _settings(found: Mapping[str, Any], where: str) -> dict[str, Any]:
    return _flatten(_table(found.get("set", {}), where), where)


def _flatten(found: Mapping[str, Any], where: str, prefix: str = "") -> dict[str, Any]:
    """Values by dotted path: `training.steps = 5`, quoted or not, and a table `[set.training]` are the same."""
    flat: dict[str, Any] = {}
    for key, value in found.items():
        deeper = isinstance(value, Mapping) and not set(RANGES) & set(value)
        for path, leaf in (
            _flatten(value, where, f"{prefix}{key}.") if deeper else {f"{prefix}{key}": value}
        ).items():
            if path in flat:
                raise InputError(f"{path} is twice in {where}: give it once")
            flat[path] = leaf
    return flat


def _only(found: Mapping[str, Any], known: Sequence[str], kind: str) -> None:
    for key in found:
        if key not in known:
            raise unknown(kind, key, known)


def _table(found: Any, where: str) -> Mapping[str, Any]:
    require(isinstance(found, Mapping), where, found, "a table")
    return dict(found)


def _list(found: Any, where: str) -> list[Any]:
    require(isinstance(found, list), where, found, "a list")
    return list(found)


def _names(found: Any, where: str) -> tuple[str, ...]:
    """A list of names; one alone needs no brackets."""
    return tuple(_typed(name, str, where) for name in ([found] if isinstance(found, str) else _list(found, where)))


def _typed(found: Any, kind: type, where: str) -> Any:
    require(type(found) is kind, where, found, SCALARS[kind])
    return found
