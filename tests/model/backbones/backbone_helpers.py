"""Backbones to try things on, and what is asked of them in more than one file."""

import torch
from torch import Tensor, nn

from parse_dg.model.backbones.backbone import BackboneConfig, build_backbone
from parse_dg.model.backbones.mixstyle import MixStyleConfig
from parse_dg.model.backbones.resnet import ResNet
from parse_dg.training.pretrained import load_pretrained
from tests.parts import seeded

OFF = MixStyleConfig(stages=())


def build(mixstyle: MixStyleConfig = OFF, seed: int = 0, **options: object) -> ResNet:
    config = BackboneConfig(**options)
    backbone = build_backbone(config, mixstyle, seeded(seed))
    load_pretrained(backbone, config)
    assert isinstance(backbone, ResNet)
    return backbone


def pictures(count: int = 4, size: int = 64, seed: int = 1) -> Tensor:
    return torch.randn(count, 3, size, size, generator=seeded(seed))


def same(first: nn.Module, second: nn.Module) -> bool:
    a, b = first.state_dict(), second.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)
