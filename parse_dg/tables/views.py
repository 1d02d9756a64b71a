"""Views of finished runs: which configuration fields tell the rows of a table apart, and how the rows are called.

Whatever a view does not tell apart is a hyper-parameter, of which model selection takes the best.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from parse_dg.config import as_typed, unknown_field
from parse_dg.errors import InputError, unknown
from parse_dg.runs.config import RunConfig
from parse_dg.sweeps.search import short_names
from parse_dg.tables.published import PublishedRow
from parse_dg.tables.records import flatten

METHODS = (
    *("erm", "dann", "cdann", "group_dro", "mixup", "sagnet", "coral", "gvrt", "erm_plus_plus", "miro", "erm+swad"),
    *("no_relations", "parse"),
)
"""The order of the paper's tables; other methods come after these, by name."""
PRIMITIVES = "algorithm.primitives.count"
ABLATION = {
    "no_relations": "No Relations",
    "none": "PARSE (presence alone)",
    "binary": "PARSE (binary)",
    "binary+ternary": "PARSE (binary + ternary)",
    "binary+quaternary": "PARSE (binary + quaternary)",
    "all": "PARSE (all families)",
    "relations": "PARSE (all families but presence)",
}
"""The setting of the families → what the row is called, as in the published figures."""
TOLD_APART = ("seed", "split.seed", "split.validation_domain", "data.target", "data.benchmark")
"""What the cells of a table are told apart by: no field for rows."""

Rank = tuple[tuple[float, str], ...]


class TableRow(NamedTuple):
    """A row of a table."""

    rank: Rank
    name: str
    of: str = ""
    at: float | None = None


class View(NamedTuple):
    """A way to look at runs."""

    summary: str
    row: Callable[[RunConfig], TableRow]
    published: Callable[[PublishedRow], bool]
    all_targets: bool = True
    """Whether runs of every target are wanted, or of those alone that some run has."""


def _main(config: RunConfig) -> TableRow:
    return TableRow((_method_rank(config.method),), config.method)


def _ablation(config: RunConfig) -> TableRow:
    of = config.algorithm.ablation
    if of is None:
        return TableRow(((1, ""), _method_rank(config.method)), config.method)
    averaged = config.method.removeprefix(config.algorithm.name)
    return TableRow(((0, ""), (float(list(ABLATION).index(of)), averaged)), ABLATION[of] + averaged)


def _count(config: RunConfig) -> TableRow:
    count = flatten(config).get(PRIMITIVES)
    if not isinstance(count, int):
        return _main(config)
    of = config.method
    return TableRow((_method_rank(of), (count, "")), f"{of}, K = {count}", of, count)


VIEWS: dict[str, View] = {
    "main": View("methods (the paper's table 1)", _main, lambda row: True),
    "ablation": View(
        "PARSE by its predicate families, and without relations (the paper's table 2 (a))",
        _ablation,
        lambda row: row.table.endswith("ablation"),
    ),
    "k": View(
        "accuracy against K, the number of primitives (the paper's figure of it), also as a plot",
        _count,
        lambda row: row.source.name == "paper" and row.method == "PARSE",
        all_targets=False,  # the paper's is of a single one
    ),
}
COMPACTION = "compaction"
"""The view of what `parse-dg compact` found, which has tables of its own (cli/show/compact.py)."""
VIEW_NAMES = (*VIEWS, COMPACTION)


def find_view(name: str, by: Sequence[str] = ()) -> View:
    """The view of that name, its rows told apart by some fields more."""
    if name not in VIEWS:
        raise unknown("view", name, VIEW_NAMES)
    for field in by:
        if field in TOLD_APART:
            apart = "trials, targets and data sets are apart in any table"
            raise InputError(f"--by {field} would tell nothing: {apart}")
    view = VIEWS[name]
    return view._replace(row=lambda config: _divided(view.row(config), config, by)) if by else view


def require_fields(by: Sequence[str], configs: Sequence[RunConfig]) -> None:
    """Raise unless every field is one of some run."""
    known = dict.fromkeys(name for config in configs for name in flatten(config) if name not in TOLD_APART)
    for field in by:
        if field not in known:
            raise unknown_field(field, known)


def _divided(row: TableRow, config: RunConfig, by: Sequence[str]) -> TableRow:
    fields = flatten(config)
    mine = {field: fields[field] for field in by if field in fields}
    names = short_names(by, {})
    said = "".join(f", {names[field]}={as_typed(value)}" for field, value in mine.items())
    rank = (*row.rank, *(_rank(value) for value in mine.values()))
    return row._replace(rank=rank, name=row.name + said, of=row.of + said if row.of else "")


def _rank(value: object) -> tuple[float, str]:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return (float(str(value)), "") if number else (0.0, as_typed(value))


def _method_rank(method: str) -> tuple[float, str]:
    return (METHODS.index(method), "") if method in METHODS else (len(METHODS), method)
