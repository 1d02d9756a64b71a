"""Why a model said what it said, as plain data: a class score is a sum of named relations between places."""

from dataclasses import dataclass
from math import degrees

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from parse_dg.data.augment import IMAGENET_MEAN, IMAGENET_STD, normalise, to_unit
from parse_dg.deploy.model_file import Model
from parse_dg.errors import unknown
from parse_dg.model.predicates import Predicates
from parse_dg.model.primitives import PrimitiveDescriptors
from parse_dg.model.vocabulary import application_name


@dataclass(frozen=True)
class Relation:
    """One active application in one class's score for one image."""

    name: str
    """As in the vocabulary: `above(p3, p11)`."""
    words: str
    """As one would say it: "p3 above p11"."""
    predicate: str
    primitives: tuple[int, ...]
    weight: float
    """w, the share of the class's composition; the shares of a class sum to one."""
    satisfaction: float
    """a in [0, 1], how far the relation holds in this image."""

    @property
    def contribution(self) -> float:
        """Weight × satisfaction: the contributions of a class sum to its score."""
        return self.weight * self.satisfaction


@dataclass(frozen=True)
class Explanation:
    """A prediction and all it is the sum of."""

    predicted: str
    scores: dict[str, float]
    """s in [0, 1] of every class."""
    probabilities: dict[str, float]
    relations: tuple[Relation, ...]
    """Of the explained class, the largest contribution first."""
    explained: str
    """The class whose score the relations add up to."""
    descriptors: PrimitiveDescriptors
    """Of this one image: B = 1."""


@torch.no_grad()
def explain(
    model: Model, image: UInt8[Tensor, "3 H W"] | UInt8[np.ndarray, "H W 3"], of: str | None = None
) -> Explanation:
    """Explain the score of class `of` (default: the predicted one) on one RGB image, values 0 to 255."""
    network = model.parse().network
    device = network.structure.composition.weight.device
    if isinstance(image, np.ndarray):
        image = torch.from_numpy(image.copy()).permute(2, 0, 1)
    output = network(normalise(to_unit(image[None].to(device)), IMAGENET_MEAN, IMAGENET_STD))
    classes = model.spec.classes
    predicted = classes[int(output.logits[0].argmax())]
    explained = predicted if of is None else of
    if explained not in classes:
        raise unknown("class", explained, classes)
    weights = output.structure.weights[classes.index(explained)]
    satisfaction = network.structure.evaluate(output.descriptors, output.structure.columns)[0]
    relations = []
    position = 0
    for part in network.structure.vocabulary.applications(output.structure.columns):
        for angle, primitives in zip(part.angle.tolist(), part.primitives.T.tolist(), strict=True):
            weight = float(weights[position])
            if weight > 0:
                relations.append(
                    Relation(
                        name=application_name(part.predicate, angle, tuple(primitives)),
                        words=in_words(network.structure.predicates, part.predicate, angle, tuple(primitives)),
                        predicate=part.predicate,
                        primitives=tuple(primitives),
                        weight=weight,
                        satisfaction=float(satisfaction[position]),
                    )
                )
            position += 1
    relations.sort(key=lambda relation: -relation.contribution)
    return Explanation(
        predicted=predicted,
        scores=_by_class(classes, output.structure.scores[0]),
        probabilities=_by_class(classes, output.logits[0].softmax(0)),
        relations=tuple(relations),
        explained=explained,
        descriptors=output.descriptors,
    )


def in_words(predicates: Predicates, predicate: str, angle: int, primitives: tuple[int, ...]) -> str:
    """A relation as one would say it, with its learned target angle where it has one."""
    p = [f"p{i}" for i in primitives]
    target = ""
    if predicate in predicates.target_angle:
        target = f"{degrees(predicates.target_angle[predicate][angle].item()):.0f}°"
    match predicate:
        case "has":
            return f"{p[0]} is there"
        case "above":
            return f"{p[0]} above {p[1]}"
        case "left":
            return f"{p[0]} left of {p[1]}"
        case "h_align":
            return f"{p[0]} level with {p[1]}"
        case "v_align":
            return f"{p[0]} straight above or below {p[1]}"
        case "near":
            return f"{p[0]} near {p[1]}"
        case "contains":
            return f"{p[0]} around {p[1]}"
        case "tri":
            return f"{p[1]} and {p[2]} seen from {p[0]} about {target} apart"
        case "turn":
            return f"{p[0]}→{p[1]}→{p[2]} turns by about {target}"
        case "orient":
            return f"{p[0]}→{p[1]} at about {target} to {p[2]}→{p[3]}"
        case _:
            return f"{p[0]}–{p[1]} as long as {p[2]}–{p[3]}"


def _by_class(classes: tuple[str, ...], values: Float[Tensor, "C"]) -> dict[str, float]:
    return dict(zip(classes, values.tolist(), strict=True))
