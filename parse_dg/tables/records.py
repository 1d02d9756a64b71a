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
from parse_dg.errors import InputError
from parse_dg.runs.config import RunConfig
from parse_dg.runs.folder import read_config, read_result
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
    """Of the images."""
    records: tuple[Record, ...]
    every_check: bool
    """Whether there is a record of every check; otherwise there is one, of the step that the run itself chose."""

    @property
    def record(self) -> Record:
        """Any of the records: what was trained, on what, without which domains."""
        return self.records[0]

    @property
    def is_second(self) -> bool:
        """Whether it is what a run with averaging would have been without."""
        return self.config != self.trained

    @property
    def name(self) -> str:
        """Its folder, and which of two runs there it is."""
        return f"{self.folder} without its averaging" if self.is_second else str(self.folder)


def find_runs(folders: Sequence[Path]) -> tuple[Path, ...]:
    """The runs among the folders, and below those that are none themselves: by name, numbers in their order."""
    found: list[Path] = []
    for folder in folders:
        below = [folder] if (folder / "config.json").exists() else sorted(_below(folder), key=_natural)
        if not below:
            raise InputError(
                f"{folder} is not a run: expected a folder with config.json, or one with runs below it"
            )
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


def read_runs(folders: Sequence[Path], selection: str) -> tuple[Record, ...]:
    """The records of finished runs, to select from in one way, in rows by method."""
    return tuple(record for run in read_comparable(folders, selection) for record in run.records)


def read_comparable(
    folders: Sequence[Path], selection: str, name_row: Callable[[RunConfig], str] | None = None
) -> tuple[FinishedRun, ...]:
    """Finished runs, to select from in one way; `name_row` says into which row of a table each goes.

    Unfinished runs are left out and named; those that cannot be compared, or not be selected from, are refused.
    """
    find_selection(selection)
    runs = _without_repeated_seconds([run for folder in folders for run in read_run(folder)])
    if not runs:
        raise InputError(f"none of the {len(folders)} runs is finished: nothing to put into a table")
    if name_row is not None:
        runs = [_renamed(run, name_row(run.config)) for run in runs]
    _require_comparable(runs)
    for run in runs:
        _require_selectable(run, selection)
    keys = [_tuned(run.config) for run in runs]
    differing = {name for name in set().union(*keys) if len({json.dumps(key.get(name)) for key in keys}) > 1}
    differing -= {name for name in differing if name.startswith("algorithm.")} if _several_methods(runs) else set()
    return tuple(
        run._replace(
            records=tuple(
                replace(record, settings={name: key[name] for name in sorted(differing) if name in key})
                for record in run.records
            )
        )
        for run, key in zip(runs, keys, strict=True)
    )


def _renamed(run: FinishedRun, row: str) -> FinishedRun:
    return run._replace(records=tuple(replace(record, algorithm=row) for record in run.records))


def _without_repeated_seconds(runs: Sequence[FinishedRun]) -> list[FinishedRun]:
    """Averages of several kinds follow one and the same training: what it is without them counts once."""
    seconds: dict[RunConfig, FinishedRun] = {}
    for run in runs:
        if run.is_second:
            seconds.setdefault(run.config, run)
    return [run for run in runs if not run.is_second or seconds[run.config] is run]


def read_run(folder: Path) -> tuple[FinishedRun, ...]:
    """The run in a folder, and after it the same without averaging, where that is known; none if not finished."""
    config, result = read_config(folder), read_result(folder)
    if result is None:
        log.warning("%s is not finished: left out", folder)
        return ()
    try:
        lines = read_checks(folder)
        found = [_finished(folder, config, config, result, [_scored(line, line) for line in lines])]
        if (plain := result.plain()) is not None:
            without = replace(config, averaging=AveragingConfig())
            checks = [_scored(line, line.plain) for line in lines]
            found.append(_finished(folder, without, config, plain, checks))
    except InputError as error:
        raise InputError(f"{folder} does not hold a whole run: {error}") from error
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
                raise InputError(
                    f"{runs[0].folder} has {name}={shared[name]}, {run.folder} {name}={mine[name]}: "
                    "their figures do not belong into one table"
                )
        record = run.records[0]
        first = versions.setdefault(record.data_set, run)
        if first.fingerprint != run.fingerprint:
            raise InputError(
                f"{first.folder} and {run.folder} are of two versions of {record.data_set}: their images differ"
            )
        told_apart = (record.data_set, record.algorithm, record.held_out, record.trial, record.hyperparameters)
        twin = known.setdefault(told_apart, run)
        if twin is not run:
            raise InputError(
                f"{twin.name} and {run.name} are the same to a table: they have one method, target, split and "
                "settings. Give one of them"
            )


def _require_selectable(run: FinishedRun, selection: str) -> None:
    """What a run did not look at cannot be selected by."""
    chosen = run.config.protocol.selection
    if not run.every_check and chosen != selection:
        raise InputError(
            f"{run.folder} scored its target once, at the step that {chosen} chose: "
            f"to choose by {selection} its checks must score it too, protocol.checks=target"
        )
    if selection == "oracle" and run.config.split.target_images != "in":
        raise InputError(
            f"{run.folder} did not hold out images of its target: the oracle needs split.target_images=in"
        )


def _records(config: RunConfig, result: RunResult, checks: Sequence[ScoredStep]) -> Iterator[Record]:
    """A record of every check."""
    target, unseen = config.data.target, config.split.validation_domain
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
        share=_share(config, result),
    )
    if not checks:
        raise InputError("metrics.jsonl is empty")
    for check in checks:
        loss = Check(check.step, {}, dict(check.validation), {}).mean_loss
        loss = loss if math.isfinite(loss) else math.inf
        found = replace(base, step=check.step, in_part=_in(config, check), out_part=_out(config, check), loss=loss)
        if not unseen and target not in found.in_part:
            raise InputError(f"step {found.step} has no score of {target}")
        yield found


def _chosen(result: RunResult) -> ScoredStep:
    """The check that a run itself chose, with the target's score that was made after it."""
    scores: dict[str, Accuracy] = {f"{result.target.domain}/in": result.target}
    if result.oracle:
        scores[f"{result.target.domain}/out"] = result.oracle
    return ScoredStep(result.selected_step, result.validation, scores)


def _in(config: RunConfig, check: ScoredStep) -> dict[str, float]:
    """Accuracy on the larger part, or on all images, by domain."""
    found = {domain: value for domain, part, value in _scores(check) if part in ("in", "all")}
    unseen = config.split.validation_domain
    if unseen and unseen not in check.validation:
        raise InputError(f"step {check.step} has no validation on {unseen}")
    return found | ({unseen: check.validation[unseen].accuracy} if unseen else {})


def _out(config: RunConfig, check: ScoredStep) -> dict[str, float]:
    """Accuracy on held-out images, by domain."""
    unseen = config.split.validation_domain
    found = {name: value.accuracy for name, value in check.validation.items() if name != unseen}
    return found | {domain: value for domain, part, value in _scores(check) if part == "out"}


def _scores(check: ScoredStep) -> Iterator[tuple[str, str, float]]:
    for name, value in check.scores.items():
        domain, _, part = name.rpartition("/")
        yield domain, part, value.accuracy


def _share(config: RunConfig, result: RunResult) -> float:
    """Of the target's images, the fraction that is scored; that of a list to a per cent, files may be missing."""
    if config.split.scheme == "gvrt-split":
        return round(result.target.share, 2)
    return 1.0 if config.split.target_images == "all" else 1 - config.split.holdout


def _several_methods(runs: Sequence[FinishedRun]) -> bool:
    return len({run.config.algorithm.name for run in runs}) > 1


def _tuned(config: RunConfig) -> dict[str, object]:
    """Every setting that could have been tuned, by its dotted name: what tells hyper-parameters apart."""
    return {name: value for name, value in flatten(config).items() if not name.startswith(NOT_TUNED)}


def flatten(config: RunConfig) -> dict[str, object]:
    """Every field of a configuration by its dotted name."""
    return dict(_flatten(to_dict(config)))


def _flatten(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in data.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value
