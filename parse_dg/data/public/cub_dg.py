"""What comes with CUB-DG besides its images: GVRT's split, and sentences about every bird (Min et al. 2022).

The archive has `split.json`, lists of image numbers: `train0` to `train2` and `valid0` to `valid2` for the first,
second and third source domain, and `test` for the target. A number is that of an image in CUB's `images.txt`,
counted from 1, and in `descriptions.json`, which is COCO's form and holds the captions. Elsewhere the captions are
found as text files, `text_c10/class/image.txt`, a sentence a line.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from parse_dg.data.lines import read_numbered
from parse_dg.data.manifest import Manifest
from parse_dg.errors import InputError
from parse_dg.files import read_json
from parse_dg.wording import some

SOURCES = 3
LISTS = (*(f"{kind}{n}" for kind in ("train", "valid") for n in range(SOURCES)), "test")
WHOLE = "train_valid"  # a list that the archive has besides: all that may be trained on
TEXT_FOLDERS = ("text_c10", "text", "texts", "captions")
_SHOWN = 3

Sentences = tuple[tuple[str, ...], ...]  # about each image; an empty tuple where there are none


class Extras(NamedTuple):
    """What a domain has besides images."""

    captions: Sentences = ()
    lists: Mapping[str, Int[np.ndarray, "_"]] | None = None


def read_extras(manifest: Manifest) -> tuple[Extras, ...]:
    """The split and the captions of every domain of CUB-DG, where they are there; nothing for other data sets."""
    if manifest.name != "cub-dg":
        return tuple(Extras() for _ in manifest.domains)
    split = manifest.root / "split.json"

    @cache  # as a rule the ids are the same in every domain
    def extras(ids: tuple[str, ...]) -> Extras:
        captions = find_captions(manifest.root, ids)
        return Extras(captions if any(captions) else (), read_split(split, ids) if split.is_file() else None)

    return tuple(extras(tuple(image.id for image in images)) for images in manifest.by_domain)


def read_split(path: Path, ids: Sequence[str]) -> dict[str, Int[np.ndarray, "_"]]:
    """The lists of `split.json`, as sorted positions in a domain's images, whose ids (class/image) are given."""
    content = read_json(path)
    also = (WHOLE,) if isinstance(content, dict) and WHOLE in content else ()
    lists = {name: _numbers(path, content, name) for name in (*LISTS, *also)}
    apart = [(one, "test") for one in lists if one != "test"] + [(f"train{n}", f"valid{n}") for n in range(SOURCES)]
    for one, other in apart:
        if both := sorted(set(lists[one]) & set(lists[other])):
            raise InputError(f"{path}: {one} and {other} share images, which they must not: {some(both, _SHOWN)}")
    names = _image_names(path.parent)
    positions = {name: position for position, name in enumerate(ids)}
    result = {}
    for name, numbers in lists.items():
        if unknown := [number for number in numbers if number not in names]:
            raise InputError(f"{path}: {name} has numbers that no image has: {some(unknown, _SHOWN)}")
        found = sorted(positions[names[number]] for number in numbers if names[number] in positions)
        if not found:
            instead = some(ids, _SHOWN) or "none"
            raise InputError(f"{path}: expected images such as {names[numbers[0]]}, found {instead}")
        result[name] = np.array(found, dtype=np.int64)
    return result


def find_captions(root: Path, ids: Sequence[str]) -> Sentences:
    """The sentences about images, by their ids: from `descriptions.json`, else from text files."""
    described = root / "descriptions.json"
    if described.is_file():
        _, by_id = _described(described)
        return tuple(tuple(by_id.get(name, ())) for name in ids)
    folders = [root / name for name in TEXT_FOLDERS if (root / name).is_dir()]
    return tuple(_from_text(folders, name) for name in ids)


def read_images_txt(path: Path) -> dict[int, str]:
    """CUB's `images.txt`: the file (class/image.jpg) of every number."""
    return read_numbered(path, "a number and a file")


def image_id(file: str) -> str:
    """A file of CUB as an id: class/image, without the extension."""
    return file.strip().rpartition(".")[0]


def _numbers(path: Path, content: Any, name: str) -> list[int]:
    numbers = content.get(name) if isinstance(content, dict) else None
    if not isinstance(numbers, list) or not numbers or not all(type(number) is int for number in numbers):
        raise InputError(f"{path}: expected lists of image numbers called {', '.join(LISTS)}; {name} is not one")
    return numbers


def _image_names(folder: Path) -> dict[int, str]:
    if (folder / "images.txt").is_file():
        return {number: image_id(file) for number, file in read_images_txt(folder / "images.txt").items()}
    if (folder / "descriptions.json").is_file():
        return _described(folder / "descriptions.json")[0]
    raise InputError(f"{folder}: expected images.txt or descriptions.json beside split.json, to know its numbers")


def _described(path: Path) -> tuple[dict[int, str], dict[str, list[str]]]:
    """What `descriptions.json` says: the id of every number, and the sentences about it by id."""
    content = read_json(path)
    sentences: dict[str, list[str]] = {}
    expected = "images with id and file_name"
    try:
        names = {int(image["id"]): image_id(image["file_name"]) for image in content["images"]}
        expected = "annotations with image_id and caption"
        for entry in content["annotations"]:
            sentences.setdefault(names[entry["image_id"]], []).append(entry["caption"].strip())
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path}: expected {expected}; not found: {error}") from error
    return names, sentences


def _from_text(folders: Sequence[Path], name: str) -> tuple[str, ...]:
    """The lines of the first folder's file that can be read; a file that cannot says nothing."""
    for folder in folders:
        try:
            lines = (folder / f"{name}.txt").read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            continue
        return tuple(line.strip() for line in lines if line.strip())
    return ()
