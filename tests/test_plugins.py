"""Plug-ins: imported because the user names them, and only then."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from parse_dg.algorithms import ALGORITHMS, AlgorithmConfig, register_algorithm
from parse_dg.cli import PLUGGABLE, build_parser, main
from parse_dg.errors import InputError
from parse_dg.plugins import as_options, handed_on, load_plugins, with_needs, without_needs
from parse_dg.registry import Registry
from tests.parts import refusal

SOURCE = """
from dataclasses import dataclass
from parse_dg.algorithms import register_algorithm
from parse_dg.algorithms.erm import ErmConfig

@register_algorithm
@dataclass(frozen=True, kw_only=True)
class Mine(ErmConfig):
    name = "{name}"
"""


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Modules, paths and names are after a test as they were; it stands in a folder of its own."""
    modules = set(sys.modules)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(ALGORITHMS, "_things", dict(ALGORITHMS._things))
    monkeypatch.setattr(ALGORITHMS, "_origins", dict(ALGORITHMS._origins))
    monkeypatch.setattr("parse_dg.plugins._loaded", {})
    monkeypatch.chdir(tmp_path)
    yield
    for name in set(sys.modules) - modules:
        if name.startswith("doors_"):
            del sys.modules[name]


def write(path: Path, name: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(SOURCE.format(name=name))
    return path


@pytest.mark.parametrize("given", ["doors_a", "doors_a.py", "./doors_a.py", "{here}/doors_a"])
def test_a_module_is_found_from_the_current_folder_and_by_its_path(given: str, tmp_path: Path) -> None:
    write(tmp_path / "doors_a.py", "own-a")
    load_plugins([given.format(here=tmp_path)] * 2)
    assert ALGORITHMS.origin("own-a") == "doors_a"
    assert as_options(handed_on()) == ["--plugin", str(tmp_path / "doors_a")]


def test_what_a_package_registers_is_of_the_module_that_was_named(tmp_path: Path) -> None:
    write(tmp_path / "doors_b" / "inner.py", "own-b")
    (tmp_path / "doors_b" / "__init__.py").write_text("")
    (tmp_path / "doors_b" / "all.py").write_text("from doors_b import inner")
    load_plugins(["doors_b.all"])
    assert ALGORITHMS.origin("own-b") == "doors_b.all"


@pytest.mark.parametrize("given", ["doors_nowhere", "doors_nowhere.inner", "other/doors_c.py", "json.py"])
def test_what_is_not_there_is_one_line(given: str, tmp_path: Path) -> None:
    write(tmp_path / "json.py", "own-c")
    assert f"no plug-in '{given}': expected an installed plug-in" in refusal(load_plugins, [given])


def test_an_error_in_a_plug_in_keeps_its_traceback(tmp_path: Path) -> None:
    (tmp_path / "doors_d.py").write_text("import doors_nowhere")
    with pytest.raises(ModuleNotFoundError, match="doors_nowhere"):
        load_plugins(["doors_d"])


def test_installed_plug_ins_are_listed_and_imported_when_they_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "site" / "doors_e.py", "own-e")
    about = tmp_path / "site" / "doors_e-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: doors-e\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[parse_dg.plugins]\nours = doors_e\n")
    sys.path.append(str(tmp_path / "site"))
    assert main(["info"]) == 0
    assert "doors_e: pass --plugin ours to use it" in " ".join(capsys.readouterr().out.split())
    assert "doors_e" not in sys.modules
    load_plugins(["ours"])
    assert ALGORITHMS.origin("own-e") == "ours"
    assert handed_on() == ("ours",)


def test_a_configuration_says_what_it_needs_and_nothing_is_imported_for_it(tmp_path: Path) -> None:
    write(tmp_path / "doors_f.py", "own-f")
    sys.path.append(str(tmp_path))
    needed = {"algorithm": {"name": "own-f"}, "plugins": {"doors_f": ["algorithm own-f"]}}
    with pytest.raises(InputError, match=r"^run/config\.json needs the plug-in doors_f: pass --plugin doors_f \("):
        without_needs(needed, "run/config.json")
    assert "doors_f" not in sys.modules
    load_plugins(["doors_f"])
    config = without_needs(needed, "run/config.json")
    assert config == {"algorithm": {"name": "own-f"}}
    assert with_needs(config) == needed
    ours = {"algorithm": {"name": "erm"}}
    assert with_needs(ours) == without_needs(ours, "") == ours


@pytest.mark.parametrize("needs", [["doors_g"], {"doors_g": "algorithm own-g"}, "doors_g"])
def test_needs_that_are_none_are_refused(needs: object) -> None:
    assert "plugins must say what it needs" in refusal(without_needs, {"plugins": needs}, "config.json")


# names, whoever brings them


def test_things_are_found_by_name_in_the_order_of_adding() -> None:
    found: Registry[int] = Registry("number", "number")
    assert found.add("two", 2) == 2
    found.add("one", 1)
    assert list(found) == ["two", "one"]
    assert found.find("one") == found["one"] == 1


def test_an_unknown_name_gets_the_names_there_are() -> None:
    found: Registry[int] = Registry("number", "number")
    found.add("one", 1)
    with pytest.raises(InputError, match=r"unknown number 'three'.*one"):
        found.find("three")


def test_a_name_means_one_thing() -> None:
    ALGORITHMS.add("erm", ALGORITHMS["erm"])
    assert "algorithm 'erm' is there already" in refusal(ALGORITHMS.add, "erm", ALGORITHMS["parse"])


@pytest.mark.parametrize("name", ["", "a b", "../a", "a.b"])
def test_a_name_can_be_typed(name: str) -> None:
    assert "letters, digits" in refusal(Registry[int]("number", "number").add, name, 1)


def test_a_name_is_replaced_by_its_own_plug_in_alone() -> None:
    registry: Registry[object] = Registry("thing of a test", "thing")
    registry.add("one", object())
    last = registry.register("one")(object())  # as a cell of a notebook that is run again
    assert registry["one"] is last
    assert registry.origin("one") == __name__
    assert "thing of a test 'one' is there already" in refusal(registry.add, "one", ALGORITHMS["parse"])


def test_a_method_without_a_name_is_one_line() -> None:
    class Nameless(AlgorithmConfig):
        pass

    assert "Nameless must have a class variable `name`" in refusal(register_algorithm, Nameless)


@pytest.mark.parametrize("command", PLUGGABLE)
def test_commands_take_plug_ins(command: str) -> None:
    below = {"explain": ["classes", "RUN"], "figure": ["primitives", "RUN"], "serve": ["RUN"]}
    given = (
        []
        if command in ("train", "config", "info", "algorithms", "sweep")
        else below.get(command, ["RUN", "x.png"])
    )
    options, _ = build_parser().parse_known_args([command, *given, "--plugin", "a", "--plugin", "b.py"])
    assert options.plugin == ["a", "b.py"]
