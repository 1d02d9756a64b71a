"""The vocabulary of structural compositions: which predicate is applied to which primitives (section 3.2).

Column m of the activations a(X) ∈ [0,1]^M is one *application*: a predicate, one of its target angles, and a tuple
of primitives. Columns are numbered block by block, a block being one predicate; inside it angle by angle, then
tuple by tuple, so that a column's meaning is computed and never stored.

Two enumerations are offered. `distinct` has every value once. `paper` reproduces the published M = 130,176 at
K = 16 and holds many exact copies (docs/paper_map.md).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import Literal, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from parse_dg.config import check_choices, require

Tuples = Int[Tensor, "T arity"]

Family = Literal["presence", "binary", "ternary", "quaternary"]
FAMILY: dict[str, Family] = {
    "has": "presence",
    "above": "binary",
    "left": "binary",
    "h_align": "binary",
    "v_align": "binary",
    "near": "binary",
    "contains": "binary",
    "tri": "ternary",
    "turn": "ternary",
    "orient": "quaternary",
    "eqdist": "quaternary",
}
"""Every predicate, in the order of its columns, and the family it is switched with."""

PREDICATES = tuple(FAMILY)

SWITCHES: dict[str, tuple[Family, ...]] = {
    "none": ("presence",),
    "binary": ("presence", "binary"),
    "binary+ternary": ("presence", "binary", "ternary"),
    "binary+quaternary": ("presence", "binary", "quaternary"),
    "all": ("presence", "binary", "ternary", "quaternary"),
}
"""The settings of the predicate-family ablation, and the families each evaluates."""


@dataclass(frozen=True, kw_only=True)
class VocabularyConfig:
    """Which applications are enumerated."""

    enumeration: Literal["distinct", "paper"] = "distinct"
    families: Literal["none", "binary", "binary+ternary", "binary+quaternary", "all"] = "all"
    """`none` leaves presence alone."""
    triangle_angles: int = 3
    """n, target angles of tri."""
    turning_angles: int = 1
    """ℓ, target angles of turn."""
    orientation_angles: int = 4
    """m, target angles of orient."""

    def __post_init__(self) -> None:
        check_choices(self, "vocabulary")
        for name in ("triangle_angles", "turning_angles", "orientation_angles"):
            require(getattr(self, name) >= 1, f"vocabulary.{name}", getattr(self, name), "at least 1")

    def angles(self, predicate: str) -> int:
        """How many target angles a predicate has; 1 for those without."""
        counts = {"tri": self.triangle_angles, "turn": self.turning_angles, "orient": self.orientation_angles}
        return counts.get(predicate, 1)


@dataclass(frozen=True, eq=False)
class Block:
    """The columns of one predicate: `angles` × `len(tuples)` of them, from `start` on."""

    predicate: str
    angles: int
    tuples: Tuples
    start: int

    @property
    def family(self) -> Family:
        """The family the predicate belongs to."""
        return FAMILY[self.predicate]

    @property
    def size(self) -> int:
        """How many columns the block has."""
        return self.angles * len(self.tuples)


class Applications(NamedTuple):
    """Some columns of one block: what to evaluate."""

    predicate: str
    angle: Int[Tensor, "n"]
    primitives: Int[Tensor, "arity n"]


class Vocabulary:
    """Every application of the predicates to K primitives; column m ↔ predicate, angle, primitives."""

    def __init__(self, primitives: int, config: VocabularyConfig):
        self.primitives, self.config = primitives, config
        blocks, start = [], 0
        for predicate, family in FAMILY.items():
            if family in SWITCHES[config.families]:
                tuples = enumerate_tuples(predicate, primitives, config.enumeration)
                blocks.append(Block(predicate, config.angles(predicate), tuples, start))
                start += blocks[-1].size
        self.blocks = tuple(blocks)
        self.size = start
        """M, the number of columns."""
        self._tuples: dict[torch.device, list[Tensor]] = {}

    def applications(self, columns: Int[Tensor, "n"]) -> Iterator[Applications]:
        """What the given columns are, block by block; `columns` must ascend within [0, M)."""
        ends = torch.tensor([block.start + block.size for block in self.blocks], device=columns.device)
        counts = torch.searchsorted(columns.contiguous(), ends).tolist()
        first = 0
        for block, tuples, last in zip(self.blocks, self._tuples_on(columns.device), counts, strict=True):
            if last > first:
                local = columns[first:last] - block.start
                angle = local.div(len(tuples), rounding_mode="floor")
                yield Applications(block.predicate, angle, tuples[local - angle * len(tuples)].T.contiguous())
            first = last

    def _tuples_on(self, device: torch.device) -> list[Tensor]:
        if device not in self._tuples:
            self._tuples[device] = [block.tuples.to(device) for block in self.blocks]
        return self._tuples[device]

    def names(self, columns: Int[Tensor, "n"]) -> list[str]:
        """The readable names of ascending columns: `above(p3, p11)`, `orient[2](p0→p4, p7→p9)`."""
        return [
            application_name(part.predicate, int(angle), tuple(primitives))
            for part in self.applications(columns)
            for angle, primitives in zip(part.angle.tolist(), part.primitives.T.tolist(), strict=True)
        ]


def application_name(predicate: str, angle: int, primitives: tuple[int, ...]) -> str:
    """The readable name of one application; the number in brackets is the target angle's."""
    p = [f"p{i}" for i in primitives]
    inside = f"{p[0]}→{p[1]}, {p[2]}→{p[3]}" if FAMILY[predicate] == "quaternary" else ", ".join(p)
    with_angle = f"[{angle}]" if predicate in ("tri", "turn", "orient") else ""
    return f"{predicate.replace('_', '-')}{with_angle}({inside})"


def enumerate_tuples(predicate: str, K: int, enumeration: Literal["distinct", "paper"]) -> Tuples:
    """The primitives a predicate is applied to, one row an application.

    tri(i, j, k) has its angle at i; turn(i, j, k) turns at j; orient and eqdist(i, j, k, l) compare the edges i→j
    and k→l.
    """
    distinct = enumeration == "distinct"
    rows: Sequence[tuple[int, ...]]
    pairs = list(permutations(range(K), 2)) if not distinct else []
    match predicate:
        case "has":
            rows = [(i,) for i in range(K)]
        case "above" | "left" | "contains":
            rows = list(permutations(range(K), 2))
        case "h_align" | "v_align" | "near":  # symmetric
            rows = list(combinations(range(K), 2)) if distinct else pairs
        case "tri":  # symmetric in the two outer primitives
            rows = _apex_first(K) if distinct else list(permutations(range(K), 3))
        case "turn":  # a chain and its reverse turn alike
            rows = [(j, i, k) for i, j, k in _apex_first(K)] if distinct else list(permutations(range(K), 3))
        case "orient":
            rows = _edge_pairs(K, both_signs=True) if distinct else [(*a, *b) for a, b in combinations(pairs, 2)]
        case "eqdist" if distinct:
            rows = _edge_pairs(K, both_signs=False)
        case "eqdist":  # the published count has one column a triple: the two legs of its chain
            rows = [(i, j, j, k) for i, j, k in combinations(range(K), 3)]
        case _:
            raise AssertionError(predicate)
    arity = {"presence": 1, "binary": 2, "ternary": 3, "quaternary": 4}[FAMILY[predicate]]
    return torch.tensor(rows, dtype=torch.long).reshape(-1, arity)


def _apex_first(K: int) -> list[tuple[int, int, int]]:
    """(apex, j, k) with j < k."""
    return [(i, j, k) for i in range(K) for j, k in combinations([p for p in range(K) if p != i], 2)]


def _edge_pairs(K: int, *, both_signs: bool) -> list[tuple[int, int, int, int]]:
    """Unordered pairs of distinct undirected edges; with both signs, the second edge also reversed."""
    edges = list(combinations(range(K), 2))
    rows = [(*a, *b) for a, b in combinations(edges, 2)]
    return rows + [(i, j, l, k) for i, j, k, l in rows] if both_signs else rows
