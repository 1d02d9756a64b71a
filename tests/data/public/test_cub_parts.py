"""Parts that people have marked, from the files of CUB-200-2011."""

import re
from pathlib import Path

import pytest

from parse_dg.data.public.cub_parts import read_parts
from parse_dg.errors import InputError
from tests.data.public.cub_folder import Bird, write_cub
from tests.parts import refusal

PARTS = ("beak", "left eye")
BIRDS = {
    "001.Auk/one": Bird(7, (50, 30), (1.0, 2.0, 30.0, 40.0), ((10.0, 20.0), None)),
    "002.Jay/two": Bird(3, (20, 80), (0.0, 0.0, 5.0, 12.0), ((1.5, 2.5), (3.0, 4.0))),
    "002.Jay/three": Bird(9, (64, 64), (0.0, 0.0, 6.0, 8.0), (None, None)),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_cub(tmp_path / "cub", BIRDS, PARTS)


def test_photographs_in_the_order_they_are_asked_for(folder: Path) -> None:
    found = read_parts(folder, ["002.Jay/two", "001.Auk/one", "002.Jay/two"])
    assert found.parts == PARTS
    assert found.visible.tolist() == [[True, True], [True, False], [True, True]]
    assert found.places[0].tolist() == [[1.5, 2.5], [3, 4]]
    assert found.places[1, 0].tolist() == [10, 20]
    assert found.sizes.tolist() == [[20, 80], [50, 30], [20, 80]]
    assert found.diagonals.tolist() == [13, 50, 13]


def test_only_the_photographs_that_are_asked_for_are_opened(folder: Path) -> None:
    (folder / "images" / "002.Jay" / "three.jpg").unlink()
    read_parts(folder, ["001.Auk/one", "002.Jay/two"])
    with pytest.raises(InputError, match=r"cannot read .*three.jpg: there is no such file"):
        read_parts(folder, ["002.Jay/three"])


def test_photographs_that_are_not_named(folder: Path) -> None:
    said = refusal(read_parts, folder, ["001.Auk/one", "a/x", "002.Jay/two", "a/x"])
    assert "images.txt: expected all 3 photographs of the run, not named there: a/x" in said


@pytest.mark.parametrize("name", ["images.txt", "bounding_boxes.txt", "parts/parts.txt", "parts/part_locs.txt"])
def test_a_folder_that_lacks_a_file(name: str, folder: Path) -> None:
    (folder / name).unlink()
    with pytest.raises(InputError, match=rf"is no folder like CUB_200_2011: expected .* not found: {name}"):
        read_parts(folder, list(BIRDS))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("images.txt", "one 001.Auk/one.jpg\n", r"images.txt, line 1: expected a number and a file"),
        ("parts/parts.txt", "1 beak\nleft eye\n", "parts.txt, line 2: expected the number of a part and its name"),
        (
            "parts/parts.txt",
            "\n",
            "parts.txt: expected the number and the name of a part on every line, found none",
        ),
        ("parts/part_locs.txt", "\n7 1 2 x 1\n", r"part_locs.txt, line 2: .* found '7 1 2 x 1'"),
        (
            "parts/part_locs.txt",
            "7 1 2 3 1\n7 2 2 3 1\n3 1 0 0 0\n",
            "part_locs.txt: expected all 2 parts of every photograph, missing for number 3, 9",
        ),
        ("bounding_boxes.txt", "7 1 2 0 3\n", "line 1: expected the number of a photograph, x, y, and a width"),
        ("bounding_boxes.txt", "7 1 2 3 4\n", "expected the box of every photograph, missing for number 3, 9"),
        ("images/002.Jay/two.jpg", "no image", r"cannot read .*two.jpg: it is no JPEG"),
    ],
)
def test_files_that_say_something_else(name: str, text: str, message: str, folder: Path) -> None:
    (folder / name).write_text(text)
    assert re.search(message, refusal(read_parts, folder, list(BIRDS)))
