"""Latency of a run's model in ONNX Runtime ÷ in PyTorch, on the CPU, and the size of the exported file.

    python -m benchmarks.export_latency RUN

Both have as many threads, are given images in [0, 1] and normalise them, and take turns. PyTorch has the compact
model, as `parse-dg compact` writes it. A line of JSON for every number of images.
"""

import argparse
import json
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import onnxruntime
import torch

from benchmarks.timing import Budget, in_turns
from parse_dg.algorithms.parse import Parse
from parse_dg.data.augment.batches import normalise
from parse_dg.deploy.compaction import compact
from parse_dg.deploy.export import export_model
from parse_dg.deploy.model_file import Model, load_model

IMAGES = (1, 32)
BUDGET = Budget(rounds=60, seconds=8)
CPU = torch.device("cpu")


def rows(run: Path, images: Sequence[int] = IMAGES, budget: Budget = BUDGET) -> Iterator[dict[str, Any]]:
    """Medians of both sides, and their quotient with its quartiles over the rounds."""
    model = load_model(run)
    size, threads = model.spec.image_size, torch.get_num_threads()
    draw = torch.Generator().manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        done = export_model(model, torch.rand(8, 3, size, size, generator=draw), Path(folder) / "model.onnx")
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(done.path, settings, providers=["CPUExecutionProvider"])
    if isinstance(model.algorithm, Parse):
        model, _ = compact(model)
    for count in images:
        onnx, pytorch = _laps(session, model, torch.rand(count, 3, size, size, generator=draw), budget)
        ratios = [a / b for a, b in zip(onnx, pytorch, strict=True)]
        quartiles = statistics.quantiles(ratios, n=4, method="inclusive")
        yield {
            "algorithm": model.spec.algorithm.name,
            "backbone": model.spec.backbone.name,
            "image_size": size,
            "images": count,
            "threads": threads,
            "onnx_ms": round(statistics.median(onnx), 3),
            "pytorch_ms": round(statistics.median(pytorch), 3),
            "onnx_over_pytorch": round(statistics.median(onnx) / statistics.median(pytorch), 3),
            "quartiles": [round(quartiles[0], 3), round(quartiles[2], 3)],
            "rounds": len(ratios),
            "file_bytes": done.size,
        }


def _laps(
    session: onnxruntime.InferenceSession, model: Model, images: torch.Tensor, budget: Budget
) -> tuple[list[float], list[float]]:
    """Milliseconds a call in ONNX Runtime and in PyTorch, round by round."""
    array = images.numpy()

    def in_pytorch() -> None:
        with torch.inference_mode():
            model.algorithm(normalise(images))

    with torch.no_grad():
        model.algorithm(normalise(images))  # finds the active weights, which later calls keep
    onnx, pytorch = in_turns(CPU, budget, lambda: session.run(["logits"], {"images": array}), in_pytorch)
    return onnx.host, pytorch.host


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, metavar="RUN", help="the run's folder, or a .safetensors file of a model")
    for row in rows(parser.parse_args().run):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
