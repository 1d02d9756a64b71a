"""Every field of a configuration in words: what it means, its type, what is valid, its value and its default."""

import ast
import inspect
import textwrap
import types
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from parse_dg.config import SCALARS, as_typed, field_types

WORDS = {**{kind: words.removeprefix("a ") for kind, words in SCALARS.items()}, bool: "true or false"}


@dataclass(frozen=True, kw_only=True)
class FieldInWords:
    """A field, for a person who wants to set it."""

    path: str
    """As it is typed after `--set`."""
    meaning: str
    type: str
    valid: str
    """What else it must be; empty where any value of its type will do."""
    value: str
    """As it is typed."""
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
