"""Anybody's own folder: domain/class/image, or class/image, which is one domain. What looks like neither, or like
something that would be misread, is refused in a line that says what to do.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path

from parse_dg.data.intake import layouts
from parse_dg.data.intake.folders import EXTENSIONS, Folder, FolderReader
from parse_dg.data.intake.layouts import DEPTH, SPLITS, FoundImage, in_order, require_folder
from parse_dg.data.listing import ListedImage, Listing, Problem
from parse_dg.errors import InputError
from parse_dg.wording import UNPRINTABLE, some

SPLIT_NAMES = SPLITS | {"training", "valid", "validation", "dev", "testing"}  # of folders of one data set's parts
EXPECTED = "expected domain/class/image or class/image in"
NO_CLASSES = "folder holds no class folder with images"

ByClass = dict[str, list[FoundImage]]


class TooHighError(InputError):
    """A folder that holds nothing but a folder with the domains."""

    def __init__(self, folder: Path, name: str) -> None:
        inside = f"found only {name}; if the domains are inside it, give that folder"
        super().__init__(f"{EXPECTED} {folder}, {inside}")
        self.inside = folder / name


def list_unpacked(folder: Path, name: str) -> Listing:
    """As `list_own`, of what an archive of that name held: often one folder with everything inside."""
    for _ in range(DEPTH):
        try:
            return list_own(folder, name)
        except TooHighError as error:
            folder = error.inside
    return list_own(folder, name)


def list_own(folder: Path, name: str = "") -> Listing:
    """Every image of anybody's folder; without domains, all is one, called `name` or like the folder."""
    require_folder(folder)
    reader = FolderReader(folder, folder)
    found, flat = _divide(reader)
    layout = "folders: domain/class/image"
    if not found and flat:
        layout, found = "folders: class/image, one domain", {name or folder.resolve().name or "data": flat}
    reader.problems += [Problem(name, NO_CLASSES) for name in flat if len(found) > 1]
    _require_domains(folder, found, flat, reader)
    names = tuple(sorted({name for classes in found.values() for name in classes}))
    _require_no_splits(folder, found, names)
    require_one_spelling(folder, names)
    labels = {name: label for label, name in enumerate(names)}
    images: list[ListedImage] = []
    notes: list[str] = []
    for number, (domain_name, by_class) in enumerate(found.items()):
        kept = [one._replace(label=labels[name]) for name, several in by_class.items() for one in several]
        images += layouts.listed(number, kept)
        notes += layouts.missing_classes(domain_name, names, kept)
    problems = tuple(dict.fromkeys(reader.problems))
    return Listing(layout, folder, tuple(found), names, tuple(images), problems, tuple(notes))


def _divide(reader: FolderReader) -> tuple[dict[str, ByClass], ByClass]:
    """The folders on top that hold class folders, and those that hold images; perhaps only the latter."""
    found: dict[str, ByClass] = {}
    flat: ByClass = {}
    mixed: ByClass = {}
    for top in reader.folders(reader.top):
        folders, files = reader.children(top)
        classes = {place.name: in_order(reader, [(0, place)]) for place in folders}
        classes = {name: images for name, images in classes.items() if images}
        if classes:
            found[top.name] = classes
        if any(file.lower().endswith(EXTENSIONS) for file in files):
            (mixed if classes else flat)[top.name] = in_order(reader, [(0, top)])
        elif not classes:
            reader.problems.append(Problem(top.path, NO_CLASSES))
        _require_names(top, classes)
    if flat and found.keys() == mixed.keys():  # a class may have folders of its own besides its images
        return {}, dict(sorted({**flat, **mixed}.items()))
    return found, flat


def _require_names(top: Folder, classes: Mapping[str, object]) -> None:
    """Names of domains and classes go into tables, file names and JSON; those of images need not be readable."""
    for name in (top.name, *classes):
        if UNPRINTABLE.search(name):
            path = top.path if name == top.name else f"{top.path}/{name}"
            raise InputError(f"the folder {path!a} names a domain or class in characters that cannot be shown")


def _require_domains(folder: Path, found: Mapping[str, ByClass], flat: ByClass, reader: FolderReader) -> None:
    """Raise where there is nothing, a folder too high, or classes beside domains."""
    if not found:
        loose = any(file.lower().endswith(EXTENSIONS) for file in reader.children(reader.top)[1])
        names = some([problem.path for problem in reader.problems]) or "no folder"
        instead = "images without a class folder" if loose else f"{names}, no images"
        raise InputError(f"{EXPECTED} {folder}; found {instead}")
    if len(found) > max(1, len(flat)):
        return
    (name, classes), *_ = found.items()
    if flat and classes is not flat:
        holds = f"{some(list(flat))} with images and {some(list(found))} with folders of images"
        raise InputError(f"{EXPECTED} {folder}; found {holds}: move the images one level up or down")
    if all("/" in one.inside for images in classes.values() for one in images):
        raise TooHighError(folder, name)


def _require_no_splits(folder: Path, found: Mapping[str, ByClass], classes: Sequence[str]) -> None:
    """Raise where folders of the parts of one data set would be taken for domains or classes."""
    first = next((name for name in found if name.casefold().startswith("train")), next(iter(found)))
    one = f"give one of them to train on, such as {folder / first}, and another to `parse-dg evaluate RUN --data`"
    domains = (f"{one}; if they are domains, rename them", found)
    advised = {"domains": domains, "classes": ("expected a folder for each class, of all its images", classes)}
    for kind, (advice, names) in advised.items():
        if all(name.casefold() in SPLIT_NAMES for name in names):
            raise InputError(f"{folder}: {' and '.join(names)} look like parts of a data set, not {kind}: {advice}")


def require_one_spelling(where: object, classes: Sequence[str]) -> None:
    """Raise if two classes differ in capitals or blanks alone: to a model they would be two."""
    known: dict[str, str] = {}
    for name in classes:
        twin = known.setdefault(plain_spelling(name), name)
        if twin != name:
            same = f"{where}: the classes {twin!r} and {name!r} differ only in capitals or blanks"
            raise InputError(f"{same}: give them one name if they are one class, else two that differ more")


def plain_spelling(name: str) -> str:
    """A name without what two people would write differently: capitals, and blanks or underscores."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().replace("_", " ").split())
