"""Archives of every kind, good and bad, to be unpacked."""

import io
import re
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from parse_dg.data.intake.archives import extract
from tests.parts import refusal

KINDS = ("tar", "tar.gz", "tar.bz2", "tar.xz", "zip")
NOISE = np.random.default_rng(0).bytes(5000)
FILES = {
    "PACS/photo/dog/1.jpg": NOISE[:700],
    "PACS/photo/dog/2.jpg": b"",
    "PACS/art painting/žirafa/1.jpg": NOISE,
    "PACS/read.me": b"read me\n" * 400,
}


def member(name: str, content: bytes = b"", **settings: Any) -> tuple[tarfile.TarInfo, io.BytesIO]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for setting, value in settings.items():
        setattr(info, setting, value)
    return info, io.BytesIO(content)


def write_tar(path: Path, *members: tuple[tarfile.TarInfo, io.BytesIO], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for info, content in members:
            tar.addfile(info, content if info.size else None)
    return path


def write_zip(path: Path, *members: tuple[str | zipfile.ZipInfo, bytes], packed: bool = True) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


def write(path: Path, files: Mapping[str, bytes] = FILES) -> Path:
    """An archive of the kind that the name says."""
    if path.suffix == ".zip":
        return write_zip(path, *files.items())
    mode = "w:" + path.suffix[1:] if path.suffix != ".tar" else "w"
    return write_tar(path, *(member(name, content) for name, content in files.items()), mode=mode)


def zip_info(name: str, mode: int = 0) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo("placeholder")
    info.filename = name  # the constructor would tidy it up
    info.external_attr = mode << 16
    return info


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(archive: Path, there: Path, message: str, **settings: Any) -> None:
    """Asserts that an archive is refused by a single line that names it, and that nothing is left."""
    said = refusal(extract, [archive], there / "data", **settings)
    assert re.search(message, said)
    assert str(archive) in said
    assert "nothing was unpacked" in said
    assert list(there.iterdir()) == []
    assert {path.name for path in there.parent.iterdir()} == {"there", archive.name}
