"""Export: what is written says what the model says, of any number of images, and what it is; or is not there."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch
from torch import Tensor

import parse_dg.deploy.export as module
from parse_dg._version import __version__
from parse_dg.algorithms.parse import ParseConfig
from parse_dg.data.augment.batches import normalise
from parse_dg.deploy.export import METADATA, SUFFIXES, Exported, ExportError, Format, export_model
from parse_dg.deploy.model_file import Model, build_model, load_model
from parse_dg.errors import InputError
from tests.conftest import FinishedRun

Outputs = dict[str, Tensor]
COUNTS = (1, 2, 3, 40)


def images_of(count: int, seed: int = 0) -> Tensor:
    return torch.rand(count, 3, 64, 64, generator=torch.Generator().manual_seed(seed))


def opened(path: Path) -> tuple[Callable[[Tensor], Outputs], dict[str, str]]:
    """The file, as docs/deploy.md says it is opened, and what it says of itself."""
    if path.suffix == ".onnx":
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]

        def run(images: Tensor) -> Outputs:
            values = session.run(names, {"images": images.numpy()})
            return {name: torch.from_numpy(value) for name, value in zip(names, values, strict=True)}

        return run, session.get_modelmeta().custom_metadata_map
    about = {METADATA: ""}
    program = torch.export.load(path, extra_files=about).module()
    return lambda images: program(images), json.loads(about[METADATA])


Written = Callable[[str, Format, bool], tuple[Model, Exported]]


@pytest.fixture(scope="module")
def written(finished_run: FinishedRun, tmp_path_factory: pytest.TempPathFactory) -> Written:
    """written("parse", "onnx", True): a run's model, and its export, made once."""
    made: dict[tuple[str, Format, bool], tuple[Model, Exported]] = {}

    def write(algorithm: str, kind: Format, heatmaps: bool) -> tuple[Model, Exported]:
        key = algorithm, kind, heatmaps
        if key not in made:
            model = load_model(finished_run(algorithm))
            path = tmp_path_factory.mktemp("exported") / f"model{SUFFIXES[kind]}"
            made[key] = model, export_model(model, images_of(12), path, kind, heatmaps=heatmaps)
        return made[key]

    return write


CASES = [
    ("parse", "onnx", True),
    ("erm", "torch", False),
    *(pytest.param(*case, marks=pytest.mark.slow) for case in [("parse", "torch", True), ("erm", "onnx", False)]),
]


@pytest.mark.parametrize(("algorithm", "kind", "heatmaps"), CASES)
def test_it_says_what_the_model_says_of_any_number_of_images(
    algorithm: str, kind: Format, heatmaps: bool, written: Written
) -> None:
    model, done = written(algorithm, kind, heatmaps)
    run, _ = opened(done.path)
    for count in COUNTS:
        images = images_of(count, seed=7)  # others than it was compared on
        with torch.no_grad():
            expected = model.algorithm(normalise(images))
        found = run(images)["logits"]
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)
        assert torch.equal(found.argmax(1), expected.argmax(1))


@pytest.mark.parametrize("kind", ["onnx", pytest.param("torch", marks=pytest.mark.slow)])
def test_the_heat_maps_and_centres_are_those_of_the_network(kind: Format, written: Written) -> None:
    model, done = written("parse", kind, True)
    assert done.outputs == ("logits", "heatmaps", "centres")
    images = images_of(5, seed=3)
    found = opened(done.path)[0](images)
    assert tuple(found) == done.outputs
    with torch.no_grad():
        z = model.parse_network()(normalise(images)).descriptors
    torch.testing.assert_close(found["heatmaps"], z.heatmap, rtol=0, atol=1e-5)
    torch.testing.assert_close(found["centres"], z.centre, rtol=0, atol=1e-5)
    torch.testing.assert_close(found["heatmaps"].sum((2, 3)), torch.ones(5, z.centre.shape[1]))


@pytest.mark.parametrize(("algorithm", "kind", "heatmaps"), CASES)
def test_the_file_says_what_it_is(algorithm: str, kind: Format, heatmaps: bool, written: Written) -> None:
    model, done = written(algorithm, kind, heatmaps)
    _, about = opened(done.path)
    assert json.loads(about["classes"]) == list(model.spec.classes)
    assert about["image_size"] == "64"
    assert about["parse_dg_version"] == __version__
    assert about["algorithm"] == algorithm
    assert about["input"] == "images: float32, N x 3 x 64 x 64, RGB in [0, 1]; normalised inside"
    assert json.loads(about["outputs"]) == list(done.outputs)


def test_names_and_shapes_of_the_onnx_graph(written: Written) -> None:
    model, done = written("parse", "onnx", True)
    session = onnxruntime.InferenceSession(done.path, providers=["CPUExecutionProvider"])
    primitives, classes = model.parse_network().structure.vocabulary.primitives, len(model.spec.classes)
    assert [(i.name, i.type, i.shape) for i in session.get_inputs()] == [
        ("images", "tensor(float)", ["batch", 3, 64, 64])
    ]
    assert [(o.name, o.shape) for o in session.get_outputs()] == [
        ("logits", ["batch", classes]),
        ("heatmaps", ["batch", primitives, 16, 16]),
        ("centres", ["batch", primitives, 2]),
    ]


@pytest.mark.parametrize("kind", ["onnx", pytest.param("torch", marks=pytest.mark.slow)])
def test_what_is_reported_of_the_file(kind: Format, written: Written, finished_run: FinishedRun) -> None:
    _, done = written("parse", kind, True)
    assert done.size == done.path.stat().st_size
    assert done.size < (finished_run("parse") / "model.safetensors").stat().st_size  # it is compact
    assert done.images == 12
    assert 0 <= done.largest_difference <= 1e-4
    assert [path.name for path in done.path.parent.iterdir()] == [done.path.name]
    assert str(Path(module.__file__).parents[1]).encode() not in done.path.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "kind"), [("gvrt", "onnx"), ("sagnet", "torch"), ("no_relations", "torch")])
def test_other_methods_are_exported_too(algorithm: str, kind: Format, written: Written) -> None:
    model, done = written(algorithm, kind, False)
    images = images_of(3, seed=1)
    with torch.no_grad():
        expected = model.algorithm(normalise(images))
    torch.testing.assert_close(opened(done.path)[0](images)["logits"], expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("kind", ["onnx", pytest.param("torch", marks=pytest.mark.slow)])
def test_maps_of_sparsemax_are_exported(kind: Format, finished_run: FinishedRun, tmp_path: Path) -> None:
    softmax = load_model(finished_run("parse"))
    config = softmax.spec.algorithm
    assert isinstance(config, ParseConfig)
    config = replace(config, primitives=replace(config.primitives, heatmap="sparsemax"))
    model = build_model(replace(softmax.spec, algorithm=config), softmax.algorithm.state_dict())
    path = tmp_path / f"model{SUFFIXES[kind]}"
    export_model(model, images_of(12), path, kind, heatmaps=True)
    images = images_of(5, seed=3)
    found = opened(path)[0](images)
    with torch.no_grad():
        z = model.parse_network()(normalise(images)).descriptors
    assert 0.5 < (z.heatmap == 0).float().mean() < 1
    torch.testing.assert_close(found["heatmaps"], z.heatmap, rtol=0, atol=1e-5)
    torch.testing.assert_close(found["centres"], z.centre, rtol=0, atol=1e-5)


def shifted(difference: float) -> Callable[[Path], Any]:
    """A reader of ERM's program whose first logit of the last image is off."""

    def read(path: Path) -> Callable[[Tensor], Outputs]:
        run = module_read(path)

        def wrong(images: Tensor) -> Outputs:
            logits = run(images)["logits"].clone()
            logits[-1, 0] += difference
            return {"logits": logits}

        return wrong

    return read


module_read = module._read_torch


@pytest.mark.parametrize("difference", [2e-4, float("nan")])
def test_what_differs_is_not_written(
    difference: float, erm_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.pt2"
    path.write_text("what was there")
    monkeypatch.setattr(module, "_read_torch", shifted(difference))
    with pytest.raises(ExportError, match="differs from the original on 12 images: logits by up to"):
        export_model(load_model(erm_run), images_of(12), path, "torch")
    assert [each.name for each in tmp_path.iterdir()] == ["m.pt2"]
    assert path.read_text() == "what was there"


def test_a_tie_that_turns_over_is_another_prediction() -> None:
    expected = {"logits": torch.tensor([[1.0, 1.00005]] * 4)}
    same = module._compare(lambda images: {"logits": expected["logits"][: len(images)]}, torch.zeros(4), expected)
    assert same == 0
    turned = torch.tensor([[1.00005, 1.0]] * 4)
    with pytest.raises(ExportError, match="and 4 other predictions: nothing is written"):
        module._compare(lambda images: {"logits": turned[: len(images)]}, torch.zeros(4), expected)


def test_what_cannot_be_exported(erm_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_model(erm_run)
    mistakes: list[tuple[dict[str, Any], str]] = [
        ({"path": tmp_path / "m.pt2"}, "a name that ends in .onnx"),
        ({"path": tmp_path / "nowhere" / "m.onnx"}, "in a folder that is there"),
        ({"heatmaps": True}, "this needs a model of parse, found one of erm"),
        ({"images": torch.rand(2, 3, 32, 32)}, "the model's size 64 × 64, found"),
    ]
    for change, message in mistakes:
        given: dict[str, Any] = {"path": tmp_path / "m.onnx", "images": images_of(2), **change}
        with pytest.raises(InputError, match=message):
            export_model(model, **given)
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(InputError, match=r"missing \(onnxscript\): pip install 'parse-dg\[export\]'"):
        export_model(model, images_of(2), tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())
