"""What is read in a terminal: the numbers of the data, each beside what it is."""

import io
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from rich.console import Console

from parse_dg.cli.show.explanations import (
    print_classes,
    print_contrast,
    print_counterfactual,
    print_explanation,
    print_primitives,
)
from parse_dg.explain.classes import describe_classes
from parse_dg.explain.contrast import contrast, counterfactual
from parse_dg.explain.explanation import Reading, read_image
from parse_dg.explain.primitive_images import PrimitiveImages, StrongImage
from tests.cli.conftest import table
from tests.explain.test_contrast import layout_model
from tests.explain.test_explanation import BLANK

Printed = Callable[..., str]


@pytest.fixture
def printed() -> Printed:
    """printed(print_classes, compositions, 3): all that it prints."""

    def call(what: Callable[..., None], *arguments: object) -> str:
        out = io.StringIO()
        what(Console(file=out, width=200), *arguments)
        return out.getvalue()

    return call


@pytest.fixture(scope="module")
def reading() -> Reading:
    return read_image(layout_model(), BLANK)


def lines_with(text: str, part: str) -> list[str]:
    return [line for line in text.splitlines() if part in line]


def test_classes(printed: Printed) -> None:
    text = printed(print_classes, describe_classes(layout_model()), 2)
    assert "“one” is composed of 2 relations, whose weights sum to 1: binary 60.0%, presence 40.0%\n" in text
    assert "“two” is composed of 3 relations, whose weights sum to 1: presence 60.0%, binary 40.0%\n" in text
    assert table(text)[:3] == [
        ["weight", "relation", "family"],
        ["0.6000", "p0 above p1", "binary"],
        ["0.4000", "p2 is there", "presence"],
    ]
    assert table(text)[3:7] == [
        ["weight", "relation", "family"],
        ["0.6000", "p2 is there", "presence"],
        ["0.3000", "p1 above p0", "binary"],
        ["0.1000", "and 1 weaker relation together"],
    ]
    assert text.splitlines()[-1].startswith("weight: a relation's share of the class's composition")


def test_an_explanation_is_a_sum(printed: Printed, reading: Reading) -> None:
    explanation = reading.explain("two")
    text = printed(print_explanation, "a [bold] name.png", explanation, 2, "two")
    probability = 100 * explanation.probabilities["one"]
    assert text.startswith(f"a [bold] name.png: predicted “one”, probability {probability:.1f}%; it is “two”\n")
    rows = table(text)
    assert rows[0] == ["class", "score", "probability"]
    scores = {name: score for name, score, _ in rows[1:4]}
    assert scores == {name: f"{score:.4f}" for name, score in explanation.scores.items()}
    assert "why: the score of “two” as a sum over its 3 relations" in text
    assert rows[4] == ["contribution", "= weight", "× satisfaction", "relation"]
    assert rows[5] == ["0.6000", "0.6000", "1.0000", "p2 is there"]
    listed = [float(row[0]) for row in rows[5:8]]
    assert rows[7][3] == "and 1 weaker relation together"
    assert rows[8] == [f"{explanation.scores['two']:.4f}", "1.0000", "", "the sum: the score of “two”"]
    assert math.fsum(listed) == pytest.approx(explanation.scores["two"], abs=2e-4)
    for contribution, weight, satisfaction, _ in rows[5:7]:
        assert float(contribution) == pytest.approx(float(weight) * float(satisfaction), abs=1e-4)


def test_a_contrast_is_a_sum_with_signs(printed: Printed, reading: Reading) -> None:
    found = contrast(reading)
    text = printed(print_contrast, "name", found, 1)
    assert f"difference of {found.difference:+.4f}, {found.logit_difference:+.2f} in logits" in text
    upper, lower, *rows = table(text)
    assert lower == ["difference", "“one”", "“two”", "satisfaction", "relation"]
    assert upper.count("weight in") == 2
    assert "difference: (weight in “one” − weight in “two”) × satisfaction; above 0 it speaks for “one”" in text
    assert [row[-1] for row in rows] == [
        "p0 above p1",
        "p2 is there",
        "2 other relations together",
        "the sum: the difference of the two scores",
    ]
    assert rows[1] == ["-0.2000", "0.4000", "0.6000", "1.0000", "p2 is there"]
    assert rows[0][1:3] == ["0.6000", "0"]  # the other class does not use it
    numbers = [float(row[0]) for row in rows]
    assert sum(numbers[:3]) == pytest.approx(numbers[3], abs=2e-4)
    assert numbers[3] == pytest.approx(found.difference, abs=1e-4)


def test_what_would_flip_the_prediction(printed: Printed, reading: Reading) -> None:
    found = counterfactual(reading)
    text = printed(print_counterfactual, "name", found, 9)
    scores = found.scores
    first = f"name: predicted “one”, which scores {scores['one']:.4f}; the next is “two” with {scores['two']:.4f}"
    assert text.startswith(f"{first}\neach of 2 changes of one relation alone would flip the prediction\n")
    _, header, left, above = table(text)
    assert header == ["satisfaction", "relation", "then predicted", "its score", "“one”"]
    assert left[:3] == [f"{found.flips[0].before:.4f} → 1", "p2 left of p0", "three"]
    flip = found.flips[1]
    scores = [f"{flip.scores[name]:.6f}" for name in ("two", "one")]
    assert above == [f"{flip.before:.4f} → 0", "p0 above p1", "two", *scores]
    shorter = printed(print_counterfactual, "name", found, 1)
    assert len(table(shorter)) == 3
    assert "listed: 1 of 2, the smallest change first\n" in shorter


def test_the_strongest_images_of_primitives(printed: Printed) -> None:
    drawn = StrongImage(12, None, 1, 25.5, 1.0, -0.001, 0.5)
    filed = StrongImage(3, "/data/photo/cat/3.png", 0, 0.0, 0.5, 0.25, -1.0)
    found = [
        PrimitiveImages(2, "sketch", 1200, 4.75, 0.25, (drawn, replace(drawn, index=7, evidence=20.0))),
        PrimitiveImages(2, "photo", 10, -2.0, 0.125, (filed,)),
        PrimitiveImages(4, "sketch", 1200, 3.0, 0.5, (drawn,)),
    ]
    text = printed(print_primitives, found, ("cat", "dog"))
    assert [line.split(":")[0] for line in lines_with(text, "the images of each domain")] == ["p2", "p4"]
    assert table(text)[1:5] == [
        ["domain", "evidence", "evidence", "presence", "x", "y", "image", "class"],
        ["sketch", "4.75", "25.50", "1.0000", "+0.00", "+0.50", "sketch:12", "dog"],
        ["20.00", "1.0000", "+0.00", "+0.50", "sketch:7", "dog"],
        ["photo", "-2.00", "0.00", "0.5000", "+0.25", "-1.00", "/data/photo/cat/3.png", "cat"],
    ]
    assert "evidence: the largest value of the primitive's map; its mean is over all images of the domain\n" in text
