"""TerraIncognita as it is downloaded: one folder of camera-trap pictures, and JSON that says what each shows.

The annotations are in COCO's form: `images` (id, file_name, location), `annotations` (image_id, category_id),
`categories` (id, name). As in DomainBed, four locations and ten classes are kept, a picture with two of the classes
is an image of both, and ids are those of the folders DomainBed would have made.
"""

from pathlib import Path

from parse_dg.data.intake.folders import Folder, FolderReader
from parse_dg.data.listing import ListedImage, Listing, Problem
from parse_dg.data.public.catalogue import DataSet, spelling
from parse_dg.errors import InputError
from parse_dg.files import read_json

_IMAGE_FOLDERS = ("eccv_18_all_images_sm", "cct_images")
_DEPTH = 2
_MISSING = "annotated, but not on disk"


def list_camera_traps(data_set: DataSet, folder: Path) -> Listing | None:
    """The listing of such a download; None if `folder` does not hold one."""
    reader = FolderReader(folder, folder)
    pictures, annotations = _find(reader)
    if pictures is None or not annotations:
        return None
    on_disk = set(reader.images(pictures))
    labelled = set[tuple[int, int, str]]().union(*(_labelled(data_set, annotation) for annotation in annotations))
    images, skipped = [], list(reader.problems)
    place_of: dict[str, int] = {}
    for domain, label, file in sorted(labelled):
        path, class_folder = f"{pictures.path}/{file}", f"{data_set.domains[domain]}/{data_set.classes[label]}"
        if place_of.setdefault(file, domain) != domain:
            skipped.append(Problem(path, "annotated at a second location"))
        elif file in on_disk:
            images.append(ListedImage(path, domain, label, f"{class_folder}/{file}".rpartition(".")[0]))
        else:
            skipped.append(Problem(path, _MISSING))
    notes = [f"locations and classes are read from {', '.join(file.name for file in annotations)}"]
    if missing := sum(problem.reason == _MISSING for problem in skipped):
        notes.append(f"{missing:,} annotated images are not on disk")
    layout = "the original archive's: one folder of pictures and annotations in JSON"
    domains, classes = data_set.domains, data_set.classes
    return Listing(layout, folder, domains, classes, tuple(images), tuple(skipped), tuple(notes))


def _find(reader: FolderReader) -> tuple[Folder | None, list[Path]]:
    """The folder of pictures, and the annotations to go by: those of the whole collection, if they are there."""
    pictures: Folder | None = None
    files: list[Path] = []
    for place, folders, names in reader.levels(_DEPTH, lambda one: one.name not in _IMAGE_FOLDERS):
        found = [name for name in names if name.lower().endswith(".json")]
        # boxes are published apart, for some of the images only
        files += [reader.root / place.path / name for name in found if "bboxes" not in name.lower()]
        pictures = pictures or next((child for child in folders if child.name in _IMAGE_FOLDERS), None)
    whole = sorted(path for path in files if path.name.startswith("caltech_"))
    return pictures, whole[-1:] or files


def _labelled(data_set: DataSet, path: Path) -> set[tuple[int, int, str]]:
    """(domain, label, file) of every annotation that is kept."""
    content = read_json(path)
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
