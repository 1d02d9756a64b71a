"""The data sets of this machine: added by name once, or used by path; each indexed, with its manifest kept.

NAME/manifest.jsonl     what was added under a name
NAME/files              what its archives held, where it was given as archives (files-2 if it replaced others)
NAME/downloads          the archives, where they were fetched from here
by-path/…/….jsonl       what was used by path: a hash of the path, and one of the files' sizes and times
"""

import hashlib
import logging
import os
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from parse_dg.data.intake.archives import extract, is_archive
from parse_dg.data.intake.download import download as fetch, free_name
from parse_dg.data.intake.layouts import list_images
from parse_dg.data.intake.lists import READERS, read_list
from parse_dg.data.intake.manifest_file import read_header, read_manifest, write_manifest
from parse_dg.data.intake.own import list_own, list_unpacked
from parse_dg.data.intake.report import describe_data
from parse_dg.data.listing import Listing, Problem, Progress
from parse_dg.data.manifest import Manifest, ManifestImage, index, signature, verify
from parse_dg.data.public.catalogue import DATA_SETS, find_data_set
from parse_dg.errors import InputError
from parse_dg.files import attempting, data_folder, make_folder
from parse_dg.wording import printable

BY_PATH = "by-path"  # the folder, beside the named data sets, of those that are used by path
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_UNPACKED = re.compile(r"files(-\d+)?")
# what the folder of a named data set may hold: anything else in it is somebody's own
_OURS = re.compile(rf"manifest\.jsonl.*|downloads|{_UNPACKED.pattern}(\.(writing|unpacking).*)?")

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

    Archives are unpacked into the data folder; a folder or a list stays where it is. The manifest is written last:
    if anything fails, what had the name before still has it, and nothing of the attempt is left.
    """
    _require_name(name)
    home = data_folder() / name
    if manifest_path(name).exists() and not replace:
        raise InputError(
            f"{name} has been added before: `--replace` indexes it anew, `data check {name}` looks at it"
        )
    _require_ours(home)
    source, archives = _source(paths)
    if duplicates and (name not in DATA_SETS or (source and source.is_file())):
        raise InputError(f"--duplicates {duplicates}: expected the folder or archives of a public data set with it")
    make_folder(home, "PARSE_DG_DATA")
    place = free_name(home / "files")  # what is in use now must stay until the new manifest is written
    unpacked = []
    try:
        if source is None:
            extract(archives, place, progress)
            unpacked = [place]
            listing = _list_unpacked(name, place, archives, duplicates)
        else:
            listing = _list(name, source, duplicates)
            _require_outside(listing)
        manifest = index(name, listing, keep_truncated=keep_truncated, progress=progress)
        _write(manifest, manifest_path(name))
    except BaseException:
        _tidy(home, unpacked)
        raise
    _tidy(home, [old for old in home.iterdir() if _UNPACKED.fullmatch(old.name) and old not in unpacked])
    return manifest


def download(name: str, progress: Progress | None = None) -> Manifest:
    """Fetch the archives of a public data set, go on where an earlier attempt stopped, check them and add them."""
    data_set = find_data_set(name)
    if manifest_path(name).exists():
        raise InputError(f"{name} is here already: `parse-dg data check {name}` looks at it")
    home = data_folder() / name
    _require_ours(home)
    folder, again = home / "downloads", ""
    make_folder(folder, "PARSE_DG_DATA")
    try:
        for a in data_set.addresses:
            fetch(a.url, folder / a.file, bytes=a.bytes, sha256=a.sha256, progress=progress)
        again = f" To download it again, remove {folder}."
        return add(name, [folder / a.file for a in data_set.addresses], progress=progress)
    except InputError as error:
        raise InputError(f"{error}.{again} By hand: {data_set.by_hand}") from error
    finally:
        for empty in (folder, home):
            with suppress(OSError):  # there is something in it, to go on with
                empty.rmdir()


def manifest_path(name: str) -> Path:
    """Where the manifest of a data set with a name is, if it has been added."""
    return data_folder() / name / "manifest.jsonl"


def added() -> list[str]:
    """The names that have been added, sorted."""
    names = (path.parent.name for path in data_folder().glob("*/manifest.jsonl"))
    return sorted(name for name in names if NAME.fullmatch(name) and name != BY_PATH)


def find_path(name: str) -> Path | None:
    """The folder or file that is meant by `name`, absolute; None if there is none."""
    try:
        path = Path(name).expanduser()
        return path.resolve() if name.strip() and path.exists() else None
    except (OSError, RuntimeError, ValueError):  # too long, not allowed to look, nobody's home, a null character
        return None


def open_manifest(name: str, progress: Progress | None = None, *, keep: bool = True) -> Manifest:
    """The manifest of a data set, by its name or path; without `keep` what is new is only listed."""
    if _is_added(name):
        return read_manifest(manifest_path(name))
    if path := find_path(name):
        return _by_path(path, progress, keep)
    raise _not_here(name)


def domain_names(name: str) -> tuple[str, ...]:
    """The domains of a data set, found without opening an image."""
    if _is_added(name):
        return read_header(manifest_path(name)).domains
    if path := find_path(name):
        return _list("", path, None).domains
    raise _not_here(name)


def check(name: str, progress: Progress | None = None) -> tuple[Manifest, tuple[Problem, ...]]:
    """A data set's manifest, and the files that are missing, changed, or new since it was added (not by path)."""
    manifest = open_manifest(name, progress)
    changed = verify(manifest, progress)
    if not _is_added(name) or not manifest.root.is_dir() or manifest.layout.startswith("a list"):
        return manifest, changed
    known = {path for path, *_ in (*manifest.images, *manifest.unreadable, *manifest.skipped)}
    try:
        now = _list(name, manifest.root, None)
    except InputError as error:
        return manifest, changed or (Problem(str(manifest.root), str(error)),)
    new = dict.fromkeys(image.path for image in now.images if image.path not in known)
    return manifest, (*changed, *(Problem(path, "it is new: not there when it was indexed") for path in new))


def remove(name: str) -> None:
    """Forget a data set: its manifest, and the files if they were unpacked here; a folder of the user's stays."""
    _require_name(name)
    home = data_folder() / name
    if not home.is_dir():
        raise _not_here(name)
    _require_ours(home)
    _tidy(home, sorted(home.iterdir(), reverse=True))  # the manifest first: what has none has not been added
    if home.is_dir() and any(home.iterdir()):
        raise InputError(f"{home} cannot be removed: look at its permissions")


def _require_name(name: str) -> None:
    if name in ("blueprints", BY_PATH):
        raise InputError(f"the name {name!r} is reserved: choose another for a data set of your own")
    if not NAME.fullmatch(name):
        own = "a name of your own (up to 64 letters, digits, dots, dashes and underscores)"
        raise InputError(f"{name!r} cannot name a data set: expected {', '.join(DATA_SETS)}, or {own}")


def _require_ours(home: Path) -> None:
    """Refuses a folder with something in it that is not of this program: it could be somebody's photographs."""
    strange = [path.name for path in home.iterdir() if not _OURS.fullmatch(path.name)] if home.is_dir() else []
    if strange:
        found = f"{home} holds {printable(min(strange))}, which was not put there by `data add`"
        raise InputError(f"{found}: choose another name, or set PARSE_DG_DATA to another folder")


def _require_outside(listing: Listing) -> None:
    """What is used in place must not lie where `data remove` removes."""
    folder, root = data_folder().resolve(), listing.root.resolve()
    inside = next((image.path for image in listing.images if f"{root}/{image.path}".startswith(f"{folder}/")), None)
    if inside is not None:
        found = f"{printable(str(root / inside))} lies in the data folder {folder}, which is for what is unpacked"
        raise InputError(f"{found}: move it elsewhere, or set PARSE_DG_DATA to another folder")


def _source(paths: Sequence[Path]) -> tuple[Path | None, list[Path]]:
    """The folder or list to index; or none, and the archives that hold it."""
    found = [place for place in map(find_path, map(str, paths)) if place is not None]
    if len(found) < len(paths):
        missing = next(path for path in paths if find_path(str(path)) is None)
        raise InputError(
            f"nothing at {missing}: expected a folder, a .tar or .zip archive, or a .csv or .json list"
        )
    if len(found) == 1 and found[0].is_dir():
        with attempting(f"read the folder {found[0]}"):
            inside = sorted(path for path in found[0].iterdir() if not path.name.startswith("."))
        if not inside or not all(map(is_archive, inside)):
            return found[0], []
        found = inside  # a folder of nothing but archives
    if len(found) == 1 and found[0].suffix.lower() in READERS:
        return found[0], []
    for path in found:
        if not is_archive(path):
            raise InputError(f"{path} is not an archive: expected one folder, one list, or .tar and .zip archives")
    return None, found


def _tidy(home: Path, unwanted: Sequence[Path]) -> None:
    """Remove what is not wanted, and the folder itself if nothing is left in it."""
    for path in unwanted:
        with suppress(OSError):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    with suppress(OSError):
        home.rmdir()


def _list_unpacked(name: str, place: Path, archives: Sequence[Path], duplicates: Path | None) -> Listing:
    """What archives held; an error speaks of them, as what was unpacked is removed again."""
    try:
        return _list(name, place, duplicates) if name in DATA_SETS else list_unpacked(place, name)
    except InputError as error:
        said = str(error).replace(str(place), str(archives[0]))
        raise InputError(f"{said}; to give or change folders of an archive, unpack it by hand") from error


def _list(name: str, source: Path, duplicates: Path | None) -> Listing:
    if source.is_dir():
        return list_images(DATA_SETS[name], source, duplicates) if name in DATA_SETS else list_own(source)
    if source.suffix.lower() not in READERS:
        hint = f": `parse-dg data add NAME {source}` unpacks it" if is_archive(source) else ""
        raise InputError(f"{source} is neither a folder nor a .csv, .json or .jsonl list{hint}")
    return read_list(source)


def _by_path(path: Path, progress: Progress | None, keep: bool) -> Manifest:
    """The manifest of a folder or list, indexed on its first use and again when its files have changed."""
    listing = _list("", path, None)
    name = path.stem if path.is_file() else path.name
    name = f"own-{name}" if name in DATA_SETS else name or "data"  # never that of a public data set
    home = data_folder() / BY_PATH / hashlib.sha256(os.fsencode(path)).hexdigest()[:24]
    kept = home / f"{signature(listing)}.jsonl"
    manifest = _kept(kept)
    if manifest is None and not keep:
        log.warning("%s: counted as listed, as its files have never been opened", printable(str(path)))
        images = tuple(ManifestImage(*listed, 0, 0, 0, "") for listed in listing.images)
        return Manifest(name, listing.root, listing.layout, listing.domains, listing.classes, images)
    if manifest is None:
        make_folder(home, "PARSE_DG_DATA")
        manifest = index(name, listing, progress=progress)
        _write(manifest, kept)
        remarks = describe_data(manifest).remarks
        for old in home.glob("*.jsonl"):
            if old != kept:
                if before := _kept(
                    old
                ):  # what was said before is not said again; `data check` says it whenever asked
                    remarks = tuple(remark for remark in remarks if remark not in describe_data(before).remarks)
                    _say_changes(path, before, manifest)
                old.unlink(missing_ok=True)
        for remark in remarks:
            log.warning("%s: %s", printable(str(path)), remark)
    return manifest


def _kept(path: Path) -> Manifest | None:
    """A manifest that was made of a path, if it is there and whole; it can be made again."""
    try:
        return read_manifest(path)
    except InputError:
        return None


def _say_changes(path: Path, before: Manifest, now: Manifest) -> None:
    if before.fingerprint == now.fingerprint:
        return
    old, new = ({image.path: image for image in manifest.images} for manifest in (before, now))
    more, gone = len(new.keys() - old.keys()), len(old.keys() - new.keys())
    changed = sum(old[file] != new[file] for file in old.keys() & new.keys())
    counts = f"{more:,} new images, {gone:,} gone, {changed:,} changed"
    log.warning("%s is not what it was when it was last used (%s): indexed again", printable(str(path)), counts)


def _write(manifest: Manifest, path: Path) -> None:
    with attempting(f"write to {path.parent}", "set PARSE_DG_DATA to another folder"):
        write_manifest(manifest, path)


def _is_added(name: str) -> bool:
    return NAME.fullmatch(name) is not None and manifest_path(name).exists()


def _not_here(name: str) -> InputError:
    if name in DATA_SETS:
        by_hand = f"`parse-dg data add {name} PATH` with its folder or archives"
        return InputError(f"{name} is not on this machine yet: {by_hand}, or `parse-dg data download {name}`")
    if os.sep in name:
        return InputError(f"nothing at {name}: expected a folder domain/class/image, or a .csv or .json list")
    here, known = ", ".join(["blueprints", *added()]), ", ".join(DATA_SETS)
    otherwise = "or give a folder that exists, or with --plugin the module that makes it"
    return InputError(f"no data set {name!r}: here are {here}; {known} can be added; {otherwise}")
