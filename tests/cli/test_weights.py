"""`parse-dg weights`: what is published, and images that are prepared in another way than the weights expect."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from parse_dg.data.augment.batches import normalise
from parse_dg.training.weights_check import PREPARATIONS, check_weights
from tests.cli.conftest import Run
from tests.model.backbones.backbone_helpers import build
from tests.training.test_pretrained import real_weights

WAYS = list(PREPARATIONS)
PACS = Path(os.environ.get("PARSE_DG_PACS", "PACS"))


def photographs(count: int = 12) -> torch.Tensor:
    """Smooth colours around those of photographs, of which red varies most."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.randn(count, 3, 6, 6, generator=generator) * torch.tensor([70.0, 50.0, 30.0])[:, None, None]
    smooth = torch.nn.functional.interpolate(coarse, (64, 64), mode="bicubic")
    return (smooth + torch.tensor([124.0, 116.0, 104.0])[:, None, None]).clamp(0, 255).to(torch.uint8)


@pytest.mark.parametrize("way", range(len(WAYS)))
def test_the_way_in_which_weights_were_trained_is_found(way: int) -> None:
    images = photographs()
    backbone = build(name="small").train()
    for module in backbone.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = None  # the plain mean
    with torch.no_grad():
        backbone(PREPARATIONS[WAYS[way]](images / 255))
    report = check_weights(backbone, images.split(5))
    best = report.better or report.fits[0]
    assert (best.preparation, report.telling) == (WAYS[way], True)
    assert best.distance < 1e-4
    assert best.mean_shift < 1e-3
    assert abs(best.variance_ratio - 1) < 1e-3
    other = check_weights(backbone, [torch.zeros(2, 3, 64, 64, dtype=torch.uint8)])
    assert not other.telling


def test_the_command_lists_and_looks(run: Run, tmp_path: Path) -> None:
    listed = run("weights")
    assert listed.code == 0
    assert "resnet50-11ad3fa6.pth" in listed.out
    assert "80.9%" in listed.out
    for number, image in enumerate(photographs(6).permute(0, 2, 3, 1).numpy()):
        folder = tmp_path / "data" / ("one", "two")[number % 2] / ("a", "b", "c")[number // 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.ascontiguousarray(image)).save(folder / "image.png")
    looked = ("--backbone", "small", "--data", tmp_path / "data")
    for scale, code in ((1.0, 0), (1 / 255, 1)):
        backbone = build(name="small").train()
        backbone.bn1.momentum = None
        with torch.no_grad():
            backbone(normalise(photographs(6) / 255) if code == 0 else photographs(6).float())
        save_file(backbone.state_dict(), tmp_path / "w.safetensors")
        said = run("weights", tmp_path / "w.safetensors", *looked)
        assert said.code == code, (scale, said)
    assert "RGB in [0, 255], not normalised fits better" in said.err
    save_file(build(name="small").state_dict(), tmp_path / "w.safetensors")
    refused = run("weights", tmp_path / "w.safetensors", *looked)
    assert (refused.code, "random start" in refused.err) == (2, True)


@pytest.mark.skipif(not (real_weights().is_file() and PACS.is_dir()), reason="PARSE_DG_WEIGHTS, PARSE_DG_PACS")
def test_real_weights_on_photographs() -> None:
    files = sorted((PACS / "photo").rglob("*.jpg"))[::40]
    images = np.stack([np.asarray(Image.open(file).convert("RGB").resize((224, 224))) for file in files])
    photos = torch.from_numpy(images).permute(0, 3, 1, 2)
    backbone = build(name="resnet50", weights=str(real_weights()), stride_at="first_1x1")
    report = check_weights(backbone, photos.split(16))
    assert report.telling
    assert report.better is None
    swapped = check_weights(backbone, photos.flip(1).split(16))
    assert swapped.better is not None
    assert swapped.better.preparation == WAYS[1]
