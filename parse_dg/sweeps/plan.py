"""From a sweep to its jobs: every run with its configuration and its folder, all checked before anything runs.

OUT/DATA/ROW/TARGET/seedN is a run's folder: a row is a method or a variant, with a mark of its hyper-parameters
where several are tried. Nothing of a data set is read but the names of its domains.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from typing import NamedTuple

from parse_dg.config import change, field_paths, require
from parse_dg.data.benchmarks import benchmark_name, find_domains
from parse_dg.data.public.catalogue import DATA_SETS
from parse_dg.data.splits import require_several
from parse_dg.errors import InputError, about, require_known
from parse_dg.runs.config import RunConfig
from parse_dg.runs.protocols import apply_protocol
from parse_dg.runs.recipes import build_config, default_recipe
from parse_dg.sweeps.config import Settings, SweepConfig, SweptData, split_method
from parse_dg.sweeps.jobs import Job
from parse_dg.sweeps.search import SearchPoint, combine, domainbed_name, grid_points, job_seed

UNSAFE = re.compile(r"[/\\\x00-\x1f\x7f]+")
LONGEST = 240
"""Bytes in the name of a folder: file systems have 255."""


class MethodRow(NamedTuple):
    """A method, or a variant of it."""

    name: str
    method: str
    settings: Settings


class ResolvedData(NamedTuple):
    """A data set of the sweep, looked up."""

    data: SweptData
    benchmark: str
    """Its name, or its path made absolute: a run is repeated from wherever one stands."""
    domains: tuple[str, ...]
    held: tuple[tuple[str, ...], ...]
    """What is held out, in runs of its own each: a target, or it and one that leave-one-domain-out validates on."""


def plan_jobs(sweep: SweepConfig) -> tuple[Job, ...]:
    """The runs of a sweep: seed after seed, so that one that is stopped half way has whole tables of the first.

    A configuration that comes up twice is planned once, under the first of its names.
    """
    rows = _rows(sweep)
    _require_fields(sweep, rows)
    found = [_look_up(sweep, data) for data in sweep.data]
    planned: dict[RunConfig, Job] = {}
    places: dict[Path, Job] = {}
    for seed, data, row in product(sweep.seeds, found, rows):
        for job in _jobs_of_row(sweep, data, row, seed):
            if job.config in planned:
                continue
            if job.folder in places:
                raise InputError(f"two runs of the sweep would be {job.folder}: give them other names")
            planned[job.config] = places[job.folder] = job
    return tuple(planned.values())


def _rows(sweep: SweepConfig) -> list[MethodRow]:
    """Every method, in its variants where it has some. A variant of several methods is a row of each."""
    rows = []
    for method in sweep.methods:
        mine = [v for v in sweep.variants if v.methods is None or method in v.methods]
        for variant in mine:
            alone = len(variant.methods or sweep.methods) == 1
            rows.append(MethodRow(variant.name if alone else f"{method},{variant.name}", method, variant.settings))
        if not mine:
            rows.append(MethodRow(method, method, {}))
    return rows


def _jobs_of_row(sweep: SweepConfig, found: ResolvedData, row: MethodRow, seed: int) -> Iterator[Job]:
    data = found.data
    for point in _points(sweep, data, row, seed):
        name = ",".join(filter(None, (row.name, point.mark)))
        with about(f"{name} on {data.name}"):
            config = _configure(sweep, found, row, point, seed)
            if sweep.leave_one_domain_out:
                _require_selectable(config)
            folder = sweep.out / (Path(found.benchmark).name or "data") / _folder_name(name)
            for held in found.held:
                run = hold_out(config, *held)
                if sweep.domainbed and point.draw is not None:
                    run = _seed_as_domainbed(run, data.name, found.domains, point.draw, seed)
                yield Job(run, folder / "+".join(held) / f"seed{seed}")


def _points(sweep: SweepConfig, data: SweptData, row: MethodRow, seed: int) -> list[SearchPoint]:
    """The hyper-parameters that are tried: a grid's, drawn ones, or each of these with each of those."""
    drawn = [SearchPoint("", {})]
    if sweep.random:
        drawn = list(sweep.random.points(seed))
    elif sweep.domainbed:
        algorithm = split_method(row.method).algorithm
        drawn = list(sweep.domainbed.points(algorithm, _domainbed_data(data.name), seed))
        fixed = {**sweep.settings, **data.settings, **row.settings, **sweep.grid}
        for path in drawn[0].settings:
            if path in fixed:
                raise InputError(f"{path} is drawn by [domainbed], and given elsewhere too: give it once")
    return [combine(first, second) for first in grid_points(sweep.grid) for second in drawn]


def _configure(sweep: SweepConfig, found: ResolvedData, row: MethodRow, point: SearchPoint, seed: int) -> RunConfig:
    """As `parse-dg train` does: the recipe, what is trained on, the protocol, then every setting."""
    data, method = found.data, split_method(row.method)
    config = build_config(sweep.recipe or default_recipe(data.name), method.algorithm, data.name)
    config = change(config, {"data.benchmark": found.benchmark, "seed": seed})
    averaging = {} if method.averaging is None else {"averaging.kind": method.averaging}
    settings = {**averaging, **sweep.settings, **data.settings, **row.settings, **point.settings}
    return change(apply_protocol(sweep.protocol, config), settings)


def hold_out(config: RunConfig, target: str, beside: str | None = None) -> RunConfig:
    """The same run with other domains held out: a target, and perhaps one for leave-one-domain-out selection."""
    rule = config.protocol.selection
    if (rule == "leave-one-domain-out") != (beside is not None):
        rule = "training-domain" if beside is None else "leave-one-domain-out"
    return replace(
        config,
        data=replace(config.data, target=target),
        split=replace(config.split, validation_domain=beside),
        protocol=replace(config.protocol, selection=rule),
    )


def _seed_as_domainbed(config: RunConfig, data: str, domains: Sequence[str], draw: int, trial: int) -> RunConfig:
    """The trial splits; everything else has a seed of its own for every run."""
    held = (config.data.target, config.split.validation_domain)
    numbers = sorted(domains.index(domain) for domain in held if domain is not None)
    own = job_seed(_domainbed_data(data), domainbed_name(config.algorithm.name), numbers, draw, trial)
    return replace(config, seed=own, split=replace(config.split, seed=trial))


def _look_up(sweep: SweepConfig, data: SweptData) -> ResolvedData:
    """Each target is held out, then each pair with a target in it, where leave-one-domain-out is asked for.

    A run with two domains held out counts for both: its checks score both.
    """
    benchmark, domains = benchmark_name(data.name), find_domains(data.name)
    require_several(data.name, domains)
    targets = domains if data.targets is None else data.targets
    for target in targets:
        require_known(f"target of {data.name}", target, domains)
    held: list[tuple[str, ...]] = [(target,) for target in targets]
    if sweep.leave_one_domain_out:
        require(len(domains) > 2, f"leave_one_domain_out: the domains of {data.name}", len(domains), "3 or more")
        held += [pair for pair in combinations(domains, 2) if set(pair) & set(targets)]
    return ResolvedData(data, benchmark, domains, tuple(held))


def _require_selectable(config: RunConfig) -> None:
    """Raise if leave-one-domain-out could not select among runs like this."""
    if config.protocol.checks == "validation":
        valid = 'protocol = "domainbed" or "swad", or protocol.checks = "target" in [set]'
        raise InputError(f"leave_one_domain_out needs checks that score the domains held out: {valid}")
    if config.averaging.kind == "swad":
        conflict = "leave_one_domain_out selects among the checks of a run, over which swad averages"
        raise InputError(f"{conflict}: sweep without one or the other")


def _require_fields(sweep: SweepConfig, rows: Sequence[MethodRow]) -> None:
    """Raise if a field is not one of all the methods that it is given for."""
    recipe = sweep.recipe or default_recipe(sweep.data[0].name)
    configs = {row.method: build_config(recipe, split_method(row.method).algorithm) for row in rows}
    for place, (settings, methods) in sweep.places().items():
        for path in settings:
            having = [method for method in methods if path in field_paths(configs[method])]
            lacking = [method for method in methods if method not in having]
            if having and lacking:
                of = f"is a field of {', '.join(having)} and not of {', '.join(lacking)}"
                advice = "give it in a variant with methods = [...], or sweep over the others apart"
                raise InputError(f"{path} in {place} {of}: {advice}")
            if lacking:
                change(configs[lacking[0]], {path: None})  # raises, naming the fields there are


def _domainbed_data(data: str) -> str:
    return DATA_SETS[data].title if data in DATA_SETS else data


def _folder_name(row: str) -> str:
    """The row as the name of a folder: values that are tried may be paths."""
    name = UNSAFE.sub("_", row)
    if len(name.encode()) > LONGEST:
        raise InputError("its folder would have too long a name: try these values in variants, which have names")
    return name
