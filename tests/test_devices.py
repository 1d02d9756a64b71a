"""Devices by name, the precision that goes with them, and numbers on their way from one."""

import pytest
import torch

from parse_dg.devices import HostCopy, device_names, pick_device, uses_bf16, widest
from tests.parts import refusal

on_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")


def test_devices_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pick_device("cpu") == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert pick_device("auto") == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert pick_device("auto") == torch.device("cuda")
    monkeypatch.setattr(torch, "empty", lambda *shape, device: None)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert pick_device("mps") == torch.device("mps")
    assert [widest(torch.device(name)) for name in ("cpu", "mps")] == [torch.float64, torch.float32]


@pytest.mark.parametrize("name", ["", "gpu", "cuda", "cuda:99", "meta", "mps"])
def test_devices_that_cannot_be_used(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    message = refusal(pick_device, name)
    assert message.startswith(f"device {name!r} cannot be used")
    assert message.endswith("valid here are auto, cpu")
    assert len(message) < 400


def test_the_cpu_is_always_there_and_has_a_name() -> None:
    assert device_names()[0].startswith("cpu (")


@pytest.mark.parametrize(
    ("precision", "device", "expected"),
    [("auto", "cuda", True), ("auto", "cpu", False), ("bf16", "cpu", True), ("float32", "cuda", False)],
)
def test_bf16_is_asked_for_or_of_the_device(precision: str, device: str, expected: bool) -> None:
    assert uses_bf16(precision, torch.device(device)) == expected


VALUES = [torch.tensor(3.5), torch.tensor(7), torch.tensor([True, False]), torch.randn(2, 3), torch.tensor([])]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{value.dtype} {tuple(value.shape)}")
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=on_cuda)])
def test_the_value_arrives_on_the_cpu(device: str, value: torch.Tensor) -> None:
    copy = HostCopy(value.to(device))
    for _ in range(2):
        read = copy.read()
        assert read.device.type == "cpu"
        assert read.dtype == value.dtype
        assert torch.equal(read, value)


@on_cuda
def test_what_is_read_is_the_value_when_it_was_sent() -> None:
    value = torch.zeros((), device="cuda")
    copies = []
    for _ in range(5):
        torch.cuda._sleep(10_000_000)  # the device is behind
        value.add_(1)
        copies.append(HostCopy(value))
    value.fill_(-1)
    assert [copy.read().item() for copy in reversed(copies)] == [5, 4, 3, 2, 1]


@on_cuda
def test_sending_waits_for_nothing_and_reading_for_the_value_alone() -> None:
    value = torch.full((), 4.0, device="cuda")
    torch.cuda.synchronize()
    copy = HostCopy(value)
    torch.cuda._sleep(4_000_000_000)  # seconds of work, queued behind the copy
    done = torch.cuda.Event()
    done.record()
    assert copy.read().item() == 4
    assert not done.query()
    torch.cuda.synchronize()
