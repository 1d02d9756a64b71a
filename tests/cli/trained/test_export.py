"""parse-dg export: what it writes, what it says of it, and what it does not write."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

import parse_dg.deploy.export as module
from parse_dg.data.benchmarks import open_benchmark
from parse_dg.data.splits import whole
from parse_dg.deploy.model_file import load_model
from parse_dg.runs.folder import read_config
from parse_dg.training.accuracy import predict
from tests.cli.conftest import Run, assert_refused, snapshot

DIFFERENCE = r"the same predictions, the largest difference of a logit is (\S+)\n"


@pytest.mark.slow
def test_an_onnx_file_is_written_into_the_run(run: Run, parse_copy: Path) -> None:
    before = snapshot(parse_copy)
    said = run("export", parse_copy, "--heatmaps")
    assert (said.code, said.err) == (0, "")
    path = parse_copy / "model.onnx"
    after = snapshot(parse_copy)
    assert after.pop("model.onnx") == path.read_bytes()
    assert after == before
    assert f"written to {path}: {path.stat().st_size:,} bytes\n" in said.out
    assert "takes images: float32, N × 3 × 64 × 64, RGB in [0, 1]\n" in said.out
    assert "gives logits, heatmaps, centres\n" in said.out
    assert "compared with PyTorch on 32 images of blueprints: " in said.out
    found = re.search(DIFFERENCE, said.out)
    assert found
    assert float(found[1]) <= 1e-4
    assert_predicts_the_target(path, parse_copy)


def assert_predicts_the_target(path: Path, folder: Path) -> None:
    """ONNX Runtime gives the logits of the run's own model on every image of the target."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    domain = open_benchmark(read_config(folder).data).domain("sketch")
    expected = predict(load_model(folder).algorithm, whole(domain), torch.device("cpu")).logits
    images = np.asarray(domain.images[:]).transpose(0, 3, 1, 2).astype(np.float32) / 255
    (logits,) = session.run(["logits"], {"images": images})
    torch.testing.assert_close(torch.from_numpy(logits), expected, rtol=0, atol=1e-4)
    assert logits.argmax(1).tolist() == expected.argmax(1).tolist()


def test_a_program_of_torch_is_written_where_it_is_wanted(run: Run, erm_run: Path, tmp_path: Path) -> None:
    before = snapshot(erm_run)
    said = run("export", erm_run, "--format", "torch", "--out", "erm.pt2")
    assert (said.code, said.err) == (0, "")
    assert "gives logits\n" in said.out
    assert snapshot(erm_run) == before
    assert [path.name for path in tmp_path.iterdir()] == ["erm.pt2"]
    about = {"parse_dg.json": ""}
    program = torch.export.load(tmp_path / "erm.pt2", extra_files=about).module()
    assert program(torch.rand(3, 3, 64, 64))["logits"].shape == (3, 8)
    assert json.loads(about["parse_dg.json"])["algorithm"] == "erm"


def test_a_model_without_its_run_is_compared_on_noise(run: Run, erm_run: Path, tmp_path: Path) -> None:
    (tmp_path / "alone").mkdir()
    shutil.copy(erm_run / "model.safetensors", tmp_path / "alone" / "m.safetensors")
    said = run("export", tmp_path / "alone" / "m.safetensors", "--format", "torch")
    assert (said.code, said.err) == (0, "")
    assert f"compared with PyTorch on 32 images of noise ({tmp_path / 'alone'} is no run): " in said.out
    assert sorted(path.name for path in (tmp_path / "alone").iterdir()) == ["m.pt2", "m.safetensors"]


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        (["--heatmaps"], "this needs a model of parse, found one of erm"),
        (["--out", "m.pt2"], "a name that ends in .onnx"),
        (["--format", "torch", "--out", "m.onnx"], "a name that ends in .pt2"),
        (["--out", "nowhere/m.onnx"], "in a folder that is there"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes(arguments: list[str], fragment: str, run: Run, erm_run: Path, tmp_path: Path) -> None:
    assert_refused(run("export", erm_run, *arguments), fragment)
    assert_refused(run("export", "nowhere"), "no model at nowhere")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_what_differs_is_said_and_not_written(run: Run, parse_copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = module.compact

    def damaged(*given: Any) -> Any:
        small, report = original(*given)
        with torch.no_grad():
            small.parse_network().structure.composition.weight[0, 0] += 5
        return small, report

    before = snapshot(parse_copy)
    monkeypatch.setattr(module, "compact", damaged)
    said = run("export", parse_copy, "--format", "torch")
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith("parse-dg: the exported model differs from the original on 32 images: logits by")
    assert said.err.endswith("nothing is written\n")
    assert said.err.count("\n") == 1
    assert snapshot(parse_copy) == before
