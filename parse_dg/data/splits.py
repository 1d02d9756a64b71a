"""Leave-one-domain-out: what trains, what validates, and which images of the target are scored.

`holdout20` equals DomainBed's hold-out bit for bit: the images of domain number i, in their order in the benchmark,
are shuffled with a seed hashed from (trial seed, i), and the first 20% are held out (Gulrajani & Lopez-Paz 2021,
arXiv:2007.01434). `gvrt-split` follows the lists that come with CUB-DG (Min et al. 2022): each source domain has
lists of its own, and the target is scored on its test list, so that no photo is on both sides. `train-valid` is how
PARSE's authors read them: every source trains on the whole list `train_valid` and validates on its test list.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from jaxtyping import Int

from parse_dg.config import Config, Rule, Whole, require
from parse_dg.data.domain import Benchmark, Domain
from parse_dg.errors import InputError, require_known

Indices = Int[np.ndarray, "n"]
Scheme = Literal["holdout20", "gvrt-split", "train-valid"]


@dataclass(frozen=True, kw_only=True)
class SplitConfig(Config):
    """Which images train, validate and test."""

    scheme: Scheme = "holdout20"
    """`holdout20`: DomainBed's hold-out of every domain. `gvrt-split`: the lists that come with CUB-DG, as GVRT's
    authors use them. `train-valid`: the same as PARSE's authors do."""
    holdout: Annotated[float, Rule("between 0 and 1", lambda value: 0 < value < 1)] = 0.2
    """The fraction of each domain that `holdout20` holds out."""
    seed: Whole | None = None
    """Of the hold-out; none: the run's seed."""
    target_images: Literal["all", "in"] = "all"
    """`all`: the target is scored on every image. `in`: on the 80% that its own hold-out leaves, as in DomainBed.
    The other schemes have a test list instead."""
    validation_domain: str | None = None
    """A source domain that is not trained on: leave-one-domain-out selection scores its `in` images."""

    def check(self) -> None:
        if self.listed:
            for name, value in (("target_images", "all"), ("validation_domain", None), ("seed", None)):
                expected = f"{value or 'none'}, as {self.scheme} has lists of its own"
                self.require(getattr(self, name) == value, name, expected)

    @property
    def listed(self) -> bool:
        """Whether lists say which images train."""
        return self.scheme != "holdout20"


@dataclass(frozen=True)
class Subset:
    """Some images of one domain."""

    domain: Domain
    indices: Indices


@dataclass(frozen=True)
class LeaveOneOut:
    """Source domains to train and validate on, and the target."""

    training: tuple[Subset, ...]
    validation: tuple[Subset, ...]  # the held-out images of every source domain
    target: Subset | None  # the images the result is of; None where no domain is held out
    target_held_out: Subset | None = None  # the target's own 20%, which the oracle looks at, if not scored
    validation_domain: Subset | None = None  # the `in` images of the source domain that is not trained on


def require_several(name: str, domains: Sequence[str]) -> None:
    """Raise if there is one domain alone, which cannot be held out."""
    if len(domains) == 1:
        advice = "--target none trains on it; to hold one out, give a folder domain/class/image of several"
        raise InputError(f"{name} has one domain, {domains[0]}: {advice}")


def whole(domain: Domain) -> Subset:
    """Every image of a domain."""
    return Subset(domain, np.arange(len(domain.labels), dtype=np.int64))


def seed_hash(*parts: object) -> int:
    """A seed below 2^31 from anything that prints, as DomainBed computes it."""
    return int(hashlib.md5(str(parts).encode(), usedforsecurity=False).hexdigest(), 16) % 2**31


def hold_out(count: int, fraction: float, seed: int) -> tuple[Int[np.ndarray, "kept"], Int[np.ndarray, "held"]]:
    """(kept, held out) positions of `count` images; int(fraction · count) are held out."""
    keys = list(range(count))
    np.random.RandomState(seed).shuffle(keys)
    held = int(fraction * count)
    return np.array(keys[held:], dtype=np.int64), np.array(keys[:held], dtype=np.int64)


def leave_one_out(
    benchmark: Benchmark,
    target: str | None,
    seed: int,
    config: SplitConfig = SplitConfig(),  # noqa: B008 - frozen
) -> LeaveOneOut:
    """The split of a benchmark with `target`, or no domain, held out; `seed` is the run's, for a config without."""
    if target is not None:
        require_several(benchmark.name, [domain.name for domain in benchmark.domains])
    if config.listed:
        return _split_by_lists(benchmark, target, config.scheme)
    trial = seed if config.seed is None else config.seed
    test = None if target is None else benchmark.domain(target)
    parts = []
    for number, domain in enumerate(benchmark.domains):
        kept, held = hold_out(len(domain.labels), config.holdout, seed_hash(trial, number))
        parts.append((Subset(domain, kept), Subset(domain, held)))
    of_target = [part for part in parts if part[0].domain is test]
    sources = [part for part in parts if part[0].domain is not test]
    unseen = None
    if config.validation_domain is not None:
        names = [part[0].domain.name for part in sources]
        require_known("split.validation_domain", config.validation_domain, names)
        unseen = sources.pop(names.index(config.validation_domain))[0]
    require(bool(sources), "the number of source domains to train on", 0, "at least 1")
    everything = config.target_images == "all"
    for _, some in sources if everything else (*sources, *of_target):
        enough = f"large enough to hold out one of the {len(some.domain.labels)} images of {some.domain.name}"
        require(len(some.indices) > 0, "split.holdout", config.holdout, enough)
    return LeaveOneOut(
        training=tuple(kept for kept, _ in sources),
        validation=tuple(held for _, held in sources),
        target=whole(test) if test and everything else next((kept for kept, _ in of_target), None),
        target_held_out=None if everything else next((held for _, held in of_target), None),
        validation_domain=unseen,
    )


def _split_by_lists(benchmark: Benchmark, target: str | None, scheme: Scheme) -> LeaveOneOut:
    """Source number s, in the benchmark's order, has the lists train{s}, valid{s}; or each train_valid, test."""
    test = None if target is None else benchmark.domain(target)
    sources = [domain for domain in benchmark.domains if domain is not test]
    names = ("train{}", "valid{}") if scheme == "gvrt-split" else ("train_valid", "test")
    training, validation = (
        tuple(_listed(domain, name.format(s), scheme) for s, domain in enumerate(sources)) for name in names
    )
    return LeaveOneOut(training, validation, _listed(test, "test", scheme) if test else None)


def _listed(domain: Domain, name: str, scheme: Scheme) -> Subset:
    lists = domain.lists or {}
    if name not in lists:
        found = ", ".join(lists) or "none: its folder has no split.json"
        raise InputError(f"split.scheme={scheme} needs the list {name} of {domain.name}; lists found: {found}")
    return Subset(domain, np.asarray(lists[name], dtype=np.int64))


def leaked(split: LeaveOneOut) -> int:
    """How many of the target's scored images are trained on: in another rendering (by its id), or the same file."""

    def known_by(subset: Subset) -> list[set[tuple[str, str]]]:
        names = {"id": subset.domain.ids, "file": subset.domain.digests}
        return [{(kind, each[i]) for kind, each in names.items() if each} for i in subset.indices.tolist()]

    seen = {name for subset in split.training for image in known_by(subset) for name in image}
    return sum(not seen.isdisjoint(image) for image in known_by(split.target)) if split.target else 0
