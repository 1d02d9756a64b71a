"""From names to a finished run: `parse_dg.train("pacs", "sketch")`; its configuration, and what it would do."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from parse_dg.config import change
from parse_dg.data.benchmarks import benchmark_name, find_domains, outline
from parse_dg.data.domain import Benchmark
from parse_dg.data.framing import Framing
from parse_dg.data.splits import require_several
from parse_dg.errors import InputError
from parse_dg.plugins import load_plugins
from parse_dg.runs.afterwards.opened import OpenedRun
from parse_dg.runs.config import RunConfig
from parse_dg.runs.folder import OtherRunError, read_finished, remove_other
from parse_dg.runs.protocols import apply_protocol
from parse_dg.runs.recipes import build_config, default_recipe
from parse_dg.runs.requirements import cautions
from parse_dg.runs.run import count_steps, execute, prepare
from parse_dg.runs.scoring import target_part, validation_part
from parse_dg.training.check import Observer
from parse_dg.training.protocol import protocol_sentences

log = logging.getLogger(__name__)


def train(
    data: str | Path | Benchmark = "blueprints",
    target: str | None = None,
    algorithm: str = "parse",
    *,
    recipe: str | None = None,
    protocol: str = "parse",
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    plugins: Iterable[str] = (),
    observe: Observer | None = None,
    track: Sequence[str] = (),
    overwrite: bool = False,
) -> OpenedRun:
    """Train a method with one domain held out, score it there at the very end, and write it all to a folder.

    As `parse-dg train` with the options of the same names: a finished run of the same configuration is returned as
    it is, an unfinished one goes on. `data` is a name, a path or a benchmark in memory; `settings` are fields by
    their paths, {"training.steps": 500}; `out` is runs/DATA/METHOD/TARGET/seedN unless it is given, where a run of
    another configuration is refused or, with `overwrite`, replaced. `observe` is called after every step, for
    instance `parse_dg.print_checks`.
    """
    load_plugins(plugins)
    given, changes = None, dict(settings or {})
    if isinstance(data, Benchmark):
        if target is None:
            names = ", ".join(domain.name for domain in data.domains)
            raise InputError(f"which domain is held out? Give target, one of {names}, or none: all train")
        given, changes = data, {"data.image_size": data.image_size, **changes}
        data = given.name
    config = configure(data, target, algorithm, recipe=recipe, protocol=protocol, seed=seed, settings=changes)
    folder = default_folder(config) if out is None else Path(out)
    if overwrite:
        remove_other(config, folder)
    execute(config, folder, observe, given, track=track)
    return OpenedRun(folder, benchmark=given)


def configure(
    data: str | Path = "blueprints",
    target: str | None = None,
    algorithm: str = "parse",
    *,
    recipe: str | None = None,
    protocol: str = "parse",
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
) -> RunConfig:
    """The configuration that `parse-dg train` makes of the options of the same names.

    `data` is a name or a path; `settings` are fields by their paths, as for `--set`: {"training.steps": 500}.
    """
    data = str(data)
    chosen: dict[str, Any] = {"data.benchmark": benchmark_name(data), "seed": seed}
    if target is not None:
        chosen["data.target"] = target  # "none" as text is none
    elif data != "blueprints":
        names = ", ".join(domains := find_domains(data))
        require_several(data, domains)
        raise InputError(f"which domain is held out? Give --target, one of {names}, or none: all train")
    config = change(build_config(recipe or default_recipe(data), algorithm, data), chosen)
    return change_run(apply_protocol(protocol, config), settings or {})


def change_run(config: RunConfig, settings: Mapping[str, Any]) -> RunConfig:
    """As `change`, where a path to data is made absolute."""
    benchmark = {key: benchmark_name(str(value)) for key, value in settings.items() if key == "data.benchmark"}
    return change(config, {**settings, **benchmark})


def default_folder(config: RunConfig) -> Path:
    """runs/DATA/METHOD/TARGET/seedN; a data set used by path goes by the last part of the path."""
    data = Path(config.data.benchmark).name or "data"
    return Path("runs", data, config.method, config.data.target or "none", f"seed{config.trial}")


class PartCount(NamedTuple):
    """Some images of a domain, and what they are for."""

    domain: str
    purpose: str
    images: int


@dataclass(frozen=True, kw_only=True)
class RunPreview:
    """What a run would do."""

    finished: bool
    """Then it would do nothing: the run is there already."""
    parts: tuple[PartCount, ...]
    classes: int
    steps: int
    batch: int
    """Images in a batch, of all source domains together."""
    framing: Framing
    """What is evaluated of an image."""
    epochs: float
    """How often as many images are trained on as the source domains have for it."""
    checks: int
    rules: tuple[str, ...]
    """By which it is scored, a sentence each."""


def preview_run(config: RunConfig, folder: Path, overwrite: bool = False) -> RunPreview:
    """What a run would do; raises where it would be refused. Images are counted; nothing is read or written."""
    try:
        finished = read_finished(config, folder) is not None
    except OtherRunError:
        if not overwrite:
            raise
        finished = False
    benchmark, split = prepare(config, outline(config.data))
    for line in cautions(benchmark, split):
        log.warning("%s", line)
    chosen_by = validation_part(config.split, config.protocol)
    beside, oracle = split.validation_domain, split.target_held_out
    counted = {
        "source: trains": split.training,
        f"source: validates, {chosen_by}": (beside,) if beside else split.validation,
        "source: held out": split.validation if beside else (),
        f"target: the result, {target_part(config.split)}": (split.target,) if split.target else (),
        "target: held out, for the oracle": (oracle,) if oracle else (),
    }
    parts = [PartCount(p.domain.name, purpose, len(p.indices)) for purpose, some in counted.items() for p in some]
    steps, batch = count_steps(config, split), config.training.batch_size(len(split.training))
    rules = protocol_sentences(config.protocol, config.split, split.target is not None)
    if config.algorithm.trains_twice:
        rules.append("It is trained twice: how long is found on the training images, then on all of the sources.")
    return RunPreview(
        finished=finished,
        parts=tuple(parts),
        classes=len(benchmark.classes),
        steps=steps,
        batch=batch,
        framing=Framing(size=benchmark.image_size, fit=config.data.fit, resize_to=benchmark.resize_to),
        epochs=steps * batch / sum(len(source.indices) for source in split.training),
        checks=sum(map(config.training.checks_at, range(1, steps))) + 1,
        rules=tuple(rules),
    )
