"""Results as frozen dataclasses that are kept as JSON: the keys of a file are the fields of its class."""

import typing
from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, ClassVar, TypeVar, get_args, get_origin

from parse_dg.config import SCALARS
from parse_dg.errors import InputError
from parse_dg.wording import short

J = TypeVar("J", bound="Jsonable")


class Jsonable:
    """The base of a frozen dataclass that is written as JSON, its fields by name and in their order, and read back.

    A field with a default is left out where it has it. When read, keys that are not known are passed over, as a
    later version may write more; a field that may be None is None where it is missing, as an earlier one wrote
    less; anything else that is missing or of another type raises an `InputError` that names it.
    """

    FIRST: ClassVar[tuple[str, ...]] = ()
    """Keys that come before the fields of base classes."""

    def to_dict(self) -> dict[str, Any]:
        known = _fields(type(self))  # type: ignore[arg-type]
        data = {}
        for name in dict.fromkeys((*self.FIRST, *known)):
            value, (_, default) = getattr(self, name), known[name]
            if default is MISSING or value != default:
                data[name] = to_plain(value)
        return data

    @classmethod
    def from_dict(cls: type[J], data: Any, where: str = "") -> J:
        """Of JSON data; `where` is what an error writes before the name of a field."""
        if not isinstance(data, Mapping):
            raise InputError(f"{where.rstrip('.') or 'the content'} must be an object, found {short(data)}")
        values = {}
        for name, (kind, default) in _fields(cls).items():  # type: ignore[arg-type]
            if name in data:
                values[name] = _read(kind, data[name], where + name)
            elif default is MISSING:
                if type(None) not in get_args(kind):
                    raise InputError(f"{where}{name} is missing")
                values[name] = None
        return cls(**values)


def to_plain(value: Any) -> Any:
    """A value as JSON data: tuples become lists."""
    if isinstance(value, Jsonable):
        return value.to_dict()
    if isinstance(value, tuple | list):
        return [to_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {name: to_plain(each) for name, each in value.items()}
    return value


def flat(data: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Sections in sections as one: {"training": {"steps": 500}} → {"training.steps": 500}."""
    found: dict[str, Any] = {}
    for name, value in data.items():
        found |= flat(value, f"{above}{name}.") if isinstance(value, Mapping) else {above + name: value}
    return found


@cache
def _fields(kind: Any) -> dict[str, tuple[Any, Any]]:
    hints, found = typing.get_type_hints(kind), {}
    for field in fields(kind):
        default = field.default if field.default_factory is MISSING else field.default_factory()
        found[field.name] = (hints[field.name], default)
    return found


def _read(kind: Any, value: Any, where: str) -> Any:
    origin, options = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if type(None) in options:
        return None if value is None else _read(next(o for o in options if o is not type(None)), value, where)
    if isinstance(kind, type) and issubclass(kind, Jsonable):
        return kind.from_dict(value, f"{where}.")
    if origin is Mapping and isinstance(value, Mapping):
        return {str(name): _read(options[1], each, f"{where}.{name}") for name, each in value.items()}
    if origin is tuple and isinstance(value, list) and (options[-1] is Ellipsis or len(options) == len(value)):
        kinds = (options[0],) * len(value) if options[-1] is Ellipsis else options
        return tuple(_read(each, item, where) for each, item in zip(kinds, value, strict=True))
    if kind is float and type(value) is int and abs(value) < 2**1023:
        return float(value)
    if kind in SCALARS and type(value) is kind:
        return value
    expected = SCALARS.get(kind, "an object" if origin is Mapping else "a list")
    raise InputError(f"{where} must be {expected}, found {short(value)}")
