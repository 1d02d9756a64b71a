"""From files to training batches: does the device ever wait, and how does it compare with the classic path?

The images are JPEG files made here. `ours` is the product's own path: decoded once, memory-mapped, read ahead,
augmented as a batch on the device. `classic` opens, crops, jitters and normalises one file after another with
Pillow in the workers of PyTorch's DataLoader: the same augmentation, drawn alike.
"""

import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from benchmarks.report import Row, Side, Skipped
from benchmarks.setting import QUICK, Setting
from benchmarks.step import STILL, parse_config, resnet
from benchmarks.timing import Budget, in_turns
from parse_dg.algorithms import Algorithm, BuildContext
from parse_dg.algorithms.erm import ErmConfig
from parse_dg.data.augment.batches import AugmentConfig, draw_augment, normalise, to_unit
from parse_dg.data.augment.transforms import transform_image
from parse_dg.data.benchmarks import DataConfig, open_benchmark
from parse_dg.data.domain import Benchmark
from parse_dg.data.loader import TrainingBatches
from parse_dg.data.parallel import default_workers
from parse_dg.data.sampling import Sampler, SamplingConfig
from parse_dg.data.splits import whole
from parse_dg.devices import synchronise
from parse_dg.training.trainer import Trainer, TrainingConfig

TITLE = "Data: images per second (a ratio of times, the other way up)"
DOMAINS = ("art", "cartoon", "photo")
CLASSES = ("dog", "guitar", "house", "person")
PLAIN = AugmentConfig()


def rows(setting: Setting) -> Iterator[Row | Skipped]:
    """On a GPU whether training waits for data; everywhere ours against the classic path."""
    with temporary_data(setting) as config:
        benchmark = open_benchmark(config)
        if setting.on_gpu:
            for name, head in (("ERM", ErmConfig()), ("PARSE", parse_config(setting.sizes.primitives))):
                algorithm = head.build(BuildContext(resnet(setting), len(CLASSES)))
                yield _training(setting, benchmark, name, algorithm)
        else:
            yield Skipped("training from the store ÷ on one constant batch", "needs a GPU to wait")
        yield _against_classic(setting, benchmark)


@contextmanager
def temporary_data(setting: Setting, images: int = 150) -> Iterator[DataConfig]:
    """Files of three domains, `images` of each class, and a cache of their own."""
    with tempfile.TemporaryDirectory() as folder, at_home_in(Path(folder)):
        files, crop_from = Path(folder) / "images", setting.sizes.pixels * 8 // 7
        make_files(files, images=4 if setting.sizes is QUICK else images, pixels=crop_from)
        yield DataConfig(benchmark=str(files), image_size=setting.sizes.pixels, crop_from=crop_from)


class Steps:
    """Training steps of one method, on new batches from the store and on one that stays in the device's memory."""

    def __init__(
        self, setting: Setting, benchmark: Benchmark, algorithm: Algorithm, augment: AugmentConfig = PLAIN
    ):
        self.batches = training_batches(setting, benchmark, augment)
        self.trainer = trainer_of(setting, algorithm, self.batches)
        self.constant = self.trainer.prepare_example(next(self.batches))
        self.numbers = itertools.count(1)

    def from_store(self) -> None:
        self.trainer.update(next(self.numbers), self.trainer.prepare_example(next(self.batches)))

    def on_constant(self) -> None:
        self.trainer.update(next(self.numbers), self.constant)


def _training(setting: Setting, benchmark: Benchmark, name: str, algorithm: Algorithm) -> Row:
    steps = Steps(setting, benchmark, algorithm)
    budget = Budget(rounds=15, seconds=8.0, lap=0.5)
    alone, fed = in_turns(setting.device, budget, steps.on_constant, steps.from_store)
    return Row(
        what=f"{name}: training from the store ÷ on one constant batch in GPU memory",
        first=Side.timed("constant batch", alone),
        second=Side.timed("from the store", fed),
        goal=setting.goal("at least", 0.95),
        note=f"{1e3 * setting.sizes.images / fed.median:,.0f} images a second from the store",
    )


def _against_classic(setting: Setting, benchmark: Benchmark) -> Row:
    """Each path alone, for as many batches as what it has read ahead does not matter; three rounds, in turns."""
    rounds, count = (1, 2) if setting.sizes is QUICK else (3, 16)
    workers = default_workers()
    slow, fast = [], []
    for _ in range(rounds):
        slow.append(_milliseconds(setting, classic_batches(setting, benchmark, workers), count))
        fast.append(_milliseconds(setting, _prepared(setting, benchmark), 2 * count))
    a_second = 1e3 * setting.sizes.images / statistics.median(fast)
    return Row(
        what="our path ÷ Pillow + DataLoader, the same augmentation",
        first=Side(name="Pillow + DataLoader", values=slow),
        second=Side(name="ours", values=fast),
        note=f"{a_second:,.0f} images a second; {workers} workers for the other",
    )


def _milliseconds(setting: Setting, batches: Generator[Tensor, None, None], count: int) -> float:
    """For a batch, once the first few have come."""
    for _ in range(3):
        next(batches)
    synchronise(setting.device)
    start = time.perf_counter()
    for _ in range(count):
        next(batches)
    synchronise(setting.device)
    seconds = time.perf_counter() - start
    batches.close()
    return 1e3 * seconds / count


def _prepared(setting: Setting, benchmark: Benchmark) -> Generator[Tensor, None, None]:
    batches = training_batches(setting, benchmark)
    trainer = trainer_of(setting, ErmConfig().build(BuildContext(resnet(setting), len(CLASSES))), batches)
    while True:
        yield trainer.prepare_example(next(batches)).images


def training_batches(setting: Setting, benchmark: Benchmark, augment: AugmentConfig = PLAIN) -> TrainingBatches:
    order, draws = (torch.Generator().manual_seed(seed) for seed in (0, 1))
    sources = [whole(domain) for domain in benchmark.domains]
    per_domain = setting.sizes.images // len(sources)
    sampler = Sampler(sources, per_domain, SamplingConfig(), augment, order=order, draws=draws)
    return TrainingBatches(sampler, benchmark.image_size, setting.device)


def trainer_of(setting: Setting, algorithm: Algorithm, batches: TrainingBatches) -> Trainer:
    return Trainer(
        algorithm,
        batches,
        [],
        steps=1_000_000,
        training=TrainingConfig(),
        optimizer=STILL,
        augment=batches.sampler.augment,
        generator=torch.Generator().manual_seed(0),
        device=setting.device,
        image_size=setting.sizes.pixels,
    )


class ClassicDataset(Dataset[tuple[Tensor, int]]):
    """One file after another, by Pillow."""

    def __init__(self, benchmark: Benchmark):
        self.places = [(d, i) for d in benchmark.domains for i in range(len(d.labels))]
        self.size = benchmark.image_size

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        domain, place = self.places[index]
        config = AugmentConfig()
        draws = draw_augment(config, 1, torch.default_generator)
        image = transform_image(domain.original(place), config, draws.uniform[0].numpy(), draws.order, self.size)
        unit = to_unit(torch.from_numpy(image).permute(2, 0, 1)[None])
        return normalise(unit)[0], int(domain.labels[place])


def classic_batches(setting: Setting, benchmark: Benchmark, workers: int) -> Generator[Tensor, None, None]:
    """Endless batches of a plain DataLoader, on the device; its workers end with the generator."""
    loader = DataLoader(
        ClassicDataset(benchmark),
        batch_size=setting.sizes.images,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        pin_memory=setting.on_gpu,
        persistent_workers=True,
    )
    while True:
        for images, _ in loader:
            yield images.to(setting.device, non_blocking=True)


def make_files(
    folder: Path,
    images: int,
    pixels: int,
    domains: Sequence[str] = DOMAINS,
    classes: Sequence[str] = CLASSES,
) -> None:
    """JPEG files of smooth noise: as large as photographs of their size, about."""
    draw = np.random.default_rng(0)
    for domain in domains:
        for name in classes:
            (folder / domain / name).mkdir(parents=True)
            for number in range(images):
                coarse = draw.integers(0, 256, (pixels // 6 + 1, pixels // 6 + 1, 3), dtype=np.uint8)
                image = Image.fromarray(coarse).resize((pixels, pixels), Image.Resampling.BICUBIC)
                image.save(folder / domain / name / f"{number}.jpg", quality=90)


@contextmanager
def at_home_in(folder: Path) -> Iterator[None]:
    """Caches and manifests in `folder`: the user's own are left alone."""
    homes = {"PARSE_DG_CACHE": str(folder / "cache"), "PARSE_DG_DATA": str(folder / "data")}
    with mock.patch.dict(os.environ, homes):
        yield
