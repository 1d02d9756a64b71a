"""A table in a terminal of few columns: no word is broken and nothing is left out.

Where it does not fit as it is, the lines between columns go, cells go on in a second line between words, headings
that are wider than what is below them are shortened, with a legend; and what still finds no room follows in a block
of its own, beside the names again.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.cells import cell_len

ColumnWidths = dict[int, int]
"""Columns that are printed beside each other: the width of each, by its number."""
GAP, FRAME = 2, 3
"""What a column takes beside its text: without lines, and with them."""


class FittedTable(NamedTuple):
    """How a table is printed."""

    blocks: tuple[ColumnWidths, ...]
    header: tuple[str, ...]
    """Shortened where need be."""
    legend: tuple[str, ...] = ()
    """What the short headings stand for."""
    tight: bool = False
    """Without lines between columns."""


def fit(header: Sequence[str], rows: Sequence[Sequence[str]], names: int, width: int) -> FittedTable:
    """The columns of a table in a terminal of so many characters; the first are `names`."""
    columns = list(zip(*rows, strict=True)) if rows else [() for _ in header]
    natural = [max(map(cell_len, (heading, *cells))) for heading, cells in zip(header, columns, strict=True)]
    if sum(natural) + FRAME * len(natural) + 1 <= width:
        return FittedTable((dict(enumerate(natural)),), tuple(header))
    least = [max((_longest(cell) for cell in cells), default=1) for cells in columns]
    short = _shorten(header, least) if _taken(map(_longest, header), least) > width else list(header)
    least = [max(_longest(heading), room) for heading, room in zip(short, least, strict=True)]
    legend = [f"{a} = {b}" for a, b in zip(short, header, strict=True) if a != b]
    blocks = [_spread(block, natural, least, names, width) for block in _blocks(least, names, width)]
    return FittedTable(tuple(blocks), tuple(short), tuple(["; ".join(legend)] if legend else []), tight=True)


def _longest(text: str) -> int:
    """The widest of what stays together: a word, or a number with what is after its ±."""
    return max(int(cell_len(part)) for part in re.split(r"(?<!±) (?!±)", text))


def _taken(*widths: Iterable[int]) -> int:
    """What columns take that are as wide as the widest of these."""
    found: list[int] = [max(each) for each in zip(*widths, strict=True)]
    return sum(found) + GAP * (len(found) - 1)


def _shorten(header: Sequence[str], room: Sequence[int]) -> list[str]:
    """Headings as wide as what is below them: the first part of the name, or its beginning; each another."""
    short: list[str] = []
    for heading, most in zip(header, room, strict=True):
        most = max(most, 3)
        if _longest(heading) <= most:
            short.append(heading)
            continue
        first = re.split(r"[_ -]", heading)[0]
        tried = (first, heading[:most], *(f"{heading[: most - len(str(n))]}{n}" for n in range(1, len(header) + 1)))
        short.append(next(text for text in tried if len(text) <= most and text not in (*short, *header)))
    return short


def _blocks(least: Sequence[int], names: int, width: int) -> list[list[int]]:
    """Which columns are beside each other; every block begins with the names."""
    beside = list(range(names))
    blocks = [beside.copy()]
    for column in range(names, len(least)):
        if len(blocks[-1]) > names and _taken([least[c] for c in (*blocks[-1], column)]) > width:
            blocks.append(beside.copy())
        blocks[-1].append(column)
    return blocks


def _spread(
    block: Sequence[int], natural: Sequence[int], least: Sequence[int], names: int, width: int
) -> ColumnWidths:
    """The widths of a block: what is left over lets columns be as wide as they want, those first that want little;
    then of names the one that wants most.
    """
    found = {column: least[column] for column in block}
    wanted = sorted(block, key=lambda column: natural[column] - least[column])
    left = width - _taken(list(found.values()))
    for column in wanted:
        more = max(0, natural[column] - least[column])
        if more <= left or (column == wanted[-1] and column < names):
            found[column] += max(0, min(more, left))
            left -= more
    return found
