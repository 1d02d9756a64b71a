"""Accuracy: counted right, on every image once, and the model left as it was."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from parse_dg.algorithms.base import Algorithm, LossTerms, Minibatch
from parse_dg.data.augment.batches import AugmentConfig, draw_augment, prepare_images
from parse_dg.data.domain import Domain
from parse_dg.data.splits import Subset, whole
from parse_dg.training.accuracy import EVALUATION_BATCH, Augmentation, Predictions, accuracy, score
from tests.conftest import Numbered

CPU = torch.device("cpu")


class Reader(Algorithm):
    """Logits out of a table, by the number that the pixels of an image are (image n is all of value n)."""

    def __init__(self, table: Tensor):
        nn.Module.__init__(self)
        self.label_smoothing = 0.0
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

    def losses(self, example: Minibatch, generator: torch.Generator) -> LossTerms:
        raise AssertionError("evaluation does not train")


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
    assert found.accuracy == 0.5
    assert found.loss == pytest.approx(by_hand([0, 1, 2, 3]), 1e-5)


def test_a_model_is_scored_on_the_subset_alone() -> None:
    subset = Subset(domain_of(LABELS), np.array([2, 0, 3]))
    found = accuracy(Reader(LOGITS), subset, CPU)
    assert (found.correct, found.images) == (2, 3)
    assert found.loss == pytest.approx(by_hand([2, 0, 3]), 1e-5)


def test_the_mean_loss_is_over_images_not_over_batches(numbered: Numbered) -> None:
    table = torch.zeros(256, 256)
    table[150] = 1000 * torch.eye(256)[0]  # wrong by 1000, in the smaller batch
    expected = (199 * math.log(256) + 1000) / 200
    assert accuracy(Reader(table), whole(numbered("photo", 200)), CPU).loss == pytest.approx(expected, 1e-5)


class Keeper(Reader):
    """Keeps the images it is shown."""

    def __init__(self) -> None:
        super().__init__(torch.zeros(1, 2))
        self.shown: list[Tensor] = []

    def forward(self, images: Tensor) -> Tensor:
        assert not self.training
        self.shown.append(images.clone())
        return torch.zeros(len(images), 2)


def noise(count: int, side: int = 8, larger: int | None = None) -> Domain:
    """Images of noise; the larger ones are of other noise, so that it shows which were taken."""
    draw = np.random.default_rng(0)
    images, crops = (
        draw.integers(0, 256, (count, size, size, 3)).astype(np.uint8) if size else None for size in (side, larger)
    )
    assert images is not None
    return Domain("photo", images, np.zeros(count, dtype=np.int64), larger=crops)


def show(domain: Domain, augmentation: Augmentation | None, indices: list[int] | None = None) -> Tensor:
    model = Keeper()
    accuracy(model, Subset(domain, np.array(indices)) if indices else whole(domain), CPU, augmentation)
    return torch.cat(model.shown)


def test_augmented_images_are_changed_by_draws_of_the_seed_alone() -> None:
    domain = noise(5)
    torch.manual_seed(1)
    one = show(domain, Augmentation(AugmentConfig(), 7))
    before = torch.get_rng_state()
    again = show(domain, Augmentation(AugmentConfig(), 7))
    assert torch.equal(torch.get_rng_state(), before)  # nobody else's generator moves
    assert torch.equal(one, again)
    assert not torch.equal(one, show(domain, None))
    assert not torch.equal(one, show(domain, Augmentation(AugmentConfig(), 8)))


def test_augmented_images_are_those_of_training() -> None:
    """Drawn batch by batch, cropped from the larger images to the size the network sees."""
    domain = noise(EVALUATION_BATCH + 3, side=6, larger=9)
    config = AugmentConfig(randaugment_ops=1)
    found = show(domain, Augmentation(config, 11))
    assert found.shape == (EVALUATION_BATCH + 3, 3, 6, 6)
    generator = torch.Generator().manual_seed(11)
    crops = torch.from_numpy(np.asarray(domain.larger)).permute(0, 3, 1, 2)
    expected = [
        prepare_images(part, config, draw_augment(config, len(part), generator), 6)
        for part in crops.split(EVALUATION_BATCH)
    ]
    assert torch.allclose(found, torch.cat(expected), atol=1e-5)
