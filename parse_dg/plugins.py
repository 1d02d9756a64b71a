"""Plug-ins: modules of others that register methods, predicates, backbones, augmentations and data sets.

A plug-in is imported because the user names it, never because a file does: what a run or a model needs is written
beside its configuration, compared with what is registered, and said where it is missing.
"""

import importlib
import importlib.util
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parse_dg.errors import InputError
from parse_dg.registry import Registry, loading
from parse_dg.wording import short

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "parse_dg.plugins"
"""The entry points of installed packages that are plug-ins."""
KEY = "plugins"
"""Where a configuration as JSON says what it needs: for every plug-in the names that it brings."""

_loaded: dict[str, str] = {}


def load_plugins(plugins: Iterable[str]) -> None:
    """Import plug-ins: each the name of an installed one, of a module that can be imported, also from the current
    folder, or the path of one, with or without `.py`.
    """
    for plugin in plugins:
        module, typed = _import(plugin)
        _loaded[module] = typed


def installed_plugins() -> "dict[str, EntryPoint]":
    """The plug-ins of installed packages, by name; nothing of theirs is imported."""
    from importlib.metadata import entry_points  # takes a while itself

    return {entry.name: entry for entry in entry_points(group=GROUP)}


def handed_on() -> tuple[str, ...]:
    """What was loaded, as another process that stands elsewhere has to be told."""
    return tuple(_loaded.values())


def as_options(names: Iterable[str], option: str = "--plugin") -> list[str]:
    """As words of a command line."""
    return [word for name in names for word in (option, name)]


def find_needs(config: Mapping[str, Any]) -> dict[str, list[str]]:
    """The plug-ins that a configuration, as plain data, needs, and for which names."""
    needs: dict[str, list[str]] = {}
    for kind, registry in sorted(Registry.kinds.items()):  # whatever was imported first
        for name in _named(config, registry.field):
            origin = registry.origin(name)
            if origin is not None:
                needs.setdefault(origin, []).append(f"{kind} {name}")
    return dict(sorted(needs.items()))


def with_needs(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration as plain data, and which plug-ins it needs; as it was if it needs none."""
    needs = find_needs(config)
    return {**config, KEY: needs} if needs else config


def without_needs(config: Any, where: object) -> Any:
    """The configuration alone; raises if it needs a plug-in that has not registered its names."""
    if not isinstance(config, Mapping) or KEY not in config:
        return config
    needs = config[KEY]
    if not isinstance(needs, Mapping) or not all(isinstance(names, list) for names in needs.values()):
        raise InputError(f"{where}: {KEY} must say what it needs of which plug-in, found {short(needs)}")
    missing = {plugin: names for plugin, names in needs.items() if not all(map(_is_known, names))}
    if missing:
        which = f"plug-in{'s' if len(missing) > 1 else ''} {', '.join(missing)}"
        has = ", ".join(str(name) for names in missing.values() for name in names)
        advice = f"pass {' '.join(as_options(missing))} (for {has}; in Python, import first)"
        raise InputError(f"{where} needs the {which}: {advice}")
    return {name: value for name, value in config.items() if name != KEY}


def _is_known(need: object) -> bool:
    kind, _, name = str(need).rpartition(" ")
    return kind in Registry.kinds and name in Registry.kinds[kind]


def _named(config: Any, field: str) -> Iterator[str]:
    """The names in a field, given by its path, of a configuration that may not have it."""
    for key in field.split("."):
        config = config.get(key) if isinstance(config, Mapping) else None
    if isinstance(config, str):
        yield config
    elif isinstance(config, list | tuple):
        yield from config


def _import(plugin: str) -> tuple[str, str]:
    """Import a plug-in; its name, and what to call it elsewhere."""
    path = Path(plugin).expanduser()
    module = path.name.removesuffix(".py")
    bare = module == plugin
    installed = installed_plugins().get(plugin)
    if installed is not None:
        with _loading(plugin):
            installed.load()
        return plugin, plugin
    folder = Path.cwd() if bare else path.parent.absolute()
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    importlib.invalidate_caches()
    found = _find(module)
    here = found is not None and Path(found).resolve().is_relative_to(folder.resolve())
    if found is None or not (here or bare):
        expected = "expected an installed plug-in, a module that can be imported from here, or a path ending in .py"
        other = f"; {module} is another module, {found}" if found else ""
        raise InputError(f"no plug-in {plugin!r}: {expected}{other}")
    with _loading(module):
        importlib.import_module(module)
    return module, str(folder / module) if here else module


def _find(module: str) -> str | None:
    """The file of a module that can be imported; only the packages it is in are imported."""
    try:
        spec = importlib.util.find_spec(module)
    except (ModuleNotFoundError, ValueError):
        return None
    return None if spec is None else spec.origin or ""


@contextmanager
def _loading(plugin: str) -> Iterator[None]:
    """Within, what is registered is the plug-in's."""
    token = loading.set(plugin)
    try:
        yield
    finally:
        loading.reset(token)
