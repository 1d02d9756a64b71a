"""Why a model said what it said, as plain data: a class score is a sum of named relations between places.

An image is read once (`read_image`, `read_images`); everything that is said of it is taken from that `Reading`.
Letters: B images, C classes, n applications that some class uses.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import fsum
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Float64, Int, UInt8
from torch import Tensor

from parse_dg.deploy.image_batches import ImageLike, load_image
from parse_dg.deploy.model_file import Model
from parse_dg.deploy.predictor import Predictor
from parse_dg.errors import require_known
from parse_dg.jsonable import Jsonable
from parse_dg.model.paper_predicates import PREDICATES
from parse_dg.model.predicate import Family, Mark
from parse_dg.model.predicates import Predicates
from parse_dg.model.primitives import PrimitiveDescriptors
from parse_dg.model.structure import StructuralLayer
from parse_dg.training.accuracy import require_finite


@dataclass(frozen=True)
class Application(Jsonable):
    """One column of the vocabulary, named."""

    name: str
    """As in the vocabulary: `above(p3, p11)`."""
    words: str
    """As one would say it: "p3 above p11", or "beak above p11" where p3 was given that name."""
    predicate: str
    primitives: tuple[int, ...]

    DERIVED: ClassVar[tuple[str, ...]] = ()
    """Properties that are written beside the fields."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return super().to_dict() | {name: getattr(self, name) for name in self.DERIVED}

    @property
    def family(self) -> Family:
        """Presence, binary, ternary or quaternary."""
        return PREDICATES[self.predicate].family

    @property
    def marks(self) -> list[Mark]:
        """What is to be drawn of it, at which primitives: `("arrow", 3, 11)`."""
        return PREDICATES[self.predicate].draw(self.primitives)


@dataclass(frozen=True)
class Relation(Application):
    """One active application in one class's score for one image."""

    DERIVED: ClassVar = ("contribution",)

    weight: float
    """w, the share of the class's composition; the shares of a class sum to one."""
    satisfaction: float
    """a in [0, 1], how far the relation holds in this image."""

    @property
    def contribution(self) -> float:
        """Weight × satisfaction: the contributions of a class sum to its score."""
        return self.weight * self.satisfaction


@dataclass(frozen=True)
class PrimitivePosition(Jsonable):
    """Where one primitive is in one image, in the grid's units: x and y in [-1, 1], x to the right, y downwards."""

    primitive: int
    x: float
    y: float
    width: float
    """Twice the standard deviation of the heat map along x, as `height` is along y."""
    height: float
    presence: float
    """σ in (0, 1)."""


@dataclass(frozen=True)
class Rest(Jsonable):
    """The relations that are not listed one by one, together."""

    count: int
    weight: float
    contribution: float


@dataclass(frozen=True)
class Explanation:
    """A prediction and all it is the sum of."""

    predicted: str
    scores: dict[str, float]
    """s in [0, 1] of every class, before the logit scale."""
    probabilities: dict[str, float]
    relations: tuple[Relation, ...]
    """Of the explained class, the largest contribution first."""
    explained: str
    """The class whose score the relations add up to."""
    descriptors: PrimitiveDescriptors
    """Of this one image: B = 1."""
    names: Mapping[int, str] = field(default_factory=dict)
    """What people call the primitives, where they gave them names."""

    @property
    def places(self) -> tuple[PrimitivePosition, ...]:
        """Where every primitive is, in their order."""
        return places_of(self.descriptors)

    def weaker(self, top: int | None) -> Rest:
        """What the relations after the `top` strongest (none: all are) come to together."""
        others = self.relations[len(self.relations) if top is None else top :]
        return Rest(len(others), fsum(r.weight for r in others), fsum(r.contribution for r in others))

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """As JSON data, without the heat maps; every relation comes with the places of what it binds. With `top`
        the strongest alone are listed, and `rest` says what the others come to.
        """
        places = [place.to_dict() for place in self.places]
        relations = [r.to_dict() | {"places": [places[i] for i in r.primitives]} for r in self.relations[:top]]
        return {
            "predicted": self.predicted,
            "explained": self.explained,
            "scores": dict(self.scores),
            "probabilities": dict(self.probabilities),
            "relations": relations,
            "rest": self.weaker(top).to_dict(),
            "primitives": places,
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassReading:
    """What a model says of one image, class by class."""

    classes: tuple[str, ...]
    logits: Float64[Tensor, "C"]
    """As the network computed them: they decide what is predicted."""

    @property
    def predicted(self) -> str:
        """The class with the highest logit."""
        return self.classes[int(self.logits.argmax())]

    @property
    def ranked(self) -> list[int]:
        """The rows of all classes, the most probable first; of equal ones the first, as argmax has it."""
        return self.logits.argsort(descending=True, stable=True).tolist()

    def number(self, name: str) -> int:
        """The row of a class."""
        require_known("class", name, self.classes)
        return self.classes.index(name)


@dataclass(frozen=True, kw_only=True, eq=False)
class Reading(ClassReading):
    """One image as a model reads it. Weights and satisfactions are the network's own, widened to float64.

    A network in float32 rounds its sum of thousands of contributions (by up to 1e-6); here it is summed exactly.
    """

    applications: tuple[Application, ...]
    """What the columns of the weights are."""
    weights: Float64[Tensor, "C n"]
    satisfaction: Float64[Tensor, "n"]
    scale: float
    """What scores are multiplied with to become logits; positive, and the same for all classes."""
    descriptors: PrimitiveDescriptors
    """Of this one image: B = 1."""
    names: Mapping[int, str] = field(default_factory=dict)

    @property
    def scores(self) -> Float64[Tensor, "C"]:
        """The class scores s = w·a in [0, 1], before the logit scale."""
        return self.weights @ self.satisfaction

    def explain(self, of: str | None = None) -> Explanation:
        """The score of class `of` (default: the predicted one) as a sum of relations."""
        explained = self.predicted if of is None else of
        weights = self.weights[self.number(explained)]
        found = zip(self.applications, weights.tolist(), self.satisfaction.tolist(), strict=True)
        relations = [Relation(**vars(of), weight=w, satisfaction=held) for of, w, held in found if w > 0]
        return Explanation(
            predicted=self.predicted,
            scores=by_class(self.classes, self.scores),
            probabilities=by_class(self.classes, self.logits.softmax(0)),
            relations=tuple(sorted(relations, key=lambda relation: -relation.contribution)),
            explained=explained,
            descriptors=self.descriptors,
            names=self.names,
        )


def explain(model: Model | Predictor, image: ImageLike, of: str | None = None) -> Explanation:
    """Explain the score of class `of` (default: the predicted one) on one image: a path, a Pillow image, an array
    H × W × 3 or a tensor 3 × H × W, uint8 or floats in [0, 1], of any size.
    """
    return read_image(model, image).explain(of)


def read_image(model: Model | Predictor, image: ImageLike) -> Reading:
    """Everything that can be said of one image of any form and size, resized as for a prediction."""
    return read_images(model, as_batch(model_of(model), image))[0]


@torch.no_grad()
def read_images(model: Model | Predictor, images: UInt8[Tensor, "B 3 H W"]) -> tuple[Reading, ...]:
    """The readings of some RGB images, values 0 to 255 and of the model's size, in one pass of the network."""
    model = model_of(model)
    network = model.parse_network()
    structure = network.structure
    output = network(model.prepare(images))
    require_finite(output.logits)
    columns = output.structure.columns
    applications = name_applications(structure, columns, model.names)
    weights = output.structure.weights.double().cpu()
    satisfaction = structure.evaluate(output.descriptors, columns).double().cpu()
    scale = float(structure.composition.logits(output.logits.new_ones(1, 1)))
    return tuple(
        Reading(
            classes=model.spec.classes,
            applications=applications,
            weights=weights,
            satisfaction=held,
            logits=logits,
            scale=scale,
            descriptors=PrimitiveDescriptors(*(part[b : b + 1] for part in output.descriptors)),
            names=model.names,
        )
        for b, (held, logits) in enumerate(zip(satisfaction, output.logits.double().cpu(), strict=True))
    )


def as_batch(model: Model, image: ImageLike) -> UInt8[Tensor, "1 3 H W"]:
    """One image of any form and size, resized as for a prediction."""
    pixels = load_image(0, image, model.spec.framing).pixels
    return torch.from_numpy(pixels).permute(2, 0, 1)[None]


def model_of(model: Model | Predictor) -> Model:
    """The model itself, also of what predicts with it."""
    return model.model if isinstance(model, Predictor) else model


def name_applications(
    structure: StructuralLayer, columns: Int[Tensor, "n"], names: Mapping[int, str] | None = None
) -> tuple[Application, ...]:
    """The names of ascending columns of the vocabulary, and what they say; `names` are those of primitives."""
    named = []
    for part in structure.vocabulary.applications(columns):
        predicate = PREDICATES[part.predicate]
        for angle, bound in zip(part.angle.tolist(), map(tuple, part.primitives.T.tolist()), strict=True):
            words = in_words(structure.predicates, part.predicate, angle, bound, names)
            named.append(Application(predicate.application(angle, bound), words, part.predicate, bound))
    return tuple(named)


def places_of(z: PrimitiveDescriptors) -> tuple[PrimitivePosition, ...]:
    """Where the primitives of one image (B = 1) are, in their order."""
    found = torch.cat((z.centre[0], z.extent[0], z.presence[0, :, None]), 1).tolist()
    return tuple(PrimitivePosition(k, *place) for k, place in enumerate(found))


def in_words(
    predicates: Predicates, name: str, angle: int, bound: tuple[int, ...], names: Mapping[int, str] | None = None
) -> str:
    """A relation as one would say it, with its learned target angle where it has one."""
    targets = predicates.target_angle
    return PREDICATES[name].say(bound, targets[name][angle].item() if name in targets else None, names)


def by_class(classes: tuple[str, ...], values: Float[Tensor, "C"]) -> dict[str, float]:
    """One number a class, by its name."""
    return dict(zip(classes, values.tolist(), strict=True))
