"""How things are said, wherever they are said: names on one line, a few of many, counts and percentages."""

import re
from collections.abc import Sequence

DIRECTION = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Marks that turn the direction of the text that follows."""
UNPRINTABLE = re.compile(f"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]|{DIRECTION.pattern}")
"""Control characters, ends of lines, those marks, and the halves of characters that stand for what is no UTF-8."""


def escaped(found: re.Match[str]) -> str:
    """A character as Python writes it."""
    return ascii(found[0])[1:-1]


def printable(text: str) -> str:
    """The text if it can be shown on one line, else with escapes in quotes."""
    return ascii(text) if UNPRINTABLE.search(text) else text


def first_line(error: object) -> str:
    """The first line of an error's message; its type where it has none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def some(things: Sequence[object], shown: int = 5, separator: str = ", ") -> str:
    """The first few things, and how many more there are: `cat, dog and 5 more`."""
    more = f" and {len(things) - shown:,} more" if len(things) > shown else ""
    return separator.join(str(thing) for thing in things[:shown]) + more


def short(value: object, length: int = 60) -> str:
    """A value as an error shows it, whatever it is."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, lists in lists
        text = f"a {type(value).__name__} that is too long to be shown"
    return text if len(text) <= length else f"{text[:length]}…"


def plural(count: int, noun: str) -> str:
    """A count of things: `1 image`, `1,200 images`, `7 classes`."""
    ending = "" if count == 1 else "es" if noun.endswith("s") else "s"
    return f"{count:,} {noun}{ending}"


def percent(fraction: float) -> str:
    """0.8125 → 81.2%."""
    return f"{100 * fraction:.1f}%"
