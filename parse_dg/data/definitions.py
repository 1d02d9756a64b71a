"""A sentence about every class, out of a text file, for methods that read captions where images have none.

A line is `class: sentence`; a class may have several lines, and classes that a data set does not have are passed
over, so that one file can serve several data sets. GVRT's authors take definitions out of a dictionary.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from parse_dg.data.domain import Benchmark
from parse_dg.data.public.cub_dg import read_lines
from parse_dg.errors import InputError
from parse_dg.wording import some


def with_definitions(benchmark: Benchmark, path: Path) -> Benchmark:
    """The benchmark whose images have the sentences about their class as captions."""
    sentences = read_definitions(path, benchmark.classes)
    domains = tuple(
        replace(domain, captions=tuple(sentences[label] for label in domain.labels.tolist()))
        for domain in benchmark.domains
    )
    return replace(benchmark, domains=domains)


def read_definitions(path: Path, classes: Sequence[str]) -> list[tuple[str, ...]]:
    """The sentences about each class, in the order of the file."""
    found: dict[str, list[str]] = {}
    for line, text in read_lines(path):
        name, colon, sentence = text.partition(":")
        if not (colon and name.strip() and sentence.strip()):
            raise InputError(f"{path}, line {line}: expected `class: sentence`, found {text[:80]!r}")
        found.setdefault(name.strip(), []).append(sentence.strip())
    if missing := [name for name in classes if name not in found]:
        raise InputError(f"{path} has no line `class: sentence` for {some(missing)}: every class needs one")
    return [tuple(found[name]) for name in classes]
