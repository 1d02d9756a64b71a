"""The order of rooms: whoever reads the package from data to command line never has to walk back."""

import ast
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

import parse_dg

PACKAGE = Path(parse_dg.__file__).parent
BASE = ("_version", "wording", "errors", "registry", "files", "devices", "config", "jsonable", "plugins")
ROOMS = ("data", "model", "algorithms", "training", "deploy", "runs", "sweeps", "tables", "explain", "serve", "cli")
ORDER = (*BASE, *ROOMS)


def modules() -> dict[str, Path]:
    """Every module below the package by its dotted name."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(name[:-1] if name[-1] == "__init__" else name)] = path
    return found


MODULES = modules()
TREES = {name: ast.parse(path.read_text()) for name, path in MODULES.items()}


@cache
def imports(name: str) -> set[str]:
    """The modules of the package that a module imports when it is imported or run, not those for types alone."""
    found = set()
    for node in running(TREES[name]):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "parse_dg":
            room = (node.module or "").partition(".")[2]
            inside = {f"{room}.{each.name}".lstrip(".") for each in node.names} & MODULES.keys()
            found |= inside if len(inside) == len(node.names) else inside | {room}
        elif isinstance(node, ast.Import):
            found |= {each.name.partition(".")[2] for each in node.names if each.name.startswith("parse_dg.")}
    return found


def running(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node, but none below `if TYPE_CHECKING:`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        yield node
        yield from running(node)


def room(name: str) -> str:
    return name.partition(".")[0]


def test_every_room_has_a_place_in_the_order() -> None:
    assert {room(name) for name in MODULES} - {"", "__main__"} <= set(ORDER)
    assert not {room for room in ROOMS if not (PACKAGE / room).is_dir()}


def test_rooms_use_only_what_comes_before_them() -> None:
    place = {name: number for number, name in enumerate(ORDER)}
    back = [
        f"{name} imports {other}"
        for name in MODULES.keys() - {"", "__main__"}
        for other in imports(name)
        if other == "" or place[room(other)] > place[room(name)]
    ]
    assert not back


def test_no_modules_import_each_other() -> None:
    found = {name: imports(name) for name in MODULES}
    state: dict[str, bool] = {}

    def follow(name: str, path: tuple[str, ...]) -> None:
        assert state.get(name) is not False, " → ".join((*path[path.index(name) :], name))
        if name in state:
            return
        state[name] = False
        for other in sorted(found.get(name, ())):
            follow(other, (*path, name))
        state[name] = True

    for name in found:
        follow(name, ())


def test_the_command_line_alone_prints() -> None:
    printing = [
        f"{name}:{node.lineno}"
        for name, tree in TREES.items()
        if room(name) not in ("cli", "__main__")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert not printing


def test_every_room_says_its_sentence() -> None:
    for name, path in MODULES.items():
        if path.name == "__init__.py":
            text = ast.get_docstring(TREES[name]) or ""
            assert text.partition("\n")[0].endswith((".", "`")), name


def test_a_room_is_small_enough_to_be_searched_by_eye() -> None:
    large = {folder: len([*folder.glob("*.py")]) for folder in {path.parent for path in MODULES.values()}}
    assert not {folder.name: count for folder, count in large.items() if count > 18}


def test_every_name_that_a_room_exports_is_there() -> None:
    rooms = [path.parent.relative_to(PACKAGE.parent).parts for path in PACKAGE.rglob("__init__.pyi")]
    assert {parts[-1] for parts in rooms} >= set(ROOMS) - {"algorithms", "cli"}  # theirs are plain Python
    for parts in rooms:
        room = import_module(".".join(parts))
        assert room.__all__, parts
        for name in room.__all__:
            assert not isinstance(getattr(room, name), ModuleType), (parts, name)
