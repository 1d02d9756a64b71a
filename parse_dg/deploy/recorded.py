"""A model's work on CUDA, recorded once for every batch size and replayed: a call no longer waits for launches."""

import logging
from collections.abc import Sequence
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from parse_dg.deploy.model_file import Model
from parse_dg.wording import first_line

LARGEST = 64
"""Images of a batch: the work of a larger one takes longer than its launches."""
REHEARSALS = 3
"""Passes before a recording: they choose algorithms, and find out which applications are in use."""

logger = logging.getLogger(__name__)


class RecordedBatch(NamedTuple):
    """One batch size's work, and where its images are put and its logits are found."""

    graph: torch.cuda.CUDAGraph
    given: UInt8[Tensor, "B H W 3"]
    """In page-locked memory."""
    images: UInt8[Tensor, "B 3 H W"]
    logits: Float[Tensor, "B C"]
    read: tuple[object, ...]
    """What else the work reads, so that it is not freed: normalisation, PARSE's class weights."""


class RecordedModel:
    """Pixels → logits. On CUDA a batch size is recorded when it comes for the second time; elsewhere nothing is."""

    def __init__(self, model: Model):
        self.model = model
        self._parameters = [*model.algorithm.parameters()]
        self._recordings: dict[int, RecordedBatch] = {}
        self._seen: set[int] = set()
        self._weights = self._state_of_weights()
        self._pool: Any = None
        self._possible = True
        self._lock = Lock()

    def __call__(self, pixels: Sequence[UInt8[np.ndarray, "S S 3"]]) -> Float[Tensor, "B C"]:
        """What the model says of each image: float32, on the CPU."""
        if self._parameters[0].is_cuda and len(pixels) <= LARGEST:
            with self._lock:
                recording = self._find(pixels)
                if recording is not None:
                    np.stack(pixels, out=recording.given.numpy())
                    recording.images.copy_(recording.given.permute(0, 3, 1, 2), non_blocking=True)
                    recording.graph.replay()
                    return recording.logits.cpu()
        images = torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2)
        logits: Tensor = self.model.algorithm(self.model.prepare(images)).float()
        return logits.cpu()

    def _find(self, pixels: Sequence[UInt8[np.ndarray, "S S 3"]]) -> RecordedBatch | None:
        """The recording for this many images, made if it is worth it; None: the work is launched."""
        state = self._state_of_weights()
        if state != self._weights:  # what is in use of the vocabulary may have changed, or where weights are
            self._recordings, self._seen, self._weights = {}, set(), state
        count = len(pixels)
        if count in self._seen and count not in self._recordings and self._possible:
            try:
                self._recordings[count] = self._record(np.stack(pixels))
            except RuntimeError as error:
                self._possible = False
                logger.warning("the model's work cannot be recorded and is launched anew: %s", first_line(error))
        self._seen.add(count)
        return self._recordings.get(count)

    def _state_of_weights(self) -> tuple[int, int]:
        """Another number after any change in place, or after a move."""
        return sum(each._version for each in self._parameters), self._parameters[-1].data_ptr()

    def _record(self, pixels: UInt8[np.ndarray, "B H W 3"]) -> RecordedBatch:
        device, dtype = self._parameters[0].device, self._parameters[0].dtype
        given = torch.from_numpy(pixels).pin_memory()
        images = given.permute(0, 3, 1, 2).to(device)
        # a recording copies nothing from the CPU
        centre = torch.tensor(self.model.spec.mean, dtype=dtype, device=device)[:, None, None]
        spread = torch.tensor(self.model.spec.std, dtype=dtype, device=device)[:, None, None]

        def work() -> Tensor:
            logits: Tensor = self.model.algorithm((images.float().div_(255).to(dtype) - centre) / spread)
            return logits.float()

        with torch.cuda.device(device):
            side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
            side.wait_stream(torch.cuda.current_stream(device))
            with torch.cuda.stream(side):
                for _ in range(REHEARSALS):
                    work()
            torch.cuda.current_stream(device).wait_stream(side)
            self._pool = self._pool or torch.cuda.graph_pool_handle()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                logits = work()
        network = self.model.algorithm.parse_network
        read = centre, spread, network and network.structure.composition.active()
        return RecordedBatch(graph, given, images, logits, read)
