"""Tables as Markdown and as comma-separated values."""

import csv
import io
from collections.abc import Sequence


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
