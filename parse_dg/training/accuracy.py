"""Accuracy of a model on named images."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from parse_dg.algorithms import Algorithm
from parse_dg.data.augment.batches import AugmentConfig, draw_augment, normalise, prepare_images, to_unit
from parse_dg.data.loader import evaluation_batches
from parse_dg.data.splits import Subset
from parse_dg.errors import InputError
from parse_dg.jsonable import Jsonable

EVALUATION_BATCH = 128
A = TypeVar("A", bound="Accuracy")


@dataclass(frozen=True)
class Accuracy(Jsonable):
    """How many of how many images were classified right, and the mean cross-entropy over them."""

    correct: int
    images: int
    loss: float

    @property
    def accuracy(self) -> float:
        return self.correct / self.images

    def to_dict(self) -> dict[str, Any]:
        """With the `accuracy`, a fraction; JSON has no word for a loss that is no number: null."""
        loss = self.loss if math.isfinite(self.loss) else None
        return {"accuracy": self.accuracy, **super().to_dict(), "loss": loss}

    @classmethod
    def from_dict(cls: type[A], data: Any, where: str = "") -> A:
        """The `accuracy` must be what it is of."""
        if isinstance(data, dict) and data.get("loss", math.nan) is None:
            data = {**data, "loss": math.nan}
        found, said = super().from_dict(data, where), data.get("accuracy")
        if not 0 <= found.correct <= found.images or not found.images or said != found.accuracy:
            expected = f"correct ÷ images, {found.correct} of {found.images}"
            raise InputError(f"{where}accuracy must be {expected}, found {said!r}")
        return found


class Predictions(NamedTuple):
    """Logits of every image of a subset, in order, on the CPU, with the true classes."""

    logits: Float[Tensor, "N C"]
    labels: Int[Tensor, "N"]


class Augmentation(NamedTuple):
    """Augmentation at evaluation: DomainBed augments its validation images too."""

    config: AugmentConfig
    seed: int


def require_finite(logits: Float[Tensor, "B C"]) -> None:
    """Raise if the weights are damaged."""
    if not logits.isfinite().all():
        raise InputError("the model gives logits that are not finite: its weights are damaged")


@torch.no_grad()
def predict(
    model: Algorithm,
    subset: Subset,
    device: torch.device,
    seen: Callable[[int], None] = lambda images: None,
    augmentation: Augmentation | None = None,
) -> Predictions:
    """Logits in float32, evaluation mode; the model's mode is put back. `seen` is told the size of every batch."""
    was_training = model.training
    model.eval()
    generator = torch.Generator().manual_seed(augmentation.seed if augmentation else 0)
    logits, labels = [], []
    for images, classes in evaluation_batches(subset, EVALUATION_BATCH, crops=augmentation is not None):
        moved = images.to(device)
        if augmentation:
            draws = draw_augment(augmentation.config, len(moved), generator)
            prepared = prepare_images(moved, augmentation.config, draws, subset.domain.images.shape[1])
        else:
            prepared = normalise(to_unit(moved))
        logits.append(model(prepared).float().cpu())
        labels.append(classes)
        seen(len(classes))
    model.train(was_training)
    return Predictions(torch.cat(logits), torch.cat(labels))


def accuracy(
    model: Algorithm,
    subset: Subset,
    device: torch.device,
    augmentation: Augmentation | None = None,
    seen: Callable[[int], None] = lambda images: None,
) -> Accuracy:
    """Accuracy of the model on a subset; `seen` as for `predict`."""
    return score(predict(model, subset, device, seen, augmentation))


def score(predictions: Predictions) -> Accuracy:
    """Accuracy of predictions."""
    logits, labels = predictions
    correct = int((logits.argmax(1) == labels).sum())
    return Accuracy(correct, len(labels), float(F.cross_entropy(logits, labels)))
