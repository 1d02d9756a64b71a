"""HTML from Python, in which text is text: whatever is not marked as HTML is escaped."""

from collections.abc import Iterable
from html import escape

VOID = ("meta", "img", "rect", "line", "path", "polyline", "circle")
"""Elements that hold nothing."""


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(tag: str, *inside: str, **attributes: str | bool) -> Html:
    """An element. Plain strings inside are escaped; `class_` is the attribute class, `aria_label` aria-label.

    An attribute that is True stands alone, one that is False is left out.
    """
    words = "".join(_attribute(name, value) for name, value in attributes.items() if value is not False)
    content = "".join(html(each) for each in inside)
    return Html(f"<{tag}{words}/>" if tag in VOID else f"<{tag}{words}>{content}</{tag}>")


def html(text: str) -> Html:
    """Plain text as HTML; what is HTML stays as it is."""
    return text if isinstance(text, Html) else Html(escape(text))


def joined(parts: Iterable[str], separator: str = "\n") -> Html:
    """Several pieces one after another, each escaped unless it is HTML."""
    return Html(separator.join(html(part) for part in parts))


def _attribute(name: str, value: str | bool) -> str:
    spelled = name.rstrip("_").replace("_", "-")
    return f" {spelled}" if value is True else f' {spelled}="{escape(str(value))}"'
