"""Configurations: to plain data and back, changed by dotted paths, errors that say what would be valid."""

import json
import pickle
from dataclasses import FrozenInstanceError, dataclass, field
from typing import Any, ClassVar, Literal

import pytest

from parse_dg.config import Config, Count, change, from_dict, require, to_dict
from parse_dg.errors import FieldError, InputError
from parse_dg.model.composition import CompositionConfig
from parse_dg.model.structure import StructureConfig
from tests.parts import refusal


@dataclass(frozen=True, kw_only=True)
class Inner:
    steps: int = 100
    rate: float = 0.5
    exact: bool = False
    note: str = "plain"


@dataclass(frozen=True, kw_only=True)
class Middle:
    inner: Inner = field(default_factory=Inner)
    kind: Literal["slow", "fast"] = "slow"
    level: Literal[1, 2, 3] = 2


@dataclass(frozen=True, kw_only=True)
class Shape:
    family: ClassVar[dict[str, type["Shape"]]] = {}


@dataclass(frozen=True, kw_only=True)
class Circle(Shape):
    name: ClassVar[str] = "circle"
    radius: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Square(Shape):
    name: ClassVar[str] = "square"
    side: float = 2.0
    corners: tuple[int, ...] = (0, 1)


Shape.family.update(circle=Circle, square=Square)


@dataclass(frozen=True, kw_only=True)
class Outer(Config):
    middle: Middle = field(default_factory=Middle)
    shape: Shape = field(default_factory=Circle)
    sizes: tuple[int, ...] = (1, 2)
    box: tuple[float, float] = (0.0, 1.0)
    words: tuple[str, ...] = ()
    limit: Count | None = None
    label: str | None = "a"

    def check(self) -> None:
        self.require(self.middle.inner.rate < 9, "middle.inner.rate", "below 9, as circles are slow")


OTHER = Outer(
    middle=Middle(inner=Inner(steps=7, rate=0.25, exact=True, note="none at all"), kind="fast", level=3),
    shape=Square(side=4.5, corners=(3, 1, 2)),
    sizes=(),
    box=(-1.5, 2.0),
    words=("x", "y z"),
    limit=9,
    label=None,
)


@pytest.mark.parametrize("config", [Outer(), OTHER], ids=["defaults", "everything changed"])
def test_a_configuration_survives_json(config: Outer) -> None:
    restored = from_dict(Outer, json.loads(json.dumps(to_dict(config))))
    assert restored == config
    assert type(restored.shape) is type(config.shape)
    assert isinstance(restored.sizes, tuple)


def test_plain_data_is_nested_and_names_the_member_of_a_family() -> None:
    assert to_dict(OTHER) == {
        "middle": {
            "inner": {"steps": 7, "rate": 0.25, "exact": True, "note": "none at all"},
            "kind": "fast",
            "level": 3,
        },
        "shape": {"name": "square", "side": 4.5, "corners": [3, 1, 2]},
        "sizes": [],
        "box": [-1.5, 2.0],
        "words": ["x", "y z"],
        "limit": 9,
        "label": None,
    }


def test_fields_left_out_keep_their_defaults() -> None:
    assert from_dict(Outer, {}) == Outer()
    found = from_dict(Outer, {"middle": {"kind": "fast"}, "shape": {"name": "square"}})
    assert found == Outer(middle=Middle(kind="fast"), shape=Square())


def test_whole_numbers_are_numbers_and_whole_floats_are_whole() -> None:
    found = from_dict(Inner, {"rate": 2, "steps": 5.0})
    assert (found.rate, found.steps) == (2.0, 5)
    assert isinstance(found.rate, float)
    assert isinstance(found.steps, int)


def test_configurations_cannot_be_changed_in_place() -> None:
    with pytest.raises(FrozenInstanceError):
        CompositionConfig().start_entries = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("middle.inner.steps", "500", 500),
        ("middle.inner.steps", 500, 500),
        ("middle.inner.rate", "1e-3", 0.001),
        ("middle.inner.rate", "3", 3.0),
        ("middle.inner.exact", "true", True),
        ("middle.inner.exact", "False", False),
        ("middle.inner.note", "500", "500"),
        ("middle.kind", "fast", "fast"),
        ("middle.level", "3", 3),
        ("shape.radius", "0.5", 0.5),
        ("sizes", "4,5,6", (4, 5, 6)),
        ("sizes", "(4, 5)", (4, 5)),
        ("sizes", "7", (7,)),
        ("sizes", "", ()),
        ("sizes", [8, 9], (8, 9)),
        ("box", "0.5,1", (0.5, 1.0)),
        ("words", "a, b c", ("a", "b c")),
        ("limit", "12", 12),
        ("limit", "none", None),
        ("limit", None, None),
        ("label", "None", None),
    ],
)
def test_a_field_is_changed_by_its_path(path: str, value: object, expected: object) -> None:
    found: Any = change(Outer(limit=3), {path: value})
    for key in path.split("."):
        found = getattr(found, key)
    assert found == expected
    assert type(found) is type(expected)


def test_several_changes_leave_the_rest_and_the_original_alone() -> None:
    before = Outer()
    after = change(before, {"middle.inner.steps": "3", "middle.inner.note": "x", "limit": "4"})
    assert after == Outer(middle=Middle(inner=Inner(steps=3, note="x")), limit=4)
    assert before == Outer()
    assert change(before, {}) is before


def test_changes_are_checked_like_a_new_configuration() -> None:
    assert refusal(change, Outer(), {"limit": "-1"}).startswith("limit must be at least 1, or none, found -1")
    with pytest.raises(InputError, match=r"^middle\.inner\.rate must be below 9, as circles are slow, found 10\.0"):
        from_dict(Outer, {"middle": {"inner": {"rate": 10}}})
    with pytest.raises(InputError, match=r"^composition\.start_entries must be at least 1, found 0"):
        change(StructureConfig(), {"composition.start_entries": "0"})


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("midle", "middle"),
        ("middle.iner.steps", "middle.inner.steps"),
        ("middle.inner.step", "middle.inner.steps"),
        ("steps", "middle.inner.steps"),
        ("middle.inner.kind", "middle.kind"),
    ],
)
def test_an_unknown_path_is_answered_with_what_was_meant(path: str, meant: str) -> None:
    assert refusal(change, Outer(), {path: "1"}) == f"unknown configuration field {path!r}: did you mean {meant}?"


def test_an_unknown_field_in_data_is_answered_with_what_was_meant() -> None:
    with pytest.raises(InputError, match=r"'middle\.inner\.kind': did you mean middle\.kind\?"):
        from_dict(Outer, {"middle": {"inner": {"kind": "slow"}}})


@pytest.mark.parametrize(
    ("data", "found", "valid"),
    [
        ({"xyz": {}}, "xyz", "middle, shape, sizes, box, words, limit, label"),
        ({"shape": {"name": "square", "radius": 1}}, "shape.radius", "shape.side, shape.corners"),
        ({"middle": {"name": "x"}}, "middle.name", "middle.inner, middle.kind, middle.level"),
    ],
)
def test_an_unknown_field_like_no_other_is_answered_with_those_of_its_section(
    data: dict[str, Any], found: str, valid: str
) -> None:
    assert refusal(from_dict, Outer, data) == f"unknown configuration field {found!r}: valid are {valid}"


def test_a_section_where_a_field_is_meant_lists_its_fields() -> None:
    message = refusal(change, Outer(), {"middle.inner": "3"})
    assert "middle.inner is a section" in message
    assert "middle.inner.steps, middle.inner.rate" in message


def test_a_field_where_a_section_is_meant_says_it_has_no_fields() -> None:
    assert "limit.low is not a field: limit is a single value" in refusal(change, Outer(), {"limit.low": "3"})


@pytest.mark.parametrize("data", [3, "text", None, [1]])
def test_data_that_is_not_a_section_is_refused(data: object) -> None:
    message = refusal(from_dict, Outer, {"middle": data})
    assert "middle must be a section" in message
    assert repr(data) in message
    assert "the configuration must be a section" in refusal(from_dict, Outer, data)


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("middle.inner.steps", "many", "a whole number, found 'many'"),
        ("middle.inner.steps", "1.5", "a whole number, found '1.5'"),
        ("middle.inner.steps", 1.5, "a whole number, found 1.5"),
        ("middle.inner.steps", True, "a whole number, found True"),
        ("middle.inner.steps", None, "a whole number, found None"),
        ("middle.inner.steps", [1], "a whole number, found [1]"),
        ("middle.inner.rate", "fast", "a number, found 'fast'"),
        ("middle.inner.rate", False, "a number, found False"),
        ("middle.inner.exact", "yes", "true or false, found 'yes'"),
        ("middle.inner.exact", 1, "true or false, found 1"),
        ("middle.inner.note", 3, "text, found 3"),
        ("limit", "few", "a whole number, or none, found 'few'"),
        ("sizes", "1,two", "a whole number, found (1, 'two')"),  # as it was understood
        ("sizes", 3, "a list such as 1,2, found 3"),
        ("box", "1,2,3", "a list of 2 values, found (1.0, 2.0, 3.0)"),
        ("box", [1.0], "a list of 2 values, found (1.0,)"),
        ("middle.kind", "medium", "one of slow, fast, found 'medium'"),
        ("middle.level", "7", "one of 1, 2, 3, found '7'"),
    ],
)
def test_a_wrong_value_is_refused_with_path_expectation_and_value(path: str, value: object, expected: str) -> None:
    assert refusal(change, Outer(), {path: value}) == f"{path} must be {expected}"


@pytest.mark.parametrize("data", [{"name": "triangle"}, "triangle"])
def test_an_unknown_member_of_a_family_is_answered_with_the_members(data: object) -> None:
    assert refusal(from_dict, Outer, {"shape": data}) == "unknown shape 'triangle': valid are circle, square"


@pytest.mark.parametrize("data", [{}, {"radius": 2.0}, None, "circle"])
def test_a_family_without_a_name_is_answered_with_the_members(data: object) -> None:
    said = "shape must be a section, found" if data == "circle" else "unknown shape .*: valid are circle, square"
    with pytest.raises(InputError, match=said):
        from_dict(Outer, {"shape": data})


def test_require_names_field_expectation_and_finding() -> None:
    require(True, "a.b", 3, "anything")
    assert refusal(require, False, "a.b", "x", "a colour") == "a.b must be a colour, found 'x'"


def test_an_error_with_a_field_comes_back_whole_from_another_process() -> None:
    error = pickle.loads(pickle.dumps(FieldError("a.b", "x", "a colour")))
    assert str(error) == "a.b must be a colour, found 'x'"
