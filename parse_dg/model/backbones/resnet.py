"""What a backbone is, and the ResNets (He et al., 2016): images → feature map.

Parameters carry torchvision's names (`conv1`, `bn1`, `layer1.0.conv1`, `layer1.0.downsample.0`, ... no `fc`)
so that its weights files fit. Images come normalised as the weights expect; nothing is normalised here.

Letters: B batch, C channels, H W the height and width of the images, h w those of the map.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from parse_dg.model import fused
from parse_dg.model.backbones.mixstyle import Draw, MixStyle, MixStyleConfig

StrideAt = Literal["3x3", "first_1x1"]
AnyBackbone = TypeVar("AnyBackbone", bound="Backbone")  # beartype cannot check typing.Self on a method


class Backbone(nn.Module, ABC):
    """Turns images into a feature map of `channels` channels.

    With `freeze_batchnorm` the BatchNorm statistics stay as they are, also in training mode; weight and bias
    still train.
    """

    def __init__(self, *, channels: int, freeze_batchnorm: bool) -> None:
        super().__init__()
        self.channels = channels
        self.feature_channels: tuple[int, ...] = (channels,)  # of each map of `features`
        self.freeze_batchnorm = freeze_batchnorm

    @abstractmethod
    def forward(
        self, images: Float[Tensor, "B 3 H W"], generator: torch.Generator | None = None
    ) -> Float[Tensor, "B C h w"]:
        """The feature map. `generator` feeds what is random in training (MixStyle); evaluation needs none."""

    def features(
        self, images: Float[Tensor, "B 3 H W"], generator: torch.Generator | None = None
    ) -> list[Float[Tensor, "B _c _h _w"]]:
        """The maps on the way, of which the last is the one `forward` returns; here that one alone."""
        return [type(self).forward(self, images, generator)]

    @contextmanager
    def tapped(self) -> Iterator[list[Tensor]]:
        """Within, a pass leaves all the maps of `features` in the list, and is itself as ever.

        It is made in the plain way even where passes are replayed from a recording, of which the last map alone
        comes out: on CUDA the CPU launches it kernel by kernel.
        """
        maps: list[Tensor] = []
        before = vars(self).get("forward")  # a recording's

        def forward(images: Tensor, generator: torch.Generator | None = None) -> Tensor:
            maps[:] = self.features(images, generator)
            return maps[-1]

        self.forward = forward  # type: ignore[method-assign]
        try:
            yield maps
        finally:
            del self.forward
            if before is not None:
                self.forward = before  # type: ignore[method-assign]

    def train(self: AnyBackbone, mode: bool = True) -> AnyBackbone:
        """Switches to training (or evaluation) mode; frozen BatchNorm layers stay in evaluation mode."""
        super().train(mode)
        if self.freeze_batchnorm:
            for module in self.modules():
                if isinstance(module, _BatchNorm):
                    module.eval()
        return self


class BasicBlock(nn.Module):
    """Two 3x3 convolutions (or 1x1, by `kernel`); the first carries the stride, whatever `stride_at` says."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int, stride_at: StrideAt, kernel: int) -> None:
        super().__init__()
        self.conv1 = _conv(inputs, width, kernel=kernel, stride=stride)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = _conv(width, width, kernel=kernel)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = _shortcut(inputs, width, stride)

    def forward(self, x: Float[Tensor, "B c h w"]) -> Float[Tensor, "B _c _h _w"]:
        """The block's output, rectified."""
        out = _rectified(x, self.conv1, self.bn1)
        return _rectified(out, self.conv2, self.bn2, beside=x, shortcut=self.downsample)


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions; the stride is at the 3x3 (v1.5) or the first 1x1 (v1, the paper's)."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int, stride_at: StrideAt, kernel: int) -> None:
        super().__init__()
        at_3x3 = stride_at == "3x3"
        self.conv1 = _conv(inputs, width, kernel=1, stride=1 if at_3x3 else stride)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = _conv(width, width, kernel=kernel, stride=stride if at_3x3 else 1)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = _conv(width, 4 * width, kernel=1)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.downsample = _shortcut(inputs, 4 * width, stride)

    def forward(self, x: Float[Tensor, "B c h w"]) -> Float[Tensor, "B _c _h _w"]:
        """The block's output, rectified."""
        out = _rectified(x, self.conv1, self.bn1)
        out = _rectified(out, self.conv2, self.bn2)
        return _rectified(out, self.conv3, self.bn3, beside=x, shortcut=self.downsample)


@dataclass(frozen=True, kw_only=True)
class ResNetShape:
    """The sizes that tell one ResNet from another; four residual stages each."""

    block: type[BasicBlock] | type[Bottleneck]
    blocks: tuple[int, int, int, int]
    """How many blocks each stage has."""
    widths: tuple[int, int, int, int] = (64, 128, 256, 512)
    """Channels inside the blocks of each stage; a stage returns `block.expansion` times as many."""
    strides: tuple[int, int, int, int] = (1, 2, 2, 2)
    kernels: tuple[int, int, int, int] = (3, 3, 3, 3)
    """Side of the 3x3 convolutions of each stage; 1 keeps a stage from looking beyond its cell."""
    small_stem: bool = False
    """A 3x3 convolution with stride 2 instead of a 7x7 one and a max-pool: half the size, not a quarter."""


SHAPES = {
    "small": ResNetShape(
        block=BasicBlock, blocks=(1, 1, 1, 1), widths=(16, 32, 64, 64), strides=(1, 2, 2, 1), small_stem=True
    ),
    "local": ResNetShape(  # a cell sees 23 pixels: a part, not the layout (the idea of BagNet, arXiv:1904.00760)
        block=BasicBlock,
        blocks=(1, 1, 1, 1),
        widths=(16, 32, 48, 48),
        strides=(1, 2, 1, 1),
        kernels=(3, 3, 1, 1),
        small_stem=True,
    ),
    "resnet18": ResNetShape(block=BasicBlock, blocks=(2, 2, 2, 2)),
    "resnet50": ResNetShape(block=Bottleneck, blocks=(3, 4, 6, 3)),
}


class ResNet(Backbone):
    """A residual network without its classifier, with MixStyle after the chosen stages while training.

    Convolutions start from Kaiming's normal distribution (fan out), drawn from `generator` and from nothing
    else (None: PyTorch's global one); BatchNorm starts as the identity.
    """

    def __init__(
        self,
        shape: ResNetShape,
        *,
        mixstyle: MixStyleConfig,
        stride_at: StrideAt = "3x3",
        last_stride: Literal[1, 2] = 2,
        freeze_batchnorm: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(channels=shape.widths[-1] * shape.block.expansion, freeze_batchnorm=freeze_batchnorm)
        self.feature_channels = (shape.widths[0], *(width * shape.block.expansion for width in shape.widths))
        self.pool = not shape.small_stem
        inputs = shape.widths[0]
        self.conv1 = _conv(3, inputs, kernel=3 if shape.small_stem else 7, stride=2)
        self.bn1 = nn.BatchNorm2d(inputs)
        strides = list(shape.strides)
        strides[max(i for i, stride in enumerate(strides) if stride == 2)] = last_stride
        for number, stride in enumerate(strides, start=1):
            blocks, width, kernel = (s[number - 1] for s in (shape.blocks, shape.widths, shape.kernels))
            stage = nn.Sequential()
            for index in range(blocks):
                stage.append(shape.block(inputs, width, stride if index == 0 else 1, stride_at, kernel))
                inputs = width * shape.block.expansion
            self.add_module(f"layer{number}", stage)
        self.mixstyle = MixStyle(mixstyle)  # one object for all places; each call draws for itself
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu", generator=generator)
        self.train()

    def forward(
        self, images: Float[Tensor, "B 3 H W"], generator: torch.Generator | Iterator[Draw] | None = None
    ) -> Float[Tensor, "B C h w"]:
        """The map after the last stage. Training with MixStyle needs a CPU `generator`, or what it would draw."""
        x = self._stem(images)
        for number in range(1, 5):
            x = self._stage(number, x, generator)
        return x

    def features(
        self, images: Float[Tensor, "B 3 H W"], generator: torch.Generator | None = None
    ) -> list[Float[Tensor, "B _c _h _w"]]:
        """Five maps: after the stem (with its max-pool), then after each stage, with its MixStyle."""
        maps = [self._stem(images)]
        for number in range(1, 5):
            maps.append(self._stage(number, maps[-1], generator))
        return maps

    def _stem(self, images: Tensor) -> Tensor:
        x = _rectified(images, self.conv1, self.bn1)
        return F.max_pool2d(x, kernel_size=3, stride=2, padding=1) if self.pool else x

    def _stage(self, number: int, x: Tensor, generator: torch.Generator | Iterator[Draw] | None) -> Tensor:
        x = self.get_submodule(f"layer{number}")(x)
        if number in self.mixstyle.config.stages:
            x = self.mixstyle(x, generator)
        return x


def _rectified(
    x: Tensor,
    conv: nn.Conv2d,
    norm: nn.BatchNorm2d,
    beside: Tensor | None = None,
    shortcut: nn.Sequential | None = None,
) -> Tensor:
    """relu(norm(conv(x)) + shortcut(beside)): a convolution and all that follows; no shortcut is the identity."""
    if fused.launches_are_free() and not norm.training and fused.usable(conv.weight):
        from parse_dg.model.fused.frozen_norm import convolve

        return convolve(x, conv, norm, beside, shortcut)
    out = norm(conv(x))
    if beside is not None:
        out += beside if shortcut is None else shortcut(beside)
    return F.relu(out, inplace=True)


def _conv(inputs: int, outputs: int, *, kernel: int, stride: int = 1) -> nn.Conv2d:
    """A convolution without bias, its weight left unset so that PyTorch's own start draws no numbers."""
    conv = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False, device="meta")
    conv.weight = nn.Parameter(torch.empty(conv.weight.shape))  # `to_empty` would import sympy, for half a second
    return conv


def _shortcut(inputs: int, outputs: int, stride: int) -> nn.Sequential | None:
    """The projection beside a block, where its input and output differ in size."""
    if stride == 1 and inputs == outputs:
        return None
    return nn.Sequential(_conv(inputs, outputs, kernel=1, stride=stride), nn.BatchNorm2d(outputs))
