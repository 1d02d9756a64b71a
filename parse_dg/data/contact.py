"""A contact sheet: some images of every class of a domain on one page, to see at a glance what is in it."""

import unicodedata
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageDraw, ImageFont

from parse_dg.errors import InputError
from parse_dg.files import attempting, whole_file
from parse_dg.wording import plural

ROWS = 12
"""Classes on a sheet, at most."""
COLUMNS = 12
"""Images of a class on a sheet, at most."""
LABEL = 230
"""Pixels that a class name may take, at most."""

_PAPER, _INK, _FAINT, _LINE = "#fbfaf7", "#1f1f1f", "#77736b", "#d8d4ca"
_MARGIN, _GAP, _HEADER = 36, 8, 104

_Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


def spread(count: int, most: int = ROWS) -> tuple[int, ...]:
    """Up to `most` of the numbers 0 to count - 1, the first and the last among them, evenly spread."""
    if count <= most:
        return tuple(range(count))
    return tuple(round(place) for place in np.linspace(0, count - 1, most).tolist())


def contact_sheet(
    title: str,
    classes: Sequence[str],
    rows: Sequence[Sequence[UInt8[np.ndarray, "S S 3"]]],
    path: Path,
    *,
    counts: Sequence[int] | None = None,
    of: int | None = None,
    cell: int = 112,
) -> None:
    """Writes a PNG with a row for each class: its name, how many images it has, and those given of them.

    Of more than `ROWS` classes some are chosen by `spread`; whoever has chosen already says `of` how many. `counts`
    has an entry for each class, `cell` is the side of an image on the sheet.
    """
    if not len(classes) == len(rows) == (len(classes) if counts is None else len(counts)):
        raise InputError(f"a contact sheet of {len(classes)} classes needs as many rows and counts")
    chosen = spread(len(classes))
    names = [_drawable(classes[index]) for index in chosen]
    shown = [rows[index][:COLUMNS] for index in chosen]
    below = ["" if counts is None else plural(counts[index], "image") for index in chosen]
    large, medium, small = (ImageFont.load_default(size) for size in (28, 18, 14))
    heading = _fit(_drawable(title), large, LABEL + 4 * cell)
    subtitle = _subtitle(len(chosen), of or len(classes), counts)
    label = max(
        [0, *(min(_width(name, medium), LABEL) for name in names), *(_width(text, small) for text in below)]
    )
    step = cell + _GAP
    across = max(
        [
            _width(heading, large),
            _width(subtitle, small),
            label + 24 + step * max(map(len, shown), default=0) - _GAP,
        ]
    )
    sheet = Image.new("RGB", (int(across) + 2 * _MARGIN, _HEADER + step * len(chosen) + _MARGIN), _PAPER)
    draw = ImageDraw.Draw(sheet)
    draw.text((_MARGIN, 26), heading, _INK, large)
    draw.text((_MARGIN, 68), subtitle, _FAINT, small)
    for number, (name, text, images) in enumerate(zip(names, below, shown, strict=True)):
        top = _HEADER + number * step
        middle = top + cell // 2
        draw.text((_MARGIN, middle), _fit(name, medium, LABEL), _INK, medium, anchor="ld" if text else "lm")
        draw.text((_MARGIN, middle + 3), text, _FAINT, small, anchor="la")
        left = _MARGIN + int(label) + 24
        if not images:
            draw.text((left, middle), "no images", _FAINT, small, anchor="lm")
        for column, image in enumerate(images):
            _paste(sheet, draw, image, (left + column * step, top), cell)
    _save(sheet, path)


def _subtitle(shown: int, of: int, counts: Sequence[int] | None) -> str:
    if shown < of:
        return f"{shown} of {plural(of, 'class')}"
    return plural(of, "class") if counts is None else f"{plural(of, 'class')}, {plural(sum(counts), 'image')}"


def _drawable(text: str) -> str:
    """A name on one line, without what cannot be drawn: a file may be called anything.

    Pillow's own font has no accents, so letters lose theirs; what else it lacks, it draws as boxes.
    """
    letters = (letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter))
    return "".join(letter if letter.isprintable() else "?" for letter in letters)


def _width(text: str, font: _Font) -> float:
    return font.getlength(text)


def _fit(text: str, font: _Font, width: float) -> str:
    """A text that is not wider than `width`: what is too long ends in three dots."""
    if _width(text, font) <= width:
        return text
    kept = text[:200]
    while kept and _width(kept + "...", font) > width:
        kept = kept[:-1]
    return kept + "..."


def _paste(
    sheet: Image.Image,
    draw: ImageDraw.ImageDraw,
    image: UInt8[np.ndarray, "S S 3"],
    place: tuple[int, int],
    cell: int,
) -> None:
    """An image in its cell, with a fine line around it: many sketches are black on white."""
    picture = Image.fromarray(np.ascontiguousarray(image))
    sheet.paste(picture.resize((cell, cell), Image.Resampling.LANCZOS), place)
    left, top = place
    draw.rectangle((left - 1, top - 1, left + cell, top + cell), outline=_LINE)


def _save(sheet: Image.Image, path: Path) -> None:
    """Write a PNG, and the folders above it."""
    with attempting(f"write the contact sheet {path}", "choose another place"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path, shared=True) as temporary:
            sheet.save(temporary, "PNG")
