"""The real PACS with the real ResNet-50, from the archives to a score; skipped where they are not.

PARSE_DG_PACS names the folder of the archives, PARSE_DG_WEIGHTS the weights (ResNet v1, stride at the first
convolution of a block). Without them, the places where a copy may lie beside the project are looked at.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from parse_dg.cli import main
from parse_dg.data.benchmarks import DataConfig, open_benchmark
from parse_dg.data.intake.library import open_manifest
from parse_dg.data.splits import hold_out, seed_hash
from tests.integration.conftest import own_machine
from tests.training.test_pretrained import real_weights

ARCHIVES = Path(os.environ.get("PARSE_DG_PACS", Path(__file__).parents[3] / "shared" / "data" / "pacs"))
WEIGHTS = real_weights()
COUNTS = {"art_painting": 2048, "cartoon": 2344, "photo": 1670, "sketch": 3929}
PIXELS = 48
"""Small, so that a ResNet-50 gets through thousands of images on a CPU; the path is the same."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not ARCHIVES.is_dir(), reason="needs the archives of PACS"),
    pytest.mark.skipif(not WEIGHTS.is_file(), reason="needs ImageNet weights of ResNet-50"),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data folder and a cache of their own, in which PACS has been added."""
    folder = tmp_path_factory.mktemp("pacs")
    with own_machine(folder):
        assert main(["data", "add", "pacs", str(ARCHIVES)]) == 0
        yield folder


def test_every_image_is_there_and_readable(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = open_manifest("pacs")
    assert manifest.counts == COUNTS
    assert len(manifest.images) == 9991
    assert manifest.classes == ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")
    assert manifest.unreadable == ()
    assert {(image.width, image.height) for image in manifest.images} == {(227, 227)}
    assert main(["data", "check", "pacs"]) == 0
    said = capsys.readouterr().out
    assert "the counts of every domain are the published ones" in said
    assert "all 9,991 files are there and unchanged" in said


def test_a_contact_sheet_of_every_domain(home: Path) -> None:
    assert main(["data", "show", "pacs", "--out", "sheets"]) == 0
    for domain in COUNTS:
        with Image.open(home / "sheets" / f"{domain}.png") as sheet:
            pixels = np.asarray(sheet.convert("RGB"))
        assert pixels.shape[0] > 7 * 100
        assert pixels.std() > 20


def test_trained_for_a_few_steps_and_evaluated(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = ["--set", f"backbone.weights={WEIGHTS}", "--set", "backbone.stride_at=first_1x1"]
    short = {
        "training.steps": 3,
        "training.batch_per_domain": 4,
        "training.device": "cpu",
        "data.image_size": PIXELS,
    }
    settings = [word for field, value in short.items() for word in ("--set", f"{field}={value}")]
    asked = ["train", "--data", "pacs", "--target", "photo", "--algorithm", "erm", "--out", "run"]
    assert main([*asked, *weights, *settings]) == 0
    result = json.loads((home / "run" / "result.json").read_text())
    assert result["target"]["domain"] == "photo"
    assert result["target"]["images"] == 1670
    assert {name: value["images"] for name, value in result["validation"].items()} == {
        "art_painting": 409,
        "cartoon": 468,
        "sketch": 785,
    }
    split = json.loads((home / "run" / "split.json").read_text())
    assert split["validation"]["art_painting"][:6] == [548, 677, 1997, 977, 1553, 1123]  # DomainBed's
    assert split["validation"]["sketch"] == hold_out(3929, 0.2, seed_hash(0, 3))[1].tolist()
    capsys.readouterr()
    assert main(["evaluate", "run"]) == 0
    said = capsys.readouterr().out
    assert f"{result['target']['correct']}/1670" in said
    assert f"{result['validation']['cartoon']['correct']}/468" in said


def test_stored_images_are_the_files(home: Path) -> None:
    benchmark = open_benchmark(DataConfig(benchmark="pacs", image_size=PIXELS))
    draw = np.random.default_rng(0)
    for domain in benchmark.domains:
        assert domain.files is not None
        assert len(domain.images) == COUNTS[domain.name]
        for index in draw.integers(0, len(domain.labels), 5).tolist():
            with Image.open(domain.files.root / domain.files.paths[index]) as image:
                plain = image.convert("RGB").resize((PIXELS, PIXELS), Image.Resampling.BILINEAR)
            assert np.array_equal(domain.images[index], np.asarray(plain))
            assert benchmark.classes[int(domain.labels[index])] == domain.files.paths[index].split("/")[-2]
