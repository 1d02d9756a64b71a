"""The output of DomainBed itself, read as records for model selection, and its tables.

A sweep is a folder with a folder for every run, in which `results.jsonl` has a line for every check. A folder of
`.jsonl` files, one for every run, is read as well.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from parse_dg.errors import InputError
from parse_dg.files import attempting
from parse_dg.tables.selection import Record
from parse_dg.tables.selection_tables import SelectionTables, selection_tables

ENVIRONMENTS: Mapping[str, tuple[str, ...]] = {
    "VLCS": ("C", "L", "S", "V"),
    "PACS": ("A", "C", "P", "S"),
    "OfficeHome": ("A", "C", "P", "R"),
    "TerraIncognita": ("L100", "L38", "L43", "L46"),
    "DomainNet": ("clip", "info", "paint", "quick", "real", "sketch"),
}
"""What DomainBed calls the environments of its data sets; those of any other are env0, env1, ..."""
ALGORITHMS = (
    *("ERM", "IRM", "GroupDRO", "Mixup", "MLDG", "CORAL", "MMD"),
    *("DANN", "CDANN", "MTL", "SagNet", "ARM", "VREx", "RSC"),
)
"""In the order of its published tables."""
HOLDOUT = 0.2
"""Fraction of each environment in its out part, where a run does not say."""

ACCURACY = re.compile(r"env(0|[1-9][0-9]{0,3})_(in|out)_acc")
NEEDED = object()
KINDS: Mapping[type, str] = {
    dict: "a section",
    str: "text",
    int: "a whole number",
    list: "a list",
    float: "a number",
}


class DomainBedRun(NamedTuple):
    """A run of a sweep."""

    name: str
    results: Path
    finished: bool | None
    """Whether DomainBed has marked it done; unknown for a file outside a folder of its own."""


def find_runs(folder: Path) -> tuple[DomainBedRun, ...]:
    """The runs of a sweep that have results; an unfinished one counts, as it does for DomainBed's own collector."""
    if not folder.is_dir():
        raise InputError(f"{folder} must be a folder of DomainBed's results, found {_found(folder)}")
    with attempting(f"read {folder}"):
        own = [path for path in sorted(folder.glob("*/results.jsonl")) if path.is_file()]
        flat = [path for path in sorted(folder.glob("*.jsonl")) if path.is_file()]
    if not own and not flat:
        raise InputError(f"{folder} has no results of DomainBed: expected RUN/results.jsonl or RUN.jsonl in it")
    runs = [DomainBedRun(path.parent.name, path, (path.parent / "done").exists()) for path in own]
    return (*runs, *(DomainBedRun(path.stem, path, None) for path in flat))


def read_sweep(folder: Path) -> tuple[Record, ...]:
    """Every check of every run, in the order of the draws of hyper-parameters, which decides between equals."""
    found = [read for run in find_runs(folder) for read in _read_run(run.results)]
    if not found:
        raise InputError(f"{folder} has no results of DomainBed: every .jsonl file in it is empty")
    return tuple(record for _, record in sorted(found, key=lambda read: read[0]))


def domainbed_tables(records: Sequence[Record], selection: str) -> SelectionTables:
    """The tables of a sweep, data sets and algorithms in DomainBed's order."""
    return selection_tables(records, selection, data_sets=tuple(ENVIRONMENTS), algorithms=ALGORITHMS)


def _read_run(path: Path) -> Iterator[tuple[int, Record]]:
    """(number of the draw, record) for every line that is not blank."""
    with attempting(f"read {path}"):
        lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield _record(_parse(line))
            except InputError as error:
                raise InputError(f"{path}, line {number}: {error}") from error


def _parse(line: bytes) -> Mapping[str, Any]:
    try:
        data = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        raise InputError(f"not valid JSON: {error}") from error
    if not isinstance(data, dict):
        raise InputError(f"must be a section, found {_short(data)}")
    return data


def _record(data: Mapping[str, Any]) -> tuple[int, Record]:
    args = _get(data, "args", dict)
    data_set = _name(args, "dataset")
    inside, outside = _accuracies(data)
    domains = _environments(data_set, len(inside))
    draw = _get(args, "hparams_seed", int, "args.")
    return draw, Record(
        data_set=data_set,
        algorithm=_name(args, "algorithm"),
        domains=domains,
        held_out=tuple(domains[number] for number in _test_envs(args, len(domains))),
        trial=_get(args, "trial_seed", int, "args."),
        hyperparameters=str(draw),
        step=_get(data, "step", int),
        in_part=dict(zip(domains, inside, strict=True)),
        out_part=dict(zip(domains, outside, strict=True)),
        settings=_get(data, "hparams", dict),
        share=(1 - _fraction(args, "holdout_fraction", HOLDOUT))
        * (1 - _fraction(args, "uda_holdout_fraction", 0.0)),
    )


def _get(data: Mapping[str, Any], key: str, kind: type, where: str = "", default: Any = NEEDED) -> Any:
    """A field of the kind that is expected; true and false are no numbers, a whole number is a number."""
    if key not in data:
        if default is NEEDED:
            raise InputError(f"{where}{key} is missing: expected {KINDS[kind]}")
        return default
    value = data[key]
    kinds = (int, float) if kind is float else kind
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise InputError(f"{where}{key} must be {KINDS[kind]}, found {_short(value)}")
    return value


def _name(args: Mapping[str, Any], key: str) -> str:
    name: str = _get(args, key, str, "args.")
    if not name or not name.isprintable():
        raise InputError(f"args.{key} must be a name, found {_short(name)}")
    return name


def _fraction(args: Mapping[str, Any], key: str, default: float) -> float:
    value = _get(args, key, float, "args.", default)
    if not 0 <= value < 1:
        raise InputError(f"args.{key} must be at least 0 and below 1, found {_short(value)}")
    return float(value)


def _accuracies(data: Mapping[str, Any]) -> tuple[list[float], list[float]]:
    """By environment, on the in and on the out part."""
    numbers = {int(found[1]) for key in data if (found := ACCURACY.fullmatch(key))}
    count = max(len(numbers), 1)
    if numbers - set(range(count)):
        gap = min(set(range(count)) - numbers)
        raise InputError(f"env{gap}_in_acc is missing, though there is env{max(numbers)}: expected a number")
    parts = ([_accuracy(data, f"env{number}_{part}_acc") for number in range(count)] for part in ("in", "out"))
    inside, outside = parts
    return inside, outside


def _accuracy(data: Mapping[str, Any], key: str) -> float:
    value = _get(data, key, float)
    if not 0 <= value <= 1:  # NaN too: it compares false with everything
        raise InputError(f"{key} must be an accuracy from 0 to 1, found {_short(value)}")
    return float(value)


def _environments(data_set: str, count: int) -> tuple[str, ...]:
    names = ENVIRONMENTS.get(data_set, tuple(f"env{number}" for number in range(count)))
    if len(names) != count:
        raise InputError(
            f"{data_set} has {len(names)} environments ({', '.join(names)}), found accuracies of {count}"
        )
    return names


def _test_envs(args: Mapping[str, Any], count: int) -> list[int]:
    found = _get(args, "test_envs", list, "args.")
    whole = all(isinstance(number, int) and not isinstance(number, bool) for number in found)
    if not whole or not found or len(set(found)) != len(found) or not set(found) < set(range(count)):
        valid = f"numbers from 0 to {count - 1}, some but not all, each once"
        raise InputError(f"args.test_envs must list {valid}, found {_short(found)}")
    return sorted(found)


def _found(path: Path) -> str:
    return "a file" if path.exists() else "nothing there"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
