"""Asynchronous copies from the device to the CPU."""

import torch
from torch import Tensor


class HostCopy:
    """A small tensor on its way to the CPU: asked for early, read late.

    Reading a CUDA tensor directly waits for all work queued so far, and leaves the device idle until new work is
    queued. This waits for the tensor alone, which by then is usually there.
    """

    def __init__(self, value: Tensor):
        self._value = value.detach()
        self._arrived: torch.cuda.Event | None = None
        if value.is_cuda:
            self._value = torch.empty(value.shape, dtype=value.dtype, pin_memory=True)
            self._value.copy_(value.detach(), non_blocking=True)
            self._arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._arrived.record(torch.cuda.current_stream(value.device))

    def read(self) -> Tensor:
        """The tensor, on the CPU."""
        if self._arrived is not None:
            self._arrived.synchronize()
        return self._value.cpu()
