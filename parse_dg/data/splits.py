"""Leave-one-domain-out, and the seeded hold-out inside each source domain.

The hold-out equals DomainBed's bit for bit: the images of domain number i, in their order in the benchmark, are
shuffled with a seed hashed from (trial seed, i), and the first 20% are held out (Gulrajani & Lopez-Paz 2021,
arXiv:2007.01434).
"""

import hashlib
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from parse_dg.config import require
from parse_dg.data.benchmarks import Benchmark, Domain

Indices = Int[np.ndarray, "n"]


@dataclass(frozen=True)
class Subset:
    """Some images of one domain."""

    domain: Domain
    indices: Indices


@dataclass(frozen=True)
class LeaveOneOut:
    """Source domains to train and validate on, and the target that is read once, at the end."""

    training: tuple[Subset, ...]
    validation: tuple[Subset, ...]
    target: Subset


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


def leave_one_out(benchmark: Benchmark, target: str, trial_seed: int, fraction: float = 0.2) -> LeaveOneOut:
    """The split of a benchmark with `target` held out whole."""
    test = benchmark.domain(target)
    training, validation = [], []
    for number, domain in enumerate(benchmark.domains):
        if domain is not test:
            count = len(domain.labels)
            kept, held = hold_out(count, fraction, seed_hash(trial_seed, number))
            enough = f"large enough to hold out one of the {count} images of {domain.name}"
            require(len(held) > 0, "data.holdout", fraction, enough)
            training.append(Subset(domain, kept))
            validation.append(Subset(domain, held))
    return LeaveOneOut(tuple(training), tuple(validation), whole(test))
