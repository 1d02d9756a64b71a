"""Intervals, F1, confusions, calibration and thresholds against slow loops written from their definitions."""

import math

import pytest
import torch

from parse_dg.training.accuracy import Predictions
from parse_dg.training.measures import BINS, Proportion, kept_from, measure, threshold_for

NAMES = ("cat", "dog", "owl", "yak")


def drawn(images: int = 200, seed: int = 0) -> Predictions:
    """Predictions that are often right; there is no image of the last class, which is predicted at times."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 3, (images,), generator=generator)
    logits = 1.5 * torch.randn(images, 4, generator=generator)
    logits[torch.arange(images), labels] += 1.0
    return Predictions(logits, labels)


def pairs(found: Predictions) -> list[tuple[float, int, int]]:
    """Confidence, predicted and true class of every image."""
    shares = found.logits.double().softmax(1)
    return [
        (float(row.max()), int(row.argmax()), int(label)) for row, label in zip(shares, found.labels, strict=True)
    ]


@pytest.mark.parametrize(("correct", "images"), [(0, 1), (0, 12), (5, 12), (12, 12), (940, 1000)])
def test_wilsons_interval_solves_its_equation(correct: int, images: int) -> None:
    """The ends are where the distance to what was found is 1.96 standard errors of the end itself."""
    found = Proportion.of(correct, images)
    assert 0 <= found.low <= found.fraction <= found.high <= 1
    for end in (found.low, found.high):
        if 0 < end < 1:
            distance = abs(found.fraction - end) / math.sqrt(end * (1 - end) / images)
            assert distance == pytest.approx(1.959964, abs=1e-5)


def test_scores_follow_their_definitions() -> None:
    found = measure("x", "images", drawn(), NAMES)
    judged = pairs(drawn())
    recalls, f1s = [], []
    for label, name in enumerate(NAMES[:3]):
        true = [predicted for _, predicted, actual in judged if actual == label]
        said = [actual for _, predicted, actual in judged if predicted == label]
        recalls.append(true.count(label) / len(true))
        precision = said.count(label) / len(said)
        f1s.append(2 * precision * recalls[-1] / (precision + recalls[-1]))
        score = found.classes[label]
        assert (score.name, score.recall.images, score.predicted) == (name, len(true), len(said))
        assert (score.recall.fraction, score.precision) == (recalls[-1], precision)
        assert list(found.confusion[label]) == [true.count(other) for other in range(4)]
    assert found.balanced_accuracy == pytest.approx(sum(recalls) / 3)
    assert found.macro_f1 == pytest.approx(sum(f1s) / 3)
    assert found.accuracy.correct == sum(predicted == actual for _, predicted, actual in judged)
    ece = 0.0
    for number in range(BINS):
        inside = [(c, p == a) for c, p, a in judged if number / BINS < c <= (number + 1) / BINS]
        if inside:
            confidence, right = (sum(values) / len(inside) for values in zip(*inside, strict=True))
            ece += len(inside) / len(judged) * abs(confidence - right)
    assert found.ece == pytest.approx(ece)
    assert sum(each.images for each in found.calibration) == len(judged)


@pytest.mark.parametrize("wanted", [0.5, 0.8, 0.95])
def test_a_threshold_keeps_as_many_as_the_wanted_precision_allows(wanted: float) -> None:
    judged = pairs(drawn())
    best = 0
    for least, _, _ in judged:
        kept = [predicted == actual for confidence, predicted, actual in judged if confidence >= least]
        if sum(kept) >= wanted * len(kept):
            best = max(best, len(kept))
    threshold = threshold_for(wanted, drawn())
    assert threshold is not None
    kept_images = kept_from(threshold, drawn())
    assert kept_images is not None
    assert (kept_images.images, kept_images.fraction >= wanted) == (best, True)


def test_no_threshold_where_the_surest_are_wrong_and_equal_ones_stay_together() -> None:
    wrong = Predictions(torch.eye(4)[[0, 1]], torch.tensor([1, 0]))
    assert threshold_for(0.5, wrong) is None
    half = Predictions(torch.eye(4)[[0, 0]], torch.tensor([0, 1]))
    assert threshold_for(0.9, half) is None
    assert kept_from(1.0, half) is None
