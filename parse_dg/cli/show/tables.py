"""Tables as they are printed: in a terminal, or as a file of another format would have them."""

from collections.abc import Callable, Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from parse_dg.cli.options import say
from parse_dg.tables.text_table import TO_FILL, TextTable, html_page

COMMANDS_SHOWN = 12
"""In the terminal; every other form has them all."""


def print_rows(
    console: Console, header: Sequence[str], rows: Iterable[Sequence[str]], names: int = 1, title: str = ""
) -> None:
    """A table without notes; the first columns are `names`, to the left, the others numbers, to the right."""
    print_table(console, TextTable(title, tuple(header), tuple(map(tuple, rows)), (), names))


def print_table(console: Console, text: TextTable) -> None:
    """A table of text, with its title above, its notes below, and commands on lines of their own."""
    shown = Table(title=Text(text.title) if text.title else None, title_justify="left")
    for number, heading in enumerate(text.header):
        shown.add_column(Text(heading), justify="left" if number < text.names else "right", overflow="fold")
    for r, row in enumerate(text.rows):
        shown.add_row(*(Text(cell, style="bold" if (r, c) in text.bold else "") for c, cell in enumerate(row)))
    console.print(shown)
    for note in text.notes:
        console.print(note, markup=False, emoji=False)
    if text.commands:
        say(console, TO_FILL, *(f"  {command}" for command in text.commands[:COMMANDS_SHOWN]))
    if len(text.commands) > COMMANDS_SHOWN:
        say(console, f"  and {len(text.commands) - COMMANDS_SHOWN} more: --format markdown lists them all")


def show(console: Console, style: str, tables: Sequence[TextTable], as_csv: Callable[[], str]) -> None:
    """Tables in the form that was asked for."""
    match style:
        case "markdown":
            say(console, "\n\n".join(each.markdown() for each in tables))
        case "csv":
            say(console, as_csv())
        case "latex":
            say(console, "\n\n".join(each.latex() for each in tables))
        case "html":
            say(console, html_page(tables))
        case _:
            for each in tables:
                print_table(console, each)
