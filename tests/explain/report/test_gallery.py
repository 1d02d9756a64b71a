"""Which images a report shows: balanced over the classes, and the same ones every time."""

import numpy as np
import pytest
import torch

from parse_dg.data.splits import whole
from parse_dg.errors import InputError
from parse_dg.explain.report.gallery import SubsetPredictions, choose
from parse_dg.training.accuracy import Predictions
from tests.conftest import Numbered

LABELS = np.repeat(np.arange(4), 10)
PROBABILITY = np.tile(np.linspace(0.9, 0.1, 10), 4).astype(np.float32)
ALL = np.ones(40, dtype=bool)


def test_the_most_confident_of_every_class_come_first() -> None:
    chosen = choose(LABELS, PROBABILITY, ALL, 8, "confident")
    assert sorted(LABELS[chosen[:4]]) == sorted(LABELS[chosen[4:]]) == [0, 1, 2, 3]
    assert chosen.tolist() == [0, 10, 20, 30, 1, 11, 21, 31]


def test_a_spread_reaches_from_the_most_to_the_least_confident() -> None:
    chosen = choose(LABELS, PROBABILITY, ALL, 12, "spread")
    for label in range(4):
        mine = PROBABILITY[chosen[LABELS[chosen] == label]]
        assert len(mine) == 3
        assert mine.max() == pytest.approx(0.9)
        assert mine.min() == pytest.approx(0.1)


def test_rare_classes_leave_their_room_to_the_others() -> None:
    among = (LABELS == 1) | (np.arange(40) == 0)
    for order in ("confident", "spread"):
        chosen = choose(LABELS, PROBABILITY, among, 8, order)
        assert len(set(chosen.tolist())) == 8
        assert 0 in chosen
        assert all(among[chosen])


def test_a_confusion_has_the_true_class_in_its_rows(numbered: Numbered) -> None:
    subset = whole(numbered("photo", 3))
    logits = torch.eye(4)[[1, 1, 3]] * 2
    looked = SubsetPredictions.of(subset, Predictions(logits, torch.tensor([0, 1, 2])))
    confusion = looked.confusion(4)
    assert confusion[0].tolist() == [0, 1, 0, 0]
    assert confusion[2].tolist() == [0, 0, 0, 1]
    assert confusion.trace() == 1
    assert looked.probability == pytest.approx(logits.softmax(1).max(1).values.numpy())
    with pytest.raises(InputError, match="not finite"):
        SubsetPredictions.of(subset, Predictions(logits / 0, torch.tensor([0, 1, 2])))
