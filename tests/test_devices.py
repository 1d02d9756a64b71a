"""Devices by name, and the precision that goes with them."""

import pytest
import torch

from parse_dg.devices import device_names, pick_device, uses_bf16, widest
from parse_dg.errors import InputError


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
    with pytest.raises(InputError) as caught:
        pick_device(name)
    message = str(caught.value)
    assert message.startswith(f"device {name!r} cannot be used")
    assert message.endswith("valid here are auto, cpu")
    assert "\n" not in message
    assert len(message) < 400


def test_the_cpu_is_always_there_and_has_a_name() -> None:
    assert device_names()[0].startswith("cpu (")


@pytest.mark.parametrize(
    ("precision", "device", "expected"),
    [("auto", "cuda", True), ("auto", "cpu", False), ("bf16", "cpu", True), ("float32", "cuda", False)],
)
def test_bf16_is_asked_for_or_of_the_device(precision: str, device: str, expected: bool) -> None:
    assert uses_bf16(precision, torch.device(device)) == expected
