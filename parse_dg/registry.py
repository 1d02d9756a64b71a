"""Visible names: what can be chosen by name, ours and what a plug-in brings."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar, TypeVar

from parse_dg.errors import InputError, require_known

T = TypeVar("T")

loading: ContextVar[str | None] = ContextVar("loading", default=None)
"""The plug-in that is being imported, by the name it was asked for."""


class Registry(Mapping[str, T]):
    """Things of one kind by name, in the order in which they were added."""

    kinds: ClassVar[dict[str, "Registry[Any]"]] = {}
    """Every registry by what it calls one of its things."""

    def __init__(self, kind: str, field: str) -> None:
        """`kind` is what an error calls one of them, such as `algorithm`; `field` is the path of the field of a
        configuration that names one, or several.
        """
        self.kind, self.field = kind, field
        self._things: dict[str, T] = {}
        self._origins: dict[str, str | None] = {}
        Registry.kinds[kind] = self

    def add(self, name: str, thing: T) -> T:
        """Make a thing known by a name; a name means one thing only. A plug-in may replace what it brought, as
        happens when a cell of a notebook is run again.
        """
        if not name.replace("_", "").replace("-", "").isalnum():
            raise InputError(f"{self.kind} {name!r} must be named in letters, digits, '-' and '_'")
        origin, before = _caller(), self._things.get(name, thing)
        again = origin is not None and self._origins.get(name) == origin and _called(before) == _called(thing)
        if before is not thing and not again:
            raise InputError(f"{self.kind} {name!r} is there already: choose another name")
        self._things[name] = thing
        self._origins.setdefault(name, origin)
        return thing

    def register(self, name: str) -> Callable[[T], T]:
        """`add` as a decorator: `@register_backbone("tiny")`."""
        return lambda thing: self.add(name, thing)

    def origin(self, name: str) -> str | None:
        """The plug-in that brought a thing; None for ours, and for a name that is not known."""
        return self._origins.get(name)

    def find(self, name: str) -> T:
        """The thing of a name, or an `InputError` that lists the names there are."""
        require_known(self.kind, name, self._things)
        return self._things[name]

    def __getitem__(self, name: str) -> T:
        return self._things[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._things)

    def __len__(self) -> int:
        return len(self._things)


def _called(thing: object) -> object:
    return getattr(thing, "__qualname__", None)


def _caller() -> str | None:
    """The plug-in whose code registers something: the one that is being imported, else the module; None: ours."""
    frame = sys._getframe(2)
    skipped = (__name__, "jaxtyping", "beartype")  # checkers of types wrap functions
    while _module(frame).startswith(skipped) or frame.f_code.co_name.startswith("register_"):
        assert frame.f_back is not None
        frame = frame.f_back
    module = _module(frame)
    if module.partition(".")[0] == "parse_dg":
        return None
    if module == "__main__" and "__file__" in frame.f_globals:
        module = Path(frame.f_globals["__file__"]).stem
    return loading.get() or module


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "__main__"))
