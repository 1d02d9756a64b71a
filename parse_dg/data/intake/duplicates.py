"""The images of DomainNet that its users agree to leave out: copies of others, listed by file name with DomainBed.

A list is a text file with one `domain/class/file` a line. One comes with the package; a file of the same name
beside the data, or one that is named, takes its place.
"""

import gzip
from functools import cache
from pathlib import Path
from typing import NamedTuple

from parse_dg.errors import InputError
from parse_dg.files import attempting

LIST_NAME = "domain_net_duplicates.txt"
_SHIPPED = Path(__file__).parent / f"{LIST_NAME}.gz"


class DuplicateList(NamedTuple):
    """Images to leave out, as `domain/class/file`, and where the list is from."""

    names: frozenset[str]
    source: str


def find_duplicates(data_set: str, places: tuple[Path, ...], given: Path | None) -> DuplicateList:
    """The list to go by: the one that is named, else one that lies beside the data, else the one shipped."""
    if given is not None:
        return _read(given)
    if data_set != "domainnet":
        return DuplicateList(frozenset(), "none")
    for place in places:
        if (place / LIST_NAME).is_file():
            return _read(place / LIST_NAME)
    return _shipped()


@cache
def _shipped() -> DuplicateList:
    text = gzip.decompress(_SHIPPED.read_bytes()).decode("ascii")
    return DuplicateList(frozenset(text.split()), "the list that comes with this package")


def _read(path: Path) -> DuplicateList:
    with attempting(f"read the list of duplicates {path}", also=UnicodeDecodeError):
        lines = path.read_text(encoding="utf-8").splitlines()
    names = [line.strip().replace("\\", "/") for line in lines if line.strip()]
    for number, name in enumerate(names, 1):
        if name.count("/") < 2:
            raise InputError(f"{path}, entry {number}: expected domain/class/file, found {name!r}")
    return DuplicateList(frozenset(names), str(path))
