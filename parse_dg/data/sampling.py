"""The sampler: which images are in a batch and how they are augmented; all randomness, before anything is read.

A plan is small and made in order; reading and augmenting are functions of it and may run ahead. What it takes to
go on from a plan is a few tensors, so that a run can be continued in the middle of an epoch, exactly.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from parse_dg.config import Config, require
from parse_dg.data.augment.batches import AugmentConfig, AugmentDraws, draw_augment
from parse_dg.data.splits import Subset
from parse_dg.errors import InputError
from parse_dg.wording import first_line

SamplerState = dict[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class SamplingConfig(Config):
    """How the images of a source domain are drawn, or of all of them, where `training.batch` joins them."""

    replacement: bool = False
    """False: every image once a pass, in a new order each time. True: each draw is from all, as in DomainBed."""
    balance: Literal["images", "classes"] = "images"
    """`images`: every image equally often. `classes`: every class of a domain equally often. Then, without
    replacement, a pass shows every image of the largest class once, and those of the others as often as needed."""


class Plan(NamedTuple):
    """A batch before its images are read: indices and augmentation draws."""

    positions: tuple[Int[Tensor, "n"], ...]  # for each source domain: which images of its subset, and in what order
    draws: AugmentDraws
    after: SamplerState  # the sampler's state once this plan is made: what to restore, from copies, to go on
    captions: tuple[Int[Tensor, "n"], ...] | None = None  # for each source: which sentence comes with each image


class Sampler:
    """Plans endless batches: as many images of every source domain, or, where they are joined, as chance gives."""

    def __init__(
        self,
        sources: Sequence[Subset],
        count: int,
        sampling: SamplingConfig,
        augment: AugmentConfig,
        *,
        order: torch.Generator,
        draws: torch.Generator,
        captions: bool = False,
        joined: bool = False,
    ):
        """`count`: of each domain, or of all if `joined`; `captions`: a sentence is drawn with every image."""
        for source in sources:
            found = len(source.indices)
            require(found > 0, f"the training part of domain {source.domain.name}", found, "at least one image")
        self.sources, self.augment = tuple(sources), augment
        self._count, self._order, self._draws = count, order, draws
        self._pools = [self.sources] if joined else [(source,) for source in self.sources]
        self._passes = [_make_pass(pool, sampling, count) for pool in self._pools]
        self._queues = [torch.empty(0, dtype=torch.long) for _ in self._pools]
        # how many sentences each image has, where one is wanted
        self._captions = [torch.tensor(list(map(len, captions_of(source)))) for source in sources if captions]

    def plan(self) -> Plan:
        taken = (self._take(number) for number in range(len(self._pools)))
        pooled = zip(self._pools, taken, strict=True)
        positions = tuple(part for pool, some in pooled for part in _by_source(pool, some))
        draws = draw_augment(self.augment, self._count * len(self._pools), self._draws)
        captions = None
        if self._captions:
            uniform = torch.rand(self._count * len(self._pools), generator=self._draws)
            each = zip(torch.split(uniform, list(map(len, positions))), self._captions, positions, strict=True)
            captions = tuple((u * count[p]).long() for u, count, p in each)
        return Plan(positions, draws, self._views(), captions)

    def state(self) -> SamplerState:
        """All it takes to go on from here, in copies: it belongs to whoever asked for it."""
        return copied(self._views())

    def _views(self) -> SamplerState:
        """The state for the moment: queues are views of a whole pass, and not to be kept."""
        queues = {f"queue.{number}": queue for number, queue in enumerate(self._queues)}
        return {**queues, "order": self._order.get_state(), "draws": self._draws.get_state()}

    def check(self, state: Mapping[str, Tensor]) -> None:
        """Raise unless it is a state of a sampler over the same sources."""
        expected = {*(f"queue.{number}" for number in range(len(self._pools))), "order", "draws"}
        if set(state) != expected:
            raise InputError(f"the order of images has the parts {sorted(state)}: expected {sorted(expected)}")
        for number, pool in enumerate(self._pools):
            _check_queue(pool, state[f"queue.{number}"])
        for part in ("order", "draws"):
            try:
                torch.Generator().set_state(state[part])
            except (RuntimeError, TypeError) as error:
                raise InputError(f"the saved generator {part!r} is damaged: {first_line(error)}") from error

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.check(state)
        self._queues = [state[f"queue.{number}"].clone() for number in range(len(self._pools))]
        self._order.set_state(state["order"])
        self._draws.set_state(state["draws"])

    def _take(self, number: int) -> Tensor:
        queue = self._queues[number]
        while len(queue) < self._count:
            queue = torch.cat((queue, self._passes[number](self._order)))
        self._queues[number] = queue[self._count :]
        return queue[: self._count]


def captions_of(source: Subset) -> list[tuple[str, ...]]:
    """The sentences about each image of a source; every image has to have some."""
    captions = source.domain.captions
    sentences = [captions[index] if captions else () for index in source.indices.tolist()]
    if missing := sentences.count(()):
        found = f"{missing:,} of the {len(sentences):,} of domain {source.domain.name} have none"
        valid = "blueprints has them, cub-dg in its descriptions.json or text_c10, others by data.definitions=FILE"
        raise InputError(f"this method needs a sentence about every training image, and {found}: {valid}")
    return sentences


def copied(state: SamplerState) -> SamplerState:
    """A state that shares no memory with another."""
    return {name: part.clone() for name, part in state.items()}


def _by_source(pool: Sequence[Subset], positions: Tensor) -> list[Tensor]:
    """Positions among the images of a pool → those of each source, in the order they were drawn."""
    ends = list(accumulate((len(source.indices) for source in pool), initial=0))
    return [positions[(start <= positions) & (positions < end)] - start for start, end in pairwise(ends)]


def _check_queue(pool: Sequence[Subset], queue: Tensor) -> None:
    name, count = " and ".join(source.domain.name for source in pool), sum(len(source.indices) for source in pool)
    if queue.ndim != 1 or queue.dtype != torch.long:
        found = f"expected a row of int64, found {queue.dtype} of shape {tuple(queue.shape)}"
        raise InputError(f"the saved order of {name} is damaged: {found}")
    outside = queue[(queue < 0) | (queue >= count)]
    if len(outside):
        found = f"expected positions below {count}, found {outside[0]}"
        raise InputError(f"the saved order of {name} is of other images: {found}")


def _make_pass(pool: Sequence[Subset], sampling: SamplingConfig, taken: int) -> Callable[[torch.Generator], Tensor]:
    """What draws the next positions of a pool: a whole pass, or with replacement as many as a batch takes."""
    labels = np.concatenate([source.domain.labels[source.indices] for source in pool])
    if sampling.balance == "images":
        if sampling.replacement:
            return lambda generator: torch.randint(len(labels), (taken,), generator=generator)
        return lambda generator: torch.randperm(len(labels), generator=generator)
    members = [torch.from_numpy((labels == label).nonzero()[0]) for label in np.unique(labels)]
    if sampling.replacement:
        return lambda generator: _draw_balanced(members, taken, generator)
    return lambda generator: _shuffle_balanced(members, generator)


def _draw_balanced(members: Sequence[Tensor], count: int, generator: torch.Generator) -> Tensor:
    """A class for each draw, then one of its images."""
    classes = torch.randint(len(members), (count,), generator=generator).tolist()
    return torch.stack([members[c][torch.randint(len(members[c]), (), generator=generator)] for c in classes])


def _shuffle_balanced(members: Sequence[Tensor], generator: torch.Generator) -> Tensor:
    """Rounds of one image of every class, classes in a new order each round, until the largest class is through."""
    rounds = max(len(images) for images in members)
    columns = []
    for images in members:
        again = -(-rounds // len(images))
        shuffled = [images[torch.randperm(len(images), generator=generator)] for _ in range(again)]
        columns.append(torch.cat(shuffled)[:rounds])
    table = torch.stack(columns, dim=1)  # rounds, classes
    order = torch.rand(table.shape, generator=generator).argsort(dim=1)
    return table.gather(1, order).flatten()
