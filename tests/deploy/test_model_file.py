"""Model files: what is written is read back to the bit, what cannot be read is refused in one line."""

import json
import math
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from parse_dg.data.augment.batches import normalise, to_unit
from parse_dg.data.benchmarks import open_benchmark
from parse_dg.data.loader import evaluation_batches
from parse_dg.data.splits import whole
from parse_dg.deploy.compaction import compact
from parse_dg.deploy.model_file import COLUMNS, FORMAT, METADATA, Model, load_model, save_model
from parse_dg.errors import InputError
from tests.conftest import FinishedRun, Tiny
from tests.parts import refusal

LAMBDA = "network.structure.composition.weight"

Metadata = dict[str, str]
State = dict[str, Tensor]


def read(path: Path) -> tuple[Metadata, State]:
    """The two halves of a file, with nothing but safetensors."""
    with safe_open(path, framework="pt") as file:
        return dict(file.metadata()), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def logits(model: Model, images: Tensor) -> Tensor:
    with torch.no_grad():
        return model.algorithm(images)


def of_file(path: Path) -> str:
    """What `load_model` says of a file that it must not read: one line that names the file."""
    message = refusal(load_model, path)
    assert str(path) in message
    return message


@pytest.fixture(scope="module")
def images(tiny: Tiny) -> Tensor:
    """All images of one domain, as a network sees them."""
    batch, _ = next(evaluation_batches(whole(open_benchmark(tiny().data).domain("photo")), 1000))
    return normalise(to_unit(batch))


@pytest.fixture(scope="module")
def written(parse_run: Path) -> tuple[Metadata, State]:
    return read(parse_run / "model.safetensors")


@pytest.mark.parametrize("kind", ["erm", "no_relations", "parse", "compact"])
def test_a_model_is_read_back_to_the_bit(
    kind: str, finished_run: FinishedRun, images: Tensor, tmp_path: Path
) -> None:
    model = load_model(finished_run("parse" if kind == "compact" else kind))
    if kind == "compact":
        model, _ = compact(model)
    with torch.no_grad():  # not what any seed would draw
        for parameter in model.algorithm.parameters():
            parameter += 1e-3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3))
    path = tmp_path / "model.safetensors"
    save_model(path, model.spec, dict(model.algorithm.state_dict()))
    again = load_model(path)
    assert again.spec == model.spec
    assert again.compact is model.compact is (kind == "compact")
    assert not again.algorithm.training
    assert again.algorithm.state_dict().keys() == model.algorithm.state_dict().keys()
    assert torch.equal(logits(again, images), logits(model, images))
    assert logits(model, images).std() > 0


def test_the_description_is_plain_json(parse_run: Path, tiny: Tiny) -> None:
    metadata, state = read(parse_run / "model.safetensors")
    data = json.loads(metadata[METADATA])
    assert data["format"] == FORMAT
    description = data["model"]
    assert description["algorithm"]["name"] == "parse"
    assert description["algorithm"]["primitives"]["count"] == tiny().algorithm.primitives.count
    assert description["classes"] == list(open_benchmark(tiny().data).classes)
    assert description["image_size"] == 64
    assert description["backbone"]["weights"] is None
    assert state[LAMBDA].shape[0] == 8
    assert COLUMNS not in state


def test_the_same_model_is_written_as_the_same_bytes(parse_run: Path, tmp_path: Path) -> None:
    spec = load_model(parse_run).spec
    contents = set()
    for _ in range(20):
        save_model(tmp_path / "m.safetensors", spec, {"weight": torch.arange(3.0)})
        contents.add((tmp_path / "m.safetensors").read_bytes())
    assert len(contents) == 1


def test_what_is_not_there(tmp_path: Path) -> None:
    assert "no model at" in of_file(tmp_path / "nothing.safetensors")
    assert "no model at" in of_file(tmp_path)  # a folder without a model
    (tmp_path / "file").touch()
    assert "no model at" in of_file(tmp_path / "file" / "model.safetensors")


@pytest.mark.parametrize(
    "keep", [lambda n: 0, lambda n: 60, lambda n: n - 1], ids=["empty", "60 bytes", "all but one"]
)
def test_a_truncated_file(keep: Any, parse_run: Path, tmp_path: Path) -> None:
    whole_file = (parse_run / "model.safetensors").read_bytes()
    path = tmp_path / "cut.safetensors"
    path.write_bytes(whole_file[: keep(len(whole_file))])
    assert "not a readable .safetensors file" in of_file(path)


class Trap:
    """Unpickling it leaves a mark."""

    def __init__(self, mark: Path):
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


def test_a_pickle_is_refused_and_never_run(tmp_path: Path) -> None:
    mark, path = tmp_path / "mark", tmp_path / "model.safetensors"
    path.write_bytes(pickle.dumps({"weights": Trap(mark)}))
    pickle.loads(path.read_bytes())
    assert mark.exists()  # the trap works
    mark.unlink()
    assert "not a readable .safetensors file" in of_file(path)
    torch.save({"weights": Trap(mark)}, path)
    assert "not a readable .safetensors file" in of_file(path)
    assert not mark.exists()


def test_weights_of_somebody_else(written: tuple[Metadata, State], tmp_path: Path) -> None:
    _, state = written
    for metadata in (None, {"format": "pt"}):
        save_file(state, tmp_path / "other.safetensors", metadata)
        assert "not written by parse-dg" in of_file(tmp_path / "other.safetensors")


def test_a_newer_format(written: tuple[Metadata, State], tmp_path: Path) -> None:
    metadata, state = written
    newer = {**json.loads(metadata[METADATA]), "format": FORMAT + 1}
    save_file(state, tmp_path / "newer.safetensors", {METADATA: json.dumps(newer)})
    message = of_file(tmp_path / "newer.safetensors")
    assert f"format {FORMAT + 1}" in message
    assert f"reads format {FORMAT}" in message


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}', "[" * 10**5, f'{{"format": {"9" * 5000}}}'])
def test_a_damaged_description(text: str, written: tuple[Metadata, State], tmp_path: Path) -> None:
    _, state = written
    save_file(state, tmp_path / "m.safetensors", {METADATA: text})
    assert "damaged description" in of_file(tmp_path / "m.safetensors")


def without(data: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name != key}


def changed(data: dict[str, Any], section: str, **fields: object) -> dict[str, Any]:
    algorithm = data["algorithm"]
    return {**data, "algorithm": {**algorithm, section: {**algorithm[section], **fields}}}


DESCRIPTIONS: dict[str, Any] = {
    "another algorithm": lambda d: {**d, "algorithm": {"name": "emr"}},
    "an unknown field": lambda d: {**d, "colour": "red"},
    "an unknown backbone": lambda d: {**d, "backbone": {"name": "tiny"}},
    "no section at all": lambda d: None,
    "no classes": lambda d: without(d, "classes"),
    "no pixels": lambda d: {**d, "image_size": 0},
    "too many pixels": lambda d: {**d, "image_size": 2**31},
    "an infinite mean": lambda d: {**d, "mean": [1e308] * 3},
    "lists in lists": lambda d: {**d, "classes": json.loads("[" * 900 + "]" * 900)},
    "too many primitives": lambda d: changed(d, "primitives", count=1000),
    "too many angles": lambda d: changed(d, "vocabulary", orientation_angles=2**31),
}


@pytest.mark.parametrize("case", DESCRIPTIONS)
def test_a_description_of_something_else(case: str, written: tuple[Metadata, State], tmp_path: Path) -> None:
    metadata, state = written
    data = json.loads(metadata[METADATA])
    path = tmp_path / "m.safetensors"
    save_file(state, path, {METADATA: json.dumps({**data, "model": DESCRIPTIONS[case](data["model"])})})
    message = of_file(path)
    assert len(message) < 700 + len(str(path))
    if case == "another algorithm":
        assert "'emr': valid are erm, dann, cdann," in message
    if case == "too many primitives":  # before their memory is taken
        assert "algorithm.primitives.count asks for at least" in message


STATES: dict[str, Any] = {
    "a missing tensor": (lambda s: without(s, LAMBDA), LAMBDA),
    "a tensor too many": (lambda s: {**s, "surplus": torch.zeros(2)}, "surplus"),
    "a wrong shape": (lambda s: {**s, LAMBDA: s[LAMBDA][:, :7].contiguous()}, LAMBDA),
}


@pytest.mark.parametrize("case", STATES)
def test_weights_that_do_not_fit(case: str, written: tuple[Metadata, State], tmp_path: Path) -> None:
    metadata, state = written
    damage, named = STATES[case]
    path = tmp_path / "m.safetensors"
    save_file(damage(state), path, metadata)
    assert "its weights are not those that were written" in of_file(path)
    description = without(json.loads(metadata[METADATA]), "sha256")  # as in files of earlier versions
    save_file(damage(state), path, {METADATA: json.dumps(description)})
    message = of_file(path)
    assert "does not fit its own description" in message
    assert named in message
    save_file(state, path, {METADATA: json.dumps(description)})
    load_model(path)


@pytest.mark.parametrize(
    "damage", [lambda c: c + 10**6, lambda c: c.flip(0).contiguous()], ids=["too large", "descending"]
)
def test_columns_that_the_vocabulary_does_not_have(damage: Any, parse_run: Path, tmp_path: Path) -> None:
    small, _ = compact(load_model(parse_run))
    state = dict(small.algorithm.state_dict())
    save_model(tmp_path / "m.safetensors", small.spec, {**state, COLUMNS: damage(state[COLUMNS])})
    assert "columns must be whole numbers that ascend within" in of_file(tmp_path / "m.safetensors")


def test_a_file_says_how_images_are_normalised_and_that_is_what_is_done(
    parse_run: Path, written: tuple[Metadata, State], tmp_path: Path
) -> None:
    described = json.loads(written[0][METADATA])["model"]
    assert described["mean"] == [0.485, 0.456, 0.406]
    assert described["std"] == [0.229, 0.224, 0.225]
    model = load_model(parse_run)
    pixels = torch.randint(0, 256, (2, 3, 8, 8), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    assert torch.equal(model.prepare(pixels), normalise(to_unit(pixels)))
    other = replace(model.spec, mean=(0.5, 0.25, 0.0), std=(1.0, 0.5, 2.0))
    save_model(tmp_path / "other.safetensors", other, written[1])
    found = load_model(tmp_path / "other.safetensors")
    assert found.spec == other
    pairs = enumerate(zip(other.mean, other.std, strict=True))
    right = torch.stack([(pixels[:, c] / 255 - centre) / spread for c, (centre, spread) in pairs], 1)
    torch.testing.assert_close(found.prepare(pixels), right)
    assert not torch.allclose(logits(found, found.prepare(pixels)), logits(model, model.prepare(pixels)))


@pytest.mark.parametrize(("mean", "std"), [((0.5, math.nan, 0.5), (1.0,) * 3), ((0.5,) * 3, (1.0, 0.0, 1.0))])
def test_a_normalisation_that_cannot_be_is_refused(
    parse_run: Path, mean: tuple[float, float, float], std: tuple[float, float, float]
) -> None:
    with pytest.raises(InputError, match=r"(mean must be a number|std must be positive), found"):
        replace(load_model(parse_run).spec, mean=mean, std=std)
