"""Which images a report shows: right and wrong ones, spread over the classes, the same ones every time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from parse_dg.data.listing import Progress
from parse_dg.data.loader import load_images
from parse_dg.data.splits import Subset
from parse_dg.deploy.predictor import Predictor
from parse_dg.explain.logits import read_any
from parse_dg.explain.report.page import Gallery
from parse_dg.explain.viewer_data import case_of
from parse_dg.training.accuracy import Predictions, require_finite
from parse_dg.wording import percent, printable

WORDS = {
    True: "taken for another class. Of every class the most confident errors.",
    False: "right. Of every class some, from the most to the least confident.",
}
BATCH = 16
"""How many images are explained at once."""
GOLDEN = 0.6180339887498949
"""Multiples of it, without their whole part, lie evenly spread in [0, 1), however many are taken."""


@dataclass(frozen=True, eq=False)
class SubsetPredictions:
    """The predictions of a model on the images of a subset, in its order."""

    subset: Subset
    labels: Int[np.ndarray, "N"]
    predicted: Int[np.ndarray, "N"]
    probability: Float[np.ndarray, "N"]
    """Of the predicted class."""

    @classmethod
    def of(cls, subset: Subset, predictions: Predictions) -> "SubsetPredictions":
        """What is kept of logits."""
        require_finite(predictions.logits)
        probability, predicted = predictions.logits.softmax(1).max(1)
        return cls(subset, predictions.labels.numpy(), predicted.numpy(), probability.numpy())

    def confusion(self, classes: int) -> Int[np.ndarray, "C C"]:
        """How many of each true class (row) were predicted to be of each class (column)."""
        flat = np.bincount(self.labels * classes + self.predicted, minlength=classes * classes)
        return flat.reshape(classes, classes)


def galleries(
    predictor: Predictor,
    target: Sequence[SubsetPredictions],
    sources: Sequence[SubsetPredictions],
    count: int,
    progress: Progress,
) -> Iterator[Gallery]:
    """Wrong and right images of the target, if there is one, then held-out ones of the sources; none is empty."""
    names = ", ".join(each.subset.domain.name for each in sources)
    kinds = [(each.subset.domain.name, f"{each.subset.domain.name}, the target", [each]) for each in target]
    kinds.append(("sources", f"the held-out images of {names}", list(sources)))
    done = 0
    for short, words, parts in kinds:
        for wrong in (True, False):
            found = []
            for case in _cases(predictor, parts, count, wrong):
                found.append(case)
                progress("explaining images", done + len(found), 4 * count)
            done += count
            if found:
                errors = sum(int((each.labels != each.predicted).sum()) for each in parts)
                total = sum(len(each.labels) for each in parts)
                number = errors if wrong else total - errors
                share = f"Of {words}: {number:,} of {total:,} images ({percent(number / total)}) are"
                title = f"{short}: {'wrong' if wrong else 'right'}"
                yield Gallery(title=title, words=f"{share} {WORDS[wrong]}", cases=tuple(found))


def choose(
    labels: Int[np.ndarray, "N"],
    probability: Float[np.ndarray, "N"],
    among: Bool[np.ndarray, "N"],
    count: int,
    order: Literal["confident", "spread"],
) -> Int[np.ndarray, "n"]:
    """Positions of `count` images of those in `among`, or of all of them, in turns over the classes.

    `confident`: of each class the most probable first, and so are the classes within a turn. `spread`: of each
    class some from the most to the least probable, and classes spread evenly where there are more than images.
    """
    (positions,) = np.nonzero(among)
    sorted_positions = positions[np.lexsort((positions, -probability[positions], labels[positions]))]
    ranked = np.split(sorted_positions, np.flatnonzero(np.diff(labels[sorted_positions])) + 1)
    present = [group for group in ranked if len(group)]
    quota = -(-count // max(1, len(present)))
    keys = []
    for number, group in enumerate(present):
        turns = group if order == "confident" else _spread(group, quota)
        for turn, position in enumerate(turns[:count].tolist()):
            tie = -float(probability[position]) if order == "confident" else number * GOLDEN % 1
            keys.append((turn, tie, position))
    return np.array([position for _, _, position in sorted(keys)[:count]], dtype=np.int64)


def _spread(group: Int[np.ndarray, "n"], quota: int) -> Int[np.ndarray, "n"]:
    """The same positions, `quota` of them from the first to the last before all others."""
    first = np.unique(np.linspace(0, len(group) - 1, min(quota, len(group))).round().astype(np.int64))
    return np.concatenate((group[first], np.delete(group, first)))


def _cases(
    predictor: Predictor, parts: Sequence[SubsetPredictions], count: int, wrong: bool
) -> Iterator[dict[str, Any]]:
    """The chosen images of several subsets, as cases, in the order in which they were chosen."""
    if not parts or not count:
        return
    labels, predicted, probability = (
        np.concatenate([getattr(each, name) for each in parts]) for name in ("labels", "predicted", "probability")
    )
    among = (labels != predicted) == wrong
    chosen = choose(labels, probability, among, count, "confident" if wrong else "spread")
    starts = np.cumsum([0, *(len(each.labels) for each in parts)])
    which = np.searchsorted(starts, chosen, side="right") - 1
    made: dict[int, dict[str, Any]] = {}
    for number, part in enumerate(parts):
        mine = chosen[which == number]
        for start in range(0, len(mine), BATCH):
            some = mine[start : start + BATCH]
            cases = _explained(predictor, part.subset, some - starts[number])
            made.update(zip(some.tolist(), cases, strict=True))
    yield from (made[position] for position in chosen.tolist())


def _explained(predictor: Predictor, subset: Subset, positions: Int[np.ndarray, "n"]) -> Iterator[dict[str, Any]]:
    """Called by the image's file below the data set's folder, or its number where it was drawn."""
    images, labels = load_images(subset, positions)
    domain, found = subset.domain, read_any(predictor, images)
    for said, index, label in zip(found, subset.indices[positions].tolist(), labels.tolist(), strict=True):
        title = printable(domain.files.paths[index]) if domain.files else f"image {index} of {domain.name}"
        picture = domain.picture(index, predictor.model.spec.framing)
        yield case_of(said, picture, title=title, truth=predictor.classes[label])
