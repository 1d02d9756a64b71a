"""Text files with one thing on a line: each is parsed, and the first that cannot be is named."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from parse_dg.errors import InputError
from parse_dg.files import attempting

T = TypeVar("T")


def read_lines(path: Path, expected: str, parse: Callable[[str], T | None]) -> list[T]:
    """What the lines of a file of UTF-8 say, empty ones left out; `parse` gives None for what is not `expected`."""
    with attempting(f"read {path}", also=UnicodeDecodeError):
        lines = path.read_text(encoding="utf-8").splitlines()
    found = []
    for number, line in enumerate(map(str.strip, lines), 1):
        if line:
            parsed = parse(line)
            if parsed is None:
                raise InputError(f"{path}, line {number}: expected {expected}, found {line[:80]!r}")
            found.append(parsed)
    return found


def read_numbered(path: Path, expected: str) -> dict[int, str]:
    """The names that a file gives to numbers, `7 name` a line, in its order."""
    lines = read_lines(path, expected, re.compile(r"(\d+)\s+(.+)").fullmatch)
    return {int(line[1]): line[2] for line in lines}
