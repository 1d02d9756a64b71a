"""The fields of a configuration as they are read in a terminal, as JSON, and as docs/configuration.md."""

from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from parse_dg.algorithms import ALGORITHMS
from parse_dg.cli.show.fields import FieldInWords, Section, sections
from parse_dg.runs.config import RunConfig

INTRODUCTION = """\
# Configuration

Every field of a run, with its default. A field is set with `parse-dg train --set FIELD=VALUE`, in a sweep file
under `[set]`, in Python with `change(config, {"FIELD": value})`; a run's `config.json` has them all. Recipes have
values of their own: `parse-dg config SECTION --recipe R --algorithm A` prints them. A list is typed with commas
(`1,2`; an empty one `()`), nothing as `none`.

This page is made from the code: `parse-dg config --format markdown > docs/configuration.md`.
"""
ITSELF = "the run itself"
"""What the section of the fields that are in none is called."""


def below(path: str, found: Sequence[Section]) -> list[Section]:
    """The fields of a section and of the sections in it, or the field of that path alone; all for an empty one."""
    start = f"{path}." if path else ""
    cut = [
        Section(section.path, section.meaning, tuple(f for f in section.fields if f"{f.path}.".startswith(start)))
        for section in found
    ]
    return [section for section in cut if section.fields]


def print_sections(console: Console, found: Sequence[Section]) -> None:
    """A heading for every section; for every field its path and value, its type, and its meaning."""
    for section in found:
        console.print(Text.assemble((section.path or ITSELF, "bold underline"), f"  {section.meaning}"))
        for field in section.fields:
            console.print(Padding(setting(field), (0, 0, 0, 2), expand=False))
            for text in (Text(demands(field), "cyan"), Text(field.meaning)):
                console.print(Padding(text, (0, 0, 0, 6), expand=False))
        console.print()


def print_settings(console: Console, config: RunConfig) -> None:
    """Every field and its value, a line each; a star before those that are not at their default."""
    for section in sections(config):
        for field in section.fields:
            mark = " " if field.value == field.default else "*"
            console.print(Text.assemble(f"{mark} ", setting(field)), soft_wrap=True)


def setting(field: FieldInWords) -> Text:
    """`training.steps = 5000 (default 600)`."""
    other = f" (default {field.default})" if field.value != field.default else ""
    return Text.assemble((field.path, "bold"), f" = {field.value}", (other, "yellow"))


def demands(field: FieldInWords) -> str:
    """Its type and what else it must be: `whole number: at least 1`."""
    if field.type == "choice":
        return f"one of {field.valid}"
    return f"{field.type}: {field.valid}" if field.valid else field.type


def as_page() -> str:
    """docs/configuration.md: the sections of every run, then those of every method of the package."""
    common = [section for section in sections(RunConfig()) if section.path.partition(".")[0] != "algorithm"]
    parts = [INTRODUCTION, *(_as_markdown(section, section.path or ITSELF) for section in common)]
    for name, kind in ALGORITHMS.items():
        if not kind.__module__.startswith("parse_dg."):  # a plug-in's
            continue
        own = below("algorithm", list(sections(replace(RunConfig(), algorithm=kind()))))
        parts += [_as_markdown(section, f"{section.path} of {name}") for section in own]
    return "\n".join(parts)


def _as_markdown(section: Section, title: str) -> str:
    lines = [f"## {title}", "", section.meaning, "", "| field | type | default | meaning |", "|---|---|---|---|"]
    for field in section.fields:
        cells = (f"`{field.path}`", demands(field), f"`{field.default}`", field.meaning)
        lines.append(" | ".join(("", *(cell.replace("|", "\\|") for cell in cells), "")).strip())
    return "\n".join([*lines, ""])
