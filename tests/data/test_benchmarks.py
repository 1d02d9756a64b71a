"""Benchmarks: named domains over one set of classes, embedded or in files, stored or decoded when they are read."""

import hashlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parse_dg.data import benchmarks, store
from parse_dg.data.benchmarks import DataConfig, open_benchmark
from parse_dg.data.blueprints import benchmark as blueprints
from parse_dg.data.blueprints.store import open_blueprints
from parse_dg.data.domain import Benchmark, DecodedFiles
from parse_dg.data.framing import Framing
from parse_dg.data.images import decode
from parse_dg.errors import InputError
from tests.conftest import Numbered, Tiny
from tests.data.test_parallel import time_limit
from tests.data.test_store import COUNTS, make_images
from tests.parts import refusal


def test_blueprints_opens_by_name(tiny: Tiny) -> None:
    config = tiny().data
    benchmark = open_benchmark(config)
    stored = open_blueprints(config.blueprints)
    assert benchmark.name == "blueprints"
    assert benchmark.classes == blueprints.CLASSES
    assert benchmark.fingerprint == stored.fingerprint
    assert tuple(domain.name for domain in benchmark.domains) == blueprints.DOMAINS
    for domain in benchmark.domains:
        assert domain.images.shape == (8 * config.blueprints.images_per_class, 64, 64, 3)
        assert (domain.images == stored.domains[domain.name].images).all()
        assert (domain.labels == stored.domains[domain.name].labels).all()


def test_a_domain_is_found_by_name(numbered: Numbered) -> None:
    first, second = numbered("photo", 2), numbered("sketch", 3)
    benchmark = Benchmark("pair", ("a", "b", "c"), (first, second), fingerprint="none")
    assert benchmark.domain("sketch") is second
    assert "unknown domain of pair 'paint': valid are photo, sketch" in refusal(benchmark.domain, "paint")


@pytest.fixture
def cache_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("PARSE_DG_CACHE", str(tmp_path / "cache"))
    with time_limit():
        yield tmp_path / "cache"


@pytest.fixture
def folder(tmp_path: Path, cache_of_its_own: Path) -> str:
    """Three domains of 5, 6 and 4 images."""
    return str(make_images(tmp_path / "images"))


def small(folder: str, **settings: Any) -> DataConfig:
    return DataConfig(benchmark=folder, **({"image_size": 16, "crop_from": 20} | settings))


@pytest.mark.parametrize("kept", ["auto", "always", "never"])
def test_a_folder_opens_by_its_path(folder: str, kept: str) -> None:
    benchmark = open_benchmark(small(folder, store=kept))
    assert benchmark.name == "images"
    assert benchmark.classes == ("cat", "dog")
    assert benchmark.image_size == 16
    assert [domain.name for domain in benchmark.domains] == list(COUNTS)
    for domain in benchmark.domains:
        assert domain.labels.tolist() == [0] * COUNTS[domain.name]["cat"] + [1] * COUNTS[domain.name]["dog"]
        assert domain.labels.dtype == np.int64
        assert domain.files is not None
        assert domain.larger is not None
        assert len(domain.ids) == len(domain.digests) == len(domain.files.paths) == len(domain.labels)
        for index, path in enumerate(domain.files.paths):
            file = domain.files.root / path
            assert file.parts[-3:-1] == (domain.name, benchmark.classes[domain.labels[index]])
            assert np.array_equal(domain.images[index], decode(file, Framing(size=16)))
            assert np.array_equal(domain.larger[index], decode(file, Framing(size=20)))
            assert domain.digests[index] == hashlib.sha256(file.read_bytes()).hexdigest()
        assert isinstance(domain.images, DecodedFiles if kept == "never" else np.memmap)
        assert isinstance(domain.larger, DecodedFiles if kept == "never" else np.memmap)


@pytest.mark.parametrize("kept", ["always", "never"])
def test_the_middle_of_larger_images_is_evaluated(folder: str, kept: str) -> None:
    benchmark = open_benchmark(small(folder, store=kept, evaluation="centre"))
    assert (benchmark.image_size, benchmark.resize_to) == (16, 20)
    for domain in benchmark.domains:
        assert domain.files is not None
        larger = np.stack([decode(domain.files.root / path, Framing(size=20)) for path in domain.files.paths])
        assert np.array_equal(domain.images[:], larger[:, 2:18, 2:18])
        assert np.array_equal(domain.images[np.array([3, 1])], larger[[3, 1], 2:18, 2:18])
        as_predicted = Framing(size=16, resize_to=20)
        again = decode(domain.files.root / domain.files.paths[0], as_predicted)
        assert np.array_equal(again, domain.images[0])


def test_definitions_of_classes_are_captions(folder: str, tmp_path: Path) -> None:
    file = tmp_path / "classes.txt"
    file.write_text("dog: a tame wolf\n\ncat: a small animal: it purrs\nzebra: a horse\ndog: it barks\n")
    for domain in open_benchmark(small(folder, definitions=str(file))).domains:
        said = (("a small animal: it purrs",), ("a tame wolf", "it barks"))
        assert domain.captions == tuple(said[label] for label in domain.labels)
    file.write_text("dog: it barks\n")
    with pytest.raises(InputError, match=r"classes.txt has no line `class: sentence` for cat: every"):
        open_benchmark(small(folder, definitions=str(file)))
    file.write_text("dog\n")
    with pytest.raises(InputError, match=r"classes.txt, line 1: expected `class: sentence`, found 'dog'"):
        open_benchmark(small(folder, definitions=str(file)))


@pytest.mark.parametrize("crop_from", [None, 16])
def test_without_another_size_for_crops_there_are_no_larger_images(
    folder: str, cache_of_its_own: Path, crop_from: int | None
) -> None:
    benchmark = open_benchmark(small(folder, crop_from=crop_from))
    assert all(domain.larger is None for domain in benchmark.domains)
    assert [path.name[-3:] for path in cache_of_its_own.glob("images-*") if path.is_dir()] == ["-16"]


def test_what_does_not_fit_is_decoded_when_it_is_read(
    folder: str, cache_of_its_own: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning, which says what it would take and what there is."""
    stored = open_benchmark(small(folder))
    monkeypatch.setenv("PARSE_DG_CACHE", str(cache_of_its_own / "full"))
    monkeypatch.setattr(store, "free_bytes", lambda folder: 2_500_000_000)
    monkeypatch.setattr(store, "store_bytes", lambda images, size: size * 1_000_000_000)
    with caplog.at_level(logging.WARNING):
        decoded = open_benchmark(small(folder))
    (record,) = caplog.records
    has = f"and {cache_of_its_own}/full has 2.50 GB free (1.07 GB of it kept back)"
    assert record.getMessage() == (
        f"at 16 pixels decoded images would take 16.00 GB {has}; at 20 pixels decoded images would take 20.00 GB "
        f"{has}: images are decoded whenever they are read, which is slower"
    )
    assert (record.levelname, record.name) == ("WARNING", benchmarks.__name__)
    for one, other in zip(stored.domains, decoded.domains, strict=True):
        assert isinstance(other.images, DecodedFiles)
        assert isinstance(other.larger, DecodedFiles)
        assert one.larger is not None
        assert np.array_equal(one.images[:], other.images[:])
        assert np.array_equal(one.larger[:], other.larger[:])
        assert np.array_equal(one.labels, other.labels)
    assert not list((cache_of_its_own / "full").rglob("*.npy*"))


def test_always_is_refused_where_it_does_not_fit(
    folder: str, cache_of_its_own: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(store, "free_bytes", lambda folder: 0)
    assert refusal(open_benchmark, small(folder, store="always")) == (
        f"decoded images would take 0.00 GB and {cache_of_its_own} has 0.00 GB free (1.07 GB of it kept back): "
        "set PARSE_DG_CACHE to another disk, or data.store=auto"
    )
    assert not caplog.records


@pytest.mark.parametrize("kept", ["auto", "always"])
def test_a_cache_that_cannot_be_written_is_one_line(folder: str, cache_of_its_own: Path, kept: str) -> None:
    cache_of_its_own.write_text("no folder")
    with pytest.raises(InputError, match=r"cannot write to .*: set PARSE_DG_CACHE to another folder"):
        open_benchmark(small(folder, store=kept))
    assert open_benchmark(small(folder, store="never")).image_size == 16
