"""Visible names: what can be chosen by name, ours and what a plug-in brings."""

from collections.abc import Iterator, Mapping
from typing import TypeVar

from parse_dg.errors import InputError, unknown

T = TypeVar("T")


class Registry(Mapping[str, T]):
    """Things of one kind by name, in the order in which they were added."""

    def __init__(self, kind: str) -> None:
        """`kind` is what an error calls one of them, such as `algorithm`."""
        self.kind = kind
        self._things: dict[str, T] = {}

    def add(self, name: str, thing: T) -> T:
        """Make a thing known by a name; a name means one thing only. The same thing may be added again."""
        if not name.replace("_", "").replace("-", "").isalnum():
            raise InputError(f"{self.kind} {name!r} must be named in letters, digits, '-' and '_'")
        if self._things.setdefault(name, thing) is not thing:
            raise InputError(f"{self.kind} {name!r} is there already: choose another name")
        return thing

    def find(self, name: str) -> T:
        """The thing of a name, or an `InputError` that lists the names there are."""
        if name not in self._things:
            raise unknown(self.kind, name, self._things)
        return self._things[name]

    def __getitem__(self, name: str) -> T:
        return self._things[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._things)

    def __len__(self) -> int:
        return len(self._things)
