"""Tables in narrow terminals: every word is whole, and every cell is there."""

import io

import pytest
from rich.console import Console

from parse_dg.cli.show.fitting import fit
from parse_dg.cli.show.tables import print_table
from parse_dg.tables.text_table import TextTable

DOMAINS = ("art_painting", "art_paintball", "cartoon", "photo", "sketch", "Avg")
ROWS = (
    ("erm", "ours", *["88.1 ± 0.1"] * 6),
    ("no_relations+ema", "ours", "87.0 (1 of 2 trials)", *["missing"] * 5),
    ("runs/a-path/that/is/longer/than/a/narrow/terminal/is/wide/and/stays/whole", "x", *["–"] * 6),
)
TABLE = TextTable("PACS", ("algorithm", "source", *DOMAINS), ROWS, (f"In {ROWS[2][0]} it is said.",), names=2)


def printed(table: TextTable, width: int) -> str:
    console = Console(file=io.StringIO(), width=width)
    print_table(console, table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [40, 80, 100, 200])
def test_no_word_is_broken_and_nothing_left_out(width: int) -> None:
    found = printed(TABLE, width)
    said = fit(TABLE.header, ROWS, 2, width).legend
    legend = dict(pair.split(" = ") for line in said for pair in line.split("; "))
    words = {legend.get(word, word) for word in found.split()}
    cells = {word for row in (TABLE.header, *ROWS) for cell in row for word in cell.split()}
    assert cells | set(legend.values()) <= words | set(legend.values())
    assert found.count("88.1 ± 0.1") == 6
    assert len(set(legend)) == len(set(legend.values()))


def test_seventy_columns_are_enough_for_a_table_of_targets() -> None:
    header, rows = ("algorithm", *DOMAINS[:1], *DOMAINS[2:]), (("no_relations", *["88.1 ± 0.1"] * 5),)
    fitted = fit(header, rows, 1, 72)
    assert (len(fitted.blocks), fitted.legend, fitted.header[1]) == (1, ("art = art_painting",), "art")
    assert all(
        len(line) <= 72 for line in printed(TextTable("PACS", header, rows, ("word " * 40,)), 72).splitlines()
    )
