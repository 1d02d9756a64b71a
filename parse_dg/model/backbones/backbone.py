"""The backbone: images → feature map, chosen by name, with a random start (`training/pretrained.py` loads others).

The ResNets are written here (`resnet.py`); any other network comes from timm, torchvision or a plug-in through an
adapter. `build_backbone` is the one place where sizes are chosen.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from parse_dg.config import Config, Rule
from parse_dg.errors import InputError, unknown
from parse_dg.model.backbones.mixstyle import MixStyleConfig
from parse_dg.model.backbones.resnet import SHAPES, Backbone, Bottleneck, ResNet, StrideAt
from parse_dg.registry import Registry
from parse_dg.wording import first_line

__all__ = ["Backbone", "BackboneConfig", "FeatureAdapter", "build_backbone", "register_backbone"]

PROBE_SIZE = 224
"""Side of the image an adapted network is tried with; some accept no other size."""
LIBRARIES = {"torchvision": "torchvision.models", "timm": "timm"}
NetworkMaker = Callable[[], nn.Module]


@dataclass(frozen=True, kw_only=True)
class BackboneConfig(Config):
    """Which network, from which weights."""

    name: str = "small"
    """`small`, `local` (for 64-pixel images), `resnet18`, `resnet50`, `torchvision:NAME`, `timm:NAME`, or a name
    that was registered (docs/extend.md)."""
    weights: Annotated[str, Rule("a file or a name", bool)] | None = None
    """None: a random start. A `.safetensors`, `.pth` or `.pt` file. Or published weights by name: `imagenet-v1` (or
    `imagenet`), `imagenet-v2`, `augmix`; `parse-dg weights` says what they are."""
    stride_at: StrideAt = "3x3"
    """Which convolution of a bottleneck block (`resnet50` only) strides: `3x3` v1.5, `first_1x1` v1."""
    last_stride: Literal[1, 2] = 2
    """1: the last stage that would halve the map keeps its size. `resnet18`, `resnet50`: 14x14 instead of 7x7
    at 224 pixels (the fourth stage); `small`: 16x16 instead of 8x8 at 64 pixels (the third stage)."""
    freeze_batchnorm: bool = False
    """BatchNorm statistics stay as loaded, also in training; weight and bias still train."""

    def check(self) -> None:
        library, _, model = self.name.partition(":")
        adapted = self.name not in SHAPES
        if self.name not in BACKBONES and not (library in LIBRARIES and model):
            raise unknown("backbone", self.name, [*BACKBONES, *(f"{library}:NAME" for library in LIBRARIES)])
        fits = self.stride_at == "3x3" or (not adapted and SHAPES[self.name].block is Bottleneck)
        self.require(fits, "stride_at", f"3x3 for {self.name}: first_1x1 is for the bottleneck blocks of resnet50")
        fits = self.last_stride == 2 or not adapted
        self.require(fits, "last_stride", f"2 for {self.name}: 1 is for {', '.join(SHAPES)}")


def build_backbone(
    config: BackboneConfig, mixstyle: MixStyleConfig, generator: torch.Generator | None = None
) -> Backbone:
    """The network of `config` on the CPU, in training mode.

    Its start is drawn from the CPU `generator` alone; None draws from PyTorch's global one. `config.weights` is
    for `load_pretrained`, so that the generator advances by the same amount whether or not there are any.
    """
    if config.name in BACKBONES:
        return BACKBONES[config.name](config, mixstyle, generator)
    library, _, model = config.name.partition(":")
    return _adapted(partial(_from_library, library, model), config, mixstyle, generator)


def _resnet(config: BackboneConfig, mixstyle: MixStyleConfig, generator: torch.Generator | None) -> Backbone:
    return ResNet(
        SHAPES[config.name],
        mixstyle=mixstyle,
        stride_at=config.stride_at,
        last_stride=config.last_stride,
        freeze_batchnorm=config.freeze_batchnorm,
        generator=generator,
    )


def _adapted(
    make: NetworkMaker, config: BackboneConfig, mixstyle: MixStyleConfig, generator: torch.Generator | None
) -> Backbone:
    if mixstyle.stages:
        ours = f"one of the ResNets written here ({', '.join(SHAPES)})"
        raise InputError(f"MixStyle needs {ours}: set mixstyle.stages=() to use {config.name}")
    with torch.random.fork_rng(devices=[], enabled=generator is not None):
        if generator is not None:
            torch.default_generator.manual_seed(int(torch.randint(2**63 - 1, (), generator=generator)))
        network = make()
    return FeatureAdapter(network, name=config.name, freeze_batchnorm=config.freeze_batchnorm)


BACKBONES: Registry[Callable[[BackboneConfig, MixStyleConfig, torch.Generator | None], Backbone]] = Registry(
    "backbone", "backbone.name"
)
"""Every backbone by name, but for those of timm and torchvision."""
for _name in SHAPES:
    BACKBONES.add(_name, _resnet)


def register_backbone(name: str) -> Callable[[NetworkMaker], NetworkMaker]:
    """A decorator for a function that makes a network: images → one map (B, C, h, w), for images of 224 pixels too.
    What it draws is drawn from PyTorch's own generator, which is seeded from the run's.
    """

    def register_network(make: NetworkMaker) -> NetworkMaker:
        BACKBONES.add(name, partial(_adapted, make))
        return make

    return register_network


class FeatureAdapter(Backbone):
    """Any network that returns one (B, C, h, w) map, or a list of them whose last counts, as a backbone.

    The number of channels is found by trying the network on one image.
    """

    def __init__(self, network: nn.Module, *, name: str, freeze_batchnorm: bool = False) -> None:
        super().__init__(channels=_probe(network, name), freeze_batchnorm=freeze_batchnorm)
        self.network = network
        self.train()

    def forward(
        self, images: Float[Tensor, "B 3 H W"], generator: torch.Generator | None = None
    ) -> Float[Tensor, "B C h w"]:
        """The network's map; `generator` is not used, dropout inside the network draws from PyTorch's own."""
        return _last(self.network(images))


def _from_library(library: str, model: str) -> nn.Module:
    """Timm's network `model`, which returns its last feature map in a list; or torchvision's up to its pooling
    layer, under its own parameter names.
    """
    name = f"{library}:{model}"
    try:
        module = importlib.import_module(LIBRARIES[library])
    except (ImportError, RuntimeError) as error:  # torchvision built for another torch raises RuntimeError
        needs = f"backbone {name} needs {library}, which cannot be imported"
        raise InputError(f"{needs}: install parse-dg[backbones]") from error
    try:
        if library == "timm":
            network = module.create_model(model, pretrained=False, features_only=True, out_indices=(-1,))
        else:
            network = module.get_model(model, weights=None)
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise InputError(f"backbone {name} cannot be built: {first_line(error)}") from error
    assert isinstance(network, nn.Module)
    return network if library == "timm" else _before_pooling(network, name)


def _before_pooling(network: nn.Module, name: str) -> nn.Module:
    features = nn.Sequential()
    for part, child in network.named_children():
        if part == "avgpool" or isinstance(child, nn.AdaptiveAvgPool2d):
            return features
        features.add_module(part, child)
    parts = ", ".join(part for part, _ in network.named_children())
    raise InputError(f"{name} has no pooling layer to cut at, its parts are {parts}: try timm:NAME")


def _last(output: Any) -> Tensor:
    """The last map of what a network returned."""
    last: Tensor = output[-1] if isinstance(output, (list, tuple)) else output
    return last


def _probe(network: nn.Module, name: str) -> int:
    """The channels of the network's map, found with one black image; the network's mode is put back."""
    training = network.training
    network.eval()
    try:
        with torch.no_grad():
            features = _last(network(torch.zeros(1, 3, PROBE_SIZE, PROBE_SIZE)))
    except (RuntimeError, TypeError, ValueError, AssertionError) as error:
        raise InputError(f"backbone {name} fails on a {PROBE_SIZE}-pixel image: {first_line(error)}") from error
    finally:
        network.train(training)
    if not isinstance(features, Tensor) or features.ndim != 4:
        shape = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
        raise InputError(f"backbone {name} must return a (B, C, H, W) map, found {shape}")
    channels = int(features.shape[1])
    info: Any = getattr(network, "feature_info", None)  # timm's
    if info is not None and channels != (known := info.channels()[-1]):
        found = f"found {tuple(features.shape)}: networks that keep the channels last cannot be used"
        raise InputError(f"backbone {name} must return a (B, {known}, H, W) map, {found}")
    return channels
