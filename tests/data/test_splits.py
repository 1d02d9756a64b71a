"""Splits: DomainBed's hold-out bit for bit, and a target that is nowhere but in the target."""

import numpy as np
import pytest

from parse_dg.data.domain import Benchmark
from parse_dg.data.splits import SplitConfig, hold_out, leave_one_out, seed_hash, whole
from parse_dg.errors import InputError
from tests.conftest import Numbered

SIZES = {"art": 13, "cartoon": 20, "photo": 5, "sketch": 41}


@pytest.fixture
def benchmark(numbered: Numbered) -> Benchmark:
    domains = tuple(numbered(name, count) for name, count in SIZES.items())
    return Benchmark("four", ("only",), domains, fingerprint="none")


# the hold-out of DomainBed: numbers that its own code gives


def test_seeds_are_those_of_domainbed() -> None:
    expected = [894182419, 1514274641, 1325548499, 1796103049, 1773288162, 1833038383]
    assert [seed_hash(0, number) for number in range(6)] == expected


def test_the_order_of_ten_is_that_of_domainbed() -> None:
    kept, held = hold_out(10, 0.2, seed_hash(0, 0))
    assert held.tolist() == [2, 3]
    assert kept.tolist() == [8, 1, 4, 5, 0, 9, 6, 7]


def test_the_hold_out_of_pacs_art_is_that_of_domainbed() -> None:
    kept, held = hold_out(2048, 0.2, seed_hash(0, 0))
    assert len(held) == 409
    assert held[:6].tolist() == [548, 677, 1997, 977, 1553, 1123]
    assert len(kept) == 2048 - 409


def test_a_seed_depends_on_every_part() -> None:
    assert len({seed_hash(0, 0), seed_hash(0, 1), seed_hash(1, 0), seed_hash(0, "0"), seed_hash(0)}) == 5


@pytest.mark.parametrize(
    ("count", "fraction", "held"), [(10, 0.2, 2), (14, 0.2, 2), (15, 0.2, 3), (9, 0.5, 4), (3, 0.2, 0), (1, 0.9, 0)]
)
def test_the_held_out_part_is_rounded_down(count: int, fraction: float, held: int) -> None:
    kept, out = hold_out(count, fraction, seed=0)
    assert len(out) == held
    assert sorted([*kept.tolist(), *out.tolist()]) == list(range(count))


# leave-one-domain-out


@pytest.mark.parametrize("target", SIZES)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_target_is_in_neither_training_nor_validation(benchmark: Benchmark, target: str, seed: int) -> None:
    split = leave_one_out(benchmark, target, seed)
    sources = [name for name in SIZES if name != target]
    assert [subset.domain.name for subset in split.training] == sources
    assert [subset.domain.name for subset in split.validation] == sources
    assert split.target.domain is benchmark.domain(target)
    assert split.target.indices.tolist() == list(range(SIZES[target]))


@pytest.mark.parametrize("fraction", [0.2, 0.5])
def test_training_and_validation_are_disjoint_and_complete(benchmark: Benchmark, fraction: float) -> None:
    split = leave_one_out(benchmark, "photo", 3, SplitConfig(holdout=fraction))
    for training, validation in zip(split.training, split.validation, strict=True):
        assert training.domain is validation.domain
        count = SIZES[training.domain.name]
        assert len(validation.indices) == int(fraction * count)
        both = np.concatenate((training.indices, validation.indices))
        assert sorted(both.tolist()) == list(range(count))


def test_a_domain_is_split_by_its_number_in_the_benchmark(benchmark: Benchmark) -> None:
    """Not by its number among the sources: the part held out does not depend on the target."""
    for target in ("art", "cartoon", "photo"):
        sketch = leave_one_out(benchmark, target, 7).validation[-1]
        assert sketch.domain.name == "sketch"
        expected = hold_out(SIZES["sketch"], 0.2, seed_hash(7, 3))[1]
        assert sketch.indices.tolist() == expected.tolist()


def test_another_seed_holds_out_other_images(benchmark: Benchmark) -> None:
    one, other = (leave_one_out(benchmark, "art", seed).validation[-1].indices for seed in (0, 1))
    assert set(one.tolist()) != set(other.tolist())


def test_an_unknown_target_is_refused_with_the_domains_there_are(benchmark: Benchmark) -> None:
    with pytest.raises(InputError, match="unknown domain of four 'skech': valid are art, cartoon, photo, sketch"):
        leave_one_out(benchmark, "skech", 0)


def test_a_whole_domain_is_every_image_in_order(numbered: Numbered) -> None:
    subset = whole(numbered("photo", 4))
    assert subset.indices.tolist() == [0, 1, 2, 3]
    assert subset.indices.dtype == np.int64


@pytest.mark.parametrize("holdout", [0.0, 1.0, -0.2, float("nan")])
def test_the_held_out_fraction_lies_between_0_and_1(holdout: float) -> None:
    with pytest.raises(InputError, match=r"split\.holdout must be between 0 and 1, found"):
        SplitConfig(holdout=holdout)
