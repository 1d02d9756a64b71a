"""Tables as one HTML page: it needs no other file and no script, and follows the reader's light or dark scheme."""

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from parse_dg.tables.text_table import TO_FILL, TextTable


def page_template(path: Path) -> Template:
    """A page in which text is text: whatever is not marked as HTML is escaped."""
    loader = FileSystemLoader(path.parent)
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(path.name)


def html_page(tables: Sequence[TextTable], title: str = "parse-dg table") -> str:
    """A page with every table, its notes and its commands below it."""
    return page_template(Path(__file__).with_name("tables.html")).render(
        tables=tables, title=title, to_fill=TO_FILL
    )
