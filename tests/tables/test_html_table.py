"""Tables as a page: whole, valid, escaped, and in need of nothing else."""

import re
from html.parser import HTMLParser

from parse_dg.tables.text_table import TextTable, html_page

VOID = ("meta", "br", "link")


class Reader(HTMLParser):
    """Every element that is opened is closed; remembers the text of each."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, str]] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.found.append((self.open[-1], data))

    def texts(self, tag: str) -> list[str]:
        return [text for where, text in self.found if where == tag]


def read(*tables: TextTable) -> Reader:
    reader = Reader()
    reader.feed(html_page(tables))
    reader.close()
    assert reader.open == []
    return reader


NASTY = "<script>alert('&\")</script>"


def test_everything_of_a_table_is_on_the_page() -> None:
    bold = frozenset({(1, 2)})
    rows = (("a", "ours", "1 ± 0"), ("b", "ours", "2 ± 0"))
    commands = ("parse-dg train --seed 1", "parse-dg train --seed 2")
    page = read(TextTable("data", ("algorithm", "source", "x"), rows, ("One.", "Two."), 2, bold, commands))
    assert page.texts("caption") == ["data"]
    assert page.texts("th") == ["algorithm", "source", "x", "a", "ours", "b", "ours"]
    assert page.texts("td") == ["1\u00a0±\u00a00"]
    assert page.texts("strong") == ["2\u00a0±\u00a00"]
    assert page.texts("li") == ["One.", "Two."]
    assert page.texts("code") == ["\n".join(commands)]
    assert page.texts("p") == ["To fill what is missing:"]


def test_nothing_is_taken_for_markup() -> None:
    page = read(TextTable(NASTY, (NASTY, "x"), ((NASTY, NASTY),), (NASTY,), 1, frozenset({(0, 1)}), (NASTY,)))
    assert page.texts("script") == []
    for tag in ("caption", "strong", "li", "code"):
        assert page.texts(tag) == [NASTY]
    assert page.texts("th") == [NASTY, "x", NASTY]


def test_the_page_stands_alone() -> None:
    text = html_page([TextTable("t", ("a", "b"), (("1", "2"),), ())])
    assert text.startswith("<!DOCTYPE html>")
    assert not re.search(r"<script|<link|<img|@import|url\(|https?:|src=|href=", text)
    assert "prefers-color-scheme: dark" in text
    assert "<pre>" not in text
    assert '<meta charset="utf-8">' in text


def test_several_tables_are_sections_of_one_page() -> None:
    one = TextTable("t", ("a", "b"), (), ())
    page = read(one, one._replace(title="u"))
    assert page.texts("caption") == ["t", "u"]
    assert ("scope", "col") in page.attributes
