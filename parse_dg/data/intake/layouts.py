"""Where in a folder the images of a data set are, whichever tool or archive arranged them.

Everything known is domain/class/image somewhere: DomainBed's folders and most archives plainly, Dassl's with
`images` above or `train` and `val` between, VLCS's archive with `train`, `crossval`, `test`, `full` between.
TerraIncognita's archive is one folder and annotations (`camera_traps.py`). Nothing is opened here; images are in
ImageFolder's order.
"""

import gzip
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from parse_dg.data.intake.camera_traps import list_camera_traps
from parse_dg.data.intake.folders import Folder, FolderReader
from parse_dg.data.lines import read_lines
from parse_dg.data.listing import ListedImage, Listing, Problem
from parse_dg.data.public.catalogue import DataSet, spelling
from parse_dg.errors import InputError
from parse_dg.wording import some

DEPTH = 3  # how many levels below the folder that was given the domains may be
SPLITS = frozenset({"full", "train", "val", "crossval", "test"})
_ARCHIVES = ("kfold", "pacs_data", "OfficeHomeDataset_10072016")  # folders of original archives with the domains
_SHOWN = 5
LIST_NAME = "domain_net_duplicates.txt"  # a list of duplicates: one `domain/class/file` a line


class FoundImage(NamedTuple):
    """An image of a domain."""

    label: int
    inside: str  # its path inside its class folder
    path: str  # from the root


def list_images(data_set: DataSet, folder: Path, duplicates: Path | None = None) -> Listing:
    """Every image of a public data set below `folder`, but those that a list of `duplicates` names."""
    require_folder(folder)
    try:
        base = _find_base(data_set, folder)
    except InputError:
        traps = list_camera_traps(data_set, folder) if data_set.name == "terraincognita" else None
        if traps is None:
            raise
        return _not_empty(traps)
    reader = FolderReader(base, folder)
    left_out, source = find_duplicates(data_set.name, (base, folder, folder.parent), duplicates)
    images: list[ListedImage] = []
    notes: list[str] = []
    splits: set[str] = set()
    dropped: list[str] = []
    for number, place in enumerate(_domains(data_set, reader)):
        parts, split_names = _class_folders(data_set, reader, place)
        splits |= split_names
        kept = []
        for one in in_order(reader, parts):
            name = f"{data_set.domains[number]}/{data_set.classes[one.label]}/{one.inside}"
            if name in left_out:
                dropped.append(name)
                reader.problems.append(Problem(one.path, "published duplicate"))
            else:
                kept.append(one)
        images += listed(number, kept, data_set.classes if data_set.name == "cub-dg" else ())
        notes += missing_classes(data_set.domains[number], data_set.classes, kept)
    if splits:
        notes.append(f"of each domain the images in {' and '.join(sorted(splits))} are taken, as if in one folder")
    if dropped:
        notes.append(f"{len(dropped):,} published duplicates are left out, by {source}")
    if missing := len(left_out) - len(set(dropped)):  # a part of the data set, or other archives
        notes.append(f"{missing:,} of {len(left_out):,} listed duplicates were not found")
    about = (_layout(data_set, base, bool(splits)), base, data_set.domains, data_set.classes)
    return _not_empty(Listing(*about, tuple(images), tuple(reader.problems), tuple(notes)))


def _find_base(data_set: DataSet, folder: Path) -> Path:
    """The folder that holds the domains, nearest first."""
    numbers = data_set.domain_numbers()
    reader = FolderReader(folder, folder)
    best: set[int] = set()
    seen: list[str] = []
    for place, folders, _ in reader.levels(DEPTH, lambda one: spelling(one.name) not in numbers):
        found = {numbers[spelling(one.name)] for one in folders if spelling(one.name) in numbers}
        if len(found) == len(data_set.domains):
            return folder / place.path
        best = max(best, found, key=len)
        seen += [one.path for one in folders]
    expected = f"expected folders of the domains {', '.join(data_set.domains)} of {data_set.title} in {folder}"
    missing = [name for number, name in enumerate(data_set.domains) if number not in best]
    instead = f"no folder for {', '.join(missing)}" if best else f"found {some(seen) or 'no folder'}"
    passed_over = "".join(f"; {problem.path}: {problem.reason}" for problem in reader.problems[:_SHOWN])
    raise InputError(f"{expected}; {instead}{passed_over}")


def _domains(data_set: DataSet, reader: FolderReader) -> list[Folder]:
    numbers = data_set.domain_numbers()
    places: dict[int, Folder] = {}
    for place in reader.folders(reader.top):
        number = numbers.get(spelling(place.name))
        if number in places:
            expected = f"expected one folder for each domain of {data_set.title}"
            raise InputError(f"{reader.root}: {expected}, found {places[number].name} and {place.name}")
        if number is not None:
            places[number] = place
    return [places[number] for number in range(len(data_set.domains))]


def _class_folders(
    data_set: DataSet, reader: FolderReader, domain: Folder
) -> tuple[list[tuple[int, Folder]], frozenset[str]]:
    """(label, folder) of every class folder of a domain, and the names of the splits it is divided into, if any."""
    labels = data_set.class_numbers()
    folders = reader.folders(domain)
    while len(folders) == 1 and spelling(folders[0].name) not in labels and folders[0].name not in SPLITS:
        folders = reader.folders(folders[0])  # an archive unpacked into a folder of its own name
    splits: frozenset[str] = frozenset()
    # DomainNet has a class called train, among 344 others
    if folders and all(one.name.lower() in SPLITS for one in folders):
        taken = [one for one in folders if one.name.lower() == "full"] or folders
        splits = frozenset(one.name for one in taken)
        folders = [below for one in taken for below in reader.folders(one)]
    parts = [(labels[spelling(one.name)], one) for one in folders if spelling(one.name) in labels]
    strangers = [one for one in folders if spelling(one.name) not in labels]
    if not parts:
        expected = f"expected class folders such as {some(data_set.classes)} in {reader.root / domain.path}"
        unread = [problem.reason for problem in reader.problems if problem.path == domain.path]
        found = some([one.name for one in strangers]) or ", ".join(unread) or "none"
        raise InputError(f"{expected}; found {found}")
    reader.problems += [Problem(one.path, f"not a class of {data_set.title}") for one in strangers]
    return parts, splits


def in_order(reader: FolderReader, parts: list[tuple[int, Folder]]) -> list[FoundImage]:
    """The images of class folders, class after class; folders of one class are merged as if they were one."""

    def walked(one: FoundImage) -> tuple[int, str, str]:
        """sorted(os.walk(…)) sorts by the folder's whole path first, so its slash takes part."""
        folder, slash, file = one.inside.rpartition("/")
        return one.label, slash + folder, file

    inside = ((label, place, file) for label, place in parts for file in reader.images(place))
    return sorted((FoundImage(label, file, f"{place.path}/{file}") for label, place, file in inside), key=walked)


def listed(number: int, found: list[FoundImage], classes: Sequence[str] = ()) -> list[ListedImage]:
    """Images of domain `number`; with `classes`, a photograph that all domains show has the same id in each."""
    paths = [f"{classes[one.label]}/{one.inside}" if classes else one.path for one in found]
    ids = [path.rpartition(".")[0] for path in paths]
    times = Counter(ids)  # two files that differ only in their extension keep it in their ids
    return [
        ListedImage(one.path, number, one.label, name if times[name] == 1 else one.path)
        for one, name in zip(found, ids, strict=True)
    ]


def missing_classes(domain: str, classes: tuple[str, ...], found: list[FoundImage]) -> list[str]:
    """What a domain lacks, as a note."""
    present = {one.label for one in found}
    missing = [name for label, name in enumerate(classes) if label not in present]
    return [f"{domain} has no image of {some(missing)}"] if missing else []


def _layout(data_set: DataSet, base: Path, split: bool) -> str:
    whose = "DomainBed's"
    if data_set.name == "cub-dg":
        whose = "GVRT's"
    elif base.name in _ARCHIVES or (split and data_set.name == "vlcs"):
        whose = "the original archive's"
    elif base.name == "images" or split:
        whose = "Dassl's"
    return f"{whose}: domain/split/class/image" if split else f"{whose}: domain/class/image"


def require_folder(folder: Path) -> None:
    """Raise unless this is a folder."""
    if not folder.is_dir():
        found = "a file" if folder.exists() else "nothing"
        raise InputError(f"expected a folder of images at {folder}, found {found}")


def _not_empty(listing: Listing) -> Listing:
    found = {image.domain for image in listing.images}
    if empty := [name for number, name in enumerate(listing.domains) if number not in found]:
        raise InputError(f"expected images of every domain in {listing.root}, found none of {', '.join(empty)}")
    return listing


def find_duplicates(data_set: str, places: tuple[Path, ...], given: Path | None) -> tuple[frozenset[str], str]:
    """Images to leave out, as `domain/class/file`, and where the list is from: the one that is named; else, for
    DomainNet, one that lies beside the data, or the one that its users agree on, which comes with this package.
    """
    if given is None and data_set != "domainnet":
        return frozenset(), "none"
    path = given or next((place / LIST_NAME for place in places if (place / LIST_NAME).is_file()), None)
    if path is None:
        shipped = gzip.decompress((Path(__file__).parent / f"{LIST_NAME}.gz").read_bytes()).decode()
        return frozenset(shipped.split()), "the list that comes with this package"
    found = read_lines(path, "domain/class/file", re.compile(r".*[/\\].*[/\\].*").fullmatch)
    return frozenset(name[0].replace("\\", "/") for name in found), str(path)
