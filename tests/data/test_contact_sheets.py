"""A contact sheet for every domain: each under a name of its own, whatever the domains are called."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from parse_dg.data import contact
from parse_dg.data.benchmarks import DataConfig
from parse_dg.data.contact_sheets import write_contact_sheets
from parse_dg.data.images import read_file
from parse_dg.errors import InputError
from tests.data.intake.test_library import plant

COLOURS = ("red", "lime", "blue", "magenta")


@pytest.fixture(autouse=True)
def data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PARSE_DG_DATA", str(tmp_path / "kept"))
    monkeypatch.chdir(tmp_path)


def coloured(root: Path, domains: list[str]) -> Path:
    """Domains of one class and one image, each of another colour."""
    for domain, colour in zip(domains, COLOURS, strict=False):
        (root / domain / "thing").mkdir(parents=True)
        Image.new("RGB", (9, 9), colour).save(root / domain / "thing" / "1.png")
    return root


def config(data: Path | str, pixels: int = 32) -> DataConfig:
    return DataConfig(benchmark=str(data), store="never", image_size=pixels)


def area(path: Path, colour: str) -> int:
    """How many pixels of a sheet have a colour."""
    with Image.open(path) as sheet:
        assert (sheet.format, sheet.mode) == ("PNG", "RGB")
        pixels = np.array(sheet)
    return int((pixels == np.array(Image.new("RGB", (1, 1), colour))[0, 0]).all(2).sum())


ODD = {
    "plain": ["day", "night"],
    "one name once cleaned": ["a b", "a_b", "a?b"],
    "letters of other scripts": ["猫", "犬", "ñandú"],
    "like our numbers": ["1_a b", "a_b", "a b", "2_a_b"],
    "long": ["x" * 250, "x" * 249 + "y", "é" * 125],
}


@pytest.mark.parametrize("case", ODD)
def test_every_domain_has_a_sheet_of_its_own(case: str, tmp_path: Path) -> None:
    domains = sorted(ODD[case])
    root = coloured(tmp_path / "own", domains)
    sheets = write_contact_sheets(config(root), tmp_path / "sheets", 8)
    assert len({sheet.name.casefold() for sheet in sheets}) == len(domains)
    assert sorted(path.name for path in (tmp_path / "sheets").iterdir()) == sorted(sheet.name for sheet in sheets)
    for number, sheet in enumerate(sheets):
        assert not sheet.name.startswith(".")
        assert [area(sheet, colour) > 0 for colour in COLOURS] == [n == number for n in range(len(COLOURS))]


def test_only_what_is_shown_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = plant(tmp_path / "own", ["a", "b"], [f"class{n:02d}" for n in range(30)], images=3)
    write_contact_sheets(config(root), tmp_path / "sheets", 1)  # indexed
    read: list[object] = []

    def note(path: Path) -> bytes:
        read.append(path)
        return read_file(path)

    monkeypatch.setattr("parse_dg.data.domain.read_file", note)
    write_contact_sheets(config(root), tmp_path / "sheets", 2)
    assert len(read) == 2 * contact.ROWS * 2


@pytest.mark.parametrize(
    ("images", "pixels", "name"),
    [(0, 32, "--images"), (13, 32, "--images"), (8, 15, "--pixels"), (8, 513, "--pixels")],
)
def test_numbers_out_of_range(images: int, pixels: int, name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"{name} must be from 1"):
        write_contact_sheets(config(coloured(tmp_path / "own", ["a", "b"]), pixels), tmp_path / "sheets", images)
    assert not (tmp_path / "sheets").exists()
