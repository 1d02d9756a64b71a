"""Batches: endless ones of every source domain for training, finite ones for evaluation, read ahead of their use.

While a batch is being used the next ones are read by threads; for a CUDA device they are read into page-locked
memory and copied on a stream of their own, so that the device waits for neither disk nor bus.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from parse_dg.data.augment.batches import AugmentDraws
from parse_dg.data.augment.transforms import transform_image
from parse_dg.data.domain import Images
from parse_dg.data.listing import Progress
from parse_dg.data.parallel import default_workers, map_ahead
from parse_dg.data.sampling import Plan, Sampler, SamplerState, copied
from parse_dg.data.splits import Subset
from parse_dg.devices import pinned
from parse_dg.errors import InputError

CPU = torch.device("cpu")
ALL = slice(None)
AHEAD = 3  # how many batches are read ahead, each by a thread of its own


@runtime_checkable
class Words(Protocol):
    """A tokenizer: sentences → numbers."""

    def encode(self, sentences: Sequence[str]) -> Int[Tensor, "B T"]:
        """The numbers of each sentence's words, padded to the longest."""


class Batch(NamedTuple):
    """Images as they are stored, their classes, the source domain each comes from, and how to augment them."""

    images: UInt8[Tensor, "B 3 H W"]
    labels: Int[Tensor, "B"]
    domains: Int[Tensor, "B"]
    draws: AugmentDraws | None  # None where the images have been augmented, one by one, on the CPU
    captions: Int[Tensor, "B T"] | None = None  # a sentence about each image, as the numbers of its words

    def each(self, function: Callable[[Tensor], Tensor]) -> "Batch":
        draws = self.draws and self.draws._replace(uniform=function(self.draws.uniform))
        captions = None if self.captions is None else function(self.captions)
        return Batch(function(self.images), function(self.labels), function(self.domains), draws, captions)

    def to(self, device: torch.device) -> "Batch":
        """The same batch on another device; from page-locked memory without waiting."""
        return self.each(lambda tensor: tensor.to(device, non_blocking=True))


class TrainingBatches:
    """Endless batches, as the sampler plans them, on the device they are for."""

    def __init__(
        self,
        sampler: Sampler,
        image_size: int,
        device: torch.device = CPU,
        captions: Words | None = None,
        share: slice = ALL,
    ):
        """`captions` turns drawn sentences into numbers; `share`: only these images of a batch are read."""
        self.sampler, self.image_size, self.device = sampler, image_size, device
        self.captions, self.share = captions, share
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
        self._pool = ThreadPoolExecutor(AHEAD, thread_name_prefix="batches")
        self._per_image = ThreadPoolExecutor(default_workers(), thread_name_prefix="images")
        self._pending: deque[tuple[Future[_Uploaded], SamplerState]] = deque()
        self._state = sampler.state()

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        while len(self._pending) < AHEAD:
            plan = self.sampler.plan()
            self._pending.append((self._pool.submit(self._upload, plan), plan.after))
        future, after = self._pending[0]
        batch = _taken(*future.result())  # an error or an interruption here: the state stays that of the last batch
        self._pending.popleft()
        self._state = after
        return batch

    def state(self) -> SamplerState:
        """What to restore to get the batch after the last one given, whatever has been read ahead."""
        return copied(self._state)

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a saved state; what was read ahead is dropped."""
        self.sampler.restore(state)
        self._pending.clear()
        self._state = self.sampler.state()

    def _upload(self, plan: Plan) -> "_Uploaded":
        """The batch of a plan on the device; to CUDA it is copied on a stream of its own."""
        batch = self.read(plan)
        if self._stream is None:
            return batch.to(self.device), None
        with torch.cuda.stream(self._stream):
            return batch.to(self.device), self._stream.record_event()

    def read(self, plan: Plan) -> Batch:
        """The batch of a plan, on the CPU; in page-locked memory if the device is CUDA.

        Indices are numpy's: a parallel operation of torch would give this thread a team of OpenMP's own, and with
        more threads than cores no team spins any more; a step then takes 1.3 times as long.
        """
        sources = self.sampler.sources
        chosen = [s.indices[p.numpy()] for s, p in zip(sources, plan.positions, strict=True)]
        per_image = self.sampler.augment.per_image
        size = self.image_size if per_image else training_images(sources[0]).shape[1]
        domains = np.repeat(np.arange(len(sources)), [len(indices) for indices in chosen])
        mine, which = domains[self.share], np.concatenate(chosen)[self.share]
        drawn = plan.draws.of(self.share)
        shape, pin = (len(which), size, size, 3), self.device.type == "cuda"
        images = torch.empty(shape, dtype=torch.uint8, pin_memory=pin)
        for number, source in enumerate(sources):
            part = slice(*np.searchsorted(mine, (number, number + 1)).tolist())  # a domain's images are together
            if per_image:
                self._transform(source, which[part], drawn, part, images)
            else:
                read_into(training_images(source), which[part], images[part].numpy())
        labels = np.concatenate([s.domain.labels[i] for s, i in zip(sources, chosen, strict=True)])
        numbers = torch.from_numpy(labels), torch.from_numpy(domains)
        captions = self._read_captions(chosen, plan)
        batch = Batch(images.permute(0, 3, 1, 2), *numbers, None if per_image else drawn, captions)
        return batch.each(lambda tensor: pinned(tensor, self.device))

    def _read_captions(self, chosen: Sequence[Int[np.ndarray, "_"]], plan: Plan) -> Tensor | None:
        if self.captions is None or plan.captions is None:
            return None
        sentences = [
            source.domain.captions[index][which]
            for source, indices, numbers in zip(self.sampler.sources, chosen, plan.captions, strict=True)
            for index, which in zip(indices.tolist(), numbers.tolist(), strict=True)
        ]
        return self.captions.encode(sentences)

    def _transform(
        self, source: Subset, indices: Int[np.ndarray, "n"], draws: AugmentDraws, part: slice, images: Tensor
    ) -> None:

        def transform(place: int, index: int) -> None:
            uniform = draws.uniform[place].numpy()
            original = source.domain.original(index)
            done = transform_image(original, self.sampler.augment, uniform, draws.order, self.image_size)
            images[place] = torch.from_numpy(done)

        list(self._per_image.map(transform, range(part.start, part.stop), indices.tolist()))


_Uploaded = tuple[
    Batch, torch.cuda.Event | None
]  # a batch on its way to its device, and what says that it is there


def _taken(batch: Batch, arrived: torch.cuda.Event | None) -> Batch:
    """The batch, for use on the current stream from now on."""
    if arrived is None:
        return batch
    current = torch.cuda.current_stream(batch.images.device)
    current.wait_event(arrived)

    def used_here(tensor: Tensor) -> Tensor:
        tensor.record_stream(current)
        return tensor

    return batch.each(used_here)


def training_images(source: Subset) -> Images:
    """What training crops are cut from."""
    return source.domain.images if source.domain.larger is None else source.domain.larger


def read_into(images: Images, indices: Int[np.ndarray, "n"], out: UInt8[np.ndarray, "n H W 3"]) -> None:
    """Copy some images to where they are wanted."""
    if isinstance(images, np.ndarray):
        np.take(images, indices, axis=0, out=out, mode="clip")  # any other mode goes through a copy
    else:
        out[:] = images[indices]


def evaluation_batches(subset: Subset, size: int, crops: bool = False) -> Iterator[tuple[Tensor, Tensor]]:
    """Every image of the subset once, in order, with its class; `crops`: at the size crops are cut from."""
    starts = range(0, len(subset.indices), size)
    positions = (np.arange(start, min(start + size, len(subset.indices))) for start in starts)
    return map_ahead(lambda chosen: load_images(subset, chosen, crops), positions, workers=2, ahead=2)


def read_through(
    subset: Subset, size: int, progress: Progress | None, what: str = "reading"
) -> Iterator[tuple[Tensor, Tensor]]:
    """As `evaluation_batches`, of at least one image; `progress` is told of every batch that is done."""
    name, total = subset.domain.name, len(subset.indices)
    if total == 0:
        raise InputError(f"no image of domain {name!r} was given: expected at least 1")
    for number, batch in enumerate(evaluation_batches(subset, size), 1):
        yield batch
        if progress:
            progress(f"{what} {name}", min(number * size, total), total)


def load_images(subset: Subset, positions: Int[np.ndarray, "n"], crops: bool = False) -> tuple[Tensor, Tensor]:
    """Images and labels at some positions of the subset; the images' channels are last in memory."""
    chosen = subset.indices[positions]
    source = training_images(subset) if crops else subset.domain.images
    images = np.empty((len(chosen), *source.shape[1:]), np.uint8)
    read_into(source, chosen, images)
    return torch.from_numpy(images).permute(0, 3, 1, 2), torch.from_numpy(subset.domain.labels[chosen])
