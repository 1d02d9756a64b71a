"""Domains: files that are read like an array, and their originals."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parse_dg.data.domain import DecodedFiles, ImageFiles
from parse_dg.data.framing import Framing
from parse_dg.data.images import ImageError, decode
from tests.data.intake.damage import encoded, exif, picture
from tests.data.test_parallel import time_limit

SIZE = 6


@pytest.fixture
def files(tmp_path: Path) -> ImageFiles:
    """Seven images of several formats and sizes, one of them turned."""
    for number in range(6):
        kind = ("PNG", "JPEG", "BMP")[number % 3]
        (tmp_path / f"{number}.img").write_bytes(encoded(picture(number, (5 + number, 9)), kind))
    (tmp_path / "6.img").write_bytes(encoded(picture(6, (12, 8)), "JPEG", exif=exif(6)))
    return ImageFiles(tmp_path, tuple(f"{number}.img" for number in range(7)))


@pytest.fixture
def decoded(files: ImageFiles) -> Iterator[DecodedFiles]:
    with time_limit(), ThreadPoolExecutor(3) as pool:
        yield DecodedFiles(files, SIZE, pool)


@pytest.fixture
def array(files: ImageFiles) -> np.ndarray:
    """What a store of them would hold."""
    return np.stack([decode(files.root / path, Framing(size=SIZE)) for path in files.paths])


def test_a_file_that_is_cut_short_is_used_only_if_that_is_wanted(tmp_path: Path) -> None:
    whole = encoded(picture(0, (64, 64)), "PNG")
    (tmp_path / "cut.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ImageError, match=r"cannot read .*cut.png: it is cut short"):
        ImageFiles(tmp_path, ("cut.png",)).decode(0, SIZE)
    kept = ImageFiles(tmp_path, ("cut.png",), keep_truncated=True)
    expected = decode(tmp_path / "cut.png", Framing(size=SIZE), keep_truncated=True)
    assert np.array_equal(kept.decode(0, SIZE), expected)
    assert kept.open(0).size == (64, 64)


INDICES: list[Any] = [
    0, 3, 6, -1, -7, np.int64(2), np.array(4), np.uint8(5),
    slice(None), slice(2, 5), slice(None, None, -2), slice(5, 2), slice(-3, 100), slice(3, 3),
    np.array([2, 0, 6]), np.array([4, 4, 4, -1]), np.array([], dtype=np.int64), np.arange(7), [1, 5], range(2, 6),
    np.array([True, False, True, False, False, False, True]), [False] * 7, np.array([[0, 1, 2], [6, 5, 4]]),
    np.array([3], dtype=np.int32), ...,
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_files_are_read_as_the_array_would_be(decoded: DecodedFiles, array: np.ndarray, index: Any) -> None:
    found, expected = decoded[index], array[index]
    assert found.dtype == np.uint8
    assert found.shape == expected.shape
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("index", [2, slice(None), np.array([0, 2])], ids=repr)
def test_a_file_that_vanished_is_named(decoded: DecodedFiles, index: Any) -> None:
    (decoded.files.root / "2.img").unlink()
    with pytest.raises(ImageError, match=r"cannot read .*2.img: no such file"):
        decoded[index]
    assert decoded[np.array([0, 1])].shape == (2, SIZE, SIZE, 3)
