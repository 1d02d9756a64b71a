"""The commands that would fill the missing cells of a table: `parse-dg train ...`, after runs that are there."""

import logging
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import combinations, product
from pathlib import Path
from typing import NamedTuple

from parse_dg.config import as_typed, change, to_dict
from parse_dg.data.benchmarks import DataConfig
from parse_dg.errors import InputError
from parse_dg.plugins import as_options, find_needs
from parse_dg.runs.config import RunConfig
from parse_dg.runs.folder import read_config
from parse_dg.runs.protocols import PROTOCOLS, apply_protocol
from parse_dg.runs.recipes import RECIPES, build_config, default_recipe
from parse_dg.sweeps.plan import hold_out
from parse_dg.tables.records import FinishedRun, flatten
from parse_dg.tables.selection import Case
from parse_dg.tables.selection_tables import CellKey, SelectionTables

log = logging.getLogger(__name__)


class Origin(NamedTuple):
    """Where a configuration comes from: a recipe, a protocol, a seed, and what was set otherwise."""

    recipe: str
    protocol: str
    seed: int
    settings: Mapping[str, str]


def fill_commands(
    tables: SelectionTables, runs: Sequence[FinishedRun], folders: Sequence[Path]
) -> dict[CellKey, tuple[str, ...]]:
    """For every cell in which trials are missing, the commands that train them: like the runs of the same row.

    `folders` are all that were looked at: one of them may hold the beginning of a run that is missing.
    """
    done = {run.folder for run in runs}
    places = {folder: read_config(folder) for folder in folders if folder not in done}
    fill: dict[CellKey, tuple[str, ...]] = {}
    for table in tables.tables:
        for row, target in product(tables.algorithms, table.domains):
            trials = table.cells[row][target].missing if row in table.cells else table.trials
            cases = (Case(table.data_set, row, target, trial) for trial in trials)
            commands = [line for case in cases for line in _commands(case, tables.selection.name, runs, places)]
            if commands:
                fill[table.data_set, row, target] = tuple(commands)
    return fill


def _commands(case: Case, selection: str, runs: Sequence[FinishedRun], places: dict[Path, RunConfig]) -> list[str]:
    """The commands for one case; none where what was set by hand for one data set is refused on another."""
    try:
        lacking = list(_lacking(case, selection, runs))
        return [train_command(config, _folder(like, config, places)) for like, config in lacking]
    except InputError as error:
        log.info("no command for %s on %s: %s", case.algorithm, case.data_set, error)
        return []


def train_command(config: RunConfig, folder: Path) -> str:
    """`parse-dg train ...`: the command that trains this configuration, with as few words as it takes."""
    origin = find_origin(config)
    plugins = as_options(find_needs(to_dict(config)))
    words = ["parse-dg", "train", *plugins, "--algorithm", config.algorithm.name]
    data = config.data.benchmark
    words += ["--data", data, "--target", config.data.target or "none", "--seed", str(origin.seed)]
    if origin.recipe != default_recipe(data):
        words += ["--recipe", origin.recipe]
    if origin.protocol != "parse":
        words += ["--protocol", origin.protocol]
    for name, value in origin.settings.items():
        words += ["--set", f"{name}={value}"]
    return shlex.join([*words, "--out", str(folder)])


def find_origin(config: RunConfig) -> Origin:
    """The recipe and the protocol that come closest, and what has to be set besides."""
    like = config if config.data.target is None else _repeated(config, ("any",), 0)  # for all targets and trials
    found = [
        Origin(recipe, protocol, seed, settings)
        for recipe, protocol in _nearest(like)
        for seed in dict.fromkeys((config.seed, config.trial))
        if (settings := _differences(recipe, protocol, seed, config)) is not None
    ]
    if not found:
        raise InputError(f"no recipe leads to the run of {config.method} with {config.data.target} held out")
    return min(found, key=lambda origin: len(origin.settings))


@lru_cache
def _nearest(config: RunConfig) -> tuple[tuple[str, str], ...]:
    """The recipe and the protocol from which the fewest settings lead to a configuration."""
    usual = default_recipe(config.data.benchmark)
    counts = {}
    for recipe, protocol in product(RECIPES, PROTOCOLS):
        settings = _differences(recipe, protocol, config.seed, config)
        if settings is not None:
            counts[recipe, protocol] = (len(settings), recipe != usual)
    return tuple(sorted(counts, key=lambda names: counts[names])[:1])


def _differences(recipe: str, protocol: str, seed: int, config: RunConfig) -> dict[str, str] | None:
    """What a recipe under a protocol lacks to be `config`; None if settings cannot make it so."""
    try:
        base = _base(recipe, protocol, seed, config.algorithm.name, config.data)
        mine, wanted = flatten(base), flatten(config)
        settings = {name: as_typed(value) for name, value in wanted.items() if value != mine.get(name)}
        return settings if change(base, settings) == config else None
    except InputError:
        return None


def _base(recipe: str, protocol: str, seed: int, algorithm: str, data: DataConfig) -> RunConfig:
    named = {"data.benchmark": data.benchmark, "data.target": data.target, "seed": seed}
    return apply_protocol(protocol, change(build_config(recipe, algorithm, data.benchmark), named))


def _lacking(case: Case, selection: str, runs: Sequence[FinishedRun]) -> Iterator[tuple[FinishedRun, RunConfig]]:
    """The runs that a case lacks, each with one that it is like: as many as there are draws of hyper-parameters."""
    on_data = [run for run in runs if run.record.data_set == case.data_set]
    here = [run for run in on_data if run.record.algorithm == case.algorithm]
    for draw, like in _draws(here or [run for run in runs if run.record.algorithm == case.algorithm], case.trial):
        alike = (r.record for r in here if (r.record.trial, r.record.hyperparameters) == (case.trial, draw))
        there = {frozenset(record.held_out) for record in alike}
        config = like.trained if here else _moved(like.trained, on_data[0].config.data)
        # a run with a pair held out counts for both of its domains
        pairs = [pair for pair in combinations(on_data[0].record.domains, 2) if case.target in pair]
        for held_out in ((case.target,), *(pairs if selection == "leave-one-domain-out" else [])):
            if frozenset(held_out) not in there:
                yield like, _repeated(config, held_out, case.trial)


def _draws(kin: Sequence[FinishedRun], trial: int) -> Iterable[tuple[str, FinishedRun]]:
    """A run for every draw of hyper-parameters in the trial, or in the first if that one has none."""
    nearest = sorted(kin, key=lambda run: (run.record.trial != trial, run.record.trial, len(run.record.held_out)))
    draws: dict[str, FinishedRun] = {}
    for run in nearest:
        if run.record.trial == nearest[0].record.trial:
            draws.setdefault(run.record.hyperparameters, run)
    return draws.items()


def _repeated(config: RunConfig, held_out: Sequence[str], trial: int) -> RunConfig:
    config = hold_out(config, *held_out)
    if config.split.seed is None:
        return replace(config, seed=trial)
    return replace(config, split=replace(config.split, seed=trial))


def _moved(config: RunConfig, data: DataConfig) -> RunConfig:
    """The same on another data set: its recipe and protocol there, and what was set otherwise."""
    origin = find_origin(config)
    base = _base(origin.recipe, origin.protocol, origin.seed, config.algorithm.name, data)
    own = {name: value for name, value in origin.settings.items() if not name.startswith("data.")}
    return replace(change(base, own), data=data)


def _folder(like: FinishedRun, config: RunConfig, known: dict[Path, RunConfig]) -> Path:
    """Where the run was begun, or a place beside the run that it is like; `known` says which are taken, by what."""
    for folder, there in known.items():
        if there == config:
            return folder
    place = _beside(like, config)
    number, path = 1, place
    while known.get(path, config) != config or (path.exists() and not _holds(path, config)):
        number += 1
        path = place.with_name(f"{place.name}-{number}")
    known[path] = config
    return path


def _beside(like: FinishedRun, config: RunConfig) -> Path:
    """DATA/ROW/TARGET/seedN, as sweeps have it; a name that says it all where folders are kept otherwise."""
    data, other_data = (Path(each.data.benchmark).name for each in (config, like.config))
    target, last = _held_out(config), f"seed{config.trial}"
    if like.folder.parts[-2:] == (_held_out(like.config), f"seed{like.config.trial}"):
        row = like.folder.parent.parent
        if data == other_data:
            return row / target / last
        if row.parent.name == other_data:
            return row.parent.with_name(data) / row.name / target / last
    words = (*([data] if data != other_data else []), like.record.algorithm, target, last)
    return like.folder.parent / "-".join(re.sub(r"[^\w.+=-]+", "_", word) for word in words)


def _held_out(config: RunConfig) -> str:
    return "+".join(filter(None, (config.data.target, config.split.validation_domain)))


def _holds(path: Path, config: RunConfig) -> bool:
    try:
        return read_config(path) == config
    except InputError:
        return False
