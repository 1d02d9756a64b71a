"""Contact sheets of a data set, one a domain: some images of every class, to see at a glance what is in it."""

import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageDraw, ImageFont

from parse_dg.config import require
from parse_dg.data.benchmarks import DataConfig, open_benchmark
from parse_dg.data.domain import Benchmark, Domain
from parse_dg.data.listing import Progress, counted
from parse_dg.files import attempting, whole_file
from parse_dg.wording import plural

ROWS, COLUMNS = 12, 12  # classes on a sheet, and images of a class, at most
LABEL = 230  # pixels that a class name may take, at most

_PAPER, _INK, _FAINT, _LINE = "#fbfaf7", "#1f1f1f", "#77736b", "#d8d4ca"
_MARGIN, _GAP, _HEADER = 36, 8, 104


class SheetRow(NamedTuple):
    """A class on a sheet: how many images it has, and those that are shown."""

    name: str
    total: int
    images: Sequence[UInt8[np.ndarray, "S S 3"]]


def write_contact_sheets(
    config: DataConfig, folder: Path | None, images: int, progress: Progress | None = None
) -> list[Path]:
    """Write DOMAIN.png for every domain, with `images` of each class at `config.image_size` pixels; their paths."""
    require(1 <= images <= COLUMNS, "--images", images, f"from 1 to {COLUMNS}")
    require(16 <= config.image_size <= 512, "--pixels", config.image_size, "from 16 to 512")
    benchmark = open_benchmark(config, progress)
    folder = folder or Path("contact_sheets") / benchmark.name
    paths = [folder / f"{name}.png" for name in file_names([domain.name for domain in benchmark.domains])]
    with attempting(f"write contact sheets to {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        sheets = zip(benchmark.domains, paths, strict=True)
        for domain, path in counted(sheets, "contact sheets", len(paths), progress):
            rows, title = _rows(benchmark, domain, images), f"{benchmark.name}: {domain.name}"
            with whole_file(path, shared=True) as temporary:
                contact_sheet(title, rows, len(benchmark.classes), config.image_size).save(temporary, "PNG")
    return paths


def file_names(domains: Sequence[str]) -> list[str]:
    """The name of a file for each domain: letters, digits, dots, dashes; numbered where two would be the same."""
    plain = [re.sub(r"[^\w.-]+", "_", name)[:60].lstrip(".") or "_" for name in domains]
    if len({name.casefold() for name in plain}) == len(plain):
        return plain
    return [f"{number}_{name}" for number, name in enumerate(plain, 1)]


def spread(count: int, most: int) -> list[int]:
    """Up to `most` of the numbers 0 to count - 1, the first and the last among them, evenly spread."""
    return list(range(count)) if count <= most else np.linspace(0, count - 1, most).round().astype(int).tolist()


def _rows(benchmark: Benchmark, domain: Domain, images: int) -> list[SheetRow]:
    """Only the classes and images that are shown are read."""
    rows = []
    for label in spread(len(benchmark.classes), ROWS):
        members = np.flatnonzero(domain.labels == label)
        shown = domain.images[members[spread(len(members), images)]]
        rows.append(SheetRow(benchmark.classes[label], len(members), list(shown)))
    return rows


def contact_sheet(title: str, rows: Sequence[SheetRow], classes: int, cell: int) -> Image.Image:
    """A row for each class that is shown, of so many `classes`; `cell` is the side of an image on the sheet."""
    large, medium, small = (ImageFont.load_default(size) for size in (28, 18, 14))
    heading = _fit(title, large, LABEL + 4 * cell)
    subtitle = f"{plural(classes, 'class')}, {plural(sum(row.total for row in rows), 'image')}"
    if len(rows) < classes:
        subtitle = f"{len(rows)} of {plural(classes, 'class')}"
    names = [_fit(row.name, medium, LABEL) for row in rows]
    counts = [plural(row.total, "image") for row in rows]
    label = int(max(*map(medium.getlength, names), *map(small.getlength, counts)))
    step, left = cell + _GAP, _MARGIN + label + 24
    right = left + step * max(len(row.images) for row in rows) - _GAP
    right = max(right, *(_MARGIN + int(width) for width in (large.getlength(heading), small.getlength(subtitle))))
    sheet = Image.new("RGB", (right + _MARGIN, _HEADER + step * len(rows) + _MARGIN), _PAPER)
    draw = ImageDraw.Draw(sheet)
    draw.text((_MARGIN, 26), heading, _INK, large)
    draw.text((_MARGIN, 68), subtitle, _FAINT, small)
    for number, (name, count, row) in enumerate(zip(names, counts, rows, strict=True)):
        top = _HEADER + number * step
        middle = top + cell // 2
        draw.text((_MARGIN, middle), name, _INK, medium, anchor="ld")
        draw.text((_MARGIN, middle + 3), count, _FAINT, small, anchor="la")
        if not row.images:
            draw.text((left, middle), "no images", _FAINT, small, anchor="lm")
        for column, image in enumerate(row.images):
            x = left + column * step
            picture = Image.fromarray(np.ascontiguousarray(image))
            sheet.paste(picture.resize((cell, cell), Image.Resampling.LANCZOS), (x, top))
            draw.rectangle((x - 1, top - 1, x + cell, top + cell), outline=_LINE)  # many sketches are on white
    return sheet


def _fit(text: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, width: float) -> str:
    """A name on one line no wider than `width`, without what cannot be drawn: Pillow's font has no accents."""
    letters = (letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter))
    text = "".join(letter if letter.isprintable() else "?" for letter in letters)
    if font.getlength(text) <= width:
        return text
    kept = text[:200]
    while kept and font.getlength(kept + "...") > width:
        kept = kept[:-1]
    return kept + "..."
