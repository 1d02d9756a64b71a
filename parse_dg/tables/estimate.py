"""An accuracy over trials: its mean, its spread, and how it is printed."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

from parse_dg.errors import require_known
from parse_dg.tables.selection import average, standard_error

Spread = Literal["se", "std"]
"""What stands after a ±: the standard error of the mean, or the standard deviation of the trials."""

SPREADS: Mapping[Spread, str] = {"se": "standard error", "std": "sample standard deviation"}
"""In words."""


@dataclass(frozen=True)
class Estimate:
    """An accuracy over trials, as fractions."""

    values: Mapping[int, float]
    missing: tuple[int, ...] = ()
    """Trials of the data set that have no value."""

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
