"""An accuracy over trials: its mean, its spread, how it is printed, and whether two of them differ."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np

from parse_dg.errors import require_known
from parse_dg.tables.selection import average, standard_error
from parse_dg.wording import plural

Spread = Literal["se", "std"]
"""What stands after a ±: the standard error of the mean, or the standard deviation of the trials."""

SPREADS: Mapping[Spread, str] = {"se": "standard error", "std": "sample standard deviation"}
EXACT = 16
"""Up to so many pairs every choice of signs is counted; above, 2 to this power are drawn."""


@dataclass(frozen=True)
class Estimate:
    """An accuracy over trials, as fractions."""

    values: Mapping[int, float]
    missing: tuple[int, ...] = ()

    @classmethod
    def over(cls, trials: Sequence[int], values: Mapping[int, float]) -> "Estimate":
        """The values there are of these trials."""
        return cls(values, tuple(trial for trial in trials if trial not in values))

    @property
    def lacks(self) -> str:
        """`trial 1`, `trials 1, 2` or `all trials`."""
        some = ("trial " if len(self.missing) == 1 else "trials ") + ", ".join(map(str, self.missing))
        return some if self.values else "all trials"

    @property
    def mean(self) -> float | None:
        return average(list(self.values.values())) if self.values else None

    @property
    def error(self) -> float | None:
        """The standard error of the mean; none for a single trial, which has no spread to measure."""
        return standard_error(list(self.values.values())) if len(self.values) > 1 else None

    @property
    def deviation(self) -> float | None:
        """The standard deviation of the sample, with n−1; none for a single trial."""
        return statistics.stdev(self.values.values()) if len(self.values) > 1 else None

    def spread(self, kind: Spread) -> float | None:
        return self.error if kind == "se" else self.deviation

    def say(self, kind: Spread) -> str:
        """Mean ± spread in per cent; says so when trials are missing."""
        if self.mean is None:
            return "missing"
        spread = self.spread(kind)
        count = len(self.values)
        incomplete = f" ({count} of {count + len(self.missing)} trials)" if self.missing else ""
        return shown(self.mean) + ("" if spread is None else f" ± {shown(spread)}") + incomplete

    def __str__(self) -> str:
        return self.say("se")


def find_spread(name: str) -> Spread:
    """The spread of that name."""
    require_known("spread", name, SPREADS)
    return cast(Spread, name)


def shown(fraction: float) -> str:
    """A fraction in per cent, with the one digit that tables have."""
    return f"{100 * fraction:.1f}"


def explain_spread(kind: Spread, trials: int) -> str:
    """`mean ± standard error over 3 trials`, or that there is a single one."""
    return f"mean ± {SPREADS[kind]} over {trials} trials" if trials > 1 else "one trial, so that there is no ±"


def compared_with(rows: Mapping[str, Mapping[str, Estimate]], against: str) -> str:
    """Every other row against the one that is named: the mean difference in points, and how likely by chance."""
    said = []
    for name in (name for name in rows if name != against):
        pairs = differences(rows[name], rows[against])
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
