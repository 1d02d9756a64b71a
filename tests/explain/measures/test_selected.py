"""What was selected, of compositions written by hand."""

import pytest
import torch

from parse_dg.explain.measures.structure_use import selected
from parse_dg.model.composition import ActiveWeights


def composition(*classes: dict[int, float], columns: list[int] | None = None) -> ActiveWeights:
    """The weights of each class by application; `columns` are those of Λ, if they are others."""
    applications = sorted({each for weights in classes for each in weights})
    weights = torch.tensor([[weights.get(each, 0.0) for each in applications] for weights in classes])
    numbers = torch.tensor(applications)
    return ActiveWeights(numbers if columns is None else torch.tensor(columns), numbers, weights, None)


START = composition({2: 0.5, 7: 0.5}, {2: 1.0})


def test_what_was_there_at_the_start_is_not_new() -> None:
    found = selected(START, START)
    assert (found.classes, found.relations, found.relations_at_start, found.after_start) == (2, 1.5, 1.5, 0)


def test_pairs_of_a_class_and_a_relation_are_compared() -> None:
    """7 is old for the first class and new for the second; 3 and 9 are new, 9 behind all that was known."""
    found = selected(composition({2: 0.3, 7: 0.3, 9: 0.4}, {7: 0.5, 3: 0.5}), START)
    assert (found.relations, found.relations_at_start) == (2.5, 1.5)
    assert found.after_start == pytest.approx(3 / 5)


def test_columns_of_a_compacted_model_are_other_numbers() -> None:
    found = selected(composition({2: 0.3, 7: 0.3, 9: 0.4}, {7: 0.5, 3: 0.5}, columns=[0, 1, 2, 3]), START)
    assert found.after_start == pytest.approx(3 / 5)
