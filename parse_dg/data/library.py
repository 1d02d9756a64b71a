"""The data sets of this machine: added by name once, or used by path; each indexed, with its manifest kept."""

import hashlib
import json
import logging
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from parse_dg.data.archives import extract, is_archive
from parse_dg.data.cache import cannot_write, data_folder, make_folder
from parse_dg.data.catalogue import DATA_SETS, find_data_set
from parse_dg.data.download import download as fetch
from parse_dg.data.layouts import list_images, list_own
from parse_dg.data.listing import Listing, Progress
from parse_dg.data.lists import read_list
from parse_dg.data.manifest import Manifest, index, read_manifest, signature, write_manifest
from parse_dg.errors import InputError

LISTS = (".csv", ".json", ".jsonl")
BY_PATH = "by-path"
"""The folder, beside the named data sets, of those that are used by path."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

log = logging.getLogger(__name__)


def add(
    name: str,
    paths: Sequence[Path],
    *,
    duplicates: Path | None = None,
    keep_truncated: bool = False,
    replace: bool = False,
    progress: Progress | None = None,
) -> Manifest:
    """Index a folder, archives or a list under a name.

    Archives are unpacked into the data folder; a folder or a list stays where it is.
    """
    _require_name(name)
    home = data_folder() / name
    if manifest_path(name).exists() and not replace:
        raise InputError(
            f"{name} has been added before: `--replace` indexes it anew, `data check {name}` looks at it"
        )
    make_folder(home, "PARSE_DG_DATA")
    source = _one_source(paths, home / "files", progress)
    listing = _list(name, source, duplicates)
    manifest = index(name, listing, keep_truncated=keep_truncated, progress=progress)
    _write(manifest, manifest_path(name))
    return manifest


def download(name: str, progress: Progress | None = None) -> Manifest:
    """Fetch the archives of a public data set, go on where an earlier attempt stopped, check them and add them."""
    data_set = find_data_set(name)
    if manifest_path(name).exists():
        raise InputError(f"{name} is here already: `parse-dg data check {name}` looks at it")
    folder = data_folder() / name / "downloads"
    make_folder(folder, "PARSE_DG_DATA")
    try:
        files = [
            fetch(a.url, folder / a.file, bytes=a.bytes, sha256=a.sha256, md5=a.md5, progress=progress).path
            for a in data_set.addresses
        ]
    except InputError as error:
        raise InputError(f"{error}. By hand: {data_set.by_hand}") from error
    return add(name, files, progress=progress)


def manifest_path(name: str) -> Path:
    """Where the manifest of a data set with a name is, if it has been added."""
    return data_folder() / name / "manifest.jsonl"


def added() -> list[str]:
    """The names that have been added, sorted."""
    folder = data_folder()
    if not folder.is_dir():
        return []
    return sorted(path.parent.name for path in folder.glob("*/manifest.jsonl") if path.parent.name != BY_PATH)


def open_manifest(name: str, progress: Progress | None = None) -> Manifest:
    """The manifest of a data set, by its name or by the path of a folder or list."""
    if NAME.fullmatch(name) and manifest_path(name).exists():
        return read_manifest(manifest_path(name))
    path = Path(name).expanduser()
    if path.exists():
        return _by_path(path.resolve(), progress)
    raise _not_here(name)


def domain_names(name: str) -> tuple[str, ...]:
    """The domains of a data set, found without opening an image."""
    if NAME.fullmatch(name) and manifest_path(name).exists():
        return read_manifest(manifest_path(name)).domains
    path = Path(name).expanduser()
    if not path.exists():
        raise _not_here(name)
    return _list("", path.resolve(), None).domains


def remove(name: str) -> None:
    """Forget a data set: its manifest, and the files if they were unpacked here; a folder of the user's stays."""
    _require_name(name)
    if not manifest_path(name).exists():
        raise _not_here(name)
    shutil.rmtree(data_folder() / name)


def _require_name(name: str) -> None:
    if not NAME.fullmatch(name) or name in ("blueprints", BY_PATH):
        known = ", ".join(DATA_SETS)
        raise InputError(
            f"{name!r} cannot name a data set: expected {known}, or a name of your own "
            "(letters, digits, dots and dashes)"
        )


def _one_source(paths: Sequence[Path], unpacked: Path, progress: Progress | None) -> Path:
    """The folder or list to index: one that is given, or what the given archives hold."""
    for path in paths:
        if not path.exists():
            raise InputError(
                f"nothing at {path}: expected a folder, a .tar or .zip archive, or a .csv or .json list"
            )
    if len(paths) == 1 and paths[0].is_dir():
        inside = [path for path in sorted(paths[0].iterdir()) if not path.name.startswith(".")]
        if not inside or not all(path.is_file() and is_archive(path) for path in inside):
            return paths[0].resolve()
        paths = inside  # a folder of nothing but archives
    if len(paths) == 1 and paths[0].suffix.lower() in LISTS:
        return paths[0].resolve()
    for path in paths:
        if not path.is_file() or not is_archive(path):
            raise InputError(f"{path} is not an archive: expected one folder, one list, or .tar and .zip archives")
    fresh = unpacked.with_name("files.new")
    shutil.rmtree(fresh, ignore_errors=True)
    extract(paths, fresh, progress)
    shutil.rmtree(unpacked, ignore_errors=True)  # of an earlier add; only once the new ones are there
    fresh.rename(unpacked)
    return unpacked


def _list(name: str, source: Path, duplicates: Path | None) -> Listing:
    if source.is_file():
        return read_list(source)
    if name in DATA_SETS:
        return list_images(DATA_SETS[name], source, duplicates)
    return list_own(source)


def _by_path(path: Path, progress: Progress | None) -> Manifest:
    """The manifest of a folder or list, indexed on its first use and again when its files have changed."""
    if path.is_file() and path.suffix.lower() not in LISTS:
        hint = f": `parse-dg data add NAME {path}` unpacks it" if is_archive(path) else ""
        raise InputError(f"{path} is neither a folder nor a .csv, .json or .jsonl list{hint}")
    listing = _list("", path, None)
    home = data_folder() / BY_PATH / hashlib.sha256(str(path).encode()).hexdigest()[:24]
    now = signature(listing)
    kept, stamp = home / "manifest.jsonl", home / "signature.json"
    if kept.exists() and stamp.exists() and _read_stamp(stamp) == now:
        return read_manifest(kept)
    make_folder(home, "PARSE_DG_DATA")
    stamp.unlink(missing_ok=True)
    manifest = index(path.stem if path.is_file() else path.name, listing, progress=progress)
    for problem in manifest.unreadable:
        log.warning("%s: left out, %s", manifest.root / problem.path, problem.reason)
    _write(manifest, kept)
    stamp.write_text(json.dumps(now))
    return manifest


def _read_stamp(path: Path) -> object:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def _write(manifest: Manifest, path: Path) -> None:
    try:
        write_manifest(manifest, path)
    except OSError as error:
        raise cannot_write(path.parent, "PARSE_DG_DATA", error) from error


def _not_here(name: str) -> InputError:
    if name in DATA_SETS:
        return InputError(
            f"{name} is not on this machine yet: `parse-dg data add {name} PATH` with its folder or archives, "
            f"or `parse-dg data download {name}`"
        )
    here = ", ".join(["blueprints", *added()])
    known = ", ".join(DATA_SETS)
    return InputError(f"no data set {name!r}: here are {here}; {known} can be added; or give a folder that exists")
