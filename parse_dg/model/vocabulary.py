"""The vocabulary of structural compositions: which predicate is applied to which primitives (section 3.2).

Column m of the activations a(X) ∈ [0,1]^M is one *application*: a predicate, one of its target angles, and a tuple
of primitives. Columns are numbered block by block, a block being one predicate; inside it angle by angle, then
tuple by tuple, so that a column's meaning is computed and never stored.

`distinct` has every value once; `paper` reproduces the published M = 130,176 at K = 16 and holds many exact copies
(docs/paper_map.md). Both grow with K⁴; with a budget a predicate has a part, which the configuration alone decides.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from parse_dg.config import Config, Count, Whole, at_most, require
from parse_dg.model.paper_predicates import PAPER, PREDICATES
from parse_dg.model.predicate import Family
from parse_dg.model.tuples import Enumeration, Ranks, TupleListing, Tuples, draw_ranks

SWITCHES: dict[str, tuple[Family, ...]] = {
    "none": ("presence",),
    "binary": ("presence", "binary"),
    "binary+ternary": ("presence", "binary", "ternary"),
    "binary+quaternary": ("presence", "binary", "quaternary"),
    "all": ("presence", "binary", "ternary", "quaternary"),
    "relations": ("binary", "ternary", "quaternary"),
}
"""The settings of the predicate-family ablation, and the families each evaluates; `relations` is an addition."""

Angles = Annotated[Count, at_most(1024)]
KEPT = 2**24
"""At most so many tuples of a predicate are kept in memory; a budget is below it."""


@dataclass(frozen=True, kw_only=True)
class VocabularyConfig(Config):
    """Which applications are enumerated."""

    enumeration: Enumeration = "distinct"
    """`distinct`: every value once. `paper`: the published number of applications, with many exact copies."""
    families: Literal["none", "binary", "binary+ternary", "binary+quaternary", "all", "relations"] = "all"
    """`none` has presence alone. `relations`, an addition, has all but presence, which a gated relation implies:
    given the choice, classes of photographs take presence, and say nothing about places."""
    triangle_angles: Angles = 3
    """n, target angles of tri."""
    turning_angles: Angles = 1
    """ℓ, target angles of turn."""
    orientation_angles: Angles = 4
    """m, target angles of orient."""
    budget: Annotated[Count, at_most(10**7)] | None = None
    """At most so many applications of each predicate: all of them where they fit, else tuples of primitives that
    are drawn, each with every target angle. None: no limit."""
    draw: Whole = 0
    """Where a budget leaves some out, another number draws others."""
    predicates: tuple[str, ...] = ()
    """Predicates beside the paper's eleven, by the names they were registered with (docs/extend.md). Their columns
    follow, and `families` switches them by how many primitives they bind."""

    def check(self) -> None:
        for name in self.predicates:
            expected = f"registered: {name!r} is in no plug-in that was named (--plugin MODULE)"
            self.require(name in PREDICATES, "predicates", expected)
        once = len(set(self.known)) == len(self.known)
        self.require(once, "predicates", "names other than the paper's, each once")

    @property
    def known(self) -> tuple[str, ...]:
        """Every predicate, in the order of its columns, whether its family is switched on or not."""
        return (*(predicate.name for predicate in PAPER), *self.predicates)


@dataclass(frozen=True, eq=False)
class Block:
    """The columns of one predicate: `angles` × `len(tuples)` of them, from `start` on."""

    predicate: str
    angles: int
    start: int
    size: int
    listing: TupleListing
    """Of all the tuples there are."""
    drawn_from: str
    """What decides which of them there is room for."""

    @property
    def family(self) -> Family:
        return PREDICATES[self.predicate].family

    @cached_property
    def tuples(self) -> Tuples:
        """Made when they are first asked for: a file may describe more of them than memory holds."""
        total, room = self.listing.total, self.size // self.angles
        ranks = torch.arange(total) if total == room else draw_ranks(total, room, self.drawn_from)
        return self.listing.unrank(ranks)


class Applications(NamedTuple):
    """Some columns of one block: what to evaluate."""

    predicate: str
    angle: Int[Tensor, "n"]
    primitives: Int[Tensor, "arity n"]


class Vocabulary:
    """The applications of the predicates to K primitives; column m ↔ predicate, angle, primitives."""

    def __init__(self, primitives: int, config: VocabularyConfig):
        self.primitives, self.config = primitives, config
        check_budget(primitives, config)
        blocks, start = [], 0
        for name in config.known:
            if PREDICATES[name].family in SWITCHES[config.families]:
                listing = PREDICATES[name].listing(primitives, config.enumeration)
                angles = PREDICATES[name].count_angles(config)
                room = listing.total if config.budget is None else config.budget // angles
                drawn_from = f"{name} of {primitives} {config.enumeration} {config.draw}"
                blocks.append(Block(name, angles, start, angles * min(listing.total, room), listing, drawn_from))
                start += blocks[-1].size
        self.blocks = tuple(blocks)
        self.size = start
        """M, the number of columns."""
        self._tuples: dict[tuple[str, torch.device], Tensor] = {}

    def applications(self, columns: Int[Tensor, "n"]) -> Iterator[Applications]:
        """What the given columns are, block by block; `columns` must ascend within [0, M)."""
        ends = torch.tensor([block.start + block.size for block in self.blocks], device=columns.device)
        counts = torch.searchsorted(columns.contiguous(), ends).tolist()
        first = 0
        for block, last in zip(self.blocks, counts, strict=True):
            if last > first:
                local, each = columns[first:last] - block.start, block.size // block.angles
                angle = local.div(each, rounding_mode="floor")
                tuples = self._tuples_of(block, local - angle * each)
                yield Applications(block.predicate, angle, tuples.T.contiguous())
            first = last

    def _tuples_of(self, block: Block, ranks: Ranks) -> Tuples:
        """Looked up; of a block too large to be kept, computed, as a compacted model needs few of them."""
        if block.size // block.angles > KEPT:
            return block.listing.unrank(ranks.cpu()).to(ranks.device)
        key = block.predicate, ranks.device
        if key not in self._tuples:
            self._tuples[key] = block.tuples.to(ranks.device)
        return self._tuples[key][ranks]

    def names(self, columns: Int[Tensor, "n"]) -> list[str]:
        """The readable names of ascending columns: `above(p3, p11)`, `orient[2](p0→p4, p7→p9)`."""
        return [
            PREDICATES[part.predicate].application(angle, tuple(primitives))
            for part in self.applications(columns)
            for angle, primitives in zip(part.angle.tolist(), part.primitives.T.tolist(), strict=True)
        ]


def check_budget(K: int, config: VocabularyConfig) -> None:
    """Raise if a budget has no room for so many primitives."""
    if config.budget is not None:
        least = max(K, *(PREDICATES[name].count_angles(config) for name in config.known))
        room = f"at least {least}, for the presence of {K} primitives and for every target angle"
        require(config.budget >= least, "vocabulary.budget", config.budget, room)


def count_columns(K: int, config: VocabularyConfig) -> int:
    """M; no tuple is made."""
    return Vocabulary(K, config).size
