"""Tables as they are printed: in a terminal, or as a file of another format would have them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from textwrap import wrap
from typing import Any, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, JustifyMethod
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from parse_dg.cli.options import say
from parse_dg.cli.show.fitting import FRAME, ColumnWidths, FittedTable, fit
from parse_dg.tables.text_table import TO_FILL, TextTable, html_page, spreadsheet_csv

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
