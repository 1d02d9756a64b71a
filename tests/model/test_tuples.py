"""The tuples of primitives by their rank, against plain lists of all of them; and ranks that are drawn."""

from collections import Counter
from itertools import combinations, permutations

import pytest
import torch

from parse_dg.model.paper_predicates import PAPER, PREDICATES
from parse_dg.model.tuples import Enumeration, draw_ranks

ENUMERATIONS: list[Enumeration] = ["distinct", "paper"]
each_predicate = pytest.mark.parametrize("predicate", [each.name for each in PAPER])
each_enumeration = pytest.mark.parametrize("enumeration", ENUMERATIONS)


def listed(predicate: str, K: int, enumeration: str) -> list[tuple[int, ...]]:
    """Every tuple, in the order of its columns."""
    distinct = enumeration == "distinct"
    p = range(K)
    undirected, directed = list(combinations(p, 2)), list(permutations(p, 2))
    match predicate:
        case "has":
            return [(i,) for i in p]
        case "above" | "left" | "contains":
            return directed
        case "h_align" | "v_align" | "near":
            return undirected if distinct else directed
        case "tri" if distinct:
            return [(i, j, k) for i in p for j in p for k in p if j < k and i not in (j, k)]
        case "turn" if distinct:
            return [(i, j, k) for j in p for i in p for k in p if i < k and j not in (i, k)]
        case "tri" | "turn":
            return list(permutations(p, 3))
        case "orient" if distinct:
            pairs = list(combinations(undirected, 2))
            return [(*a, *b) for a, b in pairs] + [(*a, *reversed(b)) for a, b in pairs]
        case "orient":
            return [(*a, *b) for a, b in combinations(directed, 2)]
        case _ if distinct:
            return [(*a, *b) for a, b in combinations(undirected, 2)]
    return [(i, j, j, k) for i, j, k in combinations(p, 3)]


@each_predicate
@each_enumeration
@pytest.mark.parametrize("K", [1, 2, 3, 4, 7])
def test_tuples_by_rank_are_those_of_the_list(K: int, enumeration: Enumeration, predicate: str) -> None:
    expected = listed(predicate, K, enumeration)
    total, unrank = PREDICATES[predicate].listing(K, enumeration)
    assert total == len(expected)
    found = unrank(torch.arange(total))
    assert found.dtype == torch.long
    assert list(map(tuple, found.tolist())) == expected


@each_predicate
@each_enumeration
@pytest.mark.parametrize("K", [64, 1000])
def test_the_first_and_the_last_where_no_list_would_fit(K: int, enumeration: Enumeration, predicate: str) -> None:
    total, unrank = PREDICATES[predicate].listing(K, enumeration)
    found = unrank(torch.tensor([0, total - 1])).tolist()
    small = listed(predicate, 6, enumeration)
    assert tuple(found[0]) == small[0]
    assert tuple(K - 1 - i for i in found[1]) == tuple(5 - i for i in small[-1])  # the same, counted from the end


@pytest.mark.parametrize(("total", "some"), [(1, 1), (5, 2), (100, 99), (100, 100), (10**9, 1000), (2**62, 50)])
def test_drawn_ranks_ascend_without_repetition(total: int, some: int) -> None:
    ranks = draw_ranks(total, some, "a")
    assert ranks.shape == (some,)
    assert ranks.dtype == torch.long
    assert (ranks.diff() > 0).all()
    assert ranks.min() >= 0
    assert ranks.max() < total


def test_the_same_words_draw_the_same_ranks_and_others_others() -> None:
    first = draw_ranks(10**6, 500, "a")
    assert torch.equal(draw_ranks(10**6, 500, "a"), first)
    shared = set(draw_ranks(10**6, 500, "b").tolist()) & set(first.tolist())
    assert len(shared) < 10  # 0.25 are expected


def test_more_ranks_are_the_same_and_others() -> None:
    fewer, more = (set(draw_ranks(1000, some, "a").tolist()) for some in (300, 800))
    assert fewer < more


def test_every_set_of_ranks_is_as_likely() -> None:
    draws = 6000
    found = Counter(tuple(draw_ranks(4, 2, str(number)).tolist()) for number in range(draws))
    assert set(found) == set(combinations(range(4), 2))
    expected = draws / 6
    assert sum((n - expected) ** 2 / expected for n in found.values()) < 20.5  # χ² with 5 degrees: p = 0.001
