"""Adapters: the networks of timm and torchvision as backbones, or one line that says why not."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from parse_dg.errors import InputError
from parse_dg.model.backbones.backbone import Backbone, BackboneConfig, FeatureAdapter, build_backbone
from parse_dg.model.backbones.mixstyle import MixStyleConfig
from parse_dg.training.pretrained import load_pretrained
from tests.model.backbones.backbone_helpers import OFF, pictures, same
from tests.parts import seeded


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

    timm, torchvision, models = (ModuleType("timm"), ModuleType("torchvision"), ModuleType("torchvision.models"))
    timm.create_model, models.get_model, torchvision.models = create_model, get_model, models
    monkeypatch.setitem(sys.modules, "timm", timm)
    monkeypatch.setitem(sys.modules, "torchvision", torchvision)
    monkeypatch.setitem(sys.modules, "torchvision.models", models)


def adapt(name: str, **options: object) -> Backbone:
    config = BackboneConfig(name=name, **options)
    backbone = build_backbone(config, OFF, seeded())
    load_pretrained(backbone, config)
    return backbone


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
    with pytest.raises(InputError, match="not for timm:net: pass a file"):
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

    monkeypatch.setattr("parse_dg.model.backbones.backbone.importlib.import_module", fail)
    library = name.partition(":")[0]
    with pytest.raises(InputError, match=rf"needs {library}, .* install parse-dg\[backbones\]"):
        adapt(name)


def test_adapter_of_a_failing_network() -> None:
    with pytest.raises(InputError, match="backbone mine fails on a 224-pixel image"):
        FeatureAdapter(nn.Conv2d(4, 2, 1), name="mine")
