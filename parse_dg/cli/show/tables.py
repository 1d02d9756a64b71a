"""Tables as they are printed: in a terminal, or as a file of another format would have them.

In a terminal of few columns no word is broken and nothing is left out. Where a table does not fit as it is, lines
between columns go, cells go on in a second line between words, headings that are wider than what is below them are
shortened, with a legend; and what still finds no room follows in a block of its own, beside the names again.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from textwrap import wrap
from typing import Any, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, JustifyMethod
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from parse_dg.cli.options import say
from parse_dg.tables.text_table import TO_FILL, TextTable, columns_beside, html_page, spreadsheet_csv

ColumnWidths = dict[int, int]
"""Columns that are printed beside each other: the width of each, by its number."""
GAP, FRAME = 2, 3
"""What a column takes beside its text: without lines, and with them."""


class FittedTable(NamedTuple):
    """How a table is printed."""

    blocks: tuple[ColumnWidths, ...]
    header: tuple[str, ...]
    legend: tuple[str, ...] = ()
    tight: bool = False


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
    parts = columns_beside([room + GAP for room in least], names, width + GAP)
    blocks = [_spread(part, natural, least, names, width) for part in parts]
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


COMMANDS_SHOWN = 12
"""In the terminal; every other form has them all."""


def print_rows(
    console: Console, header: Sequence[str], rows: Iterable[Sequence[str]], names: int = 1, title: str = ""
) -> None:
    """A table without notes; the first columns are `names`, to the left, the others numbers, to the right."""
    print_table(console, TextTable(title, tuple(header), tuple(map(tuple, rows)), (), names))


def print_table(console: Console, text: TextTable) -> None:
    """A table of text, with its title above, its notes below, and commands on lines of their own."""
    fitted = fit(text.header, text.rows, text.names, console.width)
    for block in fitted.blocks:
        room = max(console.width, sum(block.values()) + FRAME * len(block) + 1)  # a path may be longer than a line
        console.print(_Wide(_grid(text, block, fitted), room), crop=False)
    for note in (*fitted.legend, *text.notes):
        say(console, *wrap(note, console.width, break_long_words=False, break_on_hyphens=False))  # paths stay whole
    if text.commands:
        say(console, TO_FILL, *(f"  {command}" for command in text.commands[:COMMANDS_SHOWN]))
    if len(text.commands) > COMMANDS_SHOWN:
        say(console, f"  and {len(text.commands) - COMMANDS_SHOWN} more: --format markdown lists them all")


class _Wide(NamedTuple):
    """Something that is drawn in so much room, whatever the terminal has."""

    shown: Table
    room: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        yield from console.render(self.shown, options.update(width=self.room))


def _grid(text: TextTable, block: ColumnWidths, fitted: FittedTable) -> Table:
    """Some of the columns; without lines between them where room is scarce."""
    looks: dict[str, Any] = {"box": SIMPLE_HEAD, "padding": (0, 1, 0, 0), "pad_edge": False, "show_edge": False}
    shown = Table(title=text.title and Text(text.title), title_justify="left", **looks if fitted.tight else {})
    for column, width in block.items():
        side: JustifyMethod = "left" if column < text.names else "right"
        shown.add_column(Text(fitted.header[column]), justify=side, width=width)
    for r, row in enumerate(text.rows):
        shown.add_row(*(Text(row[c], style="bold" if (r, c) in text.bold else "") for c in block))
    return shown


def show(console: Console, style: str, tables: Sequence[TextTable], as_csv: Callable[[], str]) -> None:
    """Tables in the form that was asked for."""
    match style:
        case "markdown":
            say(console, "\n\n".join(each.markdown() for each in tables))
        case "csv":
            say(console, spreadsheet_csv(as_csv()))
        case "csv-raw":
            say(console, as_csv())
        case "latex":
            say(console, "\n\n".join(each.latex() for each in tables))
        case "html":
            say(console, html_page(tables))
        case _:
            for each in tables:
                print_table(console, each)
