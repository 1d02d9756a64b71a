import json
from pathlib import Path

import numpy as np
import pytest

from parse_dg.data.manifest import Manifest, ManifestImage
from parse_dg.data.public.cub_dg import LISTS, find_captions, read_extras, read_split
from parse_dg.errors import InputError
from tests.parts import refusal

CLASSES = ("001.Albatross", "002.Finch")
FILES = [f"{CLASSES[n // 6]}/bird_{n:02d}.jpg" for n in range(12)]
IDS = tuple(sorted(file.removesuffix(".jpg") for file in FILES))
SPLIT = {"train0": [1, 2], "valid0": [3], "train1": [4, 5], "valid1": [6], "train2": [8, 7], "valid2": [9]}
SPLIT |= {"test": [12, 10, 11], "train_valid": list(range(1, 10))}


def numbered() -> dict[int, str]:
    """images.txt does not number the files in the order of their names."""
    return dict(enumerate(reversed(FILES), 1))


def write(root: Path, split: object = SPLIT, names: str = "images.txt") -> Path:
    (root / "split.json").write_text(json.dumps(split))
    if names == "images.txt":
        (root / names).write_text("".join(f"{number} {file}\n" for number, file in numbered().items()))
    elif names:
        (root / names).write_text(json.dumps(descriptions()))
    return root / "split.json"


def descriptions() -> dict[str, object]:
    images = [{"id": number, "file_name": file, "label": 1} for number, file in numbered().items()]
    captions = [
        {"id": 2 * number + k, "image_id": number, "caption": f" bird {number}, sentence {k} "}
        for number in range(1, 12)
        for k in range(2)
    ]
    return {"images": images, "annotations": captions, "categories": []}


@pytest.mark.parametrize("names", ["images.txt", "descriptions.json"])
def test_numbers_become_positions(tmp_path: Path, names: str) -> None:
    split = read_split(write(tmp_path, names=names), IDS)
    assert tuple(split) == (*LISTS, "train_valid")
    for name, positions in split.items():
        expected = sorted(numbered()[number].removesuffix(".jpg") for number in SPLIT[name])
        assert [IDS[position] for position in positions] == expected
        assert positions.dtype == np.int64


def test_images_that_are_gone_are_left_out(tmp_path: Path) -> None:
    gone = numbered()[1].removesuffix(".jpg")
    split = read_split(write(tmp_path), [name for name in IDS if name != gone])
    assert len(split["train0"]) == 1


@pytest.mark.parametrize(("one", "other"), [("train1", "valid1"), ("train0", "test"), ("valid2", "test")])
def test_overlaps_are_refused(tmp_path: Path, one: str, other: str) -> None:
    split = SPLIT | {one: [*SPLIT[one], SPLIT[other][0]]}
    with pytest.raises(InputError, match=f"{one} and {other} share images, which they must not: {SPLIT[other][0]}"):
        read_split(write(tmp_path, split), IDS)


@pytest.mark.parametrize("bad", [[], None, ["1"], [True], {"1": 2}, 3])
def test_lists_that_are_none_are_refused(tmp_path: Path, bad: object) -> None:
    with pytest.raises(InputError, match=r"called train0.*; valid2 is not one"):
        read_split(write(tmp_path, SPLIT | {"valid2": bad}), IDS)


def test_broken_files_are_named(tmp_path: Path) -> None:
    path = write(tmp_path, names="")
    assert "expected images.txt or descriptions.json beside split.json" in refusal(read_split, path, IDS)
    (tmp_path / "images.txt").write_text("1 a/b.jpg\nzwei c/d.jpg\n")
    assert "images.txt, line 2: expected a number and a file" in refusal(read_split, path, IDS)
    (tmp_path / "images.txt").unlink()
    (tmp_path / "descriptions.json").write_text("{}")
    assert "expected images with id and file_name; not found: 'images'" in refusal(read_split, path, IDS)
    for content, said in (
        (b"{", "split.json is not valid"),
        (b"\xff{}", "is not valid"),
        (b"[]", "train0 is not one"),
    ):
        path.write_bytes(content)
        assert said in refusal(read_split, path, IDS)


def test_captions_from_descriptions(tmp_path: Path) -> None:
    write(tmp_path, names="descriptions.json")
    captions = find_captions(tmp_path, IDS)
    by_id = dict(zip(IDS, captions, strict=True))
    assert by_id[numbered()[3].removesuffix(".jpg")] == ("bird 3, sentence 0", "bird 3, sentence 1")
    assert by_id[numbered()[12].removesuffix(".jpg")] == ()


def test_captions_from_text_files(tmp_path: Path) -> None:
    folder = tmp_path / "text_c10" / CLASSES[0]
    folder.mkdir(parents=True)
    (folder / "bird_00.txt").write_text("a small bird .\n\n it is grey \n")
    (folder / "bird_01.txt").write_bytes(b"\xff\xfe")
    captions = find_captions(tmp_path, IDS)
    assert captions == (("a small bird .", "it is grey"), *[()] * 11)


@pytest.mark.parametrize("annotation", [{"image_id": 1}, {"image_id": 99, "caption": ""}])
def test_broken_descriptions_are_named(tmp_path: Path, annotation: dict[str, object]) -> None:
    (tmp_path / "descriptions.json").write_text(json.dumps(descriptions() | {"annotations": [annotation]}))
    assert "expected annotations with image_id and caption" in refusal(find_captions, tmp_path, IDS)


def manifest(root: Path, name: str = "cub-dg") -> Manifest:
    images = [
        ManifestImage(f"{domain}/{id_}.jpg", number, CLASSES.index(id_.split("/")[0]), id_, 1, 1, 1, "0" * 64)
        for number, domain in enumerate(("Photo", "Art"))
        for id_ in (IDS if number == 0 else IDS[1:])
    ]
    return Manifest(name, root, "GVRT's", ("Photo", "Art"), CLASSES, tuple(images))


def test_extras_of_every_domain(tmp_path: Path) -> None:
    write(tmp_path, names="descriptions.json")
    photo, art = read_extras(manifest(tmp_path))
    assert photo.lists is not None
    assert art.lists is not None
    assert (len(photo.captions), len(art.captions)) == (12, 11)
    assert photo.captions[1:] == art.captions
    assert [IDS[p] for p in photo.lists["train1"]] == [IDS[1:][p] for p in art.lists["train1"]]
