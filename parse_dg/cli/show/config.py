"""The fields of a configuration in words, as they are read in a terminal, as JSON, and as docs/configuration.md."""

import ast
import inspect
import textwrap
import types
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from parse_dg.algorithms import ALGORITHMS
from parse_dg.config import SCALARS, as_typed, field_types
from parse_dg.runs.config import RunConfig

WORDS = {**{kind: words.removeprefix("a ") for kind, words in SCALARS.items()}, bool: "true or false"}


@dataclass(frozen=True, kw_only=True)
class FieldInWords:
    """A field, for a person who wants to set it."""

    path: str
    meaning: str
    type: str
    valid: str
    """What else it must be; empty where any value of its type will do."""
    value: str
    default: str


class Section(NamedTuple):
    """Fields that belong together."""

    path: str
    """Empty for those of the configuration itself."""
    meaning: str
    fields: tuple[FieldInWords, ...]


def sections(config: Any, path: str = "") -> Iterator[Section]:
    """The fields of a configuration, section by section."""
    kind, prefix = type(config), f"{path}." if path else ""
    inside = {field.name: getattr(config, field.name) for field in fields(config)}
    defaults = {field.name: field.default for field in fields(config)}
    said = meanings(kind)  # type: ignore[arg-type]
    own = tuple(
        FieldInWords(
            path=prefix + name,
            meaning=said.get(name, ""),
            type=in_words(field_types(kind)[name]),
            valid=valid_values(field_types(kind, rules=True)[name]),
            value=typed(value),
            default="" if defaults[name] is MISSING else typed(defaults[name]),
        )
        for name, value in inside.items()
        if not is_dataclass(value)
    )
    if own:
        yield Section(path, " ".join((inspect.getdoc(kind) or "").partition("\n\n")[0].split()), own)
    for name, value in inside.items():
        if is_dataclass(value):
            yield from sections(value, prefix + name)


@cache
def meanings(kind: Any) -> dict[str, str]:
    """The docstring of each field: the text after it in the source, there or in a class it inherits from."""
    found: dict[str, str] = {}
    for ancestor in reversed(kind.__mro__[:-1]):
        try:
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(ancestor))).body
        except (OSError, TypeError, SyntaxError):  # typed into an interpreter: its source is not kept
            continue
        body = tree.body if isinstance(tree, ast.ClassDef) else []
        for field, text in pairwise(body):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(said))):
                    found[name] = " ".join(said.split())
    return found


def typed(value: Any) -> str:
    """A value as it is typed on a command line."""
    return as_typed(list(value) if isinstance(value, tuple) else value)


def in_words(kind: Any) -> str:
    """A field's type: `whole number`, `list of numbers, or none`."""
    origin, options = get_origin(kind), get_args(kind)
    if origin is Literal:
        return "choice"
    if origin in (Union, types.UnionType):
        return ", or ".join(in_words(option) for option in options)
    if origin is tuple:
        count = "" if options[-1] is Ellipsis else f"{len(options)} "
        return f"list of {count}{in_words(options[0])}".removesuffix("s") + ("" if options[0] is str else "s")
    return "none" if kind is type(None) else WORDS.get(kind, str(kind))


def valid_values(kind: Any) -> str:
    """What a value must be beyond its type."""
    origin, options = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return " and ".join(rule.words for rule in options[1:])
    if origin is Literal:
        return ", ".join(map(str, options))
    return next(filter(None, map(valid_values, options)), "") if origin else ""


INTRODUCTION = """\
# Configuration

Every field of a run, with its default. A field is set with `parse-dg train --set FIELD=VALUE`, in a sweep file
under `[set]`, in Python with `change(config, {"FIELD": value})`; a run's `config.json` has them all. Recipes have
values of their own: `parse-dg config SECTION --recipe R --algorithm A` prints them. A list is typed with commas
(`1,2`; an empty one `()`), nothing as `none`.

This page is made from the code: `parse-dg config --format markdown > docs/configuration.md`.
"""
ITSELF = "the run itself"


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
