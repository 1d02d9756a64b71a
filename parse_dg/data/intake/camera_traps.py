"""TerraIncognita as it is downloaded: one folder of camera-trap pictures, and JSON that says what each shows.

The annotations are in COCO's form: `images` (id, file_name, location), `annotations` (image_id, category_id),
`categories` (id, name). As in DomainBed, four locations and ten classes are kept, a picture with two of the classes
is an image of both, and ids are those of the folders DomainBed would have made.
"""

import json
from pathlib import Path
from typing import Any

from parse_dg.data.intake.folders import Folder, FolderReader
from parse_dg.data.listing import ListedImage, Listing, Problem
from parse_dg.data.public.catalogue import DataSet, spelling
from parse_dg.errors import InputError

_IMAGE_FOLDERS = ("eccv_18_all_images_sm", "cct_images")
_DEPTH = 2


def list_camera_traps(data_set: DataSet, folder: Path) -> Listing | None:
    """The listing of such a download; None if `folder` does not hold one."""
    reader = FolderReader(folder, folder)
    pictures, annotations = _find(reader)
    if pictures is None or not annotations:
        return None
    on_disk = set(reader.images(pictures))
    labelled: set[tuple[int, int, str]] = set()
    for path in annotations:
        labelled |= _labelled(data_set, path)
    images, missing, elsewhere = [], [], []
    place_of: dict[str, int] = {}
    for domain, label, file in sorted(labelled):
        name = f"{data_set.domains[domain]}/{data_set.classes[label]}/{file}"
        if place_of.setdefault(file, domain) != domain:
            elsewhere.append(Problem(f"{pictures.path}/{file}", "annotated at a second location"))
        elif file in on_disk:
            images.append(ListedImage(f"{pictures.path}/{file}", domain, label, name.rpartition(".")[0]))
        else:
            missing.append(Problem(f"{pictures.path}/{file}", "annotated, but not on disk"))
    files = ", ".join(path.name for path in annotations)
    notes = [f"locations and classes are read from {files}"]
    if missing:
        notes.append(f"{len(missing):,} annotated images are not on disk")
    return Listing(
        layout="the original archive's: one folder of pictures and annotations in JSON",
        root=folder,
        domains=data_set.domains,
        classes=data_set.classes,
        images=tuple(images),
        skipped=(*reader.problems, *missing, *elsewhere),
        notes=tuple(notes),
    )


def _find(reader: FolderReader) -> tuple[Folder | None, list[Path]]:
    """The folder of pictures, and the annotations to go by: those of the whole collection, if they are there."""
    pictures: Folder | None = None
    files: list[Path] = []
    level = [reader.top()]
    for _ in range(_DEPTH + 1):
        below: list[Folder] = []
        for folder in level:
            children = reader.children(folder)
            files += [reader.root / folder.path / file for file in children.files if _annotates(file)]
            for child in children.folders:
                if child.name in _IMAGE_FOLDERS:
                    pictures = pictures or child
                else:
                    below.append(child)
        level = below
    whole = sorted(path for path in files if path.name.startswith("caltech_"))
    return pictures, whole[-1:] or files


def _annotates(file: str) -> bool:
    """Boxes are published apart, for some of the images only."""
    return file.lower().endswith(".json") and "bboxes" not in file.lower()


def _labelled(data_set: DataSet, path: Path) -> set[tuple[int, int, str]]:
    """(domain, label, file) of every annotation that is kept."""
    content = _read(path)
    domains, classes = data_set.domain_numbers(), data_set.class_numbers()
    try:
        names = {entry["id"]: spelling(entry["name"]) for entry in content["categories"]}
        places = {}
        for image in content["images"]:
            domain = domains.get(spelling(f"location_{image['location']}"))
            if domain is not None:
                places[image["id"]] = (domain, str(image["file_name"]))
        kept = set()
        for entry in content["annotations"]:
            label = classes.get(names[entry["category_id"]])
            if label is not None and entry["image_id"] in places:
                domain, file = places[entry["image_id"]]
                kept.add((domain, label, file))
    except (KeyError, TypeError, AttributeError) as error:
        form = "images (id, file_name, location), annotations (image_id, category_id), categories (id, name)"
        raise InputError(f"{path}: expected {form}; not found: {error}") from error
    return kept


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"the annotations {path} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise InputError(f"{path}: expected a JSON object with images, annotations and categories")
    return content
