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
from parse_dg.config import SCALARS, require, within
from parse_dg.errors import InputError, about, require_known
from parse_dg.files import attempting
from parse_dg.sweeps.config import SweepConfig, SweptData, Variant
from parse_dg.sweeps.search import DomainBedSearch, RandomSearch, Range


def read_sweep_file(path: Path) -> SweepConfig:
    """A sweep from a TOML file; runs go to `runs/NAME-OF-THE-FILE` unless it has `out`."""
    with attempting(f"read {path}"):
        data = path.read_bytes()
    try:
        content = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path} is not valid TOML: {error}") from error
    with about(path):
        return parse_sweep(content, out=Path("runs") / path.stem)


RANGES: tuple[Literal["log", "uniform", "choice"], ...] = ("log", "uniform", "choice")
KEYS = (
    *("methods", "data", "targets", "seeds", "recipe", "protocol", "out", "leave_one_domain_out"),
    *("set", "grid", "random", "domainbed", "variants"),
)


def parse_sweep(content: Mapping[str, Any], out: Path) -> SweepConfig:
    """The content of a sweep file, checked; `out` is where runs go unless it says so."""
    _only(content, KEYS, "key")
    if "methods" not in content:
        known = ", ".join(ALGORITHMS)
        raise InputError(f'methods is missing: give some of {known}, as in methods = ["erm", "parse"]')
    given = {key: content[key] for key in ("recipe", "protocol", "leave_one_domain_out") if key in content}
    if "seeds" in content:
        given["seeds"] = tuple(_list(content["seeds"], "seeds"))
    if "grid" in content:
        grid = _flatten(content["grid"], "[grid]")
        require(bool(grid), "[grid]", "no field", "given a field with a list of values")
        given["grid"] = {field: tuple(_list(values, f"[grid] {field}")) for field, values in grid.items()}
    if "random" in content:
        given["random"] = _random(content["random"])
    if "domainbed" in content:
        given["domainbed"] = _domainbed(content["domainbed"])
    if "out" in content:
        require(isinstance(content["out"], str), "out", content["out"], SCALARS[str])
        out = Path(content["out"]).expanduser()
    return SweepConfig(
        out=out,
        methods=_names(content["methods"], "methods"),
        data=_data(content.get("data", "blueprints"), _targets(content.get("targets", "all"), "targets")),
        settings=_flatten(content.get("set", {}), "[set]"),
        variants=tuple(map(_variant, _list(content.get("variants", []), "variants"))),
        **given,
    )


def _data(found: Any, targets: tuple[str, ...] | None) -> tuple[SweptData, ...]:
    if not isinstance(found, Mapping):
        return tuple(SweptData(name=name, targets=targets) for name in _names(found, "data"))
    chosen = []
    for name, table in found.items():
        _only(table, ("targets", "set"), f"key of [data.{name}]")
        own = _targets(table["targets"], f"targets of {name}") if "targets" in table else targets
        settings = _flatten(table.get("set", {}), f"set of {name}")
        chosen.append(SweptData(name=name, targets=own, settings=settings))
    return tuple(chosen)


def _targets(found: Any, where: str) -> tuple[str, ...] | None:
    return None if found == "all" else _names(found, where)


def _variant(found: Any) -> Variant:
    _only(found, ("name", "methods", "set"), "key of [[variants]]")
    if "name" not in found:
        raise InputError('a variant has no name: expected name = "..." in every [[variants]]')
    which = f"the variant {found['name']}"
    methods = _names(found["methods"], f"methods of {which}") if "methods" in found else None
    return Variant(name=found["name"], methods=methods, settings=_flatten(found.get("set", {}), f"set of {which}"))


def _random(found: Any) -> RandomSearch:
    draws = _draws(found, "[random]")
    fields = _flatten({key: value for key, value in found.items() if key != "draws"}, "[random]")
    ranges = {}
    for path, range_ in fields.items():
        with about(f"[random] {path}"):
            ranges[path] = _range(range_)
    return within("[random] ", lambda: RandomSearch(draws=draws, ranges=ranges))


def _range(found: Any) -> Range:
    for kind in RANGES:
        if isinstance(found, Mapping) and kind in found and set(found) <= {kind, "whole"}:
            return Range(kind=kind, values=tuple(_list(found[kind], kind)), whole=found.get("whole", False))
    expected = "{log = [low, high]}, {uniform = [low, high]} or {choice = [...]}"
    raise InputError(f"expected {expected}, found {found!r}")


def _domainbed(found: Any) -> DomainBedSearch:
    _only(found, ("draws", "ignore"), "key of [domainbed]")
    draws, ignore = _draws(found, "[domainbed]"), _names(found.get("ignore", []), "[domainbed] ignore")
    return within("[domainbed] ", lambda: DomainBedSearch(draws=draws, ignore=ignore))


def _draws(found: Any, where: str) -> Any:
    require(isinstance(found, Mapping), where, found, "a table")
    if "draws" not in found:
        raise InputError(f"{where} must say how many: draws = 20")
    return found["draws"]


def _flatten(found: Any, where: str, prefix: str = "") -> dict[str, Any]:
    """Values by dotted path: `training.steps = 5`, quoted or not, and a table `[set.training]` are the same."""
    require(isinstance(found, Mapping), where, found, "a table")
    flat: dict[str, Any] = {}
    for key, value in found.items():
        deeper = isinstance(value, Mapping) and not set(RANGES) & set(value)
        leaves = _flatten(value, where, f"{prefix}{key}.") if deeper else {f"{prefix}{key}": value}
        for path, leaf in leaves.items():
            if path in flat:
                raise InputError(f"{path} is twice in {where}: give it once")
            flat[path] = leaf
    return flat


def _only(found: Any, known: Sequence[str], kind: str) -> None:
    require(isinstance(found, Mapping), kind.removeprefix("key of "), found, "a table")
    for key in found:
        require_known(kind, key, known)


def _list(found: Any, where: str) -> list[Any]:
    require(isinstance(found, list), where, found, "a list")
    return list(found)


def _names(found: Any, where: str) -> tuple[str, ...]:
    """A list of names; one alone needs no brackets."""
    names = [found] if isinstance(found, str) else _list(found, where)
    require(all(isinstance(name, str) for name in names), where, found, "names, in quotes")
    return tuple(names)
