"""What the report of a run is made of, as plain data: gathered elsewhere, written by `explain/report/page.py`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from jaxtyping import Int

from parse_dg.explain.classes import ClassCard, ClassComposition
from parse_dg.explain.faces import PrimitiveFaces
from parse_dg.explain.report.curve import Curve
from parse_dg.tables.text_table import TextTable

Role = Literal["result", "target", "source"]
"""The result of the run is of these images, or they are others of the target domain, or of a source domain."""


@dataclass(frozen=True, eq=False)
class DomainScore:
    """How many images of one domain a model gets right, and what it takes the others for."""

    domain: str
    images: str
    """Which images of the domain, in words."""
    role: Role
    correct: int
    total: int
    confusion: Int[np.ndarray, "C C"] | None = None
    """How many images of class (row) were predicted to be of class (column); None where it was not looked."""


@dataclass(frozen=True, kw_only=True)
class Gallery:
    """Some images of a kind, to be looked at one by one."""

    title: str
    words: str
    """Which images these are, and how they were chosen."""
    cases: tuple[dict[str, Any], ...]
    """As in `explain/viewer_data.py`."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Report:
    """All that is said of a run. The same run gives the same report: no date, no path of the machine."""

    title: str
    accuracy: float
    """The result of the run; `headline` says what that number is."""
    headline: str
    facts: tuple[tuple[str, str], ...]
    """Name and value of what one asks first."""
    rules: tuple[str, ...]
    """How the run was scored, a sentence each."""
    notes: tuple[str, ...]
    """What was left out and why, and what else a reader has to know, a sentence each."""
    classes: tuple[str, ...]
    scores: tuple[DomainScore, ...]
    """The target first."""
    galleries: tuple[Gallery, ...]
    compositions: tuple[ClassComposition, ...]
    """Empty, as `compaction`, for methods other than PARSE."""
    compaction: tuple[TextTable, ...]
    cards: tuple[ClassCard, ...] = ()
    """The same classes, drawn; empty, as `faces`, where the images are not here, too."""
    faces: PrimitiveFaces | None = None
    names: Mapping[int, str] = field(default_factory=dict)
    """What people call the primitives."""
    curve: Curve | None
    config: Mapping[str, str]
    """Every field of the configuration by its dotted name, as `--set` takes it."""
    commands: tuple[tuple[str, str], ...]
    """What each does, and what to type."""
    environment: Mapping[str, str]
