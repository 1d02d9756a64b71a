"""Images in words: which images are asked about, and that the words are those of the trained GVRT."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from parse_dg.algorithms.gvrt.method import Gvrt
from parse_dg.data.augment.batches import normalise, to_unit
from parse_dg.data.benchmarks import open_benchmark
from parse_dg.data.blueprints.benchmark import CLASSES
from parse_dg.data.framing import Framing
from parse_dg.data.images import decode
from parse_dg.deploy.model_file import load_model
from parse_dg.errors import InputError
from parse_dg.runs.afterwards.describe import describe_domain, describe_files, spread
from parse_dg.runs.afterwards.opened import open_run
from parse_dg.runs.folder import read_config
from tests.conftest import FinishedRun


@pytest.fixture(scope="module")
def gvrt_run(finished_run: FinishedRun) -> Path:
    return finished_run("gvrt")


def words_of(folder: Path, pixels: np.ndarray, labels: torch.Tensor | None = None) -> tuple[str, str]:
    """Class and sentence of one image, straight from the model."""
    model = load_model(folder)
    assert isinstance(model.algorithm, Gvrt)
    image = normalise(to_unit(torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None]))
    with torch.no_grad():
        predicted = int(model.algorithm(image).argmax())
    return model.spec.classes[predicted], model.algorithm.sentences(image, labels)[0]


def test_images_are_spread_over_classes() -> None:
    labels = np.array([2, 0, 0, 1, 2, 0, 1])
    assert spread(labels, 3).tolist() == [1, 3, 0]
    assert spread(labels, 6).tolist() == [1, 3, 0, 2, 6, 4]
    assert sorted(spread(labels, 99).tolist()) == list(range(7))


def test_the_target_is_described_by_default(gvrt_run: Path) -> None:
    found = describe_domain(open_run(gvrt_run, device="cpu"), None, 10)
    domain = open_benchmark(read_config(gvrt_run).data).domain("sketch")
    assert [each.truth for each in found] == [*CLASSES, *CLASSES[:2]]
    for each in found:
        assert (each.domain, each.file) == ("sketch", None)
        assert each.index is not None
        assert CLASSES[domain.labels[each.index]] == each.truth
        assert each.captions == domain.captions[each.index]
        predicted, sentence = words_of(gvrt_run, np.asarray(domain.images[each.index]))
        assert (each.predicted, each.argued, each.sentence) == (predicted, predicted, sentence)
    assert len({each.index for each in found}) == 10


def test_files_of_any_size(gvrt_run: Path, tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (90, 120, 3), dtype=np.uint8)
    files = [tmp_path / "wide.png", tmp_path / "grey.jpg"]
    Image.fromarray(pixels).save(files[0])
    Image.fromarray(pixels[:50, :50, 0]).save(files[1])
    found = describe_files(open_run(gvrt_run, device="cpu"), files)
    assert [each.file for each in found] == [str(file) for file in files]
    for each, file in zip(found, files, strict=True):
        assert (each.predicted, each.sentence) == words_of(gvrt_run, decode(file, Framing(size=64)))
        assert (each.domain, each.index, each.truth, each.captions) == (None, None, None, ())


def test_another_class_is_argued_for(gvrt_run: Path) -> None:
    domain = open_benchmark(read_config(gvrt_run).data).domain("photo")
    for name in ("glider", "digger"):
        for each in describe_domain(open_run(gvrt_run, device="cpu"), "photo", 2, argued=name):
            pixels = np.asarray(domain.images[each.index])
            predicted, sentence = words_of(gvrt_run, pixels, torch.tensor([CLASSES.index(name)]))
            assert (each.argued, each.predicted, each.sentence) == (name, predicted, sentence)


def test_what_cannot_be_described_is_refused(gvrt_run: Path, erm_run: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a run of erm: only gvrt puts images in words"):
        describe_domain(open_run(erm_run, device="cpu"), None, 1)
    with pytest.raises(InputError, match="is a run of erm: only gvrt puts images in words"):
        describe_files(open_run(erm_run, device="cpu"), [tmp_path / "none.png"])
    with pytest.raises(InputError, match="unknown class 'bird' to argue for: valid are strider, glider"):
        describe_domain(open_run(gvrt_run, device="cpu"), None, 1, argued="bird")
    with pytest.raises(InputError, match="unknown domain of blueprints 'photos': valid are photo, cartoon"):
        describe_domain(open_run(gvrt_run, device="cpu"), "photos", 1)
    with pytest.raises(InputError, match="--count must be at least 1, found 0"):
        describe_domain(open_run(gvrt_run, device="cpu"), None, 0)
    with pytest.raises(InputError, match=r"cannot read .*none.png: no such file"):
        describe_files(open_run(gvrt_run, device="cpu"), [tmp_path / "none.png"])
