"""Training as DomainBed does it ÷ ours: ERM, ResNet-50, 96 images of 224 pixels, four domains as large as PACS's.

Their loop is written anew from DomainBed's documented settings: files opened by Pillow, torchvision's transforms in
the workers of a DataLoader of its own for every domain and split (8 workers each, drawing with replacement), images
of the sources augmented in validation too, float32, Adam at 5e-5, BatchNorm's statistics frozen, the loss read at
every step, a check of every split in batches of 64, the weights written at the end. Ours is `parse_dg.train` with
the recipe and the protocol of that name: one command against one command, from start to end. The decoded images
that ours keeps are there beforehand, as they are for every run but the first; the note says what they cost.

Where torchvision does not import, Pillow alone makes the same transforms. On a CPU a step takes half a minute, so
that there are few of them, and few images.
"""

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, Sampler

import parse_dg
from benchmarks.data_path import at_home_in, make_files
from benchmarks.report import Row, Side, Skipped
from benchmarks.setting import QUICK, Setting
from benchmarks.step import resnet
from parse_dg.data.augment.batches import IMAGENET_MEAN, IMAGENET_STD, AugmentConfig, draw_augment
from parse_dg.data.augment.transforms import transform_image
from parse_dg.data.benchmarks import DataConfig, open_benchmark
from parse_dg.devices import synchronise

TITLE = "DomainBed's training loop ÷ ours, from start to end"
PACS = {"art": 2048, "cartoon": 2344, "photo": 1670, "sketch": 3929}
CLASSES, TARGET, PIXELS = 7, "sketch", 227
PER_DOMAIN, EVALUATED, WORKERS = 32, 64, 8
DISTINCT = 20
"""Files of every class that are made; the others are copies."""
FEW = 6
"""On a CPU: as many as fill a batch, and no copies."""

PATIENCE = 300.0
"""Seconds for their loop."""

Times = tuple[float, float, float]
"""Seconds until the first step begins, of all steps, and of the check and the writing."""
Transform = Callable[[Image.Image], Tensor]


def rows(setting: Setting) -> Iterator[Row | Skipped]:
    with tempfile.TemporaryDirectory() as place, at_home_in(Path(place)):
        folder = Path(place) / "images"
        _make(setting, folder)
        steps = 300 if setting.on_gpu else 2
        begin = time.perf_counter()
        open_benchmark(DataConfig(benchmark=str(folder), image_size=_pixels(setting)))
        decoding = time.perf_counter() - begin
        precisions = ("auto", "float32") if setting.on_gpu else ("auto",)
        ours = {each: _ours(setting, folder, Path(place) / each, steps, each) for each in precisions}
        files = sum(1 for _ in folder.rglob("*.jpg"))
        what = f"{steps} steps and a check of {files:,} images; ours in {{}} precision"
        try:
            theirs = _alone(_theirs, setting, folder, steps)
        except TimeoutError as error:
            for precision, seconds in ours.items():
                yield Skipped(what.format(precision), f"theirs is {error}; ours took {seconds:.1f} s")
            return
        for precision, seconds in ours.items():
            yield Row(
                what=what.format(precision),
                first=Side(name="DomainBed's loop", values=[1e3 * sum(theirs)]),
                second=Side(name="ours", values=[1e3 * seconds]),
                goal=setting.goal("at least", 2) if setting.on_gpu else None,
                note="theirs: start {:.1f} s, steps {:.1f} s, check and writing {:.1f} s, ".format(*theirs)
                + f"transforms by {_transforms(setting)[2]}; ours has decoded all images once, in {decoding:.1f} s",
            )


def _pixels(setting: Setting) -> int:
    return setting.sizes.pixels


def _make(setting: Setting, folder: Path) -> None:
    """Files as many and as large as PACS's; on a CPU a few."""
    small = not setting.on_gpu or setting.sizes is QUICK
    names = tuple(f"class{number}" for number in range(CLASSES))
    each = 2 if setting.sizes is QUICK else DISTINCT if setting.on_gpu else FEW
    make_files(folder, each, 40 if setting.sizes is QUICK else PIXELS, tuple(PACS), names)
    for domain, count in PACS.items():
        distinct = sorted((folder / domain).rglob("*.jpg"))
        for number in range(len(distinct), 0 if small else count):
            source = distinct[number % len(distinct)]
            shutil.copy(source, source.with_name(f"copy{number}.jpg"))


def _ours(setting: Setting, folder: Path, out: Path, steps: int, precision: str) -> float:
    """Seconds of a whole run."""
    settings = {
        "training.steps": steps,
        "training.check_every": steps,
        "training.check_from": 0,
        "training.precision": precision,
        "training.device": setting.device.type,
        "training.batch_per_domain": _per_domain(setting),
        "backbone.name": setting.sizes.backbone,
        "backbone.weights": None,
        "data.image_size": _pixels(setting),
    }
    begin = time.perf_counter()
    parse_dg.train(folder, TARGET, "erm", recipe="domainbed", protocol="domainbed", settings=settings, out=out)
    return time.perf_counter() - begin


def _per_domain(setting: Setting) -> int:
    return setting.sizes.images // 3


def _alone(work: Callable[..., Times], *given: object) -> Times:
    """What the work returns, in a process of its own: its workers are copies of that, not of this one."""
    context = get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_tell, args=(there, work, given))
    process.start()
    there.close()  # if the process ends without a word, that is heard
    try:
        if not here.poll(PATIENCE):
            raise TimeoutError(f"not done after {PATIENCE:.0f} seconds")
        times: Times = here.recv()
        return times
    finally:
        process.terminate()


def _tell(there: Connection, work: Callable[..., Times], given: tuple[object, ...]) -> None:
    there.send(work(*given))


class Files(Dataset[tuple[Tensor, int]]):
    """Some files of a domain, opened when they are asked for."""

    def __init__(self, files: Sequence[Path], transform: Transform):
        self.files, self.transform = files, transform

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        file = self.files[index]
        with Image.open(file) as image:
            return self.transform(image.convert("RGB")), int(file.parent.name.removeprefix("class"))


class Endless(Sampler[list[int]]):
    """Batches without end, drawn with replacement."""

    def __init__(self, data: Files, size: int):
        assert len(data) >= size, f"{len(data)} files do not fill a batch of {size}"
        self.batches = BatchSampler(RandomSampler(data, replacement=True), size, drop_last=True)

    def __iter__(self) -> Iterator[list[int]]:
        while True:
            yield from self.batches


def _theirs(setting: Setting, folder: Path, steps: int) -> Times:
    begin = time.perf_counter()
    augmented, plain, _ = _transforms(setting)
    workers = WORKERS if setting.on_gpu else 1
    training, evaluated = [], []
    draw = np.random.RandomState(0)
    for domain in PACS:
        files = sorted((folder / domain).rglob("*.jpg"))
        files = [files[number] for number in draw.permutation(len(files))]
        held_out, kept = files[: len(files) // 5], files[len(files) // 5 :]
        transform = plain if domain == TARGET else augmented
        evaluated += [Files(kept, transform), Files(held_out, transform)]
        if domain != TARGET:
            data = Files(kept, transform)
            sampler = Endless(data, _per_domain(setting))
            training.append(iter(DataLoader(data, num_workers=workers, batch_sampler=sampler)))
    network = _network(setting)
    adam = torch.optim.Adam(network.parameters(), lr=5e-5)
    loaders = [DataLoader(data, batch_size=EVALUATED, num_workers=workers) for data in evaluated]
    device, losses = setting.device, []
    started = time.perf_counter()
    for _ in range(steps):
        parts = [(x.to(device), y.to(device)) for x, y in (next(each) for each in training)]
        images, labels = torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts])
        loss = F.cross_entropy(network(images), labels)
        adam.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        adam.step()
        losses.append(loss.item())
    trained = time.perf_counter()
    assert statistics.fmean(losses) > 0
    network.eval()
    with torch.no_grad():
        correct = sum(
            int((network(x.to(device)).argmax(1) == y.to(device)).sum()) for each in loaders for x, y in each
        )
    assert correct >= 0
    torch.save(network.state_dict(), folder.parent / "theirs.pkl")
    synchronise(device)
    return started - begin, trained - started, time.perf_counter() - trained


class _Network(nn.Module):
    """A ResNet in float32 and a linear classifier; BatchNorm's statistics stay."""

    def __init__(self, setting: Setting):
        super().__init__()
        self.backbone = resnet(setting, frozen=True)
        self.classifier = nn.Linear(self.backbone.channels, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.backbone(images).mean((2, 3)))
        return logits


def _network(setting: Setting) -> nn.Module:
    return _Network(setting).to(setting.device).train()


def _transforms(setting: Setting) -> tuple[Transform, Transform, str]:
    """For sources, for the target, and by what."""
    size = _pixels(setting)
    try:
        from torchvision import transforms as T

        last: list[Any] = [T.ToTensor(), T.Normalize(IMAGENET_MEAN, IMAGENET_STD)]
        jitter = T.ColorJitter(0.3, 0.3, 0.3, 0.3)
        crop = T.RandomResizedCrop(size, scale=(0.7, 1.0))
        augmented = T.Compose([crop, T.RandomHorizontalFlip(), jitter, T.RandomGrayscale(), *last])
        return augmented, T.Compose([T.Resize((size, size)), *last]), "torchvision"
    except (ImportError, RuntimeError):
        return _Pillow(size, augmented=True), _Pillow(size, augmented=False), "Pillow alone"


class _Pillow:
    """The same, without torchvision."""

    def __init__(self, size: int, *, augmented: bool):
        self.size, self.augmented = size, augmented
        self.config = AugmentConfig()
        self.mean, self.std = (torch.tensor(each)[:, None, None] for each in (IMAGENET_MEAN, IMAGENET_STD))

    def __call__(self, image: Image.Image) -> Tensor:
        if self.augmented:
            draws = draw_augment(self.config, 1, torch.default_generator)
            pixels = transform_image(image, self.config, draws.uniform[0].numpy(), draws.order, self.size)
        else:
            pixels = np.array(image.resize((self.size, self.size), Image.Resampling.BILINEAR))
        return (torch.from_numpy(pixels).permute(2, 0, 1).float().div_(255) - self.mean) / self.std
