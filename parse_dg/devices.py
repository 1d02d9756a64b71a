"""Devices: one by its name, what it is called, in what precision it trains, how tensors get there and back."""

import os
import platform

import torch
from torch import Tensor

from parse_dg.errors import InputError
from parse_dg.wording import first_line


def pick_device(name: str) -> torch.device:
    """`auto` is CUDA where there is one; anything else is PyTorch's own name, of a CPU, CUDA or Apple's MPS."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        if device.type not in ("cpu", "cuda", "mps"):
            raise RuntimeError(f"a device of type {device.type}")
        if device.type == "mps" and not torch.backends.mps.is_available():
            raise RuntimeError("this machine has none")
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        here = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
        valid = ", ".join(("auto", "cpu", *(kind for kind, there in here.items() if there)))
        raise InputError(f"device {name!r} cannot be used ({first_line(error)}): valid here are {valid}") from error
    return device


def widest(device: torch.device) -> torch.dtype:
    """The dtype of sums that must not round: MPS has no float64."""
    return torch.float32 if device.type == "mps" else torch.float64


def device_name(device: torch.device) -> str:
    """What the device is called by its maker, where that is known."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else f"{device.type} ({platform.machine()})"


def device_names() -> list[str]:
    """Every device of this machine, by its maker's name."""
    gpus = (torch.device("cuda", number) for number in range(torch.cuda.device_count()))
    return [device_name(device) for device in (torch.device("cpu"), *gpus)]


def visible_gpus() -> tuple[str, ...]:
    """The GPUs this process may use, by the names that CUDA_VISIBLE_DEVICES takes."""
    count = torch.cuda.device_count()
    allowed = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return tuple(allowed[:count]) or tuple(str(number) for number in range(count))


def uses_bf16(precision: str, device: torch.device) -> bool:
    """Whether autocast to bf16 is on; `auto`: on CUDA, not elsewhere."""
    return precision == "bf16" or (precision == "auto" and device.type == "cuda")


def pinned(tensor: Tensor, device: torch.device) -> Tensor:
    """A CPU tensor that can be copied to `device` while the CPU goes on."""
    return tensor.pin_memory() if device.type == "cuda" else tensor


def synchronise(device: torch.device) -> None:
    """Wait for what is queued on a device."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


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
            # whoever waits for it sleeps: a core that spins is taken from the other runs of the machine
            self._arrived = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
            self._arrived.record(torch.cuda.current_stream(value.device))

    def read(self) -> Tensor:
        if self._arrived is not None:
            self._arrived.synchronize()
        return self._value.cpu()
