"""Explanations as they are read in a terminal: tables and sentences in which every number says what it is."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from jaxtyping import Float64
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text
from torch import Tensor

from parse_dg.cli.options import say
from parse_dg.deploy.names import called
from parse_dg.explain.classes import ClassComposition
from parse_dg.explain.contrast import Contrast, Counterfactual, Difference
from parse_dg.explain.explanation import Explanation, PrimitivePosition, by_class, places_of
from parse_dg.explain.logits import LogitReading
from parse_dg.explain.primitive_images import PrimitiveImages
from parse_dg.model.primitives import PrimitiveDescriptors
from parse_dg.wording import percent, plural, printable

CLASSES = 5
"""How many classes are named with an image, the most probable first; the explained one always is."""

SCORE = "score: what the contributions of a class's relations sum to, in [0, 1]"
WEIGHT = "weight: a relation's share of the class's composition; those of a class sum to 1"
SATISFACTION = "satisfaction: how far a relation holds in this image, from 0 to 1"
PLACES = (
    "x and y: the centre of a primitive's heat map, from -1 (left, top) to 1 (right, bottom); width and height: "
    "twice its standard deviation; presence: from 0 (absent) to 1"
)


def quoted(name: str) -> str:
    """The name of a class in a sentence."""
    return f"“{printable(name)}”"


def print_classes(console: Console, compositions: Iterable[ClassComposition], top: int) -> None:
    """What every class is composed of: its `top` strongest relations, and the shares of the families."""
    for composition in compositions:
        families = sorted(composition.families.items(), key=lambda share: -share[1])
        shares = ", ".join(f"{family} {percent(share)}" for family, share in families)
        count = plural(composition.relations, "relation")
        say(console, f"{quoted(composition.name)} is composed of {count}, whose weights sum to 1: {shares}")
        table = _table(*("weight", "relation", "family"))
        for term in composition.terms[:top]:
            _add(table, _number(term.weight), term.words, term.family)
        others, weight = composition.weaker(top)
        if others:
            _add(table, _number(weight), f"and {_weaker(others)} together", "")
        console.print(table)
    say(console, f"{WEIGHT}; the most that a relation can add to the score of an image")


def print_explanation(
    console: Console, image: str, explanation: Explanation, top: int, truth: str | None = None
) -> None:
    """The scores of the classes, the sum that the explained one is, and where what it speaks of is."""
    probabilities = explanation.probabilities
    say(console, f"{printable(image)}: {_prediction(explanation.predicted, probabilities, truth)}")
    _print_scores(console, "score", explanation.scores, probabilities, explanation.explained)
    say(console, SCORE, "probability: softmax of the logits, which are the scores times a learned scale")
    relations, rest = explanation.relations[:top], explanation.weaker(top)
    score = explanation.scores[explanation.explained]
    count = plural(len(explanation.relations), "relation")
    say(console, f"\nwhy: the score of {quoted(explanation.explained)} as a sum over its {count}")
    table = _table("contribution", "= weight", "× satisfaction", "relation")
    for relation in relations:
        numbers = (relation.contribution, relation.weight, relation.satisfaction)
        _add(table, *map(_number, numbers), relation.words)
    if rest.count:
        _add(table, _number(rest.contribution), _number(rest.weight), "", f"and {_weaker(rest.count)} together")
    table.add_section()
    total = sum(relation.weight for relation in relations) + rest.weight
    _add(table, _number(score), _number(total), "", f"the sum: the score of {quoted(explanation.explained)}")
    console.print(table)
    say(console, WEIGHT, SATISFACTION)
    _print_places(console, explanation, sorted({k for relation in relations for k in relation.primitives}))


def print_logit(
    console: Console, image: str, reading: LogitReading, of: str | None, top: int | None, truth: str | None = None
) -> None:
    """The logits of the classes, and where in the image that of class `of` (none: the predicted one) comes from."""
    explained = reading.predicted if of is None else of
    number = reading.number(explained)
    probabilities = by_class(reading.classes, reading.logits.softmax(0))
    say(console, f"{printable(image)}: {_prediction(reading.predicted, probabilities, truth)}")
    _print_scores(console, "logit", by_class(reading.classes, reading.logits), probabilities, explained)
    say(console, "probability: softmax of the logits")
    parts, bias = reading.parts[number], float(reading.bias[number])
    places = "its primitives" if reading.descriptors else f"a map of {parts.shape[0]} × {parts.shape[1]} cells"
    say(console, f"\nwhere the score of {quoted(explained)} comes from: its logit as a sum over {places}")
    if reading.descriptors is None:
        _print_cells(console, parts)
    else:
        _print_primitive_parts(console, reading.descriptors, parts, top)
    added, taken = float(parts.clamp_min(0).sum()), float(parts.clamp_max(0).sum())
    say(
        console,
        f"what adds {added:+.3f}, what takes away {taken:+.3f}, bias {bias:+.3f}: "
        f"the logit of {quoted(explained)} {reading.logits[number]:+.3f}",
        "it says where a score comes from, and not why: only models of parse have relations",
    )


def _print_cells(console: Console, parts: Float64[Tensor, "H W"]) -> None:
    """A class activation map, a digit a cell."""
    largest = max(float(parts.abs().max()), 1e-12)
    for row in (10 * parts / largest).trunc().int().tolist():
        say(console, "  " + "".join(f"{tenths:4d}" if tenths else "   ·" for tenths in row))
    say(console, f"each cell: what it adds to the logit, in tenths of the strongest cell's {largest:.3f}; ·: less")


def _print_primitive_parts(
    console: Console, descriptors: PrimitiveDescriptors, parts: Float64[Tensor, "K"], top: int | None
) -> None:
    table = _table("part", "primitive", "x", "y", "width", "height", "presence", words=("primitive",))
    places = places_of(descriptors)
    for k in parts.argsort(descending=True, stable=True).tolist()[:top]:
        _add(table, f"{float(parts[k]):+z.4f}", *_place(places[k]))
    console.print(table)
    say(console, "part: what presence, place and extent of the primitive add to the logit", PLACES)


def print_contrast(console: Console, image: str, contrast: Contrast, top: int) -> None:
    """What speaks for the one class, and what for the other."""
    this, that = quoted(contrast.this), quoted(contrast.that)
    say(
        console,
        f"{printable(image)}: why {this} and not {that}? {this} scores {_number(contrast.score_this)}, {that} "
        f"{_number(contrast.score_that)}: a difference of {contrast.difference:+z.4f}, "
        f"{contrast.logit_difference:+.2f} in logits",
    )
    found = contrast.strongest(top)
    table = _table("difference", f"weight in\n{this}", f"weight in\n{that}", "satisfaction", "relation")
    _add_differences(table, found.this, f"for {this}: nothing")
    table.add_section()
    _add_differences(table, found.that, f"for {that}: nothing")
    table.add_section()
    if found.rest:
        rest = sum(relation.difference for relation in found.rest)
        _add(table, f"{rest:+z.4f}", "", "", "", f"{plural(len(found.rest), 'other relation')} together")
    _add(table, f"{contrast.difference:+z.4f}", "", "", "", "the sum: the difference of the two scores")
    console.print(table)
    say(
        console,
        f"difference: (weight in {this} − weight in {that}) × satisfaction; above 0 it speaks for {this}, "
        f"below 0 for {that}",
        *(SCORE, WEIGHT, SATISFACTION),
    )


def print_counterfactual(console: Console, image: str, found: Counterfactual, top: int) -> None:
    """Which single relation would change the prediction, or that none would."""
    predicted = quoted(found.predicted)
    others = sorted((score, name) for name, score in found.scores.items() if name != found.predicted)
    ahead = "" if not others else f"; the next is {quoted(others[-1][1])} with {_number(others[-1][0])}"
    score = _number(found.scores[found.predicted])
    say(console, f"{printable(image)}: predicted {predicted}, which scores {score}{ahead}")
    if not found.flips:
        say(
            console,
            "no single relation decides: whichever one of them held fully, or not at all, the prediction would "
            f"still be {predicted}",
        )
        return
    many = len(found.flips)
    each = "a change of one relation alone" if many == 1 else f"each of {many:,} changes of one relation alone"
    say(console, f"{each} would flip the prediction")
    table = _table("satisfaction", "relation", "then predicted", "its score", f"score of\n{predicted}")
    for flip in found.flips[:top]:
        scores = (f"{flip.scores[name]:.6f}" for name in (flip.predicted, found.predicted))  # they may be close
        moved = f"{_number(flip.before)} → {flip.after:.0f}"
        _add(table, moved, flip.words, printable(flip.predicted), *scores)
    console.print(table)
    if many > top:
        say(console, f"listed: {top} of {many:,}, the smallest change first")
    say(
        console,
        "a relation is changed for every class that uses it, and no other with it; whether an image could be "
        "redrawn so is not asked",
        SCORE,
        SATISFACTION,
    )


def print_primitives(
    console: Console,
    found: Iterable[PrimitiveImages],
    classes: Sequence[str],
    names: Mapping[int, str] | None = None,
) -> None:
    """The strongest images of every primitive, domain by domain."""
    headings = ("domain", "mean\nevidence", "evidence", "presence", "x", "y", "image", "class")
    for primitive, domains in groupby(found, key=lambda each: each.primitive):
        say(console, f"{called(primitive, names or {})}: the images of each domain with most evidence for it")
        table = _table(*headings, words=("domain", "image", "class"))
        for domain in domains:
            first = (printable(domain.domain), f"{domain.mean_evidence:.2f}")
            for row, image in enumerate(domain.images):
                place = (_number(image.presence), f"{image.x:+z.2f}", f"{image.y:+z.2f}")
                of = (printable(image.file or f"{domain.domain}:{image.index}"), printable(classes[image.label]))
                _add(table, *(("", "") if row else first), f"{image.evidence:.2f}", *place, *of)
            table.add_section()
        console.print(table)
    say(
        console,
        "evidence: the largest value of the primitive's map; its mean is over all images of the domain",
        "presence: sigmoid of the evidence, from 0 (absent) to 1",
        "x and y: the centre of the primitive's heat map, from -1 (left, top) to 1 (right, bottom)",
    )


def _prediction(predicted: str, probabilities: Mapping[str, float], truth: str | None) -> str:
    said = f"predicted {quoted(predicted)}, probability {percent(probabilities[predicted])}"
    if truth is None:
        return said
    return f"{said}, which is right" if truth == predicted else f"{said}; it is {quoted(truth)}"


def _print_scores(
    console: Console, what: str, scores: Mapping[str, float], probabilities: Mapping[str, float], explained: str
) -> None:
    ranked = sorted(probabilities, key=lambda name: -probabilities[name])
    shown = [name for rank, name in enumerate(ranked) if rank < CLASSES or name == explained]
    table = _table("class", what, "probability", words=("class",))
    for name in shown:
        _add(table, printable(name), _number(scores[name]), percent(probabilities[name]))
    console.print(table)
    if len(shown) < len(ranked):
        say(console, f"{len(shown)} of {len(ranked):,} classes, the most probable first")


def _print_places(console: Console, explanation: Explanation, primitives: Sequence[int]) -> None:
    """Where the primitives are that the relations above speak of."""
    say(console, "\nwhere the primitives of these relations are")
    table = _table("primitive", "x", "y", "width", "height", "presence", words=("primitive",))
    for k in primitives:
        _add(table, *_place(explanation.places[k], explanation.names))
    console.print(table)
    say(console, PLACES)


def _place(place: PrimitivePosition, names: Mapping[int, str] | None = None) -> tuple[str, ...]:
    numbers = (f"{value:.2f}" for value in (place.width, place.height, place.presence))
    return called(place.primitive, names or {}), f"{place.x:+z.2f}", f"{place.y:+z.2f}", *numbers


def _add_differences(table: Table, relations: Sequence[Difference], nothing: str) -> None:
    for each in relations:
        weights = (_number(weight) if weight else "0" for weight in (each.weight_this, each.weight_that))
        _add(table, f"{each.difference:+z.4f}", *weights, _number(each.satisfaction), each.words)
    if not relations:
        _add(table, "", "", "", "", nothing)


def _table(*headings: str, words: Sequence[str] = ("relation", "family", "then predicted")) -> Table:
    """An empty table; columns of words are on the left of their cells, columns of numbers on the right."""
    table = Table()
    for heading in headings:
        justify: JustifyMethod = "left" if heading in words else "right"
        table.add_column(Text(heading), justify=justify, overflow="fold")
    return table


def _add(table: Table, *cells: str) -> None:
    table.add_row(*(Text(cell) for cell in cells))


def _number(value: float) -> str:
    return f"{value:.4f}"


def _weaker(count: int) -> str:
    return plural(count, "weaker relation")
