"""Where a logit comes from, for methods other than PARSE: a sum over places in the image, exactly.

For a linear layer on the mean of the feature map the places are the cells of the map: a class activation map. For
No Relations they are its primitives. Either says where a score comes from, and neither why.
Letters: C classes, H W cells, K primitives.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float64, UInt8
from torch import Tensor

from parse_dg.deploy.image_batches import ImageLike, LoadedImage
from parse_dg.deploy.model_file import Model
from parse_dg.deploy.predictor import Prediction, Predictor
from parse_dg.errors import InputError
from parse_dg.explain.explanation import (
    ClassReading,
    Reading,
    as_batch,
    by_class,
    model_of,
    places_of,
    read_images,
)
from parse_dg.model.primitives import PrimitiveDescriptors
from parse_dg.training.accuracy import require_finite


@dataclass(frozen=True, kw_only=True, eq=False)
class LogitReading(ClassReading):
    """One image as a model reads it whose logits are sums over places; the network's numbers, in float64."""

    parts: Float64[Tensor, "C *places"]
    """What each place adds to each logit, above or below 0: (C, H, W) for cells, (C, K) for primitives."""
    bias: Float64[Tensor, "C"]
    """Bias + the sum of the parts is the logit, up to the network's rounding."""
    descriptors: PrimitiveDescriptors | None
    """Where the primitives are (B = 1), if the parts are theirs."""

    def to_dict(self, of: str | None = None) -> dict[str, Any]:
        """As JSON data: the logit of class `of` (default: the predicted one) and what it is the sum of."""
        explained = self.predicted if of is None else of
        number = self.number(explained)
        data = {
            "predicted": self.predicted,
            "explained": explained,
            "logits": by_class(self.classes, self.logits),
            "probabilities": by_class(self.classes, self.logits.softmax(0)),
            "bias": float(self.bias[number]),
        }
        parts = self.parts[number].tolist()
        if self.descriptors is None:
            return data | {"cells": parts}
        places = zip(places_of(self.descriptors), parts, strict=True)
        return data | {"primitives": [place.to_dict() | {"part": part} for place, part in places]}


def read_logits(model: Model | Predictor, image: ImageLike) -> LogitReading:
    """Where the logits of one image of any form and size come from."""
    model = model_of(model)
    found = read_logit_parts(model, as_batch(model, image))
    if found is None:
        raise InputError(f"{model.spec.algorithm.name} has no map to show: its logits are no sum over places")
    return found[0]


@torch.no_grad()
def read_logit_parts(model: Model, images: UInt8[Tensor, "B 3 H W"]) -> tuple[LogitReading, ...] | None:
    """The same for images of the model's size, in one pass; None: the method's logits are no such sum."""
    found = model.algorithm.logit_parts(model.prepare(images))
    if found is None:
        return None
    require_finite(found.logits)
    z, bias = found.descriptors, found.bias.double().cpu()
    return tuple(
        LogitReading(
            classes=model.spec.classes,
            logits=logits,
            parts=parts,
            bias=bias,
            descriptors=None if z is None else PrimitiveDescriptors(*(part[b : b + 1] for part in z)),
        )
        for b, (logits, parts) in enumerate(
            zip(found.logits.double().cpu(), found.parts.double().cpu(), strict=True)
        )
    )


ModelAnswer = Reading | LogitReading | Prediction
"""What a model says of one image, with the reasons its method has: relations, a sum over places, or none."""


def read_any(predictor: Predictor, images: UInt8[Tensor, "B 3 H W"], why: bool = True) -> Sequence[ModelAnswer]:
    """What a model of any method says of images of its size; of predictions without reasons, all classes."""
    if why and predictor.model.explains:
        return read_images(predictor.model, images)
    if why and (found := read_logit_parts(predictor.model, images)) is not None:
        return found
    batch = [LoadedImage(n, None, each) for n, each in enumerate(images.permute(0, 2, 3, 1).numpy())]
    return predictor.predict_batch(batch, top=len(predictor.classes))
