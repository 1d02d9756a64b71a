"""Finished runs as records: what model selection over several of them looks at."""

import hashlib
import json
import logging
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from parse_dg.config import to_dict
from parse_dg.errors import InputError, about
from parse_dg.jsonable import flat
from parse_dg.runs.config import RunConfig
from parse_dg.runs.folder import read_config, read_whole
from parse_dg.runs.metrics import CheckedWeights, CheckLine, read_checks
from parse_dg.runs.result import RunResult
from parse_dg.tables.selection import Record, find_selection
from parse_dg.training.accuracy import Accuracy
from parse_dg.training.averaging import AveragingConfig
from parse_dg.training.check import Check

log = logging.getLogger(__name__)

COMMON = ("split.scheme", "split.holdout", "split.target_images", "protocol.augment_validation")
"""What the runs of a table have in common: they are split, scored and validated alike."""
NOT_TUNED = (
    *("seed", "split.seed", "split.validation_domain", "data.benchmark", "data.target", "data.store"),
    *("protocol.", "training.device", "training.cuda_graph", "averaging.also_plain"),
)
"""What does not tell hyper-parameters apart: repetitions, what is held out, and what changes no number."""


class ScoredStep(NamedTuple):
    """What a record is made of: a check, or the one that a run itself chose, whose target was scored after it."""

    step: int
    validation: Mapping[str, Accuracy]
    scores: Mapping[str, Accuracy]


class FinishedRun(NamedTuple):
    """A run, read from its folder, which with `averaging.also_plain` holds a second: the same without averaging."""

    folder: Path
    config: RunConfig
    trained: RunConfig
    """What was trained: `config`, or for a second run that of the first."""
    fingerprint: str
    records: tuple[Record, ...]
    every_check: bool
    """Whether there is a record of every check; otherwise there is one, of the step that the run itself chose."""

    @property
    def record(self) -> Record:
        """Any of the records: what was trained, on what, without which domains."""
        return self.records[0]

    @property
    def is_second(self) -> bool:
        return self.config != self.trained

    @property
    def name(self) -> str:
        """Its folder, and which of two runs there it is."""
        return f"{self.folder} without its averaging" if self.is_second else str(self.folder)

    def with_records(self, **changes: Any) -> "FinishedRun":
        return self._replace(records=tuple(replace(record, **changes) for record in self.records))


def find_runs(folders: Sequence[Path]) -> tuple[Path, ...]:
    """The runs among the folders, and below those that are none themselves: by name, numbers in their order."""
    found: list[Path] = []
    for folder in folders:
        below = [folder] if (folder / "config.json").exists() else sorted(_below(folder), key=_natural)
        if not below:
            expected = "a folder with config.json, or one with runs below it"
            raise InputError(f"{folder} is not a run: expected {expected}")
        found += below
    return tuple(found)


def _below(folder: Path) -> Iterator[Path]:
    for path, inside, files in os.walk(folder):
        if "config.json" in files and {"metrics.jsonl", "result.json"} & set(files):
            inside.clear()  # a run holds no other
            yield Path(path)


def _natural(path: Path) -> list[tuple[int, str]]:
    """Sorts `seed2` before `seed10`."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", str(path))]


def read_comparable(
    folders: Sequence[Path], selection: str, name_row: Callable[[RunConfig], str] | None = None
) -> tuple[FinishedRun, ...]:
    """Finished runs, to select from in one way; `name_row` says into which row of a table each goes.

    Unfinished runs are left out and named; those that cannot be compared, or not be selected from, are refused.
    """
    find_selection(selection)
    seconds: dict[RunConfig, FinishedRun] = {}
    runs = []
    for run in (run for folder in folders for run in read_run(folder)):
        # averages of several kinds follow one and the same training: what it is without them counts once
        if not run.is_second or seconds.setdefault(run.config, run) is run:
            runs.append(run if name_row is None else run.with_records(algorithm=name_row(run.config)))
    if not runs:
        raise InputError(f"none of the {len(folders)} runs is finished with a target: nothing to put into a table")
    _require_comparable(runs)
    for run in runs:
        _require_selectable(run, selection)
    rows: dict[str, list[dict[str, object]]] = {}
    for run in runs:
        rows.setdefault(run.record.algorithm, []).append(_tuned(run.config))
    differing = {row: _differing(keys) for row, keys in rows.items()}
    tuned = ((run, _tuned(run.config), differing[run.record.algorithm]) for run in runs)
    return tuple(
        run.with_records(settings={name: key[name] for name in names if name in key}) for run, key, names in tuned
    )


def _differing(configurations: Sequence[Mapping[str, object]]) -> tuple[str, ...]:
    """The settings of which not all configurations have the same."""
    names = sorted(set().union(*configurations))
    return tuple(name for name in names if len({json.dumps(each.get(name)) for each in configurations}) > 1)


def read_run(folder: Path) -> tuple[FinishedRun, ...]:
    """The run in a folder, and after it the same without averaging, where that is known; none if not finished."""
    config, result = read_config(folder), read_whole(folder)
    if result is None:
        log.warning("%s is not finished: left out", folder)
        return ()
    if config.data.target is None:
        log.warning("%s trained on all domains, so that it has no target for a table: left out", folder)
        return ()
    with about(f"{folder} does not hold a whole run"):
        lines = read_checks(folder)
        found = [_finished(folder, config, config, result, [_scored(line, line) for line in lines])]
        if (plain := result.plain()) is not None:
            without = replace(config, averaging=AveragingConfig())
            checks = [_scored(line, line.plain) for line in lines]
            found.append(_finished(folder, without, config, plain, checks))
    return tuple(found)


def _scored(line: CheckLine, found: CheckedWeights | None) -> ScoredStep:
    if found is None:
        raise InputError(f"the check of step {line.step} has nothing on the weights without averaging")
    return ScoredStep(line.step, found.validation, found.scores)


def _finished(
    folder: Path, config: RunConfig, trained: RunConfig, result: RunResult, checks: Sequence[ScoredStep]
) -> FinishedRun:
    at_the_end = config.averaging.kind == "swad" or config.algorithm.trains_twice  # of no check's weights
    asked = bool(config.split.validation_domain) or config.protocol.checks != "validation"
    every_check = asked and not at_the_end
    records = tuple(_records(config, result, checks if every_check else [_chosen(result)]))
    return FinishedRun(folder, config, trained, result.benchmark.fingerprint, records, every_check)


def _require_comparable(runs: Sequence[FinishedRun]) -> None:
    """A table has one split, one way to score, one version of each data set, and every run once."""
    shared = flatten(runs[0].config)
    versions: dict[str, FinishedRun] = {}
    known: dict[object, FinishedRun] = {}
    for run in runs:
        mine = flatten(run.config)
        for name in COMMON:
            if mine[name] != shared[name]:
                both = f"{runs[0].folder} has {name}={shared[name]}, {run.folder} {name}={mine[name]}"
                raise InputError(f"{both}: their figures do not belong into one table")
        record = run.record
        first = versions.setdefault(record.data_set, run)
        if first.fingerprint != run.fingerprint:
            both = f"{first.folder} and {run.folder}"
            raise InputError(f"{both} are of two versions of {record.data_set}: their images differ")
        told_apart = (record.data_set, record.algorithm, record.held_out, record.trial, record.hyperparameters)
        twin = known.setdefault(told_apart, run)
        if twin is not run:
            alike = "are the same to a table: they have one method, target, split and settings"
            raise InputError(f"{twin.name} and {run.name} {alike}. Give one of them")


def _require_selectable(run: FinishedRun, selection: str) -> None:
    """What a run did not look at cannot be selected by."""
    chosen = run.config.protocol.selection
    if not run.every_check and chosen != selection:
        needs = f"to choose by {selection} its checks must score it too, protocol.checks=target"
        raise InputError(f"{run.folder} scored its target once, at the step that {chosen} chose: {needs}")
    if selection == "oracle" and run.config.split.target_images != "in":
        needs = "the oracle needs split.target_images=in"
        raise InputError(f"{run.folder} did not hold out images of its target: {needs}")


def _records(config: RunConfig, result: RunResult, checks: Sequence[ScoredStep]) -> Iterator[Record]:
    target, unseen = result.on_target.domain, config.split.validation_domain
    share = 1.0 if config.split.target_images == "all" else 1 - config.split.holdout
    if config.split.listed:
        share = round(result.on_target.share, 2)  # that of a list, of which files may be missing
    base = Record(
        data_set=result.benchmark.name,
        algorithm=config.method,
        domains=result.domains,
        held_out=(target, unseen) if unseen else (target,),
        trial=result.trial,
        hyperparameters=hashlib.sha256(json.dumps(_tuned(config), sort_keys=True).encode()).hexdigest()[:12],
        step=result.selected_step,
        in_part={},
        out_part={},
        share=share,
    )
    if not checks:
        raise InputError("metrics.jsonl is empty")
    for check in checks:
        inside, outside = _parts(check, unseen)
        if not unseen and target not in inside:
            raise InputError(f"step {check.step} has no score of {target}")
        loss = Check(check.step, {}, dict(check.validation), {}).mean_loss
        loss = loss if math.isfinite(loss) else math.inf
        yield replace(base, step=check.step, in_part=inside, out_part=outside, loss=loss)


def _chosen(result: RunResult) -> ScoredStep:
    """The check that a run itself chose, with the target's score that was made after it."""
    target = result.on_target
    scores: dict[str, Accuracy] = {f"{target.domain}/in": target}
    if result.oracle:
        scores[f"{target.domain}/out"] = result.oracle
    return ScoredStep(result.selected_step, result.validation, scores)


def _parts(check: ScoredStep, unseen: str | None) -> tuple[dict[str, float], dict[str, float]]:
    """Accuracy by domain, on the larger part or on all images, and on held-out images."""
    if unseen and unseen not in check.validation:
        raise InputError(f"step {check.step} has no validation on {unseen}")
    inside: dict[str, float] = {}
    outside = {name: value.accuracy for name, value in check.validation.items() if name != unseen}
    for name, value in check.scores.items():
        domain, _, part = name.rpartition("/")
        (outside if part == "out" else inside)[domain] = value.accuracy
    return inside | ({unseen: check.validation[unseen].accuracy} if unseen else {}), outside


def _tuned(config: RunConfig) -> dict[str, object]:
    """Every setting that could have been tuned, by its dotted name: what tells hyper-parameters apart."""
    return {name: value for name, value in flatten(config).items() if not name.startswith(NOT_TUNED)}


def flatten(config: RunConfig) -> dict[str, object]:
    """Every field of a configuration by its dotted name."""
    return flat(to_dict(config))
