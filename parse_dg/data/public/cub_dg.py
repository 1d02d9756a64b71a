"""What comes with CUB-DG besides its images: GVRT's split, and sentences about every bird (Min et al. 2022).

The archive has `split.json`, lists of image numbers: `train0` to `train2` and `valid0` to `valid2` for the first,
second and third source domain, and `test` for the target. A number is that of an image in CUB's `images.txt`,
counted from 1, and in `descriptions.json`, which is COCO's form and holds the captions. Elsewhere the captions are
found as text files, `text_c10/class/image.txt`, a sentence a line.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from parse_dg.data.listing import Problem
from parse_dg.data.manifest import Manifest
from parse_dg.errors import InputError
from parse_dg.wording import some

SOURCES = 3
LISTS = (*(f"{kind}{n}" for kind in ("train", "valid") for n in range(SOURCES)), "test")
TEXT_FOLDERS = ("text_c10", "text", "texts", "captions")
_SHOWN = 3


@dataclass(frozen=True)
class GvrtSplit:
    """GVRT's lists as positions in the images of a domain; every domain has the same photographs."""

    lists: Mapping[str, Int[np.ndarray, "_"]]
    """By the names in `LISTS`, each sorted."""
    missing: tuple[str, ...] = ()
    """Ids the lists name that are not among the images."""
    notes: tuple[str, ...] = ()


class Captions(NamedTuple):
    """Sentences about images, as many tuples as images; empty where there are none."""

    sentences: tuple[tuple[str, ...], ...]
    missing: int
    """How many images have none."""
    skipped: tuple[Problem, ...] = ()


class Extras(NamedTuple):
    """What a domain has besides images."""

    captions: tuple[tuple[str, ...], ...] = ()
    lists: Mapping[str, Int[np.ndarray, "_"]] | None = None


def read_extras(manifest: Manifest) -> tuple[Extras, ...]:
    """The split and the captions of every domain of CUB-DG, where they are there; nothing for other data sets."""
    if manifest.name != "cub-dg":
        return tuple(Extras() for _ in manifest.domains)
    ids: list[list[str]] = [[] for _ in manifest.domains]
    for image in manifest.images:
        ids[image.domain].append(image.id)
    known: dict[tuple[str, ...], Extras] = {}  # as a rule the ids are the same in every domain
    for mine in map(tuple, ids):
        if mine not in known:
            known[mine] = _extras(manifest.root, mine)
    return tuple(known[tuple(mine)] for mine in ids)


def read_split(path: Path, ids: Sequence[str]) -> GvrtSplit:
    """The lists of `split.json` for the images of a domain, by their ids (class/image) in the domain's order."""
    content = _read_json(path)
    lists = {name: _numbers(path, content, name) for name in LISTS}
    notes = _check_overlaps(path, lists)
    names = _image_names(path.parent)
    positions = {name: position for position, name in enumerate(ids)}
    missing: list[str] = []
    result = {}
    for name, numbers in lists.items():
        unknown = [number for number in numbers if number not in names]
        if unknown:
            raise InputError(f"{path}: {name} has numbers that no image has: {some(unknown, _SHOWN)}")
        missing += [names[number] for number in numbers if names[number] not in positions]
        found = sorted(positions[names[number]] for number in numbers if names[number] in positions)
        if not found:
            raise InputError(
                f"{path}: expected images such as {names[numbers[0]]}, found {some(ids, _SHOWN) or 'none'}"
            )
        result[name] = np.array(found, dtype=np.int64)
    return GvrtSplit(result, tuple(sorted(set(missing))), notes)


def find_captions(root: Path, ids: Sequence[str]) -> Captions:
    """The sentences about images, by their ids: from `descriptions.json`, else from text files."""
    described = root / "descriptions.json"
    skipped: list[Problem] = []
    if described.is_file():
        by_id = _described(described)
        sentences = tuple(by_id.get(name, ()) for name in ids)
    else:
        folders = [root / name for name in TEXT_FOLDERS if (root / name).is_dir()]
        sentences = tuple(_from_text(folders, name, skipped) for name in ids)
    return Captions(sentences, sum(not some for some in sentences), tuple(skipped))


def leakage(ids_a: Sequence[str], ids_b: Sequence[str]) -> tuple[str, ...]:
    """The ids that occur in both, sorted: the same bird on both sides of a split."""
    return tuple(sorted(set(ids_a) & set(ids_b)))


def read_images_txt(path: Path) -> dict[int, str]:
    """CUB's `images.txt`: the file (class/image.jpg) of every number."""
    files = {}
    for line, text in enumerate(read_text(path).splitlines(), 1):
        number, blank, file = text.strip().partition(" ")
        if text.strip():
            if not (blank and number.isdecimal()):
                raise InputError(f"{path}, line {line}: expected a number and a file, found {text[:80]!r}")
            files[int(number)] = file.strip()
    return files


def image_id(file: str) -> str:
    """A file of CUB as an id: class/image, without the extension."""
    return file.strip().rpartition(".")[0]


def read_text(path: Path) -> str:
    """A file of UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error


def _extras(root: Path, ids: tuple[str, ...]) -> Extras:
    captions = find_captions(root, ids)
    sentences = captions.sentences if captions.missing < len(ids) else ()
    split = root / "split.json"
    return Extras(sentences, read_split(split, ids).lists if split.is_file() else None)


def _numbers(path: Path, content: Any, name: str) -> list[int]:
    numbers = content.get(name) if isinstance(content, dict) else None
    right = isinstance(numbers, list) and all(type(number) is int for number in numbers)
    if not right or not numbers:
        raise InputError(f"{path}: expected lists of image numbers called {', '.join(LISTS)}; {name} is not one")
    return list(numbers)


def _check_overlaps(path: Path, lists: Mapping[str, list[int]]) -> tuple[str, ...]:
    """Refuses a photo that is trained on and scored; notes one that trains in one domain, validates in another."""
    notes = []
    for n in range(SOURCES):
        for one, other in ((f"train{n}", f"valid{n}"), (f"train{n}", "test"), (f"valid{n}", "test")):
            both = sorted(set(lists[one]) & set(lists[other]))
            if both:
                raise InputError(
                    f"{path}: {one} and {other} share images, which they must not: {some(both, _SHOWN)}"
                )
        for m in range(SOURCES):
            both = sorted(set(lists[f"train{n}"]) & set(lists[f"valid{m}"]))
            if both:
                notes.append(f"train{n} and valid{m} share {len(both):,} photographs: {some(both, _SHOWN)}")
    return tuple(notes)


def _image_names(folder: Path) -> dict[int, str]:
    """The id (class/image) of every number."""
    if (folder / "images.txt").is_file():
        return {number: image_id(file) for number, file in read_images_txt(folder / "images.txt").items()}
    if (folder / "descriptions.json").is_file():
        return _from_descriptions(folder / "descriptions.json", _read_json(folder / "descriptions.json"))
    raise InputError(f"{folder}: expected images.txt or descriptions.json beside split.json, to know its numbers")


def _from_descriptions(path: Path, content: Any) -> dict[int, str]:
    try:
        return {int(image["id"]): image_id(image["file_name"]) for image in content["images"]}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path}: expected images with id and file_name; not found: {error}") from error


def _described(path: Path) -> dict[str, tuple[str, ...]]:
    """The sentences of `descriptions.json`, by id."""
    content = _read_json(path)
    names = _from_descriptions(path, content)
    sentences: dict[str, list[str]] = {}
    try:
        for entry in content["annotations"]:
            sentences.setdefault(names[entry["image_id"]], []).append(entry["caption"].strip())
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: expected annotations with image_id and caption; not found: {error}") from error
    return {name: tuple(several) for name, several in sentences.items()}


def _from_text(folders: Sequence[Path], name: str, skipped: list[Problem]) -> tuple[str, ...]:
    for folder in folders:
        path = folder / f"{name}.txt"
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            continue
        except UnicodeDecodeError:
            skipped.append(Problem(f"{folder.name}/{name}.txt", "not UTF-8"))
        except OSError as error:
            skipped.append(Problem(f"{folder.name}/{name}.txt", f"cannot be read: {error.strerror}"))
        else:
            return tuple(line.strip() for line in lines if line.strip())
    return ()


def _read_json(path: Path) -> Any:
    text = read_text(path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {error}") from error
