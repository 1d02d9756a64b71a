"""What predictions are worth, beyond accuracy: intervals, balanced accuracy, F1, confusions, calibration, and the
confidence from which on a model is right as often as is wanted.

Confidence is the probability of the predicted class, the largest of the softmax.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from parse_dg.jsonable import Jsonable
from parse_dg.training.accuracy import Predictions, require_finite

BINS = 15
"""Of equal width in confidence, for calibration (Guo et al. 2017, arXiv:1706.04599)."""
LEGEND = (
    "95%: Wilson's interval. Balanced accuracy is the mean recall of the classes, macro F1 their mean F1. ECE: "
    f"expected calibration error, the mean distance of confidence from accuracy over {BINS} bins; 0 is perfect."
)
"""What the numbers are."""
Z = 1.959963984540054
"""The normal distribution's quantile of a two-sided 95%."""


@dataclass(frozen=True, kw_only=True)
class Proportion(Jsonable):
    """So many of so many, as a fraction, with Wilson's 95% interval: where the fraction of all such images is."""

    correct: int
    images: int
    fraction: float
    low: float
    high: float

    @classmethod
    def of(cls, correct: int, images: int) -> "Proportion":
        """Of at least one image."""
        share, spread = correct / images, Z**2 / images
        middle = (share + spread / 2) / (1 + spread)
        half = Z / (1 + spread) * math.sqrt(share * (1 - share) / images + spread / (4 * images))
        low, high = max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))  # rounding
        return cls(correct=correct, images=images, fraction=share, low=low, high=high)


@dataclass(frozen=True, kw_only=True)
class ClassScore(Jsonable):
    """How well one class is told from the others."""

    name: str
    recall: Proportion
    """Of its images, those that are predicted to be of it."""
    predicted: int
    """How many images are predicted to be of it."""
    precision: float | None
    """Of those, the fraction that is; None where there are none."""
    f1: float
    taken_for: str | None
    """The class that its other images are predicted to be of most often; None where there are none."""


@dataclass(frozen=True, kw_only=True)
class CalibrationBin(Jsonable):
    """The images whose confidence lies in an interval, of which there is at least one."""

    low: float
    high: float
    images: int
    confidence: float
    """The mean."""
    accuracy: float


@dataclass(frozen=True, kw_only=True)
class PredictionScores(Jsonable):
    """All that is measured on some images."""

    name: str
    of: str
    """Which images, in words."""
    accuracy: Proportion
    balanced_accuracy: float
    """The mean recall of the classes that have images here,"""
    macro_f1: float
    """and the mean F1 of the same."""
    ece: float
    """Expected calibration error: the mean distance of confidence from accuracy over the bins, by their images."""
    classes: tuple[ClassScore, ...]
    """Those that have images here."""
    confusion: tuple[tuple[int, ...], ...]
    """How many images of class (row, as in `classes`) are predicted to be of class (column, of all the model's)."""
    calibration: tuple[CalibrationBin, ...]


def measure(name: str, of: str, predictions: Predictions, names: Sequence[str]) -> PredictionScores:
    """Everything, of at least one image; `names` are all classes of the model."""
    logits, labels = predictions
    require_finite(logits)
    confidence, predicted = most_probable(logits)
    C = len(names)
    table = torch.bincount(labels * C + predicted, minlength=C * C).view(C, C)
    present = [label for label in range(C) if table[label].any()]
    classes = tuple(_class_score(label, table, names) for label in present)
    right = predicted == labels
    bins = tuple(_bins(confidence, right))
    return PredictionScores(
        name=name,
        of=of,
        accuracy=Proportion.of(int(right.sum()), len(labels)),
        balanced_accuracy=sum(each.recall.fraction for each in classes) / len(classes),
        macro_f1=sum(each.f1 for each in classes) / len(classes),
        ece=sum(each.images * abs(each.accuracy - each.confidence) for each in bins) / len(labels),
        classes=classes,
        confusion=tuple(tuple(table[label].tolist()) for label in present),
        calibration=bins,
    )


def most_probable(logits: Float[Tensor, "N C"]) -> tuple[Float[Tensor, "N"], Int[Tensor, "N"]]:
    """Confidence, in float64, so that very sure ones are told apart, and predicted class, the first of equals."""
    return logits.double().softmax(1).max(1).values, logits.argmax(1)


def _class_score(label: int, table: Int[Tensor, "C C"], names: Sequence[str]) -> ClassScore:
    row = table[label].clone()
    correct, images, predicted = int(row[label]), int(row.sum()), int(table[:, label].sum())
    row[label] = 0
    return ClassScore(
        name=names[label],
        recall=Proportion.of(correct, images),
        predicted=predicted,
        precision=correct / predicted if predicted else None,
        f1=2 * correct / (images + predicted),
        taken_for=names[int(row.argmax())] if correct < images else None,
    )


def _bins(confidence: Float[Tensor, "N"], right: Bool[Tensor, "N"]) -> Iterable[CalibrationBin]:
    number = (confidence * BINS).ceil().clamp(1, BINS).long() - 1  # (0, 1/15], (1/15, 2/15], …
    for each in range(BINS):
        inside = number == each
        if images := int(inside.sum()):
            yield CalibrationBin(
                low=each / BINS,
                high=(each + 1) / BINS,
                images=images,
                confidence=float(confidence[inside].mean()),
                accuracy=float(right[inside].double().mean()),
            )


def threshold_for(precision: float, predictions: Predictions) -> float | None:
    """The confidence from which on at least this fraction is right, and as many images as possible are kept; None
    where there is no such.
    """
    confidence, predicted = most_probable(predictions.logits)
    order = confidence.argsort(descending=True, stable=True)
    right = (predicted == predictions.labels)[order].double().cumsum(0)
    kept = torch.arange(1, len(order) + 1)
    ends = torch.ones(len(order), dtype=torch.bool)
    ends[:-1] = confidence[order][:-1] != confidence[order][1:]  # equal ones are kept together
    reached = (ends & (right >= precision * kept)).nonzero()
    return float(confidence[order][reached[-1]]) if len(reached) else None


def kept_from(threshold: float, predictions: Predictions) -> Proportion | None:
    """Of the images with this confidence or more, how many are right; None where there are none."""
    confidence, predicted = most_probable(predictions.logits)
    kept = confidence >= threshold
    right = (predicted == predictions.labels)[kept]
    return Proportion.of(int(right.sum()), len(right)) if len(right) else None


def join(parts: Collection[Predictions]) -> Predictions:
    """Predictions one after the other."""
    return Predictions(torch.cat([each.logits for each in parts]), torch.cat([each.labels for each in parts]))
