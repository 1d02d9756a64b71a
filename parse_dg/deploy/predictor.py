"""A trained model of any method that is asked about images: `parse_dg.load("RUN").predict(images)`."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from parse_dg.config import require
from parse_dg.deploy.image_batches import ImageInput, LoadedImage, load_batches
from parse_dg.deploy.model_file import Model, load_model
from parse_dg.deploy.recorded import RecordedModel
from parse_dg.devices import pick_device
from parse_dg.training.accuracy import require_finite
from parse_dg.wording import plural

TOP = 3
"""How many classes are named, unless more or fewer are asked for."""
FEW = 8
"""Up to so many classes are found without sorting all."""
BATCH = 128
"""As in evaluation: the same images in the same batches give the same bits."""

_log = logging.getLogger(__name__)


class ClassProbability(NamedTuple):
    """A class and how probable it is."""

    name: str
    probability: float
    """Softmax of the logits over all classes, in [0, 1]."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Prediction:
    """What a model says of one image."""

    position: int
    """Of the image among those that were given, from 0."""
    file: Path | None
    """Where the image was read from; None if it was given as pixels."""
    predicted: str
    """The predicted class."""
    probability: float
    """Of the predicted class."""
    top: tuple[ClassProbability, ...]
    """The most probable classes; the predicted one is the first."""
    logits: Float[Tensor, "C"] = field(repr=False)
    """Of every class, in the order of `Predictor.classes`: float32, on the CPU."""


class Predictor:
    """A model on its device, in evaluation mode."""

    def __init__(self, model: Model, device: str = "auto"):
        """`device`: auto (CUDA where there is one), cpu, cuda or mps; the model is moved there."""
        self.model = model
        self.device = pick_device(device)
        model.algorithm.to(self.device).eval()
        self._logits = RecordedModel(model)

    def __repr__(self) -> str:
        method, size = self.model.spec.algorithm.name, self.image_size
        classes = plural(len(self.classes), "class")
        return f"Predictor({method}, {classes}, images of {size} × {size}, {self.device})"

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in the order of the logits."""
        return self.model.spec.classes

    @property
    def names(self) -> Mapping[int, str]:
        """What people call the primitives of a model of PARSE, where they gave them names: {3: "beak"}."""
        return self.model.names

    @property
    def image_size(self) -> int:
        """The side, in pixels, of what it sees of every image."""
        return self.model.spec.image_size

    def predict(
        self, images: ImageInput, *, top: int = TOP, batch: int = BATCH, skip_unreadable: bool = False
    ) -> list[Prediction]:
        """What the model says of each image, in the order given; images may be of any size.

        Images are paths, Pillow images, arrays H × W × 3 or tensors 3 × H × W, mixed as one likes, or a whole batch
        N × H × W × 3 (array) or N × 3 × H × W (tensor); RGB as uint8, or as floats in [0, 1]. One that cannot be
        read raises an `ImageError` that names it; with `skip_unreadable` it is logged as a warning and left out.
        """
        return list(self.stream(images, top=top, batch=batch, skip_unreadable=skip_unreadable))

    def stream(
        self, images: ImageInput, *, top: int = TOP, batch: int = BATCH, skip_unreadable: bool = False
    ) -> Iterator[Prediction]:
        """As `predict`, one after another, for more images than fit into memory: `images` may be a generator."""
        require(top >= 1, "top", top, "at least 1")
        require(batch >= 1, "batch", batch, "at least 1")
        unreadable = partial(_log.warning, "%s") if skip_unreadable else None
        batches = load_batches(images, self.model.spec.framing, batch, unreadable)
        return (prediction for loaded in batches for prediction in self.predict_batch(loaded, top))

    @torch.no_grad()
    def predict_batch(self, batch: Sequence[LoadedImage], top: int = TOP) -> list[Prediction]:
        """What the model says of images that have been loaded, all at once."""
        logits = self._logits([image.pixels for image in batch])
        require_finite(logits)
        order = leading(logits, top)
        shares = logits.softmax(1).gather(1, order)
        found = []
        for image, row, ranks, probabilities in zip(batch, logits, order.tolist(), shares.tolist(), strict=True):
            pairs = zip(ranks, probabilities, strict=True)
            best = tuple(ClassProbability(self.classes[c], probability) for c, probability in pairs)
            found.append(
                Prediction(
                    position=image.position,
                    file=image.file,
                    predicted=best[0].name,
                    probability=best[0].probability,
                    top=best,
                    logits=row,
                )
            )
        return found


def leading(logits: Float[Tensor, "B C"], top: int) -> Int[Tensor, "B t"]:
    """The best classes of every image, the best first; of equal ones the first, as argmax.

    For a few of them one maximum after another is found: sorting 345 classes takes a CPU six times as long.
    """
    if top > FEW:
        return logits.argsort(dim=1, descending=True, stable=True)[:, :top]
    left, found = logits.clone(), []
    for _ in range(min(top, logits.shape[1])):
        found.append(left.argmax(1, keepdim=True))
        left.scatter_(1, found[-1], -torch.inf)
    return torch.cat(found, 1)


def load(path: str | Path, device: str = "auto", *, plugins: Iterable[str] = ()) -> Predictor:
    """The model of a run's folder, or of a `.safetensors` file, ready to predict; `plugins` are imported first."""
    return Predictor(load_model(path, plugins), device)
