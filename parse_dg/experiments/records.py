"""Finished runs as records: what model selection over several of them looks at."""

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from parse_dg.config import to_dict
from parse_dg.errors import InputError
from parse_dg.evaluation.selection import Record
from parse_dg.experiments.config import RunConfig
from parse_dg.experiments.run import read_config, read_json

log = logging.getLogger(__name__)


class FinishedRun(NamedTuple):
    """A run's folder, read."""

    folder: Path
    config: RunConfig
    result: dict[str, Any]
    checks: tuple[dict[str, Any], ...]


def read_runs(folders: Sequence[Path]) -> tuple[Record, ...]:
    """The records of finished runs; unfinished ones are left out and named, incomparable ones refused."""
    runs = [run for folder in folders if (run := read_run(folder)) is not None]
    if not runs:
        raise InputError(f"none of the {len(folders)} runs is finished: nothing to put into a table")
    _require_comparable(runs)
    keys = [_plain_settings(run.config) for run in runs]
    differing = {name for name in set().union(*keys) if len({json.dumps(key.get(name)) for key in keys}) > 1}
    differing -= {name for name in differing if name.startswith("algorithm.")} if _several_methods(runs) else set()
    return tuple(
        record
        for run, key in zip(runs, keys, strict=True)
        for record in _records(run, key, {name: key[name] for name in sorted(differing) if name in key})
    )


def read_run(folder: Path) -> FinishedRun | None:
    """A run's folder, or None if the run is not finished."""
    config = read_config(folder)
    if not (folder / "result.json").exists():
        log.warning("%s is not finished: left out", folder)
        return None
    result = read_json(folder / "result.json")
    try:
        lines = (folder / "metrics.jsonl").read_text().splitlines()
        checks = tuple(json.loads(line) for line in lines)
        result["domains"], result["benchmark"]["name"], result["target"]["accuracy"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder} does not hold a whole run: {error}") from error
    return FinishedRun(folder, config, result, checks)


def _require_comparable(runs: Sequence[FinishedRun]) -> None:
    """A table has one split and one version of each data set."""
    first = runs[0]
    versions: dict[str, FinishedRun] = {}
    for run in runs:
        if run.config.split.scheme != first.config.split.scheme:
            raise InputError(
                f"{first.folder} has the split {first.config.split.scheme}, "
                f"{run.folder} {run.config.split.scheme}: figures of two splits do not belong into one table"
            )
        known = versions.setdefault(run.result["benchmark"]["name"], run)
        if known.result["benchmark"]["fingerprint"] != run.result["benchmark"]["fingerprint"]:
            raise InputError(
                f"{known.folder} and {run.folder} are of two versions of {run.result['benchmark']['name']}: "
                "their images differ"
            )


def _records(run: FinishedRun, key: Mapping[str, object], settings: Mapping[str, object]) -> Iterator[Record]:
    config, result = run.config, run.result
    target, unseen = config.data.target, config.split.validation_domain
    base = Record(
        data_set=result["benchmark"]["name"],
        algorithm=result["algorithm"],
        domains=tuple(result["domains"]),
        held_out=(target, unseen) if unseen else (target,),
        trial=result["trial"],
        hyperparameters=hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:12],
        step=result["selected_step"],
        in_part={},
        out_part={},
        settings=settings,
        share=_share(run),
    )
    if not unseen and not _scores_target(run):
        yield replace(base, in_part={target: result["target"]["accuracy"]}, out_part=_out(run, result))
        return
    for check in run.checks:
        in_part = {name: value for name, part, value in _scores(check) if part in ("in", "all")}
        if unseen:
            in_part[unseen] = check["validation"][unseen]["accuracy"]
        yield replace(base, step=check["step"], in_part=in_part, out_part=_out(run, check))


def _out(run: FinishedRun, holder: Mapping[str, Any]) -> dict[str, float]:
    """Accuracy on held-out images, by domain; the target's own where a check or the oracle scored them."""
    unseen = run.config.split.validation_domain
    found = {name: value["accuracy"] for name, value in holder["validation"].items() if name != unseen}
    found |= {name: value for name, part, value in _scores(holder) if part == "out"}
    if "oracle" in holder:
        found[run.config.data.target] = holder["oracle"]["accuracy"]
    return found


def _scores(check: Mapping[str, Any]) -> Iterator[tuple[str, str, float]]:
    for name, value in check.get("scores", {}).items():
        domain, _, part = name.rpartition("/")
        yield domain, part, value["accuracy"]


def _scores_target(run: FinishedRun) -> bool:
    return any(domain == run.config.data.target for check in run.checks for domain, *_ in _scores(check))


def _share(run: FinishedRun) -> float:
    split = run.config.split
    return 1.0 if split.target_images == "all" else 1 - split.holdout


def _several_methods(runs: Sequence[FinishedRun]) -> bool:
    return len({run.config.algorithm.name for run in runs}) > 1


def _plain_settings(config: RunConfig) -> dict[str, object]:
    """Every setting that could have been tuned, by its dotted name: what tells hyper-parameters apart."""
    flat = dict(_flatten(to_dict(config)))
    repeated = ("seed", "split.seed", "split.validation_domain", "data.target", "protocol.", "training.device")
    return {name: value for name, value in flat.items() if not name.startswith(repeated)}


def _flatten(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in data.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value
