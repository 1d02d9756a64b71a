"""Batches: endless ones of every source domain for training, finite ones for evaluation."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from parse_dg.config import require
from parse_dg.data.splits import Subset


class Batch(NamedTuple):
    """Images as they are stored, their classes, and the number of the source domain each comes from."""

    images: UInt8[Tensor, "B 3 H W"]
    labels: Int[Tensor, "B"]
    domains: Int[Tensor, "B"]

    def to(self, device: torch.device) -> "Batch":
        """The same batch on another device."""
        return Batch(*(part.to(device, non_blocking=True) for part in self))


class TrainingBatches:
    """Endless batches with the same number of images of every source domain, domain after domain.

    Each domain is gone through without replacement, in a new order every time, on its own clock: a small domain
    comes round more often.
    """

    def __init__(self, sources: Sequence[Subset], per_domain: int, generator: torch.Generator):
        for source in sources:
            found = len(source.indices)
            require(found > 0, f"the training part of domain {source.domain.name}", found, "at least one image")
        self.sources, self.per_domain, self.generator = sources, per_domain, generator
        self._queues = [torch.empty(0, dtype=torch.long) for _ in sources]

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        parts = [self._take(number) for number in range(len(self.sources))]
        domains = torch.arange(len(parts)).repeat_interleave(self.per_domain)
        return Batch(torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts]), domains)

    def _take(self, number: int) -> tuple[Tensor, Tensor]:
        source, queue = self.sources[number], self._queues[number]
        while len(queue) < self.per_domain:
            queue = torch.cat((queue, torch.randperm(len(source.indices), generator=self.generator)))
        self._queues[number] = queue[self.per_domain :]
        return load_images(source, queue[: self.per_domain].numpy())


def evaluation_batches(subset: Subset, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Every image of the subset once, in order, with its class."""
    for start in range(0, len(subset.indices), size):
        yield load_images(subset, np.arange(start, min(start + size, len(subset.indices))))


def load_images(subset: Subset, positions: Int[np.ndarray, "n"]) -> tuple[Tensor, Tensor]:
    """Images and labels at some positions of the subset; the images' channels are last in memory."""
    chosen = subset.indices[positions]
    images = torch.from_numpy(np.ascontiguousarray(subset.domain.images[chosen]))
    return images.permute(0, 3, 1, 2), torch.from_numpy(subset.domain.labels[chosen])
