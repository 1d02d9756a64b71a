"""Accuracy: counted right, on every image once, and the model left as it was."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from parse_dg.algorithms.base import Algorithm, Example, Group, LossTerms
from parse_dg.data.domain import Domain
from parse_dg.data.splits import Subset, whole
from parse_dg.evaluation.accuracy import EVALUATION_BATCH, Accuracy, Predictions, accuracy, predict, score
from tests.conftest import Numbered

CPU = torch.device("cpu")


class Reader(Algorithm):
    """Logits out of a table, by the number that the pixels of an image are (image n is all of value n)."""

    summary = "a fake"

    def __init__(self, table: Tensor):
        super().__init__()
        self.inner = nn.Dropout(0.5)
        self.table = table
        self.batches: list[int] = []

    def forward(self, images: Tensor) -> Tensor:
        assert not self.training
        assert not self.inner.training
        assert not torch.is_grad_enabled()
        self.batches.append(len(images))
        pixels = images * torch.tensor([0.229, 0.224, 0.225])[:, None, None]
        pixels = (pixels + torch.tensor([0.485, 0.456, 0.406])[:, None, None]) * 255
        numbers = pixels.round().long().flatten(1)
        assert (numbers == numbers[:, :1]).all()
        return self.table[numbers[:, 0]]

    def losses(self, example: Example, generator: torch.Generator) -> LossTerms:
        raise AssertionError("evaluation does not train")

    def groups(self) -> dict[Group, list[nn.Parameter]]:
        return {"backbone": [], "head": [], "composition": []}


def domain_of(labels: list[int]) -> Domain:
    images = np.arange(len(labels), dtype=np.uint8)[:, None, None, None] * np.ones((1, 4, 4, 3), dtype=np.uint8)
    return Domain("photo", images, np.array(labels))


LOGITS = torch.tensor([[2.0, 0.0, 1.0], [0.0, 1.0, 0.5], [1.0, 3.0, 0.0], [0.0, 0.0, 4.0]])
LABELS = [0, 2, 1, 1]


def by_hand(rows: list[int]) -> float:
    """The mean of log Σ exp - the label's logit."""
    terms = []
    for row in rows:
        logits = LOGITS[row].tolist()
        terms.append(math.log(sum(math.exp(value) for value in logits)) - logits[LABELS[row]])
    return sum(terms) / len(terms)


def test_hand_made_logits_are_scored_by_hand() -> None:
    found = score(Predictions(LOGITS, torch.tensor(LABELS)))
    assert (found.correct, found.images) == (2, 4)
    assert found.fraction == 0.5
    assert found.loss == pytest.approx(by_hand([0, 1, 2, 3]), 1e-5)


def test_a_fraction_is_of_the_images_that_were_counted() -> None:
    assert Accuracy(3, 8, 1.0).fraction == 0.375
    assert Accuracy(0, 8, 1.0).fraction == 0.0


def test_a_model_is_scored_on_the_subset_alone() -> None:
    subset = Subset(domain_of(LABELS), np.array([2, 0, 3]))
    found = accuracy(Reader(LOGITS), subset, CPU)
    assert (found.correct, found.images) == (2, 3)
    assert found.loss == pytest.approx(by_hand([2, 0, 3]), 1e-5)


def test_predictions_come_in_the_order_of_the_subset() -> None:
    found = predict(Reader(LOGITS), Subset(domain_of(LABELS), np.array([3, 1])), CPU)
    assert torch.equal(found.logits, LOGITS[[3, 1]])
    assert found.labels.tolist() == [1, 2]


def test_many_images_are_seen_once_each_in_batches(numbered: Numbered) -> None:
    model = Reader(torch.eye(256))
    found = accuracy(model, whole(numbered("photo", 200)), CPU)
    assert (found.correct, found.images) == (200, 200)
    assert model.batches == [EVALUATION_BATCH, 200 - EVALUATION_BATCH]


def test_the_mean_loss_is_over_images_not_over_batches(numbered: Numbered) -> None:
    table = torch.zeros(256, 256)
    table[150] = 1000 * torch.eye(256)[0]  # wrong by 1000, in the smaller batch
    expected = (199 * math.log(256) + 1000) / 200
    assert accuracy(Reader(table), whole(numbered("photo", 200)), CPU).loss == pytest.approx(expected, 1e-5)


def test_logits_are_float32_whatever_the_model_computes_in() -> None:
    found = predict(Reader(LOGITS.bfloat16()), whole(domain_of(LABELS)), CPU)
    assert found.logits.dtype == torch.float32


@pytest.mark.parametrize("training", [True, False])
def test_the_models_mode_is_put_back(training: bool) -> None:
    model = Reader(LOGITS).train(training)
    accuracy(model, whole(domain_of(LABELS)), CPU)
    assert model.training is training
    assert model.inner.training is training
    assert torch.is_grad_enabled()


def test_somebody_is_told_of_every_batch(numbered: Numbered) -> None:
    images = EVALUATION_BATCH + 3
    told: list[int] = []
    predict(Reader(torch.zeros(256, 3)), whole(numbered("photo", images)), CPU, told.append)
    assert told == [EVALUATION_BATCH, 3]
