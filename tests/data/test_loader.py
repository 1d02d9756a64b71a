"""Batches: as many of every domain, each image once a pass, read ahead, and exactly the same again."""

import re
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor

from parse_dg.data.augment.batches import AugmentConfig
from parse_dg.data.augment.transforms import transform_image
from parse_dg.data.benchmarks import DataConfig, open_benchmark
from parse_dg.data.domain import Benchmark, DecodedFiles, Domain
from parse_dg.data.framing import Framing
from parse_dg.data.images import decode
from parse_dg.data.loader import Batch, TrainingBatches, evaluation_batches, load_images
from parse_dg.data.sampling import Sampler, SamplingConfig
from parse_dg.data.splits import Subset, whole
from tests.conftest import Numbered
from tests.data.test_parallel import threads, time_limit
from tests.data.test_sampling import MODES, same_state
from tests.data.test_store import make_images
from tests.parts import refusal, seeded

AUGMENTS = {
    "plain": AugmentConfig(),
    "randaugment": AugmentConfig(randaugment_ops=2),
    "per_image": AugmentConfig(per_image=True),
}
PAIRS = list(zip(MODES, [*AUGMENTS.values(), AugmentConfig()], strict=True))


def training(
    sources: list[Subset], per_domain: int, order: torch.Generator, sampling: SamplingConfig | None = None
) -> TrainingBatches:
    config = sampling or SamplingConfig()
    sampler = Sampler(sources, per_domain, config, AugmentConfig(), order=order, draws=seeded(1))
    return TrainingBatches(sampler, image_size=4)


def on_photos(
    benchmark: Benchmark, sampling: SamplingConfig, augment: AugmentConfig, per_domain: int = 2, seed: int = 0
) -> TrainingBatches:
    """Batches of every image of every domain."""
    sources = [whole(domain) for domain in benchmark.domains]
    order, draws = seeded(seed), seeded(seed + 1)
    sampler = Sampler(sources, per_domain, sampling, augment, order=order, draws=draws)
    return TrainingBatches(sampler, benchmark.image_size)


def file_of(domain: Domain, index: int) -> Path:
    """The file of an image."""
    assert domain.files is not None
    return domain.files.root / domain.files.paths[index]


def tensors(batch: Batch) -> list[Tensor]:
    """All there is in a batch."""
    parts: list[Tensor] = [batch.images, batch.labels, batch.domains]
    if batch.draws is not None:
        parts += [batch.draws.uniform, torch.tensor(batch.draws.order), *(batch.draws.randaugment or ())]
    return parts


def same(one: Batch, other: Batch) -> bool:
    """To the bit."""
    mine, others = tensors(one), tensors(other)
    return len(mine) == len(others) and all(torch.equal(a, b) for a, b in zip(mine, others, strict=True))


@pytest.fixture(autouse=True)
def never_hangs() -> Iterator[None]:
    with time_limit(30):
        yield


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    """Three domains of 5, 6 and 4 images in files, stored at 16 and 20 pixels."""
    root = make_images(tmp_path_factory.mktemp("photos") / "images")
    return open_benchmark(DataConfig(benchmark=str(root), image_size=16, crop_from=20))


@pytest.fixture
def undecoded(tmp_path: Path) -> Benchmark:
    """The same images, decoded whenever they are read."""
    root = make_images(tmp_path / "images")
    return open_benchmark(DataConfig(benchmark=str(root), image_size=16, crop_from=20, store="never"))


@pytest.fixture
def sources(numbered: Numbered) -> list[Subset]:
    """Domains of 12, 7 and 3 images."""
    return [whole(numbered(name, count)) for name, count in (("photo", 12), ("cartoon", 7), ("paint", 3))]


def test_images_and_labels_belong_together(sources: list[Subset]) -> None:
    for batch in islice(training(sources, 5, seeded()), 10):
        assert (batch.images == batch.labels[:, None, None, None]).all()


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted in /proc")
def test_reading_starts_no_threads_of_openmp(sources: list[Subset]) -> None:
    batches, started = training(sources, 5, seeded()), []
    plan = batches.sampler.plan()

    def count() -> None:
        torch.set_num_threads(2)  # with one there is never a team
        before = set(Path("/proc/self/task").iterdir())  # any of them may end meanwhile
        batches.read(plan)
        started.append(set(Path("/proc/self/task").iterdir()) - before)

    usual = torch.get_num_threads()
    reader = threading.Thread(target=count)
    reader.start()
    reader.join()
    torch.set_num_threads(usual)
    assert started == [set()]


def test_a_joined_batch_is_shared_out_as_it_lies(sources: list[Subset]) -> None:
    def joined(share: slice) -> Batch:
        draws = {"order": seeded(), "draws": seeded(1)}
        sampler = Sampler(sources, 8, SamplingConfig(), AugmentConfig(), joined=True, **draws)
        return next(TrainingBatches(sampler, 8, share=share))

    batch = joined(slice(None))
    assert (batch.images == batch.labels[:, None, None, None]).all()
    assert batch.domains.tolist() == sorted(batch.domains.tolist())
    for rank in range(3):
        part = joined(slice(rank, None, 3))
        assert torch.equal(part.images, batch.images[rank::3])
        assert part.labels.tolist() == batch.labels.tolist()
        assert part.draws is not None
        assert torch.equal(part.draws.uniform, batch.draws.uniform[rank::3])


def test_only_the_images_of_the_subset_come(numbered: Numbered) -> None:
    subset = Subset(numbered("photo", 10), np.array([7, 2, 9]))
    order = [label for batch in islice(training([subset], 2, seeded()), 9) for label in batch.labels.tolist()]
    assert Counter(order) == {7: 6, 2: 6, 9: 6}


class Slow:
    """Images of which some, in this order, are read at once, and others when they may be."""

    def __init__(self, images: np.ndarray, at_once: list[int]):
        self.images, self.at_once, self.may_read = images, at_once, threading.Event()
        self.shape = images.shape

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: Any) -> Any:
        assert index.tolist() == self.at_once or self.may_read.wait(20)
        return self.images[index]


@pytest.mark.parametrize("augment", AUGMENTS.values(), ids=AUGMENTS)
def test_read_ahead_is_read(augment: AugmentConfig, photos: Benchmark) -> None:
    """Batches of threads are those of plans that are read one after another."""
    ahead, plain = (on_photos(photos, SamplingConfig(), augment) for _ in range(2))
    for batch in islice(ahead, 8):
        assert same(batch, plain.read(plain.sampler.plan()))


@pytest.mark.parametrize("augment", [AugmentConfig(), AugmentConfig(per_image=True)], ids=["batch", "per_image"])
def test_a_file_that_vanished_is_named_at_its_batch(augment: AugmentConfig, undecoded: Benchmark) -> None:
    """Batches before it come as they are; asked again it fails again, and from its state it goes on when mended."""
    batches = on_photos(undecoded, SamplingConfig(), augment, per_domain=1)
    sampler = on_photos(undecoded, SamplingConfig(), augment, per_domain=1).sampler
    plans = [sampler.plan() for _ in range(12)]
    expected = [batches.read(plan) for plan in plans]
    bad = 4
    path = file_of(undecoded.domains[1], int(plans[bad].positions[1]))
    data = path.read_bytes()
    path.unlink()
    for number in range(bad):
        assert same(next(batches), expected[number])
    state = batches.state()
    for _ in range(3):
        assert re.search(rf"cannot read {path}: no such file", refusal(next, batches))
        assert same_state(batches.state(), state)
    path.write_bytes(data)
    batches.restore(batches.state())
    for number in range(bad, 12):
        assert same(next(batches), expected[number])


def test_an_interruption_loses_no_batch(numbered: Numbered) -> None:
    """As when the user stops a run while it waits for the disk: the state is that of the last batch it had."""
    domain = numbered("photo", 12)
    expected = list(islice(training([whole(domain)], 3, seeded()), 3))
    slow = Slow(np.asarray(domain.images), expected[0].labels.tolist())
    batches = training([whole(replace(domain, images=slow))], 3, seeded())
    assert same(next(batches), expected[0])
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it may be ignored
    timer = threading.Timer(0.2, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        next(batches)
    timer.join()
    signal.signal(signal.SIGINT, before)
    state = batches.state()
    slow.may_read.set()
    assert same(next(batches), expected[1])
    other = training([whole(domain)], 3, seeded(9))
    other.restore(state)
    assert all(same(next(other), batch) for batch in expected[1:])


@pytest.mark.parametrize(("sampling", "augment"), PAIRS)
def test_a_run_goes_on_exactly_from_any_batch(
    sampling: SamplingConfig, augment: AugmentConfig, photos: Benchmark, tmp_path: Path
) -> None:
    batches = on_photos(photos, sampling, augment)
    states, given = [], []
    for number in range(7):
        state = batches.state()
        save_file(state, tmp_path / f"{number}.safetensors")
        states.append(state)
        given.append(next(batches))
    for number in (0, 4):
        saved = load_file(tmp_path / f"{number}.safetensors")
        assert same_state(states[number], saved)  # what came later did not touch it
        fresh = on_photos(photos, sampling, augment, seed=50)
        next(fresh)
        for other in (batches, fresh):
            other.restore(saved)
            assert same_state(other.state(), saved)
            assert all(same(next(other), batch) for batch in given[number:])


def test_images_taken_one_by_one_are_their_originals_transformed(photos: Benchmark) -> None:
    augment = AugmentConfig(per_image=True)
    batches = on_photos(photos, SamplingConfig(), augment, per_domain=3)
    sampler = on_photos(photos, SamplingConfig(), augment, per_domain=3).sampler
    for batch in islice(batches, 6):
        plan = sampler.plan()
        assert batch.draws is None
        assert batch.images.shape == (9, 3, 16, 16)
        for place in range(9):
            domain, index = photos.domains[place // 3], int(plan.positions[place // 3][place % 3])
            with Image.open(file_of(domain, index)) as original:
                uniform = plan.draws.uniform[place].numpy()
                expected = transform_image(original, augment, uniform, plan.draws.order, 16)
            assert np.array_equal(batch.images[place].permute(1, 2, 0).numpy(), expected)
            assert batch.labels[place] == domain.labels[index]
            assert batch.domains[place] == place // 3


def test_training_reads_the_images_crops_are_cut_from(photos: Benchmark) -> None:
    batches = on_photos(photos, SamplingConfig(), AugmentConfig())
    sampler = on_photos(photos, SamplingConfig(), AugmentConfig()).sampler
    for batch in islice(batches, 6):
        expected = [
            decode(file_of(domain, index), Framing(size=20))
            for domain, positions in zip(photos.domains, sampler.plan().positions, strict=True)
            for index in positions.tolist()
        ]
        assert np.array_equal(batch.images.permute(0, 2, 3, 1).numpy(), np.stack(expected))


@pytest.mark.parametrize("augment", AUGMENTS.values(), ids=AUGMENTS)
def test_files_decoded_as_they_are_read_give_the_same_batches(
    augment: AugmentConfig, photos: Benchmark, undecoded: Benchmark
) -> None:
    one, other = (on_photos(benchmark, SamplingConfig(), augment) for benchmark in (photos, undecoded))
    assert isinstance(photos.domains[0].images, np.memmap)
    assert isinstance(undecoded.domains[0].images, DecodedFiles)
    assert all(same(next(one), next(other)) for _ in range(8))


@pytest.mark.parametrize("size", [1, 3, 6, 100])
def test_evaluation_goes_through_every_image_once_in_order(numbered: Numbered, size: int) -> None:
    subset = Subset(numbered("photo", 10), np.array([7, 2, 9, 0, 3, 5]))
    batches = list(evaluation_batches(subset, size))
    assert [len(labels) for _, labels in batches] == [len(part) for part in torch.zeros(6).split(size)]
    assert torch.cat([labels for _, labels in batches]).tolist() == [7, 2, 9, 0, 3, 5]
    assert torch.cat([images[:, 0, 0, 0] for images, _ in batches]).tolist() == [7, 2, 9, 0, 3, 5]


@pytest.mark.parametrize("crops", [False, True])
@pytest.mark.parametrize("opened", ["photos", "undecoded"])
def test_evaluation_reads_small_images_or_those_crops_are_cut_from(
    opened: str, crops: bool, request: pytest.FixtureRequest
) -> None:
    benchmark = request.getfixturevalue(opened)
    for domain in benchmark.domains:
        subset = Subset(domain, np.arange(len(domain.labels))[::-2].copy())
        batches = list(evaluation_batches(subset, 2, crops))
        framing = Framing(size=20 if crops else 16)
        expected = [decode(file_of(domain, index), framing) for index in subset.indices.tolist()]
        images, labels = (torch.cat(parts) for parts in zip(*batches, strict=True))
        assert np.array_equal(images.permute(0, 2, 3, 1).numpy(), np.stack(expected))
        assert labels.tolist() == domain.labels[subset.indices].tolist()
        loaded = load_images(subset, np.array([1, 0]), crops)
        assert torch.equal(loaded[0], images[[1, 0]])
        assert torch.equal(loaded[1], labels[[1, 0]])


def test_a_file_that_vanished_ends_the_evaluation_at_its_batch(undecoded: Benchmark) -> None:
    domain = undecoded.domains[0]
    path = file_of(domain, 3)
    path.unlink()
    batches = evaluation_batches(whole(domain), 2)
    assert next(batches)[1].tolist() == domain.labels[:2].tolist()
    assert re.search(f"cannot read {path}: no such file", refusal(next, batches))
    assert not threads("ahead")
