"""The structural layer on CUDA in a few launches: what the plain code in the folder above says, said in Triton.

Nothing here is needed: without Triton (it comes with PyTorch's CUDA builds on Linux) the plain path is taken.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

PREDICATES = (
    "has", "above", "left", "h_align", "v_align", "near", "contains", "tri", "turn", "orient", "eqdist",
)  # fmt: skip
"""The predicates there are kernels for, numbered as there; others are left to the plain code."""

OLDEST = (7, 0)
"""The least compute capability that Triton compiles for."""

_recorded = ContextVar("recorded", default=False)


@contextmanager
def recorded() -> Iterator[None]:
    """Within, what is launched is recorded and replayed later: how many launches it takes no longer matters."""
    before = _recorded.set(True)
    try:
        yield
    finally:
        _recorded.reset(before)


def launches_are_free() -> bool:
    """Whether what is launched now is being recorded."""
    return _recorded.get()


@cache
def _installed() -> bool:
    return find_spec("triton") is not None


@cache
def _new_enough(device: torch.device) -> bool:
    return torch.version.hip is not None or torch.cuda.get_device_capability(device) >= OLDEST


def usable(tensor: Tensor) -> bool:
    """Whether the fused kernels can take this tensor: float32 on a CUDA device Triton knows, with Triton there."""
    return tensor.is_cuda and tensor.dtype == torch.float32 and _installed() and _new_enough(tensor.device)


def launch(kernel: Any, grid: tuple[int, ...], like: Tensor, *arguments: object, **settings: object) -> None:
    """Start a kernel on a tensor's device, which Triton would not do by itself; an empty grid starts nothing."""
    if all(grid):
        with torch.cuda.device_of(like):
            kernel[grid](*arguments, **settings)
