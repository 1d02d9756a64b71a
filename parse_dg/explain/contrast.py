"""Why this class and not that one, and what single relation would have changed the prediction.

Both speak of scores before the logit scale. The scale is positive and the same for every class, so it changes no
prediction: a difference of logits is the scale times the difference of scores.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import fsum
from typing import Any, ClassVar, NamedTuple

from parse_dg.errors import InputError
from parse_dg.explain.explanation import Application, Reading, by_class
from parse_dg.jsonable import Jsonable


@dataclass(frozen=True)
class Difference(Application):
    """What one relation adds to the score of one class more than to that of another."""

    DERIVED: ClassVar = ("difference",)

    weight_this: float
    """w in the class that is argued for; 0 where it does not use the relation."""
    weight_that: float
    satisfaction: float
    """a in [0, 1]: how far the relation holds in the image, for both classes alike."""

    @property
    def difference(self) -> float:
        """The contribution to this class less that to the other; negative where it speaks for the other."""
        return (self.weight_this - self.weight_that) * self.satisfaction


@dataclass(frozen=True)
class Contrast(Jsonable):
    """Why one class scores higher or lower than another on an image."""

    this: str
    that: str
    score_this: float
    """Before the logit scale, in [0, 1]."""
    score_that: float
    logit_scale: float
    relations: tuple[Difference, ...]
    """Every relation that one of the two uses: what speaks most for `this` first, most for `that` last."""

    @property
    def difference(self) -> float:
        """Of the scores, before the logit scale: what the differences of the relations sum to."""
        return self.score_this - self.score_that

    @property
    def logit_difference(self) -> float:
        """Of the logits, after the scale."""
        return self.logit_scale * self.difference

    def strongest(self, top: int | None = None) -> "Strongest":
        """The `top` relations (none: all) that speak for each side, the strongest first, and the others."""
        this = tuple(relation for relation in self.relations if relation.difference > 0)[:top]
        that = tuple(relation for relation in reversed(self.relations) if relation.difference < 0)[:top]
        return Strongest(this, that, self.relations[len(this) : len(self.relations) - len(that)])

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """As JSON data, with the differences; with `top` the strongest on each side alone are listed, and `rest`
        says what the others come to.
        """
        this, that, rest = self.strongest(top) if top is not None else (self.relations, (), ())
        return super().to_dict() | {
            "difference": self.difference,
            "logit_difference": self.logit_difference,
            "relations": [relation.to_dict() for relation in (*this, *reversed(that))],
            "rest": {"count": len(rest), "difference": fsum(relation.difference for relation in rest)},
        }


class Strongest(NamedTuple):
    """The relations of a contrast by the side that they speak for; `rest` are the weaker ones of both sides, and
    those that speak for neither.
    """

    this: tuple[Difference, ...]
    that: tuple[Difference, ...]
    rest: tuple[Difference, ...]


@dataclass(frozen=True)
class Flip(Application):
    """One relation that alone decides: with another satisfaction, another class would be predicted."""

    DERIVED: ClassVar = ("change",)

    before: float
    after: float
    """1: were it fully satisfied; 0: were it not satisfied at all."""
    predicted: str
    """The class that would be predicted."""
    scores: dict[str, float]
    """Of every class with the relation changed, before the logit scale."""

    @property
    def change(self) -> float:
        """How far the satisfaction would have to move."""
        return abs(self.after - self.before)


@dataclass(frozen=True)
class Counterfactual:
    """What a prediction hangs on."""

    predicted: str
    scores: dict[str, float]
    """Of every class as it is, before the logit scale."""
    flips: tuple[Flip, ...]
    """The smallest change first; empty where no single relation changes the prediction."""

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """As JSON data; with `top` the smallest changes alone are listed, and `count` says how many there are."""
        return {
            "predicted": self.predicted,
            "scores": dict(self.scores),
            "count": len(self.flips),
            "flips": [flip.to_dict() for flip in self.flips[:top]],
        }


def contrast(reading: Reading, this: str | None = None, that: str | None = None) -> Contrast:
    """Why `this` (default: the predicted class) and not `that` (default: the best of the others)."""
    this = reading.predicted if this is None else this
    first = reading.number(this)
    if len(reading.classes) < 2:
        raise InputError("a contrast needs two classes, found a model of one")
    if that is None:
        that = next(reading.classes[c] for c in reading.ranked if c != first)
    second = reading.number(that)
    if first == second:
        raise InputError(f"a contrast needs two classes, found {this!r} twice")
    columns = (reading.weights[first], reading.weights[second], reading.satisfaction)
    found = zip(reading.applications, *(column.tolist() for column in columns), strict=True)
    differences = [
        Difference(**vars(application), weight_this=one, weight_that=other, satisfaction=held)
        for application, one, other, held in found
        if max(one, other) > 0
    ]
    return Contrast(
        this=this,
        that=that,
        score_this=float(reading.scores[first]),
        score_that=float(reading.scores[second]),
        logit_scale=reading.scale,
        relations=tuple(sorted(differences, key=lambda relation: -relation.difference)),
    )


def counterfactual(reading: Reading) -> Counterfactual:
    """Which relations, one at a time, would flip the prediction if they held fully or not at all.

    A relation is a fact of the image, so it changes for every class that uses it. Whether the image could be
    redrawn so that this relation moves and no other does is not asked.
    """
    flips = [*_flips(reading, after=1.0), *_flips(reading, after=0.0)]
    return Counterfactual(
        predicted=reading.predicted,
        scores=by_class(reading.classes, reading.scores),
        flips=tuple(sorted(flips, key=lambda flip: (flip.change, flip.name))),
    )


def _flips(reading: Reading, after: float) -> Iterator[Flip]:
    """The relations that flip the prediction when their satisfaction becomes `after`."""
    weights, satisfaction = reading.weights, reading.satisfaction
    predicted = reading.number(reading.predicted)
    moved = weights * (after - satisfaction)  # (C, n): what each class gains from each relation's change
    scores = reading.scores.unsqueeze(1) + moved
    winners = scores.argmax(0)
    # Where two classes are level in the network's precision they may not be in this one: the relation itself must
    # bring the winner ahead.
    ahead = (scores.amax(0) > scores[predicted]) & (moved.gather(0, winners[None])[0] > moved[predicted])
    for column in ahead.nonzero().squeeze(1).tolist():
        yield Flip(
            **vars(reading.applications[column]),
            before=float(satisfaction[column]),
            after=after,
            predicted=reading.classes[int(winners[column])],
            scores=by_class(reading.classes, scores[:, column]),
        )
