"""The backbones: torchvision's inventory, strides and sizes, weights files, frozen statistics, adapters."""

import os
import pickle
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from urllib.error import URLError

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from parse_dg.errors import InputError
from parse_dg.model.backbone import Backbone, BackboneConfig, FeatureAdapter, build_backbone
from parse_dg.model.mixstyle import MixStyleConfig
from parse_dg.model.resnet import ResNet

OFF = MixStyleConfig(stages=())
ALWAYS = MixStyleConfig(probability=1.0)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def build(mixstyle: MixStyleConfig = OFF, seed: int = 0, **options: object) -> ResNet:
    backbone = build_backbone(BackboneConfig(**options), mixstyle, seeded(seed))
    assert isinstance(backbone, ResNet)
    return backbone


def pictures(count: int = 4, size: int = 64, seed: int = 1) -> Tensor:
    return torch.randn(count, 3, size, size, generator=seeded(seed))


def same(first: nn.Module, second: nn.Module) -> bool:
    a, b = first.state_dict(), second.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


# --- the networks ---------------------------------------------------------------------------------


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


def test_last_stride_changes_no_parameter() -> None:
    for name in ("small", "resnet18"):
        assert same(build(name=name, seed=2), build(name=name, seed=2, last_stride=1))


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


def test_start_is_kaiming_fan_out() -> None:
    backbone = build(name="resnet18")
    for name in ("conv1", "layer2.0.conv1", "layer4.0.downsample.0"):
        weight = backbone.get_submodule(name).weight
        fan_out = weight.shape[0] * weight.shape[2] * weight.shape[3]
        assert weight.std().item() == pytest.approx((2 / fan_out) ** 0.5, rel=0.05)
    norms = [module for module in backbone.modules() if isinstance(module, nn.BatchNorm2d)]
    assert all((norm.weight == 1).all() and (norm.bias == 0).all() for norm in norms)


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
    assert [t.shape[1] for t in build(name="resnet18").eval().features(pictures(1))] == [
        64,
        64,
        128,
        256,
        512,
    ]


def test_resnet_against_plain_formula() -> None:
    backbone = build(name="resnet50", stride_at="first_1x1").eval()
    block, x = backbone.layer2[0], torch.rand(1, 256, 6, 6, generator=seeded())
    with torch.no_grad():
        out = block.bn1(nn.functional.conv2d(x, block.conv1.weight, stride=2)).relu()
        out = block.bn2(nn.functional.conv2d(out, block.conv2.weight, padding=1)).relu()
        out = block.bn3(nn.functional.conv2d(out, block.conv3.weight))
        side = block.downsample[1](nn.functional.conv2d(x, block.downsample[0].weight, stride=2))
        torch.testing.assert_close(block(x), (out + side).relu())


# --- MixStyle and BatchNorm inside ----------------------------------------------------------------


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


def test_frozen_statistics_inside_a_larger_network() -> None:
    whole = nn.Sequential(build(freeze_batchnorm=True), nn.BatchNorm2d(64)).train()
    assert not whole[0].bn1.training
    assert whole[1].training


# --- weights files --------------------------------------------------------------------------------


def state(name: str = "small", seed: int = 9) -> dict[str, Tensor]:
    return {key: value.clone() for key, value in build(name=name, seed=seed).state_dict().items()}


def test_round_trip_in_every_format(tmp_path: Path) -> None:
    expected, weights = build(seed=9), state()
    save_file(weights, tmp_path / "a.safetensors")
    torch.save(weights, tmp_path / "a.pth")
    torch.save(weights, tmp_path / "a.pt")
    torch.save(weights, tmp_path / "legacy.pth", _use_new_zipfile_serialization=False)
    assert not zipfile.is_zipfile(tmp_path / "legacy.pth")
    for name in ("a.safetensors", "a.pth", "a.pt", "legacy.pth"):
        assert same(build(weights=str(tmp_path / name)), expected)


@pytest.mark.parametrize("prefix", ["", "module.", "backbone.", "module.backbone."])
@pytest.mark.parametrize("nested", ["", "state_dict", "model"])
def test_prefixes_nesting_and_classifier(tmp_path: Path, prefix: str, nested: str) -> None:
    weights = {prefix + key: value for key, value in state().items()}
    weights |= {f"{prefix}fc.weight": torch.zeros(10, 64), "fc.bias": torch.zeros(10)}
    torch.save({nested: weights, "epoch": 3} if nested else weights, tmp_path / "a.pth")
    assert same(build(weights=str(tmp_path / "a.pth")), build(seed=9))


def test_half_precision_and_old_files(tmp_path: Path) -> None:
    weights = {k: v.half() if v.is_floating_point() else v for k, v in state().items()}
    old = {key: value for key, value in weights.items() if not key.endswith("num_batches_tracked")}
    save_file(old, tmp_path / "old.safetensors")
    backbone = build(weights=str(tmp_path / "old.safetensors"))
    assert backbone.conv1.weight.dtype == torch.float32
    assert torch.equal(backbone.conv1.weight.half(), weights["conv1.weight"])


def test_weights_that_do_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    config = BackboneConfig(weights=str(path))

    def message(weights: dict[str, Tensor]) -> str:
        save_file(weights, path)
        with pytest.raises(InputError) as caught:
            build_backbone(config, OFF)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    good = state()
    text = message({k: v for k, v in good.items() if not k.startswith("layer4")})
    assert f"weights {path} do not fit small" in text
    assert "10 missing: layer4.0.conv1.weight (expected 64x64x3x3), " in text
    assert text.endswith(", ...")
    text = message(good | {"layer5.weight": torch.zeros(2, 3)})
    assert text.endswith("1 unexpected: layer5.weight (found 2x3)")
    text = message(good | {"conv1.weight": torch.zeros(16, 1, 3, 3)})
    assert text.endswith("1 of another shape: conv1.weight (expected 16x3x3x3, found 16x1x3x3)")
    text = message({"something": torch.zeros(())})
    assert "missing" in text
    assert "1 unexpected: something (found a scalar)" in text


def test_wrong_network(tmp_path: Path) -> None:
    torch.save(state("small"), tmp_path / "small.pth")
    with pytest.raises(InputError, match="do not fit resnet18"):
        build(name="resnet18", weights=str(tmp_path / "small.pth"))


class Malicious:
    """Unpickled without care, it creates a file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.target),)


@pytest.mark.parametrize("archive", [True, False])
def test_malicious_pickle_is_refused(tmp_path: Path, archive: bool) -> None:
    target, path = tmp_path / "harm", tmp_path / "a.pth"
    content = {"conv1.weight": Malicious(target)}
    if archive:
        torch.save(content, path)
    else:
        path.write_bytes(pickle.dumps(content))
    with pytest.raises(InputError, match="holds more than tensors: refused, nothing in it was run"):
        build(weights=str(path))
    assert not target.exists()
    torch.load(path, weights_only=False) if archive else pickle.loads(path.read_bytes())
    assert target.exists()  # the file was as harmful as it was meant to be


@pytest.mark.parametrize("suffix", [".safetensors", ".pth", ".pt"])
def test_missing_and_damaged_files(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    with pytest.raises(InputError, match="does not exist"):
        build(weights=str(path))
    save_file(state(), path) if suffix == ".safetensors" else torch.save(state(), path)
    whole = path.read_bytes()
    for damaged in (b"", b"not a weights file at all", whole[: len(whole) // 2], b"PK\x03\x04" + whole[:50]):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"weights file .* is (damaged|not a safetensors file)") as caught:
            build(weights=str(path))
        assert "\n" not in str(caught.value)
    path.unlink()
    path.mkdir()
    with pytest.raises(InputError, match="weights file"):
        build(weights=str(path))


def test_other_content_and_suffix(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"must end in one of .safetensors, .pth, .pt"):
        build(weights=str(tmp_path / "a.onnx"))
    for content, found in (
        ([1], "list"),
        ({}, "an empty one"),
        ({"conv1.weight": 3}, "int at 'conv1.weight'"),
    ):
        torch.save(content, tmp_path / "a.pth")
        with pytest.raises(InputError, match=f"must hold a dictionary of tensors, found {found}"):
            build(weights=str(tmp_path / "a.pth"))


def test_published_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def download(url: str, **options: object) -> dict[str, Tensor]:
        asked.append((url, options["check_hash"], options["weights_only"]))
        return state("resnet18") | {"fc.weight": torch.zeros(1000, 512), "fc.bias": torch.zeros(1000)}

    monkeypatch.setattr(torch.hub, "load_state_dict_from_url", download)
    assert same(build(name="resnet18", weights="imagenet"), build(name="resnet18", seed=9))
    assert asked == [("https://download.pytorch.org/models/resnet18-f37072fd.pth", True, True)]
    with pytest.raises(InputError, match="published for resnet18, resnet50, not for small: pass a local file"):
        build(weights="imagenet")


def test_published_weights_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def download(url: str, **options: object) -> dict[str, Tensor]:
        raise URLError("no route to host")

    monkeypatch.setattr(torch.hub, "load_state_dict_from_url", download)
    with pytest.raises(InputError, match=r"resnet50-0676ba61.pth .*no route.* pass the local file as weights"):
        build(name="resnet50", weights="imagenet")


def real_weights() -> Path:
    beside = Path(__file__).parents[3] / "shared" / "data" / "weights"
    given = Path(os.environ.get("PARSE_DG_WEIGHTS", beside))
    return given / "resnet50_imagenet_v1.safetensors" if given.is_dir() else given


@pytest.mark.skipif(not real_weights().is_file(), reason="ImageNet weights not here (PARSE_DG_WEIGHTS)")
def test_real_imagenet_weights() -> None:
    path = real_weights()
    backbone = build(name="resnet50", weights=str(path), stride_at="first_1x1").eval()
    with torch.no_grad():
        features = backbone(pictures(1, 96))
    assert features.isfinite().all()
    loaded = backbone.state_dict()
    assert all(torch.equal(loaded[key], value.to(loaded[key])) for key, value in load_file(path).items())


# --- configuration --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"name": "resnet34"},
            "unknown backbone 'resnet34': valid are small, resnet18, resnet50, torchvision",
        ),
        ({"name": "timm:"}, "unknown backbone 'timm:'"),
        ({"name": "small:x"}, "unknown backbone"),
        ({"stride_at": "first_1x1"}, "bottleneck blocks of resnet50, not for small"),
        ({"name": "timm:x", "stride_at": "first_1x1"}, "not for timm:x"),
        (
            {"name": "timm:x", "last_stride": 1},
            "last_stride=1 is for small, resnet18, resnet50, not for timm:x",
        ),
        ({"weights": ""}, "backbone.weights is empty"),
    ],
)
def test_configuration_is_checked(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        BackboneConfig(**options)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [("stride_at", "1x1", "valid are 3x3, first_1x1"), ("last_stride", 3, "must be 1 or 2, found 3")],
)
def test_choices_are_checked(field: str, value: object, message: str) -> None:
    config = BackboneConfig(name="resnet50")
    object.__setattr__(config, field, value)  # past the type check that only tests have
    with pytest.raises(InputError, match=message):
        config.__post_init__()


# --- adapters -------------------------------------------------------------------------------------


class FakeTimm(nn.Module):
    """Like timm's FeatureListNet: flattened names, a list of maps, feature_info."""

    def __init__(self, channels_last: bool = False) -> None:
        super().__init__()
        self.stages_0 = nn.Sequential(nn.Conv2d(3, 5, 4, stride=4), nn.BatchNorm2d(5))
        self.feature_info = SimpleNamespace(channels=lambda: [5])
        self.channels_last = channels_last

    def forward(self, x: Tensor) -> list[Tensor]:
        x = self.stages_0(x)
        return [x.permute(0, 2, 3, 1) if self.channels_last else x]


class FakeTorchvision(nn.Module):
    """Like torchvision's classifiers: the parts in order, `avgpool` before the classifier."""

    def __init__(self, pool: bool = True) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 6, 8, stride=8), nn.BatchNorm2d(6))
        if pool:
            self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(6, 1000)


@pytest.fixture
def libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    def create_model(name: str, *, pretrained: bool, features_only: bool, out_indices: tuple[int]) -> nn.Module:
        assert (pretrained, features_only, out_indices) == (False, True, (-1,))
        if name not in ("net", "last"):
            raise RuntimeError(f"Unknown model ({name})")
        return FakeTimm(channels_last=name == "last")

    def get_model(name: str, *, weights: None) -> nn.Module:
        if name == "vector":
            return nn.Sequential(nn.Flatten(), nn.AdaptiveAvgPool2d(1))
        if name not in ("net", "unpooled"):
            raise ValueError(f"Unknown model {name}")
        return FakeTorchvision(pool=name == "net")

    timm, torchvision, models = (
        ModuleType("timm"),
        ModuleType("torchvision"),
        ModuleType("torchvision.models"),
    )
    timm.create_model, models.get_model, torchvision.models = create_model, get_model, models
    monkeypatch.setitem(sys.modules, "timm", timm)
    monkeypatch.setitem(sys.modules, "torchvision", torchvision)
    monkeypatch.setitem(sys.modules, "torchvision.models", models)


def adapt(name: str, **options: object) -> Backbone:
    return build_backbone(BackboneConfig(name=name, **options), OFF, seeded())


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize(("name", "shape"), [("timm:net", (5, 16, 16)), ("torchvision:net", (6, 8, 8))])
def test_adapter(name: str, shape: tuple[int, ...]) -> None:
    before = torch.get_rng_state()
    backbone = adapt(name)
    assert isinstance(backbone, FeatureAdapter)
    assert backbone.training
    assert backbone.network.training
    assert backbone.channels == shape[0]
    assert backbone(pictures(2)).shape == (2, *shape)
    assert same(adapt(name), adapt(name))
    assert torch.equal(torch.get_rng_state(), before)
    frozen = adapt(name, freeze_batchnorm=True)
    assert not any(m.training for m in frozen.modules() if isinstance(m, nn.BatchNorm2d))


@pytest.mark.usefixtures("libraries")
def test_adapter_weights(tmp_path: Path) -> None:
    path = tmp_path / "a.pth"
    with torch.random.fork_rng():
        torch.manual_seed(7)
        whole = FakeTorchvision()
    torch.save(whole.state_dict(), path)
    loaded = adapt("torchvision:net", weights=str(path))
    assert torch.equal(loaded.get_parameter("network.features.0.weight"), whole.features[0].weight)
    published = {key.replace("stages_0", "stages.0"): value + 1 for key, value in FakeTimm().state_dict().items()}
    torch.save(published | {"head.fc.weight": torch.zeros(10, 5)}, path)
    loaded = adapt("timm:net", weights=str(path))
    assert torch.equal(loaded.get_parameter("network.stages_0.0.weight"), published["stages.0.0.weight"])
    with pytest.raises(InputError, match="not for timm:net: pass a local file"):
        adapt("timm:net", weights="imagenet")


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("timm:nothing", r"timm:nothing cannot be built: Unknown model \(nothing\)"),
        ("torchvision:nothing", "torchvision:nothing cannot be built: Unknown model nothing"),
        ("timm:last", r"must return a \(B, 5, H, W\) map, found \(1, 56, 56, 5\)"),
        ("torchvision:unpooled", "no pooling layer to cut at, its parts are features, classifier"),
        ("torchvision:vector", r"must return a \(B, C, H, W\) map, found \(1, 150528\)"),
    ],
)
def test_adapter_refuses(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        adapt(name)


@pytest.mark.usefixtures("libraries")
def test_adapter_has_no_place_for_mixstyle() -> None:
    with pytest.raises(InputError, match=r"set mixstyle.stages=\(\) to use timm:net"):
        build_backbone(BackboneConfig(name="timm:net"), MixStyleConfig(), seeded())


@pytest.mark.parametrize("error", [ImportError, RuntimeError])
@pytest.mark.parametrize("name", ["timm:net", "torchvision:net"])
def test_missing_library(name: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(module: str) -> ModuleType:
        raise error(f"{module} is broken")

    monkeypatch.setattr("parse_dg.model.backbone.importlib.import_module", fail)
    library = name.partition(":")[0]
    with pytest.raises(InputError, match=rf"needs {library}, .* install parse-dg\[backbones\]"):
        adapt(name)


def test_adapter_of_a_failing_network() -> None:
    with pytest.raises(InputError, match="backbone mine fails on a 224-pixel image"):
        FeatureAdapter(nn.Conv2d(4, 2, 1), name="mine")
