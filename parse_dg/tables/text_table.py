"""A table as it is read: a title, headings, rows of text and notes; written as Markdown or LaTeX."""

from collections.abc import Sequence
from typing import NamedTuple

from parse_dg.tables.table import markdown_table

TEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$"},
    **{"→": r"$\rightarrow$", "Λ": r"$\Lambda$", "–": "--", "−": "$-$", "√": r"$\surd$"},
}
"""How a character is written in LaTeX that would mean something else there, or nothing."""


TO_FILL = "To fill what is missing:"
"""Stands before the commands."""


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
    """What to type for what is missing, a line each."""

    def markdown(self) -> str:
        """The table in Markdown, its notes below it, and the commands as a block to copy."""
        header = [_cell(cell) for cell in self.header]
        rows = [
            [f"**{_cell(cell)}**" if (r, c) in self.bold else _cell(cell) for c, cell in enumerate(row)]
            for r, row in enumerate(self.rows)
        ]
        block = [TO_FILL, "\n".join(["```sh", *self.commands, "```"])] if self.commands else []
        return "\n\n".join([f"**{self.title}**", markdown_table(header, rows, self.names), *self.notes, *block])

    def latex(self) -> str:
        r"""The table in LaTeX, its notes in the caption; for a document that has \usepackage{booktabs}.

        Commands are comments, which are not printed.
        """
        header = " & ".join(map(_tex, self.header)) + r" \\"
        rows = [
            " & ".join(
                rf"\textbf{{{_tex(cell)}}}" if (r, c) in self.bold else _tex(cell) for c, cell in enumerate(row)
            )
            + r" \\"
            for r, row in enumerate(self.rows)
        ]
        return "\n".join(
            [
                r"\begin{table}",
                r"\centering",
                rf"\caption{{{_tex(self.title)}. {_tex(' '.join(self.notes))}}}",
                rf"\begin{{tabular}}{{{'l' * self.names}{'c' * (len(self.header) - self.names)}}}",
                r"\toprule",
                header,
                r"\midrule",
                *rows,
                r"\bottomrule",
                r"\end{tabular}",
                r"\end{table}",
                *(f"% {line}" for line in ((TO_FILL, *self.commands) if self.commands else ())),
            ]
        )


def best_cells(means: Sequence[Sequence[float | None]], names: int = 1) -> frozenset[tuple[int, int]]:
    """Where the best mean of each column is, of rows of fractions; none if there is nothing to be better than.

    Means that are shown alike, with one digit of a per cent, are equally good.
    """
    found = set()
    for number, column in enumerate(zip(*means, strict=True)):
        known = {row: round(100 * mean, 1) for row, mean in enumerate(column) if mean is not None}
        best = max(known.values(), default=None)
        if len(known) > 1:
            found |= {(row, names + number) for row, mean in known.items() if mean == best}
    return frozenset(found)


def _cell(text: str) -> str:
    """A cell that Markdown does not take for two."""
    return text.replace("|", r"\|")


def _tex(text: str) -> str:
    """Text with the characters that LaTeX would read as commands written out."""
    return "".join(TEX.get(character, character) for character in text)
