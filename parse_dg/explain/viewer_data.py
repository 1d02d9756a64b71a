"""One image, what a model said of it and why, as the JSON data that the viewer shows: a *case*.

A case stands for itself: the image is in it, and the heat maps are. It is kept small, so that a page can hold
hundreds: at most `RELATIONS` relations of an explained class are listed and the others are summed, at most
`CLASSES` classes are named, and about `PRIMITIVES` primitives are shown.
"""

import base64
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from parse_dg.data.framing import Picture
from parse_dg.deploy.predictor import Prediction
from parse_dg.explain.explanation import Application, Reading, Relation, places_of
from parse_dg.explain.logits import LogitReading, ModelAnswer
from parse_dg.model.primitives import PrimitiveDescriptors

CLASSES = 10
"""How many classes are named, the most probable first; the explained ones are named whatever their probability."""
MAPPED = 5
"""How many classes have a map of where their logit comes from, the most probable first; others may be asked for."""
RELATIONS = 12
"""How many relations of an explained class are listed, the largest contribution first."""
PRIMITIVES = 48
"""How many primitives are shown, of models that have more: those of the listed relations, then the most present."""
LOSSLESS_BYTES = 16_384
"""An image whose PNG is at most this long is kept as it is. Larger ones, which are photographs, become JPEG."""
JPEG_QUALITY = 90
DECIMALS = 7
"""Of scores, weights, satisfactions and contributions: so that what is shown adds up."""
PART_DECIMALS = 5
"""Of what a cell or a primitive adds to a logit: there are many."""

Pixels = UInt8[np.ndarray, "H W 3"]


def case_of(
    found: ModelAnswer, picture: Picture, *, title: str, truth: str | None = None, other: str | None = None
) -> dict[str, Any]:
    """The case of an image that a model has read.

    Explained are the predicted class and a second one: `other`, or else the true class where it is another, or else
    the runner-up; and the most probable ones, where all there is to explain is the place a logit comes from.
    """
    case = {
        "title": title,
        "image": data_uri(picture.pixels),
        "seen": [round(float(edge), 2) for edge in picture.seen],
        "truth": truth,
        "predicted": found.predicted,
    }
    if isinstance(found, Prediction):
        top = [{"name": each.name, "probability": _short(each.probability), "score": None} for each in found.top]
        return case | {"top": top[:CLASSES], "explanations": {}, **_located(None, {})}
    ranked, second = found.ranked, other if other is not None else truth
    if second is None or second == found.predicted:
        explained = [found.classes[c] for c in ranked[:2]]
    else:
        explained = [found.predicted, second]
    if isinstance(found, LogitReading):
        mapped = [found.classes[c] for c in ranked[:MAPPED]]
        explanations = {name: _logit(found, name) for name in (*mapped, *explained)}
    else:
        explanations = {name: _explanation(found, name) for name in explained}
    named = {*ranked[:CLASSES], *map(found.number, explained)}
    probabilities = found.logits.softmax(0).tolist()
    scores = found.scores.tolist() if isinstance(found, Reading) else [None] * len(ranked)
    top = [
        {"name": found.classes[c], "probability": _short(probabilities[c]), "score": _short(scores[c])}
        for c in ranked
        if c in named
    ]
    return case | {"top": top, "explanations": explanations, **_located(found.descriptors, explanations)}


def _located(descriptors: PrimitiveDescriptors | None, explanations: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Where the primitives are that are shown, of a method that has some: their places and heat maps, one each."""
    if descriptors is None:
        return {"primitives_in_all": 0, "places": [], "heatmaps": None}
    needed = {k for each in explanations.values() for k in _needed(each)}
    present = descriptors.presence[0].argsort(descending=True, stable=True).tolist()
    others = [k for k in present if k not in needed]
    shown = sorted([*needed, *others[: max(0, PRIMITIVES - len(needed))]])
    every = places_of(descriptors)
    heatmap = descriptors.heatmap[0, shown].float().cpu().numpy()
    bytes_of = np.rint(255 * heatmap / heatmap.max(axis=(1, 2), keepdims=True)).astype(np.uint8)  # 255: the maximum
    return {
        "primitives_in_all": len(every),
        "places": [
            {name: value if name == "primitive" else round(value, 4) for name, value in place.to_dict().items()}
            for place in (every[k] for k in shown)
        ],
        "heatmaps": {"shape": list(heatmap.shape), "values": _base64(bytes_of.tobytes())},
    }


def _needed(explanation: dict[str, Any]) -> Iterator[int]:
    """The primitives of the listed relations, or those that add or take away most."""
    for relation in explanation.get("relations", ()):
        yield from relation["primitives"]
    parts = explanation.get("primitives") or ()
    yield from sorted(range(len(parts)), key=lambda k: -abs(parts[k]))[:RELATIONS]


def drawing_of(relation: Application) -> dict[str, Any]:
    """What the viewer draws of a relation, in the colour of its family."""
    return {"family": relation.family, "marks": [list(mark) for mark in relation.marks]}


def data_uri(pixels: Pixels) -> str:
    """An image as `data:`: PNG where that is short, so that no pixel of a small image changes; else JPEG."""
    image, png = Image.fromarray(pixels), io.BytesIO()
    image.save(png, "PNG", optimize=True)
    if png.tell() > LOSSLESS_BYTES:
        jpeg = io.BytesIO()
        image.save(jpeg, "JPEG", quality=JPEG_QUALITY, subsampling=0)
        if jpeg.tell() < png.tell():
            return f"data:image/jpeg;base64,{_base64(jpeg.getvalue())}"
    return f"data:image/png;base64,{_base64(png.getvalue())}"


def _explanation(reading: Reading, name: str) -> dict[str, Any]:
    """The largest contributions one by one, the others as one sum: together they are the score.

    As `Reading.explain` has them; a model may use tens of thousands, of which only these few are made.
    """
    weights = reading.weights[reading.number(name)]
    contributions = weights * reading.satisfaction
    used = weights.nonzero().squeeze(1)
    order = used[contributions[used].argsort(descending=True, stable=True)]
    rest = order[RELATIONS:]
    shown = [
        Relation(**vars(reading.applications[c]), weight=float(weights[c]), satisfaction=float(held))
        for c, held in zip(order[:RELATIONS].tolist(), reading.satisfaction[order[:RELATIONS]], strict=True)
    ]
    numbers = ("weight", "satisfaction", "contribution")
    return {
        "score": _short(float(contributions.sum())),
        "relations": [
            {field: _short(value) if field in numbers else value for field, value in each.to_dict().items()}
            | drawing_of(each)
            for each in shown
        ],
        "rest": {"count": len(rest), "contribution": _short(float(contributions[rest].sum()))},
    }


def _logit(reading: LogitReading, name: str) -> dict[str, Any]:
    """A logit and what it is the sum of: its bias, and what each cell, row by row, or each primitive adds."""
    number = reading.number(name)
    parts = reading.parts[number].numpy().round(PART_DECIMALS).tolist()
    which = "cells" if reading.descriptors is None else "primitives"
    both = {"cells": None, "primitives": None, which: parts}
    return {"logit": _short(float(reading.logits[number])), "bias": _short(float(reading.bias[number])), **both}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, DECIMALS)
