"""Prediction says what evaluation says, of images in any form, in order; and names what it cannot read."""

import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import parse_dg
from parse_dg.data.benchmarks import open_benchmark
from parse_dg.data.images import ImageError, decode
from parse_dg.data.splits import Subset, whole
from parse_dg.deploy.image_batches import find_images, load_batches
from parse_dg.deploy.model_file import load_model
from parse_dg.deploy.predictor import BATCH, FEW, Prediction, Predictor, leading, load
from parse_dg.errors import InputError
from parse_dg.training.accuracy import EVALUATION_BATCH, predict
from tests.conftest import FinishedRun, Tiny

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def target(tiny: Tiny) -> Subset:
    return whole(open_benchmark(tiny().data).domain("sketch"))


@pytest.fixture(scope="module")
def model(parse_run: Path) -> Predictor:
    return load(parse_run, "cpu")


@pytest.fixture(scope="module")
def pixels(target: Subset) -> np.ndarray:
    return np.array(target.domain.images[target.indices])


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image of another size and shape than the network's."""
    path = tmp_path_factory.mktemp("odd") / "odd.png"
    values = np.random.default_rng(3).integers(0, 256, (70, 101, 3), np.uint8)
    Image.fromarray(values).save(path)
    return path


def logits_of(predictions: list[Prediction]) -> torch.Tensor:
    return torch.stack([each.logits for each in predictions])


def refuse(error: ImageError) -> None:
    raise error


@pytest.mark.parametrize("algorithm", ["parse", "erm"])
def test_it_is_what_evaluation_finds(
    algorithm: str, finished_run: FinishedRun, target: Subset, tmp_path: Path, pixels: np.ndarray
) -> None:
    folder = finished_run(algorithm)
    expected = predict(load_model(folder).algorithm, target, CPU).logits
    files = [tmp_path / f"{n}.png" for n in range(len(pixels))]
    for file, image in zip(files, pixels, strict=True):
        Image.fromarray(image).save(file)
    model = parse_dg.load(folder, "cpu")
    found = model.predict(files)
    assert BATCH == EVALUATION_BATCH
    assert torch.equal(logits_of(found), expected)  # to the bit: the same batches
    assert [each.predicted for each in found] == [model.classes[i] for i in expected.argmax(1).tolist()]
    assert [each.file for each in found] == files
    assert [each.position for each in found] == list(range(len(files)))


def test_files_of_any_size_are_resized_as_a_store_does(model: Predictor, odd: Path) -> None:
    image = decode(odd, model.model.spec.framing)
    assert image.shape == (64, 64, 3)
    assert torch.equal(logits_of(model.predict(odd)), logits_of(model.predict(image)))


def test_probabilities_are_those_of_the_logits(model: Predictor, pixels: np.ndarray) -> None:
    for each in model.predict(pixels[:5], top=4):
        shares = each.logits.softmax(0)
        best = shares.argsort(descending=True)[:4].tolist()
        assert each.top == tuple((model.classes[i], shares[i].item()) for i in best)
        assert (each.predicted, each.probability) == each.top[0]
        assert each.logits.dtype == torch.float32


@pytest.mark.parametrize("top", [1, 3, FEW, FEW + 1, 100])
def test_the_best_classes_are_the_first_of_a_stable_sort(top: int) -> None:
    logits = torch.randn(50, 20, generator=torch.Generator().manual_seed(0)).mul(2).round()  # many are equal
    before = logits.clone()
    assert leading(logits, top).equal(logits.argsort(dim=1, descending=True, stable=True)[:, :top])
    assert logits.equal(before)


def test_a_model_with_broken_weights_is_refused(erm_run: Path, pixels: np.ndarray) -> None:
    model = load(erm_run, "cpu")
    with torch.no_grad():
        next(model.model.algorithm.parameters()).fill_(torch.nan)
    with pytest.raises(InputError, match="not finite"):
        model.predict(pixels[:1])


def test_every_form_of_an_image_is_the_same_image(model: Predictor, odd: Path) -> None:
    picture = Image.open(odd)
    values = np.array(picture)
    tensor = torch.from_numpy(values).permute(2, 0, 1)
    mixed = [odd, str(odd), picture, values, tensor, values[:, ::-1][:, ::-1], Image.open(odd)]
    found = model.predict(mixed, batch=1)  # where in a batch an image stands may change the last bit
    assert [each.file for each in found] == [odd, odd, None, None, None, None, None]
    for each in found:
        assert torch.equal(each.logits, found[0].logits)
    for alone in mixed:
        assert len(model.predict(alone)) == 1


def test_a_batch_is_an_array_or_a_tensor(model: Predictor, pixels: np.ndarray) -> None:
    expected = logits_of(model.predict(list(pixels)))
    assert torch.equal(logits_of(model.predict(pixels)), expected)
    whole_batch = torch.from_numpy(pixels).permute(0, 3, 1, 2)
    for form in (whole_batch, whole_batch / 255, pixels / 255, (pixels / 255).astype(np.float32)):
        assert torch.equal(logits_of(model.predict(form)), expected)
    assert model.predict([]) == []
    assert repr(model) == "Predictor(parse, 8 classes, images of 64 × 64, cpu)"


def test_a_pillow_image_is_turned_and_converted_as_its_file(model: Predictor, odd: Path, tmp_path: Path) -> None:
    for mode, name in (("RGB", "turned.jpg"), ("L", "grey.png"), ("RGBA", "clear.png"), ("CMYK", "print.jpg")):
        image = Image.open(odd).convert(mode)
        exif = image.getexif()
        exif[0x0112] = 6
        image.save(tmp_path / name, exif=exif)
        of_file, of_image = model.predict([tmp_path / name, Image.open(tmp_path / name)])
        assert torch.equal(of_file.logits, of_image.logits), name


@pytest.mark.parametrize(
    ("image", "fragments"),
    [
        (np.zeros((8, 8), np.uint8), ["image 0", "(8, 8)", "H × W × 3"]),
        (np.zeros((8, 8, 4), np.uint8), ["(8, 8, 4)", "RGB of shape H × W × 3"]),
        (np.full((8, 8, 3), 255.0), ["image 0 has floats from 255 to 255: expected 0 to 1"]),
        (np.zeros((0, 8, 3), np.uint8), ["(0, 8, 3)"]),
        (torch.zeros(8, 8, 3, dtype=torch.uint8), ["(8, 8, 3)", "3 × H × W"]),
        (torch.zeros(2, 3, 8, 8, dtype=torch.int64), ["int64", "uint8 from 0 to 255 or floats from 0 to 1"]),
        (torch.full((3, 8, 8), torch.nan), ["from nan to nan"]),
        (iter([3]), ["image 0 is a int", "a path"]),
        (Image.new("I;16", (8, 8)), ["mode I;16", "8 bits"]),
        (Image.new("F", (8, 8)), ["mode F"]),
    ],
    ids=range(10),
)
def test_what_is_no_image_is_refused_even_when_skipping(
    model: Predictor, image: object, fragments: list[str]
) -> None:
    with pytest.raises(InputError) as refused:
        list(load_batches(image, model.model.spec.framing, 4, lambda error: None))  # type: ignore[arg-type]
    assert not isinstance(refused.value, ImageError)
    for fragment in fragments:
        assert fragment in str(refused.value)


@pytest.mark.parametrize("batch", [7, 1000])
def test_the_order_and_the_answers_do_not_depend_on_the_batch(
    model: Predictor, pixels: np.ndarray, batch: int
) -> None:
    found = model.predict(pixels[::-1], batch=batch)
    assert [each.position for each in found] == list(range(len(pixels)))
    torch.testing.assert_close(logits_of(found), logits_of(model.predict(pixels)).flip(0), rtol=1e-5, atol=1e-5)


def test_a_stream_is_read_as_it_is_used(model: Predictor, pixels: np.ndarray) -> None:
    taken = 0

    def endless() -> Iterator[np.ndarray]:
        nonlocal taken
        while True:
            taken += 1
            yield pixels[taken % len(pixels)]

    stream = model.stream(endless(), batch=8)
    assert [next(stream).position for _ in range(20)] == list(range(20))
    assert taken < 100


@pytest.mark.parametrize("settings", [{"top": 0}, {"batch": 0}], ids=str)
def test_settings_are_checked_at_once(model: Predictor, settings: dict[str, int]) -> None:
    with pytest.raises(InputError, match="at least 1"):
        model.stream([], **settings)  # type: ignore[arg-type]


@pytest.fixture
def broken(tmp_path: Path, odd: Path) -> list[Path]:
    """A good file, one that is no image, one that is not there, a good one again, one cut short."""
    (tmp_path / "text.png").write_text("no image")
    (tmp_path / "short.png").write_bytes(odd.read_bytes()[:2000])
    return [odd, tmp_path / "text.png", tmp_path / "missing.png", odd, tmp_path / "short.png"]


def test_the_first_unreadable_file_is_named(model: Predictor, broken: list[Path]) -> None:
    with pytest.raises(InputError, match=r"^cannot read .*text\.png: it is no JPEG"):
        model.predict(broken)


def test_unreadable_files_are_left_out_with_a_warning(
    model: Predictor, broken: list[Path], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        found = model.predict(broken, skip_unreadable=True, batch=2)
    assert [each.position for each in found] == [0, 3]
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 3
    for name, message in zip(("text.png", "missing.png", "short.png"), caplog.messages, strict=True):
        assert f"{name}: " in message


def test_the_images_of_a_folder_are_sorted_and_others_passed_over(tmp_path: Path) -> None:
    names = ["b/10.png", "b/2.JPG", "a/z/1.gif", "a/y.webp", "c.png", "B.png", ".hidden.png", ".git/x.png", "x.txt"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "loop").symlink_to(tmp_path)
    found = [str(path.relative_to(tmp_path)) for path in find_images(tmp_path, refuse)]
    assert found == ["B.png", "c.png", "a/y.webp", "a/z/1.gif", "b/10.png", "b/2.JPG"]
    assert list(find_images(tmp_path / "x.txt", refuse)) == [tmp_path / "x.txt"]  # a file is taken at its word


def test_a_folder_without_images_is_named(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="the folder has no image"):
        list(find_images(tmp_path, refuse))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="recordings are CUDA graphs: needs CUDA")
def test_recorded_work_gives_the_same_bits_and_follows_the_weights(parse_run: Path, pixels: np.ndarray) -> None:
    predictor = load(parse_run, "cuda")
    launched, _, replayed = (logits_of(predictor.predict(pixels[:5])) for _ in range(3))
    assert torch.equal(replayed, launched)
    assert 5 in predictor._logits._recordings
    with torch.no_grad():
        predictor.model.parse_network().structure.composition.weight.neg_()
    changed, _, again = (logits_of(predictor.predict(pixels[:5])) for _ in range(3))
    assert not torch.equal(changed, launched)
    assert torch.equal(again, changed)
