"""Which applications there are: counts in closed form, names, and which columns are copies of each other."""

from collections import Counter
from math import comb

import pytest
import torch
from torch import Tensor

from parse_dg.model.composition import CompositionConfig
from parse_dg.model.paper_predicates import PREDICATES
from parse_dg.model.predicates import PredicatesConfig
from parse_dg.model.structure import StructuralLayer, StructureConfig
from parse_dg.model.vocabulary import Vocabulary, VocabularyConfig
from tests.model import reference
from tests.model.reference import Application, own_reverse, random_descriptors, read_name, shake

ENUMERATIONS = ["distinct", "paper"]
SWITCHED_ON = {
    "none": {"presence"},
    "binary": {"presence", "binary"},
    "binary+ternary": {"presence", "binary", "ternary"},
    "binary+quaternary": {"presence", "binary", "quaternary"},
    "all": {"presence", "binary", "ternary", "quaternary"},
    "relations": {"binary", "ternary", "quaternary"},
}


def closed_form(enumeration: str, K: int, n: int = 3, t: int = 1, m: int = 4) -> dict[str, int]:
    """How many columns each predicate has."""
    ordered, pairs, triples = K * (K - 1), comb(K, 2), K * (K - 1) * (K - 2)
    if enumeration == "paper":
        return {
            "has": K,
            **dict.fromkeys(("above", "left", "h-align", "v-align", "near", "contains"), ordered),
            "tri": n * triples,
            "turn": t * triples,
            "orient": m * comb(ordered, 2),
            "eqdist": comb(K, 3),
        }
    return {
        "has": K,
        **dict.fromkeys(("above", "left", "contains"), ordered),
        **dict.fromkeys(("h-align", "v-align", "near"), pairs),
        "tri": n * K * comb(K - 1, 2),
        "turn": t * K * comb(K - 1, 2),
        "orient": m * 2 * comb(pairs, 2),
        "eqdist": comb(pairs, 2),
    }


def build(K: int, enumeration: str, families: str = "all", n: int = 3, t: int = 1, m: int = 4) -> Vocabulary:
    return Vocabulary(
        K,
        VocabularyConfig(
            enumeration=enumeration,  # type: ignore[arg-type]
            families=families,  # type: ignore[arg-type]
            triangle_angles=n,
            turning_angles=t,
            orientation_angles=m,
        ),
    )


def all_applications(vocabulary: Vocabulary) -> list[Application]:
    return [read_name(name) for name in vocabulary.names(torch.arange(vocabulary.size))]


def activations(enumeration: str, K: int, *, additions: bool, B: int = 4) -> tuple[list[Application], Tensor]:
    """Every application and its column (M, B), with parameters that coincide nowhere."""
    config = StructureConfig(
        vocabulary=VocabularyConfig(enumeration=enumeration),  # type: ignore[arg-type]
        predicates=PredicatesConfig(
            gate=additions, edge_softness=0.2 if additions else 0.0, edge_fade=0.1 if additions else 0.0
        ),
        composition=CompositionConfig(start="zeros"),
    )
    layer = StructuralLayer(K, 2, config).double()
    shake(layer.predicates, seed=21)
    with torch.no_grad():
        columns = layer.evaluate(random_descriptors(B, K, seed=22), torch.arange(layer.vocabulary.size)).T
    return all_applications(layer.vocabulary), columns


def distances(a: Tensor, b: Tensor) -> Tensor:
    """The largest difference between every column of a and every column of b."""
    return (a.unsqueeze(1) - b.unsqueeze(0)).abs().amax(-1)


@pytest.mark.parametrize("enumeration", ENUMERATIONS)
@pytest.mark.parametrize("K", [4, 9, 16, 24])
def test_counts_are_the_closed_form(K: int, enumeration: str) -> None:
    vocabulary = build(K, enumeration)
    sizes = {block.predicate.replace("_", "-"): block.size for block in vocabulary.blocks}
    assert sizes == closed_form(enumeration, K)
    assert vocabulary.size == sum(sizes.values())
    assert K != 16 or vocabulary.size == {"distinct": 72_076, "paper": 130_176}[enumeration]


@pytest.mark.parametrize("enumeration", ENUMERATIONS)
@pytest.mark.parametrize("families", SWITCHED_ON)
def test_a_switch_keeps_exactly_its_families(families: str, enumeration: str) -> None:
    kept = Counter(a.predicate for a in all_applications(build(6, enumeration, families)))
    expected = {
        predicate: count
        for predicate, count in closed_form(enumeration, 6).items()
        if reference.FAMILY_OF_ARITY[reference.PREDICATES[predicate]] in SWITCHED_ON[families]
    }
    assert kept == expected


@pytest.mark.parametrize("predicate", reference.PREDICATES)
def test_distinct_has_each_value_once_and_misses_none(predicate: str) -> None:
    found = [a for a in all_applications(build(5, "distinct", n=1, t=1, m=1)) if a.predicate == predicate]
    keys = Counter(reference.symmetry(predicate, a.primitives) for a in found)
    assert set(keys.values()) == {1}
    expected = {
        reference.symmetry(predicate, places)
        for places in reference.valid_tuples(predicate, 5)
        if not own_reverse(Application(predicate, 0, places))
        and not (predicate == "eqdist" and len(set(places)) == 2)  # an edge is as long as itself
    }
    assert set(keys) == expected


@pytest.mark.parametrize(
    ("predicate", "angle", "primitives", "expected"),
    [
        ("has", 0, (2,), "has(p2)"),
        ("above", 0, (3, 11), "above(p3, p11)"),
        ("h_align", 0, (0, 1), "h-align(p0, p1)"),
        ("tri", 1, (4, 0, 2), "tri[1](p4, p0, p2)"),
        ("orient", 2, (0, 4, 7, 9), "orient[2](p0→p4, p7→p9)"),
        ("eqdist", 0, (0, 1, 1, 2), "eqdist(p0→p1, p1→p2)"),
    ],
)
def test_a_name_reads_as_documented(predicate: str, angle: int, primitives: tuple[int, ...], expected: str) -> None:
    assert PREDICATES[predicate].application(angle, primitives) == expected


@pytest.mark.parametrize("enumeration", ENUMERATIONS)
def test_columns_run_block_by_block_angle_by_angle_tuple_by_tuple(enumeration: str) -> None:
    vocabulary = build(5, enumeration)
    found = all_applications(vocabulary)
    for block in vocabulary.blocks:
        inside = found[block.start : block.start + block.size]
        assert {a.predicate for a in inside} == {block.predicate.replace("_", "-")}
        expected = [(g, tuple(t)) for g in range(block.angles) for t in block.tuples.tolist()]
        assert [(a.angle or 0, a.primitives) for a in inside] == expected


@pytest.mark.parametrize("enumeration", ENUMERATIONS)
@pytest.mark.parametrize("seed", range(4))
def test_a_subset_of_columns_means_the_same_as_in_the_full_enumeration(seed: int, enumeration: str) -> None:
    vocabulary = build(6, enumeration)
    full = vocabulary.names(torch.arange(vocabulary.size))
    draw = torch.Generator().manual_seed(seed)
    count = (1, 5, 60, 700)[seed]
    columns = torch.randperm(vocabulary.size, generator=draw)[:count].sort().values
    assert vocabulary.names(columns) == [full[m] for m in columns.tolist()]
    for part in vocabulary.applications(columns):
        assert part.angle.shape[0] == part.primitives.shape[1] > 0
        assert part.primitives.shape[0] == reference.PREDICATES[part.predicate.replace("_", "-")]


@pytest.mark.parametrize("additions", [False, True], ids=["paper's text", "with additions"])
def test_symmetric_applications_of_paper_are_equal_columns(additions: bool) -> None:
    found, columns = activations("paper", 5, additions=additions)
    groups: dict[object, list[int]] = {}
    for column, application in enumerate(found):
        groups.setdefault(application.key, []).append(column)
    sizes = {p: {len(g) for key, g in groups.items() if key[0] == p} for p in reference.PREDICATES}  # type: ignore[index]
    assert sizes["near"] == sizes["h-align"] == sizes["v-align"] == sizes["tri"] == sizes["turn"] == {2}
    assert sizes["orient"] == {2, 1}  # 1: an edge with its own reverse
    assert sizes["has"] == sizes["above"] == sizes["left"] == sizes["contains"] == sizes["eqdist"] == {1}
    for key, group in groups.items():
        spread = columns[group].amax(0) - columns[group].amin(0)
        assert spread.max() < 1e-12, key


@pytest.mark.parametrize("additions", [False, True], ids=["paper's text", "with additions"])
def test_paper_and_distinct_have_the_same_values_but_for_eqdist_and_the_constants(additions: bool) -> None:
    of_paper, paper = activations("paper", 5, additions=additions)
    of_distinct, distinct = activations("distinct", 5, additions=additions)
    apart = distances(
        paper[[m for m, a in enumerate(of_paper) if a.predicate != "eqdist" and not own_reverse(a)]],
        distinct[[m for m, a in enumerate(of_distinct) if a.predicate != "eqdist"]],
    )
    assert apart.amin(1).max() < 1e-12  # every value of paper is one of distinct
    assert apart.amin(0).max() < 1e-12  # and the other way round
    equal_distances = paper[[m for m, a in enumerate(of_paper) if a.predicate == "eqdist"]]
    assert distances(equal_distances, distinct).amin(1).max() < 1e-12
