"""Dataclasses as JSON and back: what earlier and later versions write is read, what is damaged is named."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest

from parse_dg.errors import InputError
from parse_dg.jsonable import Jsonable
from parse_dg.runs.metrics import CheckLine
from parse_dg.runs.result import RunEnvironment, RunResult
from tests.runs.helpers import read

RESULTS = Path(__file__).parents[1] / "results"


@dataclass(frozen=True, kw_only=True)
class Part(Jsonable):
    name: str
    share: float | None


@dataclass(frozen=True, kw_only=True)
class Whole(Part):
    FIRST: ClassVar = ("count",)

    count: int
    parts: tuple[Part, ...] = ()
    by_name: Mapping[str, Part] = field(default_factory=dict)


WHOLE = Whole(count=2, name="a", share=None, parts=(Part(name="b", share=0.5),))
DATA = {"count": 2, "name": "a", "share": None, "parts": [{"name": "b", "share": 0.5}]}


def test_keys_are_fields_in_order_without_those_at_their_default() -> None:
    assert WHOLE.to_dict() == DATA
    assert list(WHOLE.to_dict()) == ["count", "name", "share", "parts"]


def test_less_and_more_than_is_known_is_read() -> None:
    older = {key: value for key, value in DATA.items() if key != "share"}
    assert Whole.from_dict(older | {"of_a_later_version": 3}) == WHOLE


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"count": "2"}, "count must be a whole number, found '2'"),
        ({"count": True}, "count must be a whole number, found True"),
        ({"parts": [{"name": 3, "share": 1}]}, "parts.name must be text, found 3"),
        ({"by_name": {"x": {"share": 1}}}, "by_name.x.name is missing"),
        ({"by_name": []}, r"by_name must be an object, found \[\]"),
    ],
)
def test_what_is_damaged_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"^{message}$"):
        Whole.from_dict(DATA | change)


@pytest.mark.parametrize(("pattern", "kind"), [("result.json", RunResult), ("environment.json", RunEnvironment)])
def test_the_published_runs_are_read_and_written_as_they_are(pattern: str, kind: type[Jsonable]) -> None:
    files = sorted(RESULTS.rglob(pattern))
    assert len(files) >= 20
    for file in files:
        data = read(file)
        assert list(kind.from_dict(data).to_dict().items()) == list(data.items())


def test_their_checks_too() -> None:
    for file in RESULTS.rglob("metrics.jsonl"):
        for line in file.read_text().splitlines():
            assert json.dumps(CheckLine.from_dict(json.loads(line)).to_dict()) == line
