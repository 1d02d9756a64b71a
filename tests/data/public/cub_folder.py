"""A folder like CUB_200_2011, as small as is wanted."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from PIL import Image


class Bird(NamedTuple):
    """A photograph: its number, its size, the box around the bird, and where its parts are (None: not visible)."""

    number: int
    size: tuple[int, int]
    box: tuple[float, float, float, float]
    parts: tuple[tuple[float, float] | None, ...]


def write_cub(root: Path, birds: Mapping[str, Bird], parts: tuple[str, ...]) -> Path:
    """`birds` by their ids (class/image)."""
    (root / "parts").mkdir(parents=True)
    names, boxes, places = [], [], []
    for name, bird in birds.items():
        path = root / "images" / f"{name}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", bird.size).save(path)
        names.append(f"{bird.number} {name}.jpg\n")
        boxes.append(" ".join(map(str, (bird.number, *bird.box))) + "\n")
        for number, place in enumerate(bird.parts, 1):
            seen = "0.0 0.0 0" if place is None else f"{place[0]} {place[1]} 1"
            places.append(f"{bird.number} {number} {seen}\n")
    (root / "images.txt").write_text("".join(names))
    (root / "bounding_boxes.txt").write_text("".join(boxes))
    (root / "parts" / "parts.txt").write_text("".join(f"{n} {name}\n" for n, name in enumerate(parts, 1)))
    (root / "parts" / "part_locs.txt").write_text("".join(places))
    return root
