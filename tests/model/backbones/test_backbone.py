"""The backbones: torchvision's inventory, strides and sizes, frozen statistics, what a configuration may say."""

from collections.abc import Iterator

import pytest
import torch
from torch import nn

from parse_dg.errors import InputError
from parse_dg.model.backbones.backbone import BackboneConfig, build_backbone
from parse_dg.model.backbones.mixstyle import MixStyleConfig
from tests.model.backbones.backbone_helpers import OFF, build, pictures, same
from tests.parts import seeded

ALWAYS = MixStyleConfig(probability=1.0)


def torchvision_inventory(blocks: list[int], kernels: list[int]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes of torchvision's ResNets without fc, written out from its naming."""

    def norm(name: str, width: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        for part in ("weight", "bias", "running_mean", "running_var"):
            yield f"{name}.{part}", (width,)
        yield f"{name}.num_batches_tracked", ()

    expansion = 4 if len(kernels) == 3 else 1
    yield "conv1.weight", (64, 3, 7, 7)
    yield from norm("bn1", 64)
    inputs = 64
    for stage, count in enumerate(blocks, start=1):
        width = 64 * 2 ** (stage - 1)
        for block in range(count):
            name = f"layer{stage}.{block}"
            sizes = [inputs, *[width] * (len(kernels) - 1), width * expansion]
            for i, kernel in enumerate(kernels, start=1):
                yield f"{name}.conv{i}.weight", (sizes[i], sizes[i - 1], kernel, kernel)
                yield from norm(f"{name}.bn{i}", sizes[i])
            if block == 0 and inputs != width * expansion:
                yield f"{name}.downsample.0.weight", (width * expansion, inputs, 1, 1)
                yield from norm(f"{name}.downsample.1", width * expansion)
            inputs = width * expansion


@pytest.mark.parametrize(
    ("name", "blocks", "kernels", "entries", "parameters", "channels"),
    [
        ("resnet18", [2, 2, 2, 2], [3, 3], 120, 11_176_512, 512),
        ("resnet50", [3, 4, 6, 3], [1, 3, 1], 318, 23_508_032, 2048),
    ],
)
def test_torchvision_inventory(
    name: str, blocks: list[int], kernels: list[int], entries: int, parameters: int, channels: int
) -> None:
    backbone = build(name=name, mixstyle=ALWAYS)
    found = {key: tuple(value.shape) for key, value in backbone.state_dict().items()}
    assert found == dict(torchvision_inventory(blocks, kernels))
    assert len(found) == entries
    assert sum(p.numel() for p in backbone.parameters()) == parameters
    assert backbone.channels == channels


def strided(backbone: nn.Module) -> set[str]:
    return {n for n, m in backbone.named_modules() if isinstance(m, nn.Conv2d) and m.stride == (2, 2)}


def test_strides() -> None:
    shortcuts = {f"layer{stage}.0.downsample.0" for stage in (2, 3, 4)}
    modern = {"conv1", *shortcuts, *(f"layer{stage}.0.conv2" for stage in (2, 3, 4))}
    original = {"conv1", *shortcuts, *(f"layer{stage}.0.conv1" for stage in (2, 3, 4))}
    assert strided(build(name="resnet50")) == modern
    assert strided(build(name="resnet50", stride_at="first_1x1")) == original
    assert strided(build(name="resnet18")) == original
    last = {"layer4.0.downsample.0", "layer4.0.conv1", "layer4.0.conv2"}
    assert strided(build(name="resnet50", last_stride=1)) == modern - last
    assert strided(build(name="resnet50", last_stride=1, stride_at="first_1x1")) == original - last
    assert strided(build(name="resnet18", last_stride=1)) == original - last


@pytest.mark.parametrize(
    ("options", "size", "shape"),
    [
        ({"name": "resnet18"}, 224, (512, 7, 7)),
        ({"name": "resnet18", "last_stride": 1}, 224, (512, 14, 14)),
        ({"name": "resnet50"}, 224, (2048, 7, 7)),
        ({"name": "resnet50", "last_stride": 1, "stride_at": "first_1x1"}, 224, (2048, 14, 14)),
        ({"name": "small"}, 64, (64, 8, 8)),
        ({"name": "small", "last_stride": 1}, 64, (64, 16, 16)),
    ],
)
def test_map_sizes(options: dict[str, object], size: int, shape: tuple[int, ...]) -> None:
    backbone = build(**options).eval()
    with torch.no_grad():
        features = backbone(pictures(1, size))
    assert features.shape == (1, *shape)
    assert backbone.channels == shape[0]
    assert features.min() == 0
    assert features.max() > 0


def test_start_comes_from_the_generator_alone() -> None:
    before = torch.get_rng_state()
    first, again, other = build(seed=3), build(seed=3), build(seed=4)
    assert torch.equal(torch.get_rng_state(), before)
    assert same(first, again)
    assert not torch.equal(first.conv1.weight, other.conv1.weight)
    with torch.random.fork_rng():
        torch.manual_seed(5)
        globally = build_backbone(BackboneConfig(), OFF)
    assert same(globally, build(seed=5))


def test_features_are_five_taps_that_end_in_the_map() -> None:
    backbone = build(mixstyle=ALWAYS)
    taps = backbone.features(pictures(), seeded(1))
    assert [tuple(tap.shape[1:]) for tap in taps] == [
        (16, 32, 32),
        (16, 32, 32),
        (32, 16, 16),
        (64, 8, 8),
        (64, 8, 8),
    ]
    assert torch.equal(taps[-1], backbone(pictures(), seeded(1)))
    kept = [tap.clone() for tap in taps]
    backbone.layer1(taps[0])  # a stage leaves its input alone
    assert torch.equal(taps[0], kept[0])
    assert [t.shape[1] for t in build(name="resnet18").eval().features(pictures(1))] == [64, 64, 128, 256, 512]


def test_resnet_against_plain_formula() -> None:
    backbone = build(name="resnet50", stride_at="first_1x1").eval()
    block, x = backbone.layer2[0], torch.rand(1, 256, 6, 6, generator=seeded())
    with torch.no_grad():
        out = block.bn1(nn.functional.conv2d(x, block.conv1.weight, stride=2)).relu()
        out = block.bn2(nn.functional.conv2d(out, block.conv2.weight, padding=1)).relu()
        out = block.bn3(nn.functional.conv2d(out, block.conv3.weight))
        side = block.downsample[1](nn.functional.conv2d(x, block.downsample[0].weight, stride=2))
        torch.testing.assert_close(block(x), (out + side).relu())


def test_mixstyle_works_after_its_stages_in_training_only() -> None:
    plain, mixed = build(), build(mixstyle=MixStyleConfig(stages=(2,), probability=1.0))
    assert same(plain, mixed)
    images = pictures()
    for tap, (one, other) in enumerate(zip(plain.features(images), mixed.features(images, seeded()), strict=True)):
        assert torch.equal(one, other) == (tap < 2)
    assert torch.equal(mixed(images, seeded(1)), mixed(images, seeded(1)))
    with pytest.raises(ValueError, match="Generator"):
        mixed(images)
    fresh = build(mixstyle=ALWAYS)
    assert torch.equal(build().eval()(images), fresh.eval()(images))


def test_frozen_statistics_stay_and_affine_trains() -> None:
    for frozen in (True, False):
        backbone = build(freeze_batchnorm=frozen)
        before = {name: value.clone() for name, value in backbone.named_buffers()}
        backbone(pictures()).sum().backward()
        changed = {name for name, value in backbone.named_buffers() if not torch.equal(value, before[name])}
        assert changed == (set() if frozen else set(before))
        assert backbone.training
        assert backbone.bn1.weight.grad is not None
        assert backbone.bn1.weight.grad.abs().sum() > 0
        assert backbone.eval().train().bn1.training is not frozen


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"name": "resnet34"},
            "unknown backbone 'resnet34': valid are small, local, resnet18, resnet50, torchvision",
        ),
        ({"name": "timm:"}, "unknown backbone 'timm:'"),
        ({"name": "small:x"}, "unknown backbone"),
        (
            {"stride_at": "first_1x1"},
            "^stride_at must be 3x3 for small: first_1x1 is for the bottleneck blocks of resnet50",
        ),
        ({"name": "timm:x", "stride_at": "first_1x1"}, "3x3 for timm:x"),
        (
            {"name": "timm:x", "last_stride": 1},
            "last_stride must be 2 for timm:x: 1 is for small, local, resnet18, resnet50, found 1",
        ),
    ],
)
def test_configuration_is_checked(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        BackboneConfig(**options)


@pytest.mark.parametrize(("name", "seen"), [("local", 23), ("small", 64)])
def test_how_much_of_the_image_a_cell_sees(name: str, seen: int) -> None:
    """In training mode batch statistics would join all pixels; in evaluation a cell sees its receptive field."""
    backbone = build_backbone(
        BackboneConfig(name=name), MixStyleConfig(stages=()), torch.Generator().manual_seed(0)
    )
    images = torch.randn(1, 3, 64, 64, generator=torch.Generator().manual_seed(1), requires_grad=True)
    features = backbone.eval()(images)
    features[0, :, features.shape[2] // 2, features.shape[3] // 2].sum().backward()
    assert images.grad is not None
    rows = images.grad[0].abs().sum((0, 2)).nonzero().squeeze(1)
    assert int(rows.max() - rows.min()) + 1 == seen
