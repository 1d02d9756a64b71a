"""Speed, as ratios of two things measured alternately in one run: `make bench`.

Absolute times depend on the machine and what else it does; ratios much less. Medians over repeats.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from parse_dg.algorithms.base import Example
from parse_dg.experiments.recipes import build_config
from parse_dg.experiments.run import build_trainer, device_name, prepare
from parse_dg.model.primitives import PrimitiveDescriptors, describe
from parse_dg.model.sparsemax import sparsemax
from parse_dg.model.structure import StructuralLayer, StructureConfig
from parse_dg.training.trainer import Trainer

REPEATS = 7


def median_times(first: Callable[[], object], second: Callable[[], object]) -> tuple[float, float]:
    """Median seconds of two calls, timed in turns after one warm-up each."""
    first(), second()
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(REPEATS):
        for call, record in zip((first, second), times, strict=True):
            start = time.perf_counter()
            call()
            record.append(time.perf_counter() - start)
    return statistics.median(times[0]), statistics.median(times[1])


def structural_layer(classes: int) -> tuple[float, float]:
    """Forward and backward of the structural layer at K = 16: all applications, and those in use."""
    generator = torch.Generator().manual_seed(0)
    layer = StructuralLayer(16, classes, StructureConfig(), generator)
    evidence = torch.randn(32, 16, 8, 8, generator=generator) * 3 - 3
    z = PrimitiveDescriptors(*(part.requires_grad_() for part in describe(evidence, torch.tensor(1.0))))
    everything = torch.arange(layer.vocabulary.size)

    def dense() -> None:
        scores = layer.evaluate(z, everything) @ sparsemax(layer.composition.weight).T
        layer.composition.logits(scores).logsumexp(1).sum().backward()

    def restricted() -> None:
        layer(z).logits.logsumexp(1).sum().backward()

    return median_times(dense, restricted)


def training_step() -> tuple[float, float]:
    """Loss and gradient of a Blueprints batch, PARSE and ERM, without data and optimiser."""
    calls = []
    for name in ("parse", "erm"):
        config = build_config("blueprints", name)
        benchmark, split = prepare(config)
        trainer = build_trainer(config, benchmark, split, torch.device("cpu"))
        example = trainer.prepare_example(next(trainer.batches))
        calls.append(lambda trainer=trainer, example=example: _loss_and_gradient(trainer, example))
    return median_times(*calls)


def _loss_and_gradient(trainer: Trainer, example: Example) -> None:
    terms = trainer.algorithm.losses(example, trainer.generator)
    torch.stack(list(terms.values())).sum().backward()


def main() -> None:
    rows = {
        "structural layer, 8 classes, at the start: dense ÷ support-restricted": structural_layer(8),
        "structural layer, 65 classes, at the start: dense ÷ support-restricted": structural_layer(65),
        "Blueprints step at the start (loss and gradient): PARSE ÷ ERM": training_step(),
    }
    hardware = f"{device_name(torch.device('cpu'))}, {torch.get_num_threads()} threads, torch {torch.__version__}"
    print(f"{hardware}; medians of {REPEATS}, measured in turns")
    for name, (first, second) in rows.items():
        print(f"{first / second:8.2f}  {name}  ({1e3 * first:.1f} ms ÷ {1e3 * second:.1f} ms)")
    report = {name: {"ratio": first / second, "seconds": [first, second]} for name, (first, second) in rows.items()}
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("bench.json")
    path.write_text(json.dumps({"hardware": hardware, "repeats": REPEATS, "ratios": report}, indent=2) + "\n")
    print(f"written to {path}")


if __name__ == "__main__":
    main()
