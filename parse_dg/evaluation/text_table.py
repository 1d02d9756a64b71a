"""A table as it is read: a title, headings, rows of text and notes; written as Markdown or LaTeX."""

from typing import NamedTuple

from parse_dg.evaluation.tables import markdown_table

TEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$"},
}
"""How a character is written in LaTeX that would mean something else there, or nothing."""


class TextTable(NamedTuple):
    """A table of text."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]
    names: int = 1
    """How many of the first columns are names; the others are numbers."""

    def markdown(self) -> str:
        """The table in Markdown, its notes below it."""
        header, *rows = ([cell.replace("|", r"\|") for cell in row] for row in (self.header, *self.rows))
        return "\n\n".join([f"**{self.title}**", markdown_table(header, rows, self.names), *self.notes])

    def latex(self) -> str:
        r"""The table in LaTeX, its notes in the caption; for a document that has \usepackage{booktabs}."""
        header, *rows = (" & ".join(map(_tex, row)) + r" \\" for row in (self.header, *self.rows))
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
            ]
        )


def _tex(text: str) -> str:
    """Text with the characters that LaTeX would read as commands written out."""
    return "".join(TEX.get(character, character) for character in text)
