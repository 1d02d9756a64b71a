"""What a run costs on images like those of each benchmark: `python -m benchmarks.run_cost`, a minute on a GPU.

The images are noise of the right size, in as many domains and classes: a step and an evaluation take as long
whatever they show. A line of JSON for every data set and method.
"""

import json
import time
from collections.abc import Iterator

import numpy as np
import torch

from parse_dg.config import change
from parse_dg.data.domain import Benchmark, Domain
from parse_dg.data.splits import leave_one_out
from parse_dg.runs.config import RunConfig
from parse_dg.runs.recipes import build_config
from parse_dg.runs.run import build_trainer
from parse_dg.training.accuracy import accuracy

DOMAINS_AND_CLASSES = {"pacs": (4, 7), "officehome": (4, 65), "cub-dg": (4, 200), "domainnet": (6, 345)}
"""VLCS has the size of PACS, TerraIncognita that of OfficeHome but for its 10 classes."""
WARM_UP, STEPS = 15, 60
IMAGES = 1500
"""In each domain."""


def noise(name: str, side: int, images: int) -> Benchmark:
    """A benchmark of that many domains and classes whose images are noise."""
    domains, classes = DOMAINS_AND_CLASSES[name]
    random = np.random.default_rng(0)
    labels = np.arange(max(images, classes)) % classes
    shape = (len(labels), side, side, 3)
    made = (Domain(f"d{n}", random.integers(0, 256, shape, np.uint8), labels) for n in range(domains))
    return Benchmark(name, tuple(map(str, range(classes))), tuple(made), "0" * 64)


def cost(config: RunConfig, benchmark: Benchmark, device: torch.device, steps: int = STEPS) -> dict[str, object]:
    """Time of a step and speed of an evaluation, after a warm-up."""
    split = leave_one_out(benchmark, "d0", 0, config.split)
    trainer = build_trainer(config, benchmark, split, device)
    trainer.algorithm.train()

    def seconds(first: int, last: int) -> float:
        started = time.perf_counter()
        for step in range(first, last + 1):
            trainer._step(step)
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - started

    warm_up = min(WARM_UP, steps)
    seconds(1, warm_up)
    a_step = seconds(warm_up + 1, warm_up + steps) / steps
    accuracy(trainer.algorithm, split.target, device)
    started = time.perf_counter()
    accuracy(trainer.algorithm, split.target, device)
    evaluated = len(split.target.indices) / (time.perf_counter() - started)
    return {
        "like": benchmark.name,
        "method": config.method,
        "images_a_step": config.training.batch_per_domain * len(split.training),
        "ms_a_step": round(1000 * a_step, 1),
        "evaluated_images_a_second": round(evaluated),
        "peak_GiB": round(torch.cuda.max_memory_allocated() / 2**30, 1) if device.type == "cuda" else None,
    }


def costs(
    device: torch.device, steps: int = STEPS, side: int = 224, images: int = IMAGES
) -> Iterator[dict[str, object]]:
    """Of ERM and PARSE with ResNet-50, on images like those of every benchmark."""
    for name in DOMAINS_AND_CLASSES:
        benchmark = noise(name, 224, IMAGES)
        for method in ("erm", "parse"):
            settings = {"backbone.weights": None, "data.target": "d0"}
            yield cost(change(build_config("pretrained", method), settings), benchmark, device)
            if device.type == "cuda":
                torch.cuda.reset_peak_memory_stats()


if __name__ == "__main__":
    for line in costs(torch.device("cuda" if torch.cuda.is_available() else "cpu")):
        print(json.dumps(line), flush=True)
