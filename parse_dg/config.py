"""Configurations as frozen dataclasses: written to and read from JSON, changed field by field, checked.

A configuration is a frozen, keyword-only dataclass whose fields are booleans, numbers, strings, `Literal`s,
tuples, `None`, other configurations, or one of a family of configurations, which are told apart by their class
variable `name` and found in the class variable `family` of their common base.
"""

import math
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, Literal, TypeVar, get_args, get_origin

from parse_dg.errors import InputError, unknown

C = TypeVar("C")


def require(condition: bool, field: str, found: object, expected: str) -> None:
    """Raise an `InputError` that names the field, what was expected and what was found."""
    if not condition:
        raise InputError(f"{field} must be {expected}, found {found!r}")


def check_choices(config: Any, section: str) -> None:
    """Raise unless every `Literal` field of a configuration holds one of its choices."""
    for name, kind in _fields(type(config)).items():
        if get_origin(kind) is Literal and getattr(config, name) not in get_args(kind):
            raise unknown(f"{section}.{name}", getattr(config, name), get_args(kind))


def to_dict(config: Any) -> dict[str, Any]:
    """A configuration as plain JSON data; a member of a family carries its `name`."""
    data: dict[str, Any] = {"name": config.name} if _is_named(type(config)) else {}
    for field in fields(config):
        value = getattr(config, field.name)
        if is_dataclass(value):
            value = to_dict(value)
        data[field.name] = list(value) if isinstance(value, tuple) else value
    return data


def from_dict(kind: type[C], data: Any, where: str = "") -> C:
    """Plain data → a configuration of type `kind`; fields left out keep their defaults, unknown ones raise."""
    if not isinstance(data, Mapping):
        raise InputError(f"{where.rstrip('.') or 'the configuration'} must be a section, found {data!r}")
    known = _fields(kind)
    values = {}
    for key, value in data.items():
        if key == "name" and _is_named(kind):
            require(value == kind.name, f"{where}name", value, repr(kind.name))  # type: ignore[attr-defined]
            continue
        if key not in known:
            raise _unknown_field(f"{where}{key}", where, known)
        values[key] = _convert(known[key], value, where + key)
    return kind(**values)


def change(config: C, settings: Mapping[str, Any]) -> C:
    """A copy of `config` with fields replaced, addressed by dotted paths: {"training.steps": 500}.

    Values may be text as typed on a command line: "500", "true", "none", "1,2".
    """
    return _changed(config, [(path.split("."), value, path) for path, value in settings.items()], where="")


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


def _changed(config: C, settings: Sequence[tuple[Sequence[str], Any, str]], where: str) -> C:
    """All settings at once, so that only what they make together is checked."""
    known = _fields(type(config))
    values: dict[str, Any] = {}
    inside: dict[str, list[tuple[Sequence[str], Any, str]]] = {}
    for (key, *rest), value, path in settings:
        if key not in known:
            raise _unknown_field(path, where, known)
        current = getattr(config, key)
        if is_dataclass(current):
            if not rest:
                fields_of = ", ".join(f"{path}.{name}" for name in _fields(type(current)))
                raise InputError(f"{path} is a section, not a field: its fields are {fields_of}")
            inside.setdefault(key, []).append((rest, value, path))
        elif rest:
            raise InputError(f"{path} is not a field: {where}{key} is a single value and has no fields")
        else:
            values[key] = _convert(known[key], value, path)
    for key, some in inside.items():
        values[key] = _changed(getattr(config, key), some, f"{where}{key}.")
    return replace(config, **values) if values else config  # type: ignore[type-var]


def _unknown_field(path: str, where: str, known: Mapping[str, Any]) -> InputError:
    return unknown("configuration field", path, [where + name for name in known])


def _is_named(kind: type) -> bool:
    """Whether `kind` belongs to a family of configurations, that is, has a class variable `name`."""
    return isinstance(getattr(kind, "name", None), str) and "name" not in _fields(kind)


def _fields(kind: type) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def _convert(kind: Any, value: Any, where: str) -> Any:
    """`value`, from JSON or typed as text, as the declared type `kind`."""
    origin, options = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and is_dataclass(kind):
        family = vars(kind).get("family")
        return from_dict(kind if family is None else _member(family, value, where), value, f"{where}.")
    if origin is Literal:
        for option in options:
            if str(option) == str(value):
                return option
        raise unknown(where, value, options)
    if origin in (typing.Union, types.UnionType):
        return _convert_optional(options, value, where)
    if origin is tuple:
        return _convert_tuple(options, value, where)
    return _convert_scalar(kind, value, where)


def _convert_optional(options: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None or (isinstance(value, str) and value.lower() == "none"):
        return None
    (inner,) = (option for option in options if option is not type(None))
    return _convert(inner, value, where)


def _member(family: Mapping[str, type], value: Any, where: str) -> type:
    """The member that `value` names."""
    name = value.get("name") if isinstance(value, Mapping) else value
    if not isinstance(value, Mapping) or str(name) not in family:
        raise unknown(where, name, family)
    return family[str(name)]


def _convert_tuple(options: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    if isinstance(value, str):
        value = [item.strip() for item in value.strip("()[] ").split(",") if item.strip()]
    if not isinstance(value, list | tuple):
        raise InputError(f"{where} must be a list such as 1,2, found {value!r}")
    kinds = (options[0],) * len(value) if options[-1] is Ellipsis else options
    require(len(value) == len(kinds), where, value, f"a list of {len(kinds)} values")
    return tuple(_convert(kind, item, where) for kind, item in zip(kinds, value, strict=True))


def _convert_scalar(kind: Any, value: Any, where: str) -> Any:
    text = value.lower() if isinstance(value, str) else None
    if kind is bool and (isinstance(value, bool) or text in ("true", "false")):
        return value if isinstance(value, bool) else text == "true"
    if kind is str and isinstance(value, str):
        return value
    if kind in (int, float) and not isinstance(value, bool):
        try:
            number = kind(value)
        except (TypeError, ValueError, OverflowError):
            number = None
        if number is not None and math.isfinite(number) and (text is not None or number == value):
            return number
    expected = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}[kind]
    raise InputError(f"{where} must be {expected}, found {value!r}")
