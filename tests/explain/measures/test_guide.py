"""The guide's accuracy, of what it is said to have predicted."""

from dataclasses import replace

import torch

from parse_dg.explain.measures.structure_use import guide
from tests.explain.measures.test_collapse import APART, located


def test_the_share_that_the_guide_alone_has_right() -> None:
    """Whatever the model itself predicts."""
    images = located(APART.expand(4, -1, -1), labels=[0, 1, 2, 2], predicted=[1, 0, 0, 2])
    found = guide(replace(images, guided=torch.tensor([0, 1, 2, 0])))
    assert found is not None
    assert found.to_dict() == {"domain": "sketch", "images": 4, "accuracy": 0.75}


def test_without_a_guide_there_is_none() -> None:
    assert guide(located(APART[None])) is None
