"""Convolutions with frozen BatchNorm in one pass, against the plain code; in Triton's interpreter or on CUDA."""

from importlib import import_module
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn

from parse_dg.model import fused
from parse_dg.model.backbones.mixstyle import MixStyleConfig
from parse_dg.model.backbones.resnet import SHAPES, ResNet
from tests.model.test_fused import DEVICE, INTERPRETED, RUNS

pytestmark = pytest.mark.skipif(not RUNS, reason="needs CUDA and Triton, or Triton and TRITON_INTERPRET=1")


@pytest.fixture(scope="module")
def frozen_norm() -> ModuleType:
    return import_module("parse_dg.model.fused.frozen_norm")


@pytest.fixture(autouse=True)
def exact_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def pair(inputs: int, outputs: int, *, kernel: int = 1, stride: int = 1) -> tuple[nn.Conv2d, nn.BatchNorm2d]:
    """A convolution, and a norm whose statistics, weight and bias are anything."""
    generator = torch.Generator().manual_seed(inputs + outputs)
    conv = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
    norm = nn.BatchNorm2d(outputs).eval()
    assert norm.running_mean is not None
    assert norm.running_var is not None
    with torch.no_grad():
        conv.weight.normal_(std=(inputs * kernel * kernel) ** -0.5, generator=generator)
        norm.weight.normal_(generator=generator)
        norm.bias.normal_(generator=generator)
        norm.running_mean.normal_(generator=generator)
        norm.running_var.uniform_(0.2, 3.0, generator=generator)
    return conv.to(DEVICE), norm.to(DEVICE)


def random(*shape: int, seed: int) -> Tensor:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)
    return x.contiguous(memory_format=torch.channels_last).requires_grad_()


@pytest.mark.parametrize("beside", ["nothing", "the input", "a shortcut"])
@pytest.mark.parametrize(
    ("inputs", "outputs", "kernel", "stride"), [(5, 7, 3, 2), (16, 16, 1, 1), (3, 300, 1, 1), (8, 33, 3, 1)]
)
def test_value_and_gradients_are_those_of_the_plain_code(
    frozen_norm: ModuleType, inputs: int, outputs: int, kernel: int, stride: int, beside: str
) -> None:
    conv, norm = pair(inputs, outputs, kernel=kernel, stride=stride)
    x = random(3, inputs, 9, 6, seed=0)
    cells = conv(x).shape[2:]
    shortcut = None
    if beside == "a shortcut":
        shortcut = nn.Sequential(*pair(4, outputs))
    other = None if beside == "nothing" else random(3, outputs if shortcut is None else 4, *cells, seed=1)
    leaves = [x, *conv.parameters(), *norm.parameters(), *([] if other is None else [other])]
    leaves += [] if shortcut is None else [*shortcut.parameters()]

    plain = norm(conv(x))
    if other is not None:
        plain = plain + (other if shortcut is None else shortcut(other))
    upstream = torch.randn(plain.shape, generator=torch.Generator().manual_seed(2)).to(DEVICE)
    expected = [plain.relu(), *torch.autograd.grad(plain.relu(), leaves, upstream)]
    out = frozen_norm.convolve(x, conv, norm, other, shortcut)
    found = [out, *torch.autograd.grad(out, leaves, upstream)]
    for value, right in zip(found, expected, strict=True):
        torch.testing.assert_close(value, right, rtol=1e-4, atol=1e-4 * float(right.detach().abs().max()))


@pytest.mark.skipif(INTERPRETED, reason="the interpreter works on the CPU")
@pytest.mark.parametrize("name", ["small", "resnet18", "resnet50"])
def test_a_whole_backbone_takes_it_in_training_with_frozen_statistics_alone(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    backbone = ResNet(
        SHAPES[name],
        mixstyle=MixStyleConfig(stages=()),
        freeze_batchnorm=True,
        generator=torch.Generator().manual_seed(4),
    )
    backbone.to(DEVICE)
    module, calls = import_module("parse_dg.model.fused.frozen_norm"), []
    original = module.convolve
    monkeypatch.setattr(module, "convolve", lambda *given: calls.append(1) or original(*given))
    images = random(4, 3, 64, 64, seed=5).detach()
    found = {}
    for path, usable in (("fused", True), ("plain", False)):
        monkeypatch.setattr(fused, "_installed", lambda usable=usable: usable)
        calls.clear()
        with fused.recorded():
            features = backbone(images)
        gradients = torch.autograd.grad(features.square().mean(), list(backbone.parameters()))
        assert bool(calls) == usable
        found[path] = [features.detach(), *gradients]
    for value, right in zip(found["fused"], found["plain"], strict=True):
        assert float((value - right).norm()) <= 1e-3 * float(right.norm())
    monkeypatch.setattr(fused, "_installed", lambda: True)
    calls.clear()
    backbone(images)  # launched one by one, it would be slower than the plain code
    backbone.freeze_batchnorm = False
    with fused.recorded():
        backbone.train()(images)
    assert not calls
