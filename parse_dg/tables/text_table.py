"""A table as it is read: a title, headings, rows of text and notes; as Markdown, LaTeX, HTML or CSV."""

import csv
import io
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from jinja2 import Template

TEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$"},
    **{"→": r"$\rightarrow$", "Λ": r"$\Lambda$", "–": "--", "−": "$-$", "√": r"$\surd$"},
}
"""How a character is written in LaTeX that would mean something else there, or nothing."""
DISPLAY_NAMES = {
    **{name: name.upper() for name in ("erm", "dann", "cdann", "coral", "gvrt", "miro", "parse")},
    **{"group_dro": "GroupDRO", "mixup": "MixUp", "sagnet": "SagNet"},
    **{"erm_plus_plus": "ERM++", "no_relations": "No Relations"},
}
FORMULA = re.compile(r"[=@\t\r]|[+-](?!\d+(\.\d+)?(e[+-]?\d+)?$)")
"""What a cell begins with that a spreadsheet computes, and may do more than that; a number does not."""
TO_FILL = "To fill what is missing:"
PAGE = 100
"""Characters of a row that find room across a page of a paper."""


class TextTable(NamedTuple):
    """A table of text."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]
    names: int = 1
    """How many of the first columns are names; the others are numbers."""
    bold: frozenset[tuple[int, int]] = frozenset()
    """The cells that stand out, each by the numbers of its row and of its column."""
    commands: tuple[str, ...] = ()
    caption: str = ""
    """In a paper: two sentences; the title where there are none."""

    def markdown(self) -> str:
        rows = self._cells(lambda cell: cell.replace("|", r"\|"), "**{}**")  # else Markdown takes one for two
        header = [heading.replace("|", r"\|") for heading in self.header]
        block = [TO_FILL, "\n".join(["```sh", *self.commands, "```"])] if self.commands else []
        return "\n\n".join([f"**{self.title}**", markdown_table(header, rows, self.names), *self.notes, *block])

    def latex(self) -> str:
        r"""The table in LaTeX, its notes below it; for a document that has \usepackage{booktabs}.

        Columns that a page has no room for follow below, beside the names again.
        Methods are called as in papers, in the notes too. Commands are comments, which are not printed.
        """
        header = [_tex(heading.replace("_", " ")) for heading in self.header]
        named = self._replace(rows=tuple((display_name(row[0]), *row[1:]) for row in self.rows))
        rows = named._cells(_tex, r"\textbf{{{}}}")
        methods = "|".join(re.escape(row[0]) for row in sorted(self.rows, reverse=True))  # erm+ema before erm
        called = rf"(?<![\w-])({methods})(?![\w-])"
        notes = [_tex(re.sub(called, lambda found: display_name(found[0]), note)) for note in self.notes]
        widths = [2 + max(map(len, column)) for column in zip(self.header, *self.rows, strict=True)]
        parts = columns_beside(widths, self.names, PAGE)
        label = re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")
        return "\n".join(
            [
                r"\begin{table}",
                r"\centering",
                rf"\caption{{{_tex(self.caption or f'{self.title}.')}}}",
                rf"\label{{tab:{label}}}",
                "\n\\par\\medskip\n".join(_tabular([header, *rows], part, self.names) for part in parts),
                *([r"\par\medskip", r"\begin{minipage}{\linewidth}\footnotesize"] if notes else []),
                *([" \\par\n".join(notes), r"\end{minipage}"] if notes else []),
                r"\end{table}",
                *(f"% {line}" for line in ((TO_FILL, *self.commands) if self.commands else ())),
            ]
        )

    def _cells(self, write: Callable[[str], str], bold: str) -> list[list[str]]:
        """Every cell as it is written in some language; `bold` is how one stands out there."""
        return [
            [bold.format(write(cell)) if (r, c) in self.bold else write(cell) for c, cell in enumerate(row)]
            for r, row in enumerate(self.rows)
        ]


def columns_beside(widths: Sequence[int], names: int, room: int) -> list[list[int]]:
    """Which columns find room beside each other; every part begins with the names."""
    parts = [list(range(names))]
    for column in range(names, len(widths)):
        if len(parts[-1]) > names and sum(widths[c] for c in (*parts[-1], column)) > room:
            parts.append(list(range(names)))
        parts[-1].append(column)
    return parts


def best_cells(means: Sequence[Sequence[float | None]]) -> frozenset[tuple[int, int]]:
    """Where the best mean of each column is, of rows of fractions; none if there is nothing to be better than.

    Means that are shown alike, with one digit of a per cent, are equally good.
    """
    found = set()
    for number, column in enumerate(zip(*means, strict=True), start=1):  # after the one of names
        known = {row: round(100 * mean, 1) for row, mean in enumerate(column) if mean is not None}
        best = max(known.values(), default=None)
        if len(known) > 1:
            found |= {(row, number) for row, mean in known.items() if mean == best}
    return frozenset(found)


def display_name(cell: str) -> str:
    """A method as papers call it, with what follows its name: `no_relations+ema` → `No Relations+EMA`."""
    name, sign, more = re.fullmatch(r"(\w*)([^\w]?)(.*)", cell, re.DOTALL).groups()  # type: ignore[union-attr]
    if name not in DISPLAY_NAMES:
        return cell
    return DISPLAY_NAMES[name] + sign + (more.upper() if sign == "+" else more)


def _tex(text: str) -> str:
    return "".join(TEX.get(character, character) for character in text)


def _tabular(rows: Sequence[Sequence[str]], columns: Sequence[int], names: int) -> str:
    head, *lines = (" & ".join(row[c] for c in columns) + r" \\" for row in rows)
    begin = rf"\begin{{tabular}}{{{'l' * names}{'c' * (len(columns) - names)}}}"
    return "\n".join([begin, r"\toprule", head, r"\midrule", *lines, r"\bottomrule", r"\end{tabular}"])


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]], names: int = 1) -> str:
    """A table in Markdown: the first columns are `names`, to the left; the others are numbers, to the right."""
    rule = "|---" * names + "|---:" * (len(header) - names) + "|"
    head, *lines = ("| " + " | ".join(row) + " |" for row in (header, *rows))
    return "\n".join([head, rule, *lines])


def csv_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table as comma-separated values, a line a row."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows((header, *rows))
    return text.getvalue().rstrip("\n")


def spreadsheet_cell(cell: object) -> object:
    """A cell as it is, with an apostrophe before it if a spreadsheet would take it for a formula."""
    return f"'{cell}" if isinstance(cell, str) and FORMULA.match(cell) else cell


def spreadsheet_csv(table: str) -> str:
    """Comma-separated values in which no cell is a formula."""
    header, *rows = (
        [str(spreadsheet_cell(cell)) for cell in row] for row in csv.reader(io.StringIO(table, newline=""))
    )
    return csv_table(header, rows)


def page_template(path: Path) -> "Template":
    """A page in which text is text: whatever is not marked as HTML is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    pages = Environment(undefined=StrictUndefined, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    pages.loader = FileSystemLoader(path.parent)
    return pages.get_template(path.name)


def html_page(tables: Sequence[TextTable], title: str = "parse-dg table") -> str:
    """A page with every table, its notes and its commands below it.

    It needs no other file and no script, and follows the reader's light or dark scheme.
    """
    page = page_template(Path(__file__).with_name("tables.html"))
    return page.render(tables=tables, title=title, to_fill=TO_FILL)
