"""Devices by name, and the precision that goes with them."""

import pytest
import torch

from parse_dg.devices import device_names, pick_device, uses_bf16
from parse_dg.errors import InputError


def test_devices_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pick_device("cpu") == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert pick_device("auto") == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert pick_device("auto") == torch.device("cuda")


@pytest.mark.parametrize(
    "name",
    [
        *("", "gpu", "CPU", "cpu:x", "cuda:99", "meta"),
        "vulkan",
        "hpu",
    ],
)
def test_devices_that_cannot_be_used(name: str) -> None:
    with pytest.raises(InputError) as caught:
        pick_device(name)
    message = str(caught.value)
    assert message.startswith(f"device {name!r} cannot be used")
    assert message.endswith("valid are auto, cpu, cuda")
    assert "\n" not in message
    assert len(message) < 400


def test_a_file_says_how_images_are_normalised_and_that_is_what_is_done(
    parse_run: Path, written: tuple[Metadata, State], tmp_path: Path
) -> None:
    described = json.loads(written[0][METADATA])["model"]
    assert described["mean"] == [0.485, 0.456, 0.406]
    assert described["std"] == [0.229, 0.224, 0.225]
    model = load_model(parse_run)
    pixels = torch.randint(0, 256, (2, 3, 8, 8), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    assert torch.equal(model.prepare(pixels), normalise(to_unit(pixels)))
    other = replace(model.spec, mean=(0.5, 0.25, 0.0), std=(1.0, 0.5, 2.0))
    save_model(tmp_path / "other.safetensors", other, written[1])
    found = load_model(tmp_path / "other.safetensors")
    assert found.spec == other
    pairs = enumerate(zip(other.mean, other.std, strict=True))
    right = torch.stack([(pixels[:, c] / 255 - centre) / spread for c, (centre, spread) in pairs], 1)
    torch.testing.assert_close(found.prepare(pixels), right)
    assert not torch.allclose(logits(found, found.prepare(pixels)), logits(model, model.prepare(pixels)))


@pytest.mark.parametrize(("mean", "std"), [((0.5, math.nan, 0.5), (1.0,) * 3), ((0.5,) * 3, (1.0, 0.0, 1.0))])
def test_a_normalisation_that_cannot_be_is_refused(
    parse_run: Path, mean: tuple[float, float, float], std: tuple[float, float, float]
) -> None:
    with pytest.raises(InputError, match=r"(mean must be a number|std must be positive), found"):
        replace(load_model(parse_run).spec, mean=mean, std=std)


def test_the_cpu_is_always_there_and_has_a_name() -> None:
    assert device_names()[0].startswith("cpu (")


@pytest.mark.parametrize(
    ("precision", "device", "expected"),
    [("auto", "cuda", True), ("auto", "cpu", False), ("bf16", "cpu", True), ("float32", "cuda", False)],
)
def test_bf16_is_asked_for_or_of_the_device(precision: str, device: str, expected: bool) -> None:
    assert uses_bf16(precision, torch.device(device)) == expected
