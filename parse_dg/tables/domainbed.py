"""The output of DomainBed itself, read as records for model selection, and its tables.

A sweep is a folder with a folder for every run, in which `results.jsonl` has a line for every check. A folder of
`.jsonl` files, one for every run, is read as well.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parse_dg.config import require
from parse_dg.errors import InputError, about
from parse_dg.files import attempting, parse_json
from parse_dg.jsonable import Jsonable
from parse_dg.tables.selection import Record
from parse_dg.tables.selection_tables import SelectionTables, selection_tables
from parse_dg.wording import short

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
ACCURACY = re.compile(r"env(0|[1-9][0-9]{0,3})_(in|out)_acc")


@dataclass(frozen=True, kw_only=True)
class DomainBedArguments(Jsonable):
    """What a run was started with."""

    dataset: str
    algorithm: str
    test_envs: tuple[int, ...]
    hparams_seed: int
    trial_seed: int
    holdout_fraction: float = 0.2
    """Of each environment, in its out part."""
    uda_holdout_fraction: float = 0.0

    def __post_init__(self) -> None:
        for key in ("dataset", "algorithm"):
            name = getattr(self, key)
            require(bool(name) and name.isprintable(), f"args.{key}", name, "a name")
        for key in ("holdout_fraction", "uda_holdout_fraction"):
            value = getattr(self, key)
            require(0 <= value < 1, f"args.{key}", value, "at least 0 and below 1")


@dataclass(frozen=True, kw_only=True)
class DomainBedCheck(Jsonable):
    """A line of results.jsonl, but for its accuracies."""

    args: DomainBedArguments
    hparams: Mapping[str, Any]
    step: int


def read_sweep(folder: Path) -> tuple[Record, ...]:
    """Every check of every run, in the order of the draws of hyper-parameters, which decides between equals.

    An unfinished run counts, as it does for DomainBed's own collector.
    """
    if not folder.is_dir():
        found = "a file" if folder.exists() else "nothing there"
        raise InputError(f"{folder} must be a folder of DomainBed's results, found {found}")
    with attempting(f"read {folder}"):
        nested = (sorted(folder.glob(pattern)) for pattern in ("*/results.jsonl", "*.jsonl"))
        paths = [path for some in nested for path in some if path.is_file()]
    if not paths:
        raise InputError(f"{folder} has no results of DomainBed: expected RUN/results.jsonl or RUN.jsonl in it")
    records = [read for path in paths for read in _read_run(path)]
    if not records:
        raise InputError(f"{folder} has no results of DomainBed: every .jsonl file in it is empty")
    return tuple(record for _, record in sorted(records, key=lambda read: read[0]))


def domainbed_tables(records: Sequence[Record], selection: str) -> SelectionTables:
    """The tables of a sweep, data sets and algorithms in DomainBed's order."""
    return selection_tables(records, selection, data_sets=tuple(ENVIRONMENTS), algorithms=ALGORITHMS)


def _read_run(path: Path) -> Iterator[tuple[int, Record]]:
    """(number of the draw, record) for every line that is not blank."""
    with attempting(f"read {path}"):
        lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        if line.strip():
            with about(f"{path}, line {number}"):
                yield _record(parse_json(line, "it"))


def _record(data: Any) -> tuple[int, Record]:
    check = DomainBedCheck.from_dict(data)
    args, draw = check.args, check.args.hparams_seed
    inside, outside = _accuracies(data)
    count = len(inside)
    domains = ENVIRONMENTS.get(args.dataset, tuple(f"env{number}" for number in range(count)))
    if len(domains) != count:
        known = f"{len(domains)} environments ({', '.join(domains)})"
        raise InputError(f"{args.dataset} has {known}, found accuracies of {count}")
    held = args.test_envs
    if not held or len(set(held)) != len(held) or not set(held) < set(range(count)):
        valid = f"numbers from 0 to {count - 1}, some but not all, each once"
        raise InputError(f"args.test_envs must list {valid}, found {short(list(held))}")
    return draw, Record(
        data_set=args.dataset,
        algorithm=args.algorithm,
        domains=domains,
        held_out=tuple(domains[number] for number in sorted(held)),
        trial=args.trial_seed,
        hyperparameters=str(draw),
        step=check.step,
        in_part=dict(zip(domains, inside, strict=True)),
        out_part=dict(zip(domains, outside, strict=True)),
        settings=check.hparams,
        share=(1 - args.holdout_fraction) * (1 - args.uda_holdout_fraction),
    )


def _accuracies(data: Mapping[str, Any]) -> list[list[float]]:
    numbers = {int(found[1]) for key in data if (found := ACCURACY.fullmatch(key))}
    count = max(len(numbers), 1)
    if numbers - set(range(count)):
        gap = min(set(range(count)) - numbers)
        raise InputError(f"env{gap}_in_acc is missing, though there is env{max(numbers)}: expected a number")
    return [[_accuracy(data, f"env{number}_{part}_acc") for number in range(count)] for part in ("in", "out")]


def _accuracy(data: Mapping[str, Any], key: str) -> float:
    if key not in data:
        raise InputError(f"{key} is missing: expected a number")
    value = data[key]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 <= value <= 1:  # NaN too: it compares false with everything
        raise InputError(f"{key} must be an accuracy from 0 to 1, found {short(value)}")
    return float(value)
