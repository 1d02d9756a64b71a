"""Tables as one HTML page: it needs no other file and no script, and follows the reader's light or dark scheme."""

from collections.abc import Sequence
from html import escape

from parse_dg.tables.text_table import TO_FILL, TextTable

STYLE = """
:root { color-scheme: light dark }
:root { --ink: #1d1d1f; --paper: #ffffff; --rule: #c9c9cf; --soft: #f3f3f6; --quiet: #55555c }
@media (prefers-color-scheme: dark) {
  :root { --ink: #ececf0; --paper: #17171a; --rule: #47474f; --soft: #232328; --quiet: #a9a9b2 }
}
body { background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto;
  max-width: 75rem; padding: 0 1rem }
h1 { font-size: 1.4rem }
section { margin: 2.5rem 0 }
.wide { overflow-x: auto }
table { border-collapse: collapse; border-top: 2px solid var(--ink); border-bottom: 2px solid var(--ink) }
caption { text-align: left; font-weight: 600; padding-bottom: .4rem; white-space: nowrap }
th, td { padding: .35rem .8rem; text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
th.name { text-align: left }
thead th { border-bottom: 1px solid var(--ink) }
tbody th { font-weight: 400 }
tbody tr + tr > * { border-top: 1px solid var(--rule) }
tbody tr:nth-child(even) { background: var(--soft) }
.notes { color: var(--quiet); font-size: .875rem; margin: .8rem 0; padding: 0; list-style: none; max-width: 62rem }
pre { background: var(--soft); border: 1px solid var(--rule); border-radius: 6px; padding: .7rem .9rem;
  font-size: .8125rem; overflow-x: auto }
"""


def html_page(tables: Sequence[TextTable], title: str = "parse-dg table") -> str:
    """A page with every table, its notes and its commands below it."""
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}</style>",
            "</head>",
            "<body>",
            f"<h1>{escape(title)}</h1>",
            *(_section(table) for table in tables),
            "</body>",
            "</html>",
        ]
    )


def _section(table: TextTable) -> str:
    notes = [f"<li>{escape(note)}</li>" for note in table.notes]
    lines = escape("\n".join(table.commands))
    commands = [f'<p class="notes">{TO_FILL}</p>', f"<pre><code>{lines}</code></pre>"] if lines else []
    head = "".join(
        _cell("th", ' scope="col"', n < table.names, escape(cell)) for n, cell in enumerate(table.header)
    )
    return "\n".join(
        [
            "<section>",
            '<div class="wide">',
            f"<table><caption>{escape(table.title)}</caption>",
            f"<thead><tr>{head}</tr></thead>",
            "<tbody>",
            *(_row(table, number) for number in range(len(table.rows))),
            "</tbody></table>",
            "</div>",
            *(['<ul class="notes">', *notes, "</ul>"] if notes else []),
            *commands,
            "</section>",
        ]
    )


def _row(table: TextTable, number: int) -> str:
    cells = []
    for column, text in enumerate(table.rows[number]):
        shown = f"<strong>{escape(text)}</strong>" if (number, column) in table.bold else escape(text)
        name = column < table.names
        cells.append(_cell("th", ' scope="row"', True, shown) if name else _cell("td", "", False, shown))
    return f"<tr>{''.join(cells)}</tr>"


def _cell(tag: str, scope: str, name: bool, inside: str) -> str:
    mark = ' class="name"' if name else ""
    return f"<{tag}{scope}{mark}>{inside}</{tag}>"
