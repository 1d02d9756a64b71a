"""Whether two rows of a table differ: their accuracies compared pair by pair, over targets and seeds."""

from collections.abc import Mapping, Sequence

import numpy as np

from parse_dg.tables.data_set_table import DataSetTable
from parse_dg.tables.estimate import Estimate
from parse_dg.wording import plural

EXACT = 16
"""Up to so many pairs every choice of signs is counted; above, 2 to this power are drawn."""


def compared_with(table: DataSetTable, against: str) -> str:
    """Every other row against the one that is named: the mean difference in points, and how likely by chance."""
    said = []
    for name in (name for name in table.cells if name != against):
        pairs = differences(table.cells[name], table.cells[against])
        if pairs:
            said.append(
                f"{name} {100 * np.mean(pairs):+.1f} ({plural(len(pairs), 'pair')}, p = {p_value(pairs):.2g})"
            )
    how = "p: how often signs at random give as large a mean difference, two-sided"
    return f"Against {against}, paired over targets and seeds: {'; '.join(said) or 'no pairs'}. {how}."


def differences(one: Mapping[str, Estimate], other: Mapping[str, Estimate]) -> list[float]:
    """Of every target and trial that both have."""
    return [
        value - other[target].values[trial]
        for target, estimate in one.items()
        for trial, value in estimate.values.items()
        if trial in other[target].values
    ]


def p_value(pairs: Sequence[float]) -> float:
    """The sign-flip test: the share of choices of signs whose mean is at least as far from 0 as the one found."""
    values, count = np.array(pairs, dtype=np.float64), 2**EXACT
    if len(pairs) <= EXACT:
        signs = 1.0 - 2 * ((np.arange(2 ** len(pairs))[:, None] >> np.arange(len(pairs))) & 1)
    else:
        signs = np.random.default_rng(0).choice([-1.0, 1.0], (count, len(pairs)))
        signs[0] = 1  # what was found is one of them
    return float(np.mean(np.abs(signs @ values) >= abs(values.sum()) - 1e-12))
