"""Weights files: every format read, whatever does not fit named, nothing in them run."""

import hashlib
import os
import pickle
import re
import shutil
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from parse_dg.errors import InputError
from parse_dg.training import pretrained
from parse_dg.training.pretrained import PublishedWeights
from tests.model.backbones.backbone_helpers import build, pictures, same
from tests.parts import refusal


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

    def message(weights: dict[str, Tensor]) -> str:
        save_file(weights, path)
        return refusal(build, weights=str(path))

    good = state()
    text = message({k: v for k, v in good.items() if not k.startswith("layer4")})
    assert f"weights {path} do not fit small" in text
    assert "10 missing: layer4.0.conv1.weight (expected 64x64x3x3), " in text
    assert text.endswith(" and 7 more")
    text = message(good | {"layer5.weight": torch.zeros(2, 3)})
    assert text.endswith("1 unexpected: layer5.weight (found 2x3)")
    text = message(good | {"conv1.weight": torch.zeros(16, 1, 3, 3)})
    assert text.endswith("1 of another shape: conv1.weight (expected 16x3x3x3, found 16x1x3x3)")
    text = message({"something": torch.zeros(())})
    assert "missing" in text
    assert "1 unexpected: something (found a scalar)" in text


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
    assert "holds more than tensors: refused, nothing in it was run" in refusal(build, weights=str(path))
    assert not target.exists()
    torch.load(path, weights_only=False) if archive else pickle.loads(path.read_bytes())
    assert target.exists()  # the file was as harmful as it was meant to be


@pytest.mark.parametrize("suffix", [".safetensors", ".pth", ".pt"])
def test_missing_and_damaged_files(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    assert "does not exist" in refusal(build, weights=str(path))
    save_file(state(), path) if suffix == ".safetensors" else torch.save(state(), path)
    whole = path.read_bytes()
    for damaged in (b"", b"not a weights file at all", whole[: len(whole) // 2], b"PK\x03\x04" + whole[:50]):
        path.write_bytes(damaged)
        assert re.search(r"weights file .* is (damaged|not a safetensors file)", refusal(build, weights=str(path)))
    path.unlink()
    path.mkdir()
    assert "weights file" in refusal(build, weights=str(path))


def test_other_content_and_suffix(tmp_path: Path) -> None:
    assert "must end in one of .safetensors, .pth, .pt" in refusal(build, weights=str(tmp_path / "a.onnx"))
    for content, found in (([1], "list"), ({}, "an empty one"), ({"conv1.weight": 3}, "int at 'conv1.weight'")):
        torch.save(content, tmp_path / "a.pth")
        with pytest.raises(InputError, match=f"must hold a dictionary of tensors, found {found}"):
            build(weights=str(tmp_path / "a.pth"))


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder behind a server on this machine, where all published files of ResNet-18 are said to be."""
    folder = tmp_path / "published"
    folder.mkdir()
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    monkeypatch.setattr(SimpleHTTPRequestHandler, "log_message", lambda *said: None)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    torch.save(
        state("resnet18") | {"fc.weight": torch.zeros(1000, 512), "fc.bias": torch.zeros(1000)}, folder / "a"
    )
    digest = hashlib.sha256((folder / "a").read_bytes()).hexdigest()[:8]
    (folder / "a").rename(folder / f"resnet18-{digest}.pth")
    address = f"http://127.0.0.1:{server.server_port}/resnet18-{digest}.pth"
    known = PublishedWeights("imagenet-v1", "resnet18", address, "a random start")
    monkeypatch.setattr(pretrained, "PUBLISHED", (known, known._replace(name="augmix", backbone="resnet50")))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))
    yield folder
    server.shutdown()
    server.server_close()


def test_published_weights_are_downloaded_once_and_checked(published: Path, tmp_path: Path) -> None:
    (file,) = published.iterdir()
    expected = build(name="resnet18", seed=9)
    assert same(build(name="resnet18", weights="imagenet-v1"), expected)
    whole = file.read_bytes()
    file.unlink()
    assert same(build(name="resnet18", weights="imagenet"), expected)  # from the cache, by its former name
    shutil.rmtree(tmp_path / "home")
    how = rf"cannot download http://127.*{file.name} \(.*404.*\): .* --set backbone.weights=FILE$"
    with pytest.raises(InputError, match=how):
        build(name="resnet18", weights="imagenet-v1")
    file.write_bytes(whole[:-1] + b"?")
    assert "invalid hash value" in refusal(build, name="resnet18", weights="imagenet-v1")
    assert "published for resnet18, not for small: pass a file, as in --set" in refusal(build, weights="imagenet")
    with pytest.raises(InputError, match=r"trained with backbone.stride_at=3x3, found first_1x1"):
        build(name="resnet50", weights="augmix", stride_at="first_1x1")


def test_addresses_end_in_the_start_of_a_digest() -> None:
    assert {(known.name, known.backbone): known.digest for known in pretrained.PUBLISHED} == {
        ("imagenet-v1", "resnet18"): "f37072fd",
        ("imagenet-v1", "resnet50"): "0676ba61",
        ("imagenet-v2", "resnet50"): "11ad3fa6",
        ("augmix", "resnet50"): "a26f946b",
    }
    assert all(known.address.startswith("https://") for known in pretrained.PUBLISHED)


def real_weights() -> Path:
    beside = Path(__file__).parents[4] / "shared" / "data" / "weights"
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
