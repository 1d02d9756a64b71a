"""Configurations as frozen dataclasses: checked when built, written to and read from JSON, changed field by field.

A configuration is a frozen, keyword-only dataclass whose fields are booleans, numbers, strings, `Literal`s,
tuples, `None`, other configurations, or one of a family of configurations, which are told apart by their class
variable `name` and found in the class variable `family` of their common base.
What else a value must be is a `Rule` in the field's type. A check knows its own fields only; whoever reads or
changes a whole configuration puts the section before them, so that an error names what can be typed.
"""

import difflib
import math
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar, get_args, get_origin

from parse_dg.errors import FieldError, InputError, unknown
from parse_dg.wording import short

C = TypeVar("C")
SCALARS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
"""The types of single values, and what an error calls them."""


class Rule(NamedTuple):
    """What a value must be beyond its type, in words that follow `must be`."""

    words: str
    holds: Callable[[Any], bool]


def at_least(low: float) -> Rule:
    """A number from here on."""
    return Rule(f"at least {low}", lambda value: value >= low)


def at_most(high: float) -> Rule:
    """A number up to here."""
    return Rule(f"at most {high}", lambda value: value <= high)


WHOLE_LIMIT, SMALLEST, LARGEST = 2**63 - 1, 1e-12, 1e9
"""Of the size of every whole number, and of every other but 0: nothing that is computed from one overflows."""
Count = Annotated[int, at_least(1)]
Whole = Annotated[int, Rule("0 or more", lambda value: value >= 0)]
NotNegative = Annotated[float, Rule("0 or more", lambda value: value >= 0)]
Positive = Annotated[float, Rule("positive", lambda value: value > 0)]
Fraction = Annotated[float, Rule("0 or more and below 1", lambda value: 0 <= value < 1)]
Probability = Annotated[float, Rule("from 0 to 1", lambda value: 0 <= value <= 1)]


@dataclass(frozen=True, kw_only=True)
class Config:
    """What every configuration is: fields that are checked, each by its type and then together by `check`."""

    retired: ClassVar[Mapping[str, object]] = {}
    """Fields that are gone, each with the value that had switched it off: files that have that are read. A section
    that is gone has a mapping of those of its fields that had; what switched nothing has `...`."""

    def __post_init__(self) -> None:
        for name, kind in field_types(type(self), rules=True).items():
            expected = fault(kind, getattr(self, name))
            self.require(expected is None, name, expected or "")
        self.check()

    def check(self) -> None:
        """Raise if the fields do not go together; a subclass says with `require` what they must be."""

    def require(self, condition: bool, path: str, expected: str) -> None:
        """Raise an error that names a field, from here, and what it must be."""
        if not condition:
            raise FieldError(path, attrgetter(path)(self), expected)


def fault(kind: Any, value: object) -> str | None:
    """What a value of a field's type had to be, if it is not."""
    origin, options = get_origin(kind), get_args(kind)
    if origin is Annotated:
        wrong = (rule.words for rule in options[1:] if not rule.holds(value))
        return fault(options[0], value) or next(wrong, None)
    if origin is Literal:
        return None if value in options else f"one of {', '.join(map(str, options))}"
    if origin in (typing.Union, types.UnionType) and type(None) in options:
        wrong = (words for option in options if (words := fault(option, value)))
        return None if value is None else next((f"{words}, or none" for words in wrong), None)
    if origin is tuple:
        if not isinstance(value, tuple):
            return "a list such as 1,2"
        if options[-1] is not Ellipsis and len(value) != len(options):
            return f"a list of {len(options)} values"
        return next((words for item in value if (words := fault(options[0], item))), None)
    return _scalar_fault(kind, value) if kind in SCALARS else None


def _scalar_fault(kind: type, value: Any) -> str | None:
    fits = isinstance(value, (int, float) if kind is float else kind) and isinstance(value, bool) == (kind is bool)
    if not fits or (isinstance(value, float) and not math.isfinite(value)):
        return SCALARS[kind]
    if kind is int and abs(value) > WHOLE_LIMIT:
        return f"from {-WHOLE_LIMIT} to {WHOLE_LIMIT}"
    outside = kind is float and value and not SMALLEST <= abs(value) <= LARGEST
    return f"0, or {SMALLEST:g} to {LARGEST:g} in size" if outside else None


def require(condition: bool, name: str, found: object, expected: str) -> None:
    """Raise an `InputError` that names an option, what was expected and what was found."""
    if not condition:
        raise FieldError(name, found, expected)


def within(where: str, build: Callable[[], C]) -> C:
    """What is built; an error with one of its fields names the field with `where` before it."""
    try:
        return build()
    except FieldError as error:
        raise FieldError(where + error.path, error.found, error.expected) from None


def to_dict(config: Any) -> dict[str, Any]:
    """A configuration as plain JSON data; a member of a family carries its `name`."""
    data: dict[str, Any] = {"name": config.name} if _is_named(type(config)) else {}
    for field in fields(config):
        value = getattr(config, field.name)
        if is_dataclass(value):
            value = to_dict(value)
        data[field.name] = list(value) if isinstance(value, tuple) else value
    return data


def from_dict(kind: type[C], data: Any, where: str = "", root: Any = None) -> C:
    """Plain data → a configuration of type `kind`; fields left out keep their defaults, unknown ones raise.

    `where` it is within a `root`, whose other fields may have been meant.
    """
    if not isinstance(data, Mapping):
        raise InputError(f"{where.rstrip('.') or 'the configuration'} must be a section, found {short(data)}")
    root = root or kind
    known = field_types(kind, rules=True)
    values = {}
    for key, value in data.items():
        if key == "name" and _is_named(kind):
            require(value == kind.name, f"{where}name", value, repr(kind.name))  # type: ignore[attr-defined]
        elif key in (retired := getattr(kind, "retired", {})):
            _require_off(retired[key], value, f"{where}{key}")
        elif key not in known:
            raise _unknown_within(root, kind, where, f"{where}{key}")
        else:
            values[key] = _convert(known[key], value, where + key, root)
    return within(where, lambda: kind(**values))


def _require_off(off: object, value: Any, path: str) -> None:
    """Raise if what is gone, a field or a section, was in use."""
    if isinstance(off, Mapping) and isinstance(value, Mapping):
        for name, each in off.items():
            _require_off(each, value.get(name, each), f"{path}.{name}")
        return
    expected = f"{as_typed(off)}: it is gone from this version, which cannot read what used it"
    require(off is ... or value == off, path, value, expected)


def change(config: C, settings: Mapping[str, Any]) -> C:
    """A copy of `config` with fields replaced, addressed by dotted paths: {"training.steps": 500}.

    Values may be text as typed on a command line: "500", "true", "none", "1,2".
    """
    return _changed(config, [(path.split("."), value, path) for path, value in settings.items()], "", config)


def field_paths(config: Any, where: str = "") -> Iterator[str]:
    """The path of every section and field of a configuration, or of a type of them with all members of families."""
    for name, kind in field_types(config if isinstance(config, type) else type(config)).items():
        yield where + name
        of_type = (kind, *get_args(kind), *(_family(kind) or {}).values())
        inside = of_type if isinstance(config, type) else (getattr(config, name),)
        for section in filter(is_dataclass, inside):
            yield from field_paths(section, f"{where}{name}.")


def lookup(config: Any, path: str) -> Any:
    """The section or the value at a path; an unknown one raises and says what may have been meant."""
    found = config
    for name in path.split("."):
        if not is_dataclass(found) or name not in field_types(type(found)):
            raise unknown_field(path, field_paths(config))
        found = getattr(found, name)
    return found


def as_typed(value: object) -> str:
    """A field's value, as plain data, in the form in which `change` takes it as text."""
    match value:
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case list():
            return ",".join(map(as_typed, value)) or "()"
        case _:
            return str(value)


def _changed(config: C, settings: Sequence[tuple[Sequence[str], Any, str]], where: str, root: Any) -> C:
    """All settings at once, so that only what they make together is checked."""
    known = field_types(type(config), rules=True)
    values: dict[str, Any] = {}
    inside: dict[str, list[tuple[Sequence[str], Any, str]]] = {}
    for (key, *rest), value, path in settings:
        if key not in known:
            raise _unknown_within(root, config, where, path)
        current = getattr(config, key)
        if is_dataclass(current):
            if not rest:
                fields_of = ", ".join(f"{path}.{name}" for name in field_types(type(current)))
                raise InputError(f"{path} is a section, not a field: its fields are {fields_of}")
            inside.setdefault(key, []).append((rest, value, path))
        elif rest:
            raise InputError(f"{path} is not a field: {where}{key} is a single value and has no fields")
        else:
            values[key] = _convert(known[key], value, path, root)
    for key, some in inside.items():
        values[key] = _changed(getattr(config, key), some, f"{where}{key}.", root)
    return within(where, lambda: replace(config, **values)) if values else config  # type: ignore[type-var]


def _unknown_within(root: Any, section: Any, where: str, path: str) -> InputError:
    """Of the section's type its own fields are known, not those of others like it; then those elsewhere."""
    elsewhere = (known for known in field_paths(root) if not known.startswith(where or " "))
    return unknown_field(path, (*field_paths(section, where), *elsewhere))


def unknown_field(path: str, known: Iterable[str]) -> InputError:
    """Says which of the known paths may have been meant; or what is in the section, if nothing looks like it."""
    section, _, name = path.rpartition(".")
    likeness = {one: _likeness(name, one.rpartition(".")[2]) for one in known}
    best = max(likeness.values())
    near = [one for one in likeness if likeness[one] == best >= 0.75]
    near = [one for one in near if one.rpartition(".")[0] == section] or near
    near.sort(key=lambda one: -_likeness(path, one))
    if near:
        return InputError(f"unknown configuration field {path!r}: did you mean {' or '.join(near[:3])}?")
    while section and not any(one.startswith(f"{section}.") for one in likeness):
        section = section.rpartition(".")[0]
    start = f"{section}." if section else ""
    here = (start + one[len(start) :].partition(".")[0] for one in likeness if one.startswith(start))
    return unknown("configuration field", path, dict.fromkeys(here))


def _likeness(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other).ratio()


def _is_named(kind: type) -> bool:
    """Whether `kind` belongs to a family of configurations, that is, has a class variable `name`."""
    return isinstance(getattr(kind, "name", None), str) and "name" not in field_types(kind)


def _family(kind: Any) -> Mapping[str, type] | None:
    """The members by name, of the common base of a family."""
    return vars(kind).get("family") if isinstance(kind, type) else None


def _find_types(kind: type, rules: bool = False) -> dict[str, Any]:
    hints = typing.get_type_hints(kind, include_extras=rules)
    return {field.name: hints[field.name] for field in fields(kind)}


field_types: Callable[..., dict[str, Any]] = cache(_find_types)
"""The types of the fields of a configuration's type, with their rules or without."""


def _convert(kind: Any, value: Any, where: str, root: Any) -> Any:
    """`value`, from JSON or typed as text, as the declared type `kind`."""
    if isinstance(kind, type) and is_dataclass(kind):
        family = _family(kind)
        if family is not None:
            name = value.get("name") if isinstance(value, Mapping) else value
            if str(name) not in family:
                raise unknown(where, name, family)
            kind = family[str(name)]
        return from_dict(kind, value, f"{where}.", root)
    converted = _coerced(kind, value)
    expected = fault(kind, converted)
    require(expected is None, where, converted, expected or "")
    return converted


def _coerced(kind: Any, value: Any) -> Any:
    """`value` as the declared type `kind`, if it can be; as it is if it cannot."""
    origin, options = get_origin(kind), get_args(kind)
    text = value.lower() if isinstance(value, str) else None
    if origin is Annotated:
        return _coerced(options[0], value)
    if origin is Literal:
        return next((option for option in options if str(option) == str(value)), value)
    if origin in (typing.Union, types.UnionType):
        (inner,) = (option for option in options if option is not type(None))
        return None if text == "none" else _coerced(inner, value)
    if origin is tuple:
        if text is not None:
            value = [item.strip() for item in value.strip("()[] ").split(",") if item.strip()]
        if not isinstance(value, list | tuple):
            return value
        return tuple(_coerced(options[0], item) for item in value)
    if kind is bool and text in ("true", "false"):
        return text == "true"
    if kind in (int, float) and not isinstance(value, bool):
        with suppress(TypeError, ValueError, OverflowError):
            number = kind(value)
            return number if text is not None or number == value else value
    return value
