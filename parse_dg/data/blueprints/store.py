"""The embedded benchmark, drawn once, kept in the cache folder and memory-mapped.

It is a folder of `.npy` arrays (read without pickle) and one JSON file, made whole or not at all; of two processes
that draw at once the faster one's stays. What is no longer what was drawn is drawn again.
"""

import hashlib
import json
import logging
import secrets
import shutil
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from parse_dg.data.blueprints import benchmark as blueprints, drawing
from parse_dg.data.blueprints.benchmark import BlueprintsConfig, BlueprintsDomain, generate_domain
from parse_dg.data.listing import Progress
from parse_dg.errors import InputError
from parse_dg.files import attempting, cache_folder, make_folder, whole_folder

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StoredBlueprints:
    """The embedded benchmark, memory-mapped."""

    classes: tuple[str, ...]
    domains: dict[str, BlueprintsDomain]
    fingerprint: str


def open_blueprints(config: BlueprintsConfig, progress: Progress | None = None) -> StoredBlueprints:
    """Blueprints of `config`, drawn on the first call."""
    folder = cache_folder() / f"blueprints-{_recipe(config)}"
    for _ in range(2):
        if not (folder / "index.json").exists():
            _build(folder, config, progress)
        if stored := _read(folder):
            return stored
        log.warning("%s is damaged: it is drawn again", folder)
        with suppress(FileNotFoundError):  # another process may be faster
            folder.rename(damaged := folder.with_name(f"{folder.name}.{secrets.token_hex(4)}.damaged"))
            shutil.rmtree(damaged, ignore_errors=True)
    raise InputError(f"{folder} is damaged: remove it")


def _read(folder: Path) -> StoredBlueprints | None:
    """What is stored; None where it is not what was written."""
    domains, digest = {}, hashlib.sha256()
    try:
        index = json.loads((folder / "index.json").read_text())
        for name in blueprints.DOMAINS:
            images = np.load(folder / f"{name}.images.npy", mmap_mode="r")
            labels, centres = (np.load(folder / f"{name}.{kind}.npy") for kind in ("labels", "centres"))
            captions = tuple(index["captions"][name])
            domains[name] = BlueprintsDomain(images=images, labels=labels, centres=centres, captions=captions)
            digest.update(images)
            digest.update(labels)
        whole = digest.hexdigest() == index["fingerprint"]
    except (OSError, ValueError, TypeError, KeyError, EOFError):
        return None
    return StoredBlueprints(blueprints.CLASSES, domains, index["fingerprint"]) if whole else None


def _recipe(config: BlueprintsConfig) -> str:
    """A short hash of the settings and of the code that draws, so that a changed drawing is drawn anew."""
    sources = [Path(str(module.__file__)).read_bytes() for module in (blueprints, drawing)]
    settings = json.dumps(asdict(config), sort_keys=True).encode()
    return hashlib.sha256(b"".join([settings, *sources])).hexdigest()[:16]


def _build(folder: Path, config: BlueprintsConfig, progress: Progress | None) -> None:
    make_folder(folder.parent, "PARSE_DG_CACHE")
    try:
        with whole_folder(folder, shared=True) as temporary:
            _draw(temporary, config, progress)
    except OSError:
        if not (folder / "index.json").exists():  # else somebody was faster
            with attempting(f"write to {folder.parent}", "set PARSE_DG_CACHE to another folder"):
                raise


def _draw(folder: Path, config: BlueprintsConfig, progress: Progress | None) -> None:
    captions, digest = {}, hashlib.sha256()
    each = len(blueprints.CLASSES) * config.images_per_class
    for number, name in enumerate(blueprints.DOMAINS):

        def report(done: int, before: int = number * each) -> None:
            if progress:
                progress("drawing Blueprints", before + done, each * len(blueprints.DOMAINS))

        part = generate_domain(name, config, report)
        captions[name] = part.captions
        for kind in ("images", "labels", "centres"):
            np.save(folder / f"{name}.{kind}.npy", getattr(part, kind))
        digest.update(part.images.tobytes() + part.labels.tobytes())
    (folder / "index.json").write_text(json.dumps({"fingerprint": digest.hexdigest(), "captions": captions}))
