"""Inference as users run it: `Predictor.predict` call by call, and the service's batches, on one ResNet-50.

The service is measured without HTTP, which costs a client's cores as much as its own: 32 clients hand over encoded
files, which are decoded in threads, gathered and predicted as `parse-dg serve` does (`benchmarks.serve_load` has
the whole of it). On a GPU both networks are recorded and replayed by batch size.
"""

import asyncio
import io
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import torch
from PIL import Image

from benchmarks.inference import networks
from benchmarks.report import Row, Side
from benchmarks.setting import QUICK, Setting
from benchmarks.step import parse_config, resnet
from benchmarks.timing import Call, in_turns
from parse_dg.algorithms import Algorithm, AlgorithmConfig
from parse_dg.algorithms.erm import ErmConfig
from parse_dg.data.parallel import default_workers
from parse_dg.deploy.image_batches import LoadedImage
from parse_dg.deploy.model_file import Model, ModelSpec
from parse_dg.deploy.predictor import Predictor
from parse_dg.model.backbones.backbone import BackboneConfig
from parse_dg.serve.batcher import Batcher
from parse_dg.serve.limits import DecodingRoom, ServiceLimits

if TYPE_CHECKING:
    from parse_dg.serve.body import DecodedImage

TITLE = "inference call by call: compacted PARSE ÷ linear head, the service ÷ the model alone"
CLIENTS = 32
LIMITS = ServiceLimits()


def rows(setting: Setting) -> Iterator[Row]:
    sizes, backbone = setting.sizes, resnet(setting)
    for classes in (sizes.classes[0], sizes.classes[-1]):
        parse, linear = networks(setting, backbone, classes)
        both = [
            _predictor(setting, parse_config(sizes.primitives), parse, classes),
            _predictor(setting, ErmConfig(), linear, classes),
        ]
        for count in (1, LIMITS.max_batch) if setting.on_gpu else sizes.inference_images[:1]:
            yield _against_linear(setting, both, count, classes)
        if classes == sizes.classes[0]:
            yield _service(setting, both[1])


def _predictor(setting: Setting, config: AlgorithmConfig, algorithm: torch.nn.Module, classes: int) -> Predictor:
    assert isinstance(algorithm, Algorithm)
    spec = ModelSpec(
        backbone=BackboneConfig(name=setting.sizes.backbone),
        algorithm=config,
        classes=tuple(f"class {n}" for n in range(classes)),
        image_size=setting.sizes.pixels,
    )
    return Predictor(Model(spec, algorithm), setting.device.type)


def _against_linear(setting: Setting, both: list[Predictor], count: int, classes: int) -> Row:
    draw = np.random.default_rng(0)
    shape = setting.sizes.pixels, setting.sizes.pixels, 3
    images = [LoadedImage(n, None, draw.integers(0, 256, shape, np.uint8)) for n in range(count)]

    def call(predictor: Predictor) -> Call:
        return lambda: predictor.predict_batch(images)

    budget = setting.budget(rounds=60, seconds=1.5 if setting.on_gpu else 4)
    parse, linear = in_turns(setting.device, budget, *map(call, both))
    return Row(
        what=f"predict, batch {count}, C = {classes}",
        first=Side.timed("compacted PARSE", parse),
        second=Side.timed("linear head", linear),
        goal=setting.goal("at most", 1.02) if setting.on_gpu else None,
    )


def _service(setting: Setting, predictor: Predictor) -> Row:
    """Rounds of the service and of the model alone, in turns; latency is that of all answers."""
    seconds, rounds = (0.1, 2) if setting.sizes is QUICK else (1.5, 4)
    files = [_encoded(setting, number) for number in range(64)]
    decode = _decoder(predictor)
    pixels = [decode(file).pixels for file in files]
    batch = [LoadedImage(n, None, each) for n, each in enumerate(pixels[: LIMITS.max_batch])]
    served: list[float] = []
    alone: list[float] = []
    latencies: list[float] = []
    asyncio.run(_load(predictor, files, seconds))  # every batch size that comes is recorded
    for _ in range(rounds):
        answers, took = asyncio.run(_load(predictor, files, seconds))
        latencies += answers
        served.append(1e3 * took / len(answers))
        alone.append(_milliseconds(lambda: predictor.predict_batch(batch), seconds) / len(batch))
    last = 1e3 * sorted(latencies)[int(0.99 * len(latencies))]
    return Row(
        what=f"the model alone in batches of {len(batch)} ÷ the service with {CLIENTS} clients, time of an image",
        first=Side(name="model alone", values=alone),
        second=Side(name="service without HTTP", values=served),
        goal=setting.goal("at least", 0.8) if setting.on_gpu else None,
        note=f"{1e3 / min(served):,.0f} images a second, 99% within {last:.1f} ms; {default_workers()} cores",
    )


def _decoder(predictor: Predictor) -> Callable[[bytes], "DecodedImage"]:
    from parse_dg.serve.body import decode_upload  # needs what serving needs: no other part of the benchmarks does

    framing, room = predictor.model.spec.framing, DecodingRoom(2 * LIMITS.max_pixels)
    return lambda file: decode_upload(file, framing, LIMITS.max_pixels, room)


def _encoded(setting: Setting, number: int) -> bytes:
    side = setting.sizes.pixels
    coarse = np.random.default_rng(number).integers(0, 256, (side // 6 + 1, side // 6 + 1, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(coarse).resize((side, side), Image.Resampling.BICUBIC).save(file, "JPEG", quality=90)
    return file.getvalue()


def _milliseconds(call: Call, seconds: float) -> float:
    call()
    start, done = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        call()
        done += 1
    return 1e3 * (time.perf_counter() - start) / max(1, done)


async def _load(predictor: Predictor, files: list[bytes], seconds: float) -> tuple[list[float], float]:
    """Seconds that each answer took, and all of them."""
    batcher = Batcher(predictor, LIMITS.max_batch)
    batcher.start()
    decode = _decoder(predictor)
    loop, latencies = asyncio.get_running_loop(), []
    start = time.perf_counter()
    with ThreadPoolExecutor(default_workers()) as pool:

        async def client(number: int) -> None:
            while time.perf_counter() - start < seconds:
                number, began = (number + 1) % len(files), time.perf_counter()
                image = await loop.run_in_executor(pool, decode, files[number])
                await batcher.predict(image.pixels)
                latencies.append(time.perf_counter() - began)

        await asyncio.gather(*(client(7 * number) for number in range(CLIENTS)))
    took = time.perf_counter() - start
    await batcher.stop()
    return latencies, took
