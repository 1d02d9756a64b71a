"""Splits: DomainBed's hold-out bit for bit, and a target that is nowhere but in the target."""

import hashlib
import re
from dataclasses import replace

import numpy as np
import pytest

from parse_dg.data.domain import Benchmark, Domain
from parse_dg.data.splits import LeaveOneOut, SplitConfig, Subset, hold_out, leaked, leave_one_out, seed_hash, whole
from parse_dg.errors import InputError
from tests.conftest import Numbered
from tests.parts import refusal

SIZES = {"art": 13, "cartoon": 20, "photo": 5, "sketch": 41}


@pytest.fixture
def benchmark(numbered: Numbered) -> Benchmark:
    domains = tuple(numbered(name, count) for name, count in SIZES.items())
    return Benchmark("four", ("only",), domains, fingerprint="none")


@pytest.mark.golden
def test_seeds_and_hold_outs_are_those_of_domainbed() -> None:
    expected = [894182419, 1514274641, 1325548499, 1796103049, 1773288162, 1833038383]
    assert [seed_hash(0, number) for number in range(6)] == expected
    kept, held = hold_out(10, 0.2, seed_hash(0, 0))
    assert (held.tolist(), kept.tolist()) == ([2, 3], [8, 1, 4, 5, 0, 9, 6, 7])
    kept, held = hold_out(2048, 0.2, seed_hash(0, 0))  # PACS, art
    assert (len(held), len(kept)) == (409, 2048 - 409)
    assert held[:6].tolist() == [548, 677, 1997, 977, 1553, 1123]


def of_domainbed(count: int, trial: int, number: int) -> tuple[list[int], list[int]]:
    """(in, out) of a domain, written from the description of DomainBed's split alone."""
    digest = hashlib.md5(f"({trial}, {number})".encode(), usedforsecurity=False).hexdigest()
    order = list(range(count))
    np.random.RandomState(int(digest, 16) % 2**31).shuffle(order)
    out = int(count * 0.2)
    return order[out:], order[:out]


@pytest.mark.parametrize("trial", [0, 1, 2])
@pytest.mark.parametrize("count", [5, 2344])
def test_every_part_is_that_of_domainbed_in_its_order(count: int, trial: int) -> None:
    for number in range(4):
        kept, held = hold_out(count, 0.2, seed_hash(trial, number))
        assert (kept.tolist(), held.tolist()) == of_domainbed(count, trial, number)


@pytest.mark.parametrize(("target", "seed"), [("art", 0), ("photo", 1), ("sketch", 2)])
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


IN = SplitConfig(target_images="in")


@pytest.mark.parametrize("target", SIZES)
@pytest.mark.parametrize("trial", [0, 5])
def test_in_is_domainbeds_80_per_cent_of_the_target(benchmark: Benchmark, target: str, trial: int) -> None:
    split = leave_one_out(benchmark, target, trial, IN)
    inside, outside = of_domainbed(SIZES[target], trial, list(SIZES).index(target))
    assert split.target.indices.tolist() == inside
    assert split.target_held_out is not None
    assert split.target_held_out.domain is split.target.domain
    assert split.target_held_out.indices.tolist() == outside


def test_a_small_target_is_scored_whole(numbered: Numbered) -> None:
    """20% of 3 images is none: that matters only to whoever asks for it."""
    benchmark = Benchmark("two", ("only",), (numbered("few", 3), numbered("many", 20)), fingerprint="none")
    assert leave_one_out(benchmark, "few", 0).target.indices.tolist() == [0, 1, 2]
    expected = r"split\.holdout must be large enough to hold out one of the 3 images of few, found 0\.2"
    assert re.search(expected, refusal(leave_one_out, benchmark, "few", 0, IN))
    assert re.search(expected, refusal(leave_one_out, benchmark, "many", 0))


def positions(subsets: tuple[Subset, ...]) -> dict[str, list[int]]:
    return {subset.domain.name: subset.indices.tolist() for subset in subsets}


def test_the_splits_own_seed_counts_before_the_runs(benchmark: Benchmark) -> None:
    own = SplitConfig(seed=7)
    one, other = (leave_one_out(benchmark, "art", seed, own) for seed in (0, 1))
    plain = leave_one_out(benchmark, "art", 7)
    assert positions(one.validation) == positions(other.validation) == positions(plain.validation)
    assert positions(one.training) == positions(plain.training)


@pytest.mark.parametrize("unseen", ["art", "cartoon", "sketch"])
def test_the_validation_domain_is_not_trained_on(benchmark: Benchmark, unseen: str) -> None:
    split = leave_one_out(benchmark, "photo", 1, SplitConfig(validation_domain=unseen))
    others = [name for name in SIZES if name not in ("photo", unseen)]
    assert list(positions(split.training)) == list(positions(split.validation)) == others
    assert split.validation_domain is not None
    assert split.validation_domain.domain is benchmark.domain(unseen)
    inside, _ = of_domainbed(SIZES[unseen], 1, list(SIZES).index(unseen))
    assert split.validation_domain.indices.tolist() == inside


@pytest.mark.parametrize("wrong", ["photo", "skech"])
def test_the_validation_domain_is_a_source(benchmark: Benchmark, wrong: str) -> None:
    expected = rf"unknown split\.validation_domain '{wrong}': valid are art, cartoon, sketch"
    assert re.search(expected, refusal(leave_one_out, benchmark, "photo", 0, SplitConfig(validation_domain=wrong)))


def test_a_domain_to_train_on_is_left(numbered: Numbered) -> None:
    benchmark = Benchmark("two", ("only",), (numbered("one", 9), numbered("two", 9)), fingerprint="none")
    with pytest.raises(InputError, match="the number of source domains to train on must be at least 1, found 0"):
        leave_one_out(benchmark, "one", 0, SplitConfig(validation_domain="two"))


LISTS = SplitConfig(scheme="gvrt-split")
NAMES = ("train0", "valid0", "train1", "valid1", "train2", "valid2", "test", "train_valid")


def listed(benchmark: Benchmark, without: str = "") -> Benchmark:
    """Every domain has every list; which images it names tells the domain and the list."""
    domains = []
    for number, domain in enumerate(benchmark.domains):
        lists = {name: np.array([number, n]) for n, name in enumerate(NAMES) if name != without}
        domains.append(replace(domain, lists=lists))
    return replace(benchmark, domains=tuple(domains))


@pytest.mark.parametrize("target", SIZES)
def test_source_number_s_has_the_lists_with_its_number(benchmark: Benchmark, target: str) -> None:
    split = leave_one_out(listed(benchmark), target, 3, LISTS)
    sources = [name for name in SIZES if name != target]
    numbers = {name: number for number, name in enumerate(SIZES)}
    assert positions(split.training) == {name: [numbers[name], 2 * s] for s, name in enumerate(sources)}
    assert positions(split.validation) == {name: [numbers[name], 2 * s + 1] for s, name in enumerate(sources)}
    assert positions((split.target,)) == {target: [numbers[target], 6]}
    assert split.target_held_out is None
    assert split.validation_domain is None
    split = leave_one_out(listed(benchmark), target, 3, SplitConfig(scheme="train-valid"))
    assert positions(split.training) == {name: [numbers[name], 7] for name in sources}
    assert positions(split.validation) == {name: [numbers[name], 6] for name in sources}
    assert positions((split.target,)) == {target: [numbers[target], 6]}


@pytest.mark.parametrize(("name", "domain"), [("train1", "photo"), ("valid2", "sketch"), ("test", "cartoon")])
def test_a_missing_list_is_named(benchmark: Benchmark, name: str, domain: str) -> None:
    found = ", ".join(other for other in NAMES if other != name)
    expected = f"split.scheme=gvrt-split needs the list {name} of {domain}; lists found: {found}"
    assert refusal(leave_one_out, listed(benchmark, name), "cartoon", 0, LISTS) == expected


def test_a_benchmark_without_lists_is_refused(benchmark: Benchmark) -> None:
    with pytest.raises(InputError, match=r"needs the list train0 of cartoon; lists found: none: its folder has no"):
        leave_one_out(benchmark, "art", 0, LISTS)


def known(name: str, ids: tuple[str, ...] = (), digests: tuple[str, ...] = ()) -> Domain:
    count = len(ids or digests)
    images = np.zeros((count, 1, 1, 3), dtype=np.uint8)
    return Domain(name, images, np.zeros(count, dtype=np.int64), ids=ids, digests=digests)


def count_leaked(trained: Domain, target: Domain, some: list[int] | None = None) -> int:
    """Everything is trained on; of the target `some` are scored."""
    scored = whole(target) if some is None else Subset(target, np.array(some, dtype=np.int64))
    return leaked(LeaveOneOut((whole(trained),), (), scored))


def test_a_picture_is_known_by_its_id_or_its_file() -> None:
    trained = known("photo", ("a", "b", "c"), ("1", "2", "3"))
    assert count_leaked(trained, known("art", ("a", "x", "c"), ("7", "8", "9"))) == 2
    assert count_leaked(trained, known("art", ("x", "y", "z"), ("3", "8", "2"))) == 2
    assert count_leaked(trained, known("art", ("a", "y", "z"), ("1", "8", "2"))) == 2  # by both or either
    assert count_leaked(trained, known("art", ("x", "y", "z"), ("7", "8", "9"))) == 0
    assert count_leaked(known("photo", ("a", "b")), known("art", (), ("1", "2"))) == 0


def test_renderings_of_the_same_photos_leak_under_a_hold_out_and_not_under_disjoint_lists() -> None:
    names = tuple(f"{n:03d}" for n in range(100))
    numbers = np.arange(100)
    lists = {name: numbers[n::7] for n, name in enumerate(NAMES)}
    domains = tuple(replace(known(name, names), lists=lists) for name in ("Photo", "Cartoon", "Art", "Paint"))
    benchmark = Benchmark("birds", ("only",), domains, fingerprint="none")
    split = leave_one_out(benchmark, "Paint", 0)
    held_everywhere = set.intersection(*(set(part.indices.tolist()) for part in split.validation))
    assert leaked(split) == 100 - len(held_everywhere) > 95
    for domain in domains:
        assert leaked(leave_one_out(benchmark, domain.name, 0, LISTS)) == 0
