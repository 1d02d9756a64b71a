"""Somebody's own data set as a list of files: CSV, JSON or JSON lines.

Every image has a `path`, a `domain` and a `class`, and may have an `id`, which two renderings of one photo share
(its path is its id otherwise). Paths are relative to the folder of the list, or absolute; backslashes are read as
slashes. Where all images lie under that folder it is the root of the listing, else the root is the folder that they
share. Whether the files exist is not looked at here.
"""

import csv
import io
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from parse_dg.data.images import read_file
from parse_dg.data.intake.own import require_one_spelling
from parse_dg.data.listing import ListedImage, Listing
from parse_dg.errors import InputError, unknown
from parse_dg.wording import UNPRINTABLE, printable

COLUMNS = ("path", "domain", "class")
DELIMITERS = (",", ";", "\t")
LONGEST = 250  # bytes in the name of a domain, which becomes that of a folder or file


class _Row(NamedTuple):
    where: str  # "line 7"
    path: str
    domain: str
    label: str
    id: str | None = None


def read_list(path: Path) -> Listing:
    """The images of a list: domain by domain and class by class, sorted by name, then in the order of the list."""
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise unknown("kind of list", path.name, READERS)
    rows = list(reader(path, _text(path)))
    if not rows:
        raise InputError(f"{printable(str(path))} lists no images: expected an image with {', '.join(COLUMNS)}")
    root, files = _relative(path, rows)
    domains = tuple(sorted({row.domain for row in rows}))
    classes = tuple(sorted({row.label for row in rows}))
    require_one_spelling(printable(str(path)), classes)
    domain_of, label_of = ({name: i for i, name in enumerate(names)} for names in (domains, classes))
    images = [
        ListedImage(file, domain_of[row.domain], label_of[row.label], file if row.id is None else row.id)
        for row, file in zip(rows, files, strict=True)
    ]
    images.sort(key=lambda image: (image.domain, image.label))  # stable: the list's order stays within a class
    return Listing(f"a list ({path.suffix.lower()[1:]})", root, domains, classes, tuple(images))


def _error(path: Path, where: str, what: str) -> InputError:
    return InputError(f"{printable(str(path))}, {where}: {what}")


def _text(path: Path) -> str:
    data = read_file(path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _error(path, f"line {line}", "no UTF-8 text: save the list as UTF-8") from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise _error(path, f"line {line}", "a null character, expected text")
    return text


def _row(path: Path, where: str, values: object) -> _Row:
    """Checks that an image has every value and that each is a text that can be shown on one line."""
    if not isinstance(values, dict):
        raise _error(path, where, f"expected an object with {', '.join(COLUMNS)}, found {type(values).__name__}")
    names = (*COLUMNS, "id") if "id" in values else COLUMNS
    for name in names:
        if name not in values:
            raise _error(path, where, f"no {name!r}: an image has {', '.join(COLUMNS)}")
        value = values[name]
        if not isinstance(value, str):
            raise _error(path, where, f"expected a text as {name!r}, found {type(value).__name__}")
        if not value.strip():
            raise _error(path, where, f"{name!r} is empty")
        if UNPRINTABLE.search(value):
            raise _error(path, where, f"{name!r} has characters that cannot be shown: {ascii(value)[:80]}")
    domain = values["domain"]
    if "/" in domain or domain in (".", "..") or len(os.fsencode(domain)) > LONGEST:
        rule = f"a domain names folders: no slash, not only dots, at most {LONGEST} bytes"
        raise _error(path, where, f"{rule}; found {domain[:80]!r}")
    return _Row(where, *(values[name] for name in names))


def _read_csv(path: Path, text: str) -> Iterator[_Row]:
    columns, delimiter = _columns(path, text)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True, skipinitialspace=True)
    start = 1
    try:
        for cells in reader:
            where, start = f"line {start}", reader.line_num + 1
            if where == "line 1" or not any(cells):
                continue
            if len(cells) != len(columns):
                raise _error(path, where, f"expected {len(columns)} cells, found {len(cells)}")
            yield _row(path, where, {name: cell.strip() for name, cell in zip(columns, cells, strict=True)})
    except csv.Error as error:
        raise _error(path, f"line {start}", f"no CSV ({error})") from error


def _columns(path: Path, text: str) -> tuple[list[str], str]:
    """The names in the first line, and the delimiter with which they are the ones that are needed."""
    first = text.splitlines()[0] if text.strip() else ""
    found: list[str] = []
    for delimiter in DELIMITERS:
        try:
            cells = next(csv.reader([first], delimiter=delimiter, skipinitialspace=True), [])
        except csv.Error as error:
            raise _error(path, "line 1", f"no CSV ({error})") from error
        names = [cell.strip().lower() for cell in cells]
        twice = [name for name in (*COLUMNS, "id") if names.count(name) > 1]
        if twice:
            raise _error(path, "line 1", f"two columns are named {twice[0]!r}")
        if set(COLUMNS) <= set(names):
            return names, delimiter
        found = max(found, names, key=len)
    listed = printable(", ".join(found)[:80]) or "nothing"
    raise _error(path, "line 1", f"expected the columns {', '.join(COLUMNS)}, found {listed}")


def _read_json(path: Path, text: str) -> Iterator[_Row]:
    data = _parse(path, text, 1)
    entries = data.get("images") if isinstance(data, dict) else data
    if not isinstance(entries, list):
        raise _error(path, "line 1", "expected a list of images, or an object with a list 'images'")
    for number, entry in enumerate(entries, 1):
        yield _row(path, f"entry {number}", entry)


def _read_lines(path: Path, text: str) -> Iterator[_Row]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield _row(path, f"line {number}", _parse(path, line, number))


def _parse(path: Path, text: str, line: int) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise _error(path, f"line {line + error.lineno - 1}", f"no JSON ({error.msg})") from error
    except (ValueError, RecursionError) as error:  # a number too long, nested too deep
        raise _error(path, f"line {line}", "no list of images: too long a number, or nested too deep") from error


Reader = Callable[[Path, str], Iterator[_Row]]
READERS: dict[str, Reader] = {".csv": _read_csv, ".json": _read_json, ".jsonl": _read_lines}  # by a name's ending


def _relative(path: Path, rows: list[_Row]) -> tuple[Path, list[str]]:
    """The root, and every path relative to it. Steps up (`..`) are resolved in the name, not through links."""
    folder = str(path.parent.absolute())
    files: dict[str, str] = {}
    for row in rows:
        file = os.path.normpath(os.path.join(folder, row.path.replace("\\", "/")))  # noqa: PTH118 - 600,000 times
        if file in files:
            raise _error(path, row.where, f"{row.path} is listed already in {files[file]}")
        files[file] = row.where
    root = os.path.join(os.path.normpath(folder), "")  # noqa: PTH118 - with a slash at its end
    if not all(file.startswith(root) for file in files):
        try:
            shared = os.path.commonpath([os.path.dirname(file) for file in files])  # noqa: PTH120
        except ValueError as error:  # several drives
            raise InputError(f"{printable(str(path))}: its images share no folder, expected one drive") from error
        root = os.path.join(shared, "")  # noqa: PTH118
    return Path(root), [file[len(root) :].replace(os.sep, "/") for file in files]
