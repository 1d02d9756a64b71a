"""Which tuples of primitives a predicate is applied to, by number.

The tuples of a predicate stand in a fixed order; the *rank* of a tuple is its place in it. A tuple is computed from
its rank, so that some can be had where there would be too many to list.

tri(i, j, k) has its angle at i; turn(i, j, k) turns at j; orient and eqdist(i, j, k, l) compare the edges i→j and
k→l.
"""

import hashlib
from collections.abc import Callable
from math import comb, perm
from typing import Literal

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

Enumeration = Literal["distinct", "paper"]
Ranks = Int[Tensor, "T"]
Tuples = Int[Tensor, "T arity"]


def count(predicate: str, K: int, enumeration: Enumeration) -> int:
    """How many tuples of K primitives a predicate has."""
    distinct = enumeration == "distinct"
    match predicate:
        case "has":
            return K
        case "above" | "left" | "contains":
            return perm(K, 2)
        case "h_align" | "v_align" | "near":
            return comb(K, 2) if distinct else perm(K, 2)
        case "tri" | "turn":
            return K * comb(K - 1, 2) if distinct else perm(K, 3)
        case "orient":
            return 2 * comb(comb(K, 2), 2) if distinct else comb(perm(K, 2), 2)
        case "eqdist":
            return comb(comb(K, 2), 2) if distinct else comb(K, 3)
        case _:
            raise AssertionError(predicate)


def unrank(predicate: str, K: int, enumeration: Enumeration, ranks: Ranks) -> Tuples:
    """The tuples of the given ranks, each in [0, count)."""
    distinct = enumeration == "distinct"
    match predicate:
        case "has":
            return ranks.unsqueeze(1)
        case "above" | "left" | "contains":
            return _permutations(K, 2, ranks)
        case "h_align" | "v_align" | "near":  # symmetric
            return _combinations(K, 2, ranks) if distinct else _permutations(K, 2, ranks)
        case "tri":  # symmetric in the two outer primitives
            return _apex_first(K, ranks) if distinct else _permutations(K, 3, ranks)
        case "turn":  # a chain and its reverse turn alike
            return _apex_first(K, ranks)[:, [1, 0, 2]] if distinct else _permutations(K, 3, ranks)
        case "orient" if distinct:  # all pairs of undirected edges, then all again with the second edge reversed
            pairs = comb(comb(K, 2), 2)
            rows = _edge_pairs(_combinations, K, comb(K, 2), ranks % max(1, pairs))
            return torch.where((ranks < pairs).unsqueeze(1), rows, rows[:, [0, 1, 3, 2]])
        case "orient":
            return _edge_pairs(_permutations, K, perm(K, 2), ranks)
        case "eqdist" if distinct:
            return _edge_pairs(_combinations, K, comb(K, 2), ranks)
        case "eqdist":  # the published count has one column a triple: the two legs of its chain
            return _combinations(K, 3, ranks)[:, [0, 1, 1, 2]]
        case _:
            raise AssertionError(predicate)


def draw_ranks(total: int, some: int, about: str) -> Ranks:
    """`some` different ranks below `total`, ascending, every set of them as likely as any other.

    They are the first different ones in a stream of numbers, the digest SHAKE-256 of `about`: the same on every
    machine, and with more to draw, the same and others. (A number has 64 bits; its rest modulo `total` is uneven
    by one part in 2⁶⁴ / total.)
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


def _apex_first(K: int, ranks: Ranks) -> Tuples:
    """(apex, j, k) with j < k."""
    each = max(1, comb(K - 1, 2))
    return _then(ranks // each, _combinations(K - 1, 2, ranks % each))


def _then(first: Ranks, others: Int[Tensor, "T some"]) -> Tuples:
    """One primitive, then some of the rest; those were numbered without it."""
    before = first.unsqueeze(1)
    return torch.cat((before, others + (others >= before)), 1)


def _edge_pairs(edges: Callable[[int, int, Ranks], Tuples], K: int, number: int, ranks: Ranks) -> Tuples:
    """Unordered pairs of different edges, of which there are `number`."""
    return edges(K, 2, _combinations(number, 2, ranks).flatten()).reshape(-1, 4)
