"""Which tuples of primitives a predicate is applied to, by number.

The tuples of a predicate stand in a fixed order; the *rank* of a tuple is its place in it. A tuple is computed from
its rank, so that some can be had where there would be too many to list.
"""

import hashlib
from collections.abc import Callable
from functools import partial
from math import comb, perm
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

Enumeration = Literal["distinct", "paper"]
Ranks = Int[Tensor, "T"]
Tuples = Int[Tensor, "T arity"]

Symmetry = Literal["none", "full", "apex", "reversal", "edges", "lengths"]
"""What leaves a predicate's value as it is. `none`: nothing, every order is another application. `full`: any other
order. `apex`: any other order of all but the first, as of the angle at i in (i, j, k). `reversal`: (k, j, i) for
(i, j, k). `edges`, of i→j and k→l: their exchange, and both reversed. `lengths`: either edge reversed, too."""

ARITIES = {"reversal": 3, "edges": 4, "lengths": 4}
"""How many primitives some symmetries are about; the others are about any number."""


class TupleListing(NamedTuple):
    """All tuples of K primitives that a predicate is applied to."""

    total: int
    unrank: Callable[[Ranks], Tuples]
    """The tuples of the given ranks, each in [0, total)."""


def list_tuples(symmetry: Symmetry, arity: int, K: int, enumeration: Enumeration) -> TupleListing:
    """How many there are, and which; of what leaves the value as it is, `distinct` has one."""
    distinct, edges = enumeration == "distinct", comb(K, 2)
    match symmetry:
        case "full" if distinct:
            return TupleListing(comb(K, arity), partial(_combinations, K, arity))
        case "apex" if distinct:
            return TupleListing(K * comb(K - 1, arity - 1), partial(_apex_first, K, arity))
        case "reversal" if distinct:
            return TupleListing(K * comb(K - 1, 2), lambda ranks: _apex_first(K, 3, ranks)[:, [1, 0, 2]])
        case "edges" if distinct:
            return TupleListing(2 * comb(edges, 2), partial(_pairs_either_way, K))
        case "edges":
            return TupleListing(comb(perm(K, 2), 2), partial(_edge_pairs, _permutations, K, perm(K, 2)))
        case "lengths" if distinct:
            return TupleListing(comb(edges, 2), partial(_edge_pairs, _combinations, K, edges))
        case "lengths":  # the published count has one column a triple: the two legs of its chain
            return TupleListing(comb(K, 3), lambda ranks: _combinations(K, 3, ranks)[:, [0, 1, 1, 2]])
        case _:
            return TupleListing(perm(K, arity), partial(_permutations, K, arity))


def draw_ranks(total: int, some: int, about: str) -> Ranks:
    """`some` different ranks below `total`, ascending, every set of them as likely as any other.

    They are the first different ones in a stream of 64-bit numbers, the digest SHAKE-256 of `about`: the same on
    every machine, and with more to draw, the same and others.
    """
    assert 0 < some <= total
    length = some
    while True:
        length *= 2
        stream = np.frombuffer(hashlib.shake_256(about.encode()).digest(8 * length), dtype="<u8")
        ranks, first = np.unique(stream % np.uint64(total), return_index=True)
        if len(ranks) >= some:
            last = np.partition(first, some - 1)[some - 1]
            return torch.from_numpy(ranks[first <= last].astype(np.int64))


def _permutations(n: int, size: int, ranks: Ranks) -> Tuples:
    """Ordered choices without repetition out of n, in lexicographic order."""
    if size == 1:
        return ranks.unsqueeze(1)
    rest = max(0, n - 1)
    each = max(1, perm(rest, size - 1))
    return _then(ranks // each, _permutations(rest, size - 1, ranks % each))


def _combinations(n: int, size: int, ranks: Ranks) -> Tuples:
    """Unordered choices, each ascending, in lexicographic order.

    Counted from the last, a rank is (c₁ over size) + (c₂ over size - 1) + … with c₁ > c₂ > …, and the choice is
    n - 1 - c.
    """
    left = comb(n, size) - 1 - ranks
    places = []
    for k in range(size, 0, -1):
        table = torch.tensor([comb(c, k) for c in range(n)], dtype=torch.long)
        c = torch.searchsorted(table, left, right=True) - 1
        left = left - table[c]
        places.append(n - 1 - c)
    return torch.stack(places, 1)


def _apex_first(K: int, size: int, ranks: Ranks) -> Tuples:
    """(apex, j, k, …) with j < k < …"""
    each = max(1, comb(K - 1, size - 1))
    return _then(ranks // each, _combinations(K - 1, size - 1, ranks % each))


def _then(first: Ranks, others: Int[Tensor, "T some"]) -> Tuples:
    """One primitive, then some of the rest; those were numbered without it."""
    before = first.unsqueeze(1)
    return torch.cat((before, others + (others >= before)), 1)


def _edge_pairs(edges: Callable[[int, int, Ranks], Tuples], K: int, number: int, ranks: Ranks) -> Tuples:
    """Unordered pairs of different edges, of which there are `number`."""
    return edges(K, 2, _combinations(number, 2, ranks).flatten()).reshape(-1, 4)


def _pairs_either_way(K: int, ranks: Ranks) -> Tuples:
    """All pairs of undirected edges, then all again with the second edge reversed."""
    pairs = comb(comb(K, 2), 2)
    rows = _edge_pairs(_combinations, K, comb(K, 2), ranks % max(1, pairs))
    return torch.where((ranks < pairs).unsqueeze(1), rows, rows[:, [0, 1, 3, 2]])
