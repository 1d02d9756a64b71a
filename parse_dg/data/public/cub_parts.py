"""Parts of photographs that people have marked, in the files of CUB-200-2011 (Wah et al. 2011).

images.txt           number of a photograph, its file below images/
bounding_boxes.txt   number, x, y, width and height of the box around the bird
parts/parts.txt      number of a part, its name
parts/part_locs.txt  numbers of photograph and part, x, y, 1 if the part is visible

All lengths are in pixels of the photograph. Its own pixels are not read, only its size.
Letters: N photographs, P parts.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

from parse_dg.data.images import read_size
from parse_dg.data.lines import read_lines, read_numbered
from parse_dg.data.public.cub_dg import image_id, read_images_txt
from parse_dg.errors import InputError
from parse_dg.wording import printable, some

IMAGES, BOXES = "images.txt", "bounding_boxes.txt"
PARTS, PLACES = "parts/parts.txt", "parts/part_locs.txt"
_SHOWN = 3


@dataclass(frozen=True, kw_only=True, eq=False)
class PartAnnotations:
    """Where the parts are in some photographs."""

    parts: tuple[str, ...]
    places: Float[np.ndarray, "N P 2"]  # x and y in pixels, of no meaning where a part is not visible
    visible: Bool[np.ndarray, "N P"]
    sizes: Float[np.ndarray, "N 2"]  # width and height in pixels
    diagonals: Float[np.ndarray, "N"]  # of the boxes, in pixels

    def some(self, chosen: slice) -> "PartAnnotations":
        arrays = ("places", "visible", "sizes", "diagonals")
        return replace(self, **{name: getattr(self, name)[chosen] for name in arrays})


def read_parts(folder: Path, photographs: Sequence[str]) -> PartAnnotations:
    """The parts of photographs, given by their ids (class/image) and in their order; one may come several times."""
    needed = (IMAGES, BOXES, PARTS, PLACES)
    if missing := [name for name in needed if not (folder / name).is_file()]:
        like = f"{printable(str(folder))} is no folder like CUB_200_2011: expected {', '.join(needed)} and images/"
        raise InputError(f"{like}, not found: {', '.join(missing)}")
    files = read_images_txt(folder / IMAGES)
    numbers = {image_id(file): number for number, file in files.items()}
    wanted = list(dict.fromkeys(photographs))
    if unnamed := [printable(name) for name in wanted if name not in numbers]:
        expected = f"expected all {len(wanted):,} photographs of the run"
        raise InputError(f"{folder / IMAGES}: {expected}, not named there: {some(unnamed, _SHOWN)}")
    rows = {numbers[name]: row for row, name in enumerate(wanted)}
    names = read_numbered(folder / PARTS, "the number of a part and its name")
    if not names:
        raise InputError(f"{folder / PARTS}: expected the number and the name of a part on every line, found none")
    places, visible = _places(folder / PLACES, rows, list(names))
    order = np.array([rows[numbers[name]] for name in photographs], dtype=np.int64)
    sizes = np.array([read_size(folder / "images" / files[number]) for number in rows], dtype=np.float64)
    return PartAnnotations(
        parts=tuple(names.values()),
        places=places[order],
        visible=visible[order],
        sizes=sizes.reshape(-1, 2)[order],
        diagonals=_diagonals(folder / BOXES, rows)[order],
    )


def _places(
    path: Path, rows: dict[int, int], parts: list[int]
) -> tuple[Float[np.ndarray, "N P 2"], Bool[np.ndarray, "N P"]]:
    """Of the photographs whose numbers have a row; every part of each must be there."""
    columns = {number: column for column, number in enumerate(parts)}
    places, visible = np.full((len(rows), len(parts), 2), np.nan), np.zeros((len(rows), len(parts)), dtype=bool)
    expected = "numbers of photograph and part, x, y and 1 or 0 for visible or not"
    for photograph, part, x, y, seen in _rows(path, expected, lambda row: row[1] in columns and row[4] in (0, 1)):
        if photograph in rows:
            where = rows[int(photograph)], columns[int(part)]
            places[where], visible[where] = (x, y), seen
    _require_all(path, rows, ~np.isnan(places).any((1, 2)), f"all {len(parts)} parts")
    return places, visible


def _diagonals(path: Path, rows: dict[int, int]) -> Float[np.ndarray, "N"]:
    found = np.full(len(rows), np.nan)
    expected = "the number of a photograph, x, y, and a width and a height above 0"
    for photograph, _, _, width, height in _rows(path, expected, lambda row: min(row[3:]) > 0):
        if photograph in rows:
            found[rows[int(photograph)]] = math.hypot(width, height)
    _require_all(path, rows, ~np.isnan(found), "the box")
    return found


def _require_all(path: Path, rows: dict[int, int], known: Bool[np.ndarray, "N"], what: str) -> None:
    if missing := [number for number, row in rows.items() if not known[row]]:
        raise InputError(f"{path}: expected {what} of every photograph, missing for number {some(missing, _SHOWN)}")


def _rows(path: Path, expected: str, valid: Callable[[list[float]], bool]) -> list[list[float]]:

    def parse(line: str) -> list[float] | None:
        try:
            numbers = [float(word) for word in line.split()]
        except ValueError:
            return None
        return numbers if len(numbers) == 5 and all(map(math.isfinite, numbers)) and valid(numbers) else None

    return read_lines(path, expected, parse)
