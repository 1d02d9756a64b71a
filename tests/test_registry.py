"""Names that mean one thing."""

import pytest

from parse_dg.algorithms import ALGORITHMS
from parse_dg.errors import InputError
from parse_dg.registry import Registry
from tests.parts import refusal


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
