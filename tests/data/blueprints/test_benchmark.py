"""Blueprints: reproducible, inside the image, and nothing but the layout tells the class."""

import itertools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from jaxtyping import config as checks

from parse_dg.data.blueprints import benchmark as bp
from parse_dg.data.blueprints.benchmark import CLASSES, DOMAINS, LAYOUTS, PARTS, SIZE, SKELETON, BlueprintsConfig
from parse_dg.data.blueprints.drawing import SHARP, TILE, render, traced
from parse_dg.errors import InputError
from tests.parts import refusal

Array = npt.NDArray[np.float32]
PER_CLASS = 40  # examples of every class and domain that the classifiers see: a quarter is for testing


@contextmanager
def unchecked() -> Iterator[None]:
    """Types are not checked here: checking costs three times the drawing, and small tests have it."""
    before = checks.jaxtyping_disable
    checks.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        checks.update("jaxtyping_disable", before)


@pytest.fixture(scope="module")
def examples() -> list[bp.Creature]:
    config = BlueprintsConfig(seed=7)
    which = itertools.product(DOMAINS, range(len(CLASSES)), range(PER_CLASS))
    with unchecked():
        return [bp.sample_example(domain, label, index, config) for domain, label, index in which]


@pytest.mark.parametrize("domain", DOMAINS)
def test_an_image_depends_on_its_seed_and_index_only(domain: str) -> None:
    few = bp.generate_domain(domain, BlueprintsConfig(seed=3, images_per_class=2))
    more = bp.generate_domain(domain, BlueprintsConfig(seed=3, images_per_class=3))
    kept = [3 * label + index for label in range(len(CLASSES)) for index in range(2)]
    assert np.array_equal(few.images, more.images[kept])
    assert np.array_equal(few.centres, more.centres[kept])
    assert few.captions == tuple(more.captions[n] for n in kept)
    other = bp.generate_domain(domain, BlueprintsConfig(seed=4, images_per_class=2))
    assert all((a != b).any() for a, b in zip(few.images, other.images, strict=True))
    assert (few.centres != other.centres).any(axis=(1, 2)).all()


def test_global_randomness_is_neither_used_nor_touched() -> None:
    config = BlueprintsConfig(images_per_class=1)
    np.random.seed(0)
    before = bp.generate_domain("paint", config).images
    drawn = np.random.random()
    np.random.seed(0)
    assert drawn == np.random.random()
    assert np.array_equal(before, bp.generate_domain("paint", config).images)


def test_mistakes_are_named() -> None:
    with pytest.raises(InputError, match="unknown domain 'clipart': valid are photo, cartoon, sketch, paint"):
        bp.generate_domain("clipart", BlueprintsConfig(images_per_class=1))
    assert "label must be from 0 to 7, found 8" in refusal(bp.sample_example, "photo", 8, 0, BlueprintsConfig())
    assert "index must be 0 or more, found -1" in refusal(bp.sample_example, "photo", 0, -1, BlueprintsConfig())
    made = bp.generate_domain("sketch", BlueprintsConfig(images_per_class=1))
    assert "centres have shape" in refusal(replace, made, centres=made.centres[:-1])
    assert "7 captions for 8 images" in refusal(replace, made, captions=made.captions[1:])


def test_every_part_is_inside_the_image(examples: list[bp.Creature]) -> None:
    for example in examples:
        for look, place in zip(example.looks, example.places, strict=True):
            with unchecked():
                outline = traced(look, np.zeros(2, np.float32), np.random.default_rng(look.seed)).outline
            points = (outline + 0.5) / SHARP - 0.5 - (TILE - 1) / 2 + place
            assert points.min() >= -0.5
            assert points.max() <= SIZE - 0.5


@pytest.mark.parametrize("label", range(3))
def test_centres_are_where_the_parts_are_drawn(label: int) -> None:
    config = BlueprintsConfig(seed=1, images_per_class=1)
    example = bp.sample_example("cartoon", label, 0, config)
    centres = bp.generate_domain("cartoon", config).centres[label]
    empty = render(example.scene, [], np.zeros((0, 2), np.float32), SIZE).astype(int)
    for k, look in enumerate(example.looks):
        alone = render(example.scene, [look], example.places[k : k + 1], SIZE)
        y, x = np.nonzero(np.abs(alone - empty).sum(-1) > 30)
        found = 2 * np.array([x.mean(), y.mean()]) / (SIZE - 1) - 1
        assert np.abs(found - centres[k]).max() < 2 * 1.2 / (SIZE - 1)


def parts_alone(example: bp.Creature) -> npt.NDArray[np.uint8]:
    """Every part by itself in the middle of its own tile, in the very same look: (6, TILE, TILE, 3)."""
    middle = np.full((1, 2), (TILE - 1) / 2, np.float32)
    return np.stack([render(example.scene, [look], middle, TILE) for look in example.looks])


def test_parts_alone_look_as_in_the_image() -> None:
    example = bp.sample_example("cartoon", 2, 5, BlueprintsConfig())
    tiles = parts_alone(example)
    assert tiles.shape == (len(PARTS), TILE, TILE, 3)
    middle = np.full((1, 2), (SIZE - 1) / 2, np.float32)
    cut = slice((SIZE - 16) // 2, (SIZE + 16) // 2), slice((SIZE - 16) // 2, (SIZE + 16) // 2)
    inner = slice((TILE - 16) // 2, (TILE + 16) // 2), slice((TILE - 16) // 2, (TILE + 16) // 2)
    empty = render(example.scene, [], middle[:0], SIZE)[cut].astype(int)
    for look, tile in zip(example.looks, tiles, strict=True):
        whole = render(example.scene, [look], middle, SIZE)[cut].astype(int)
        solid = np.abs(whole - empty).sum(-1) > 250
        assert solid.sum() > 5
        assert np.abs(whole - tile[inner]).sum(-1)[solid].mean() < 12


def test_captions_are_true(examples: list[bp.Creature]) -> None:
    nouns = {"photo": "photo", "cartoon": "cartoon", "sketch": "sketch", "paint": "painting"}
    for example in examples:
        head, _, tail = example.caption.partition(": ")
        assert head == f"a {nouns[example.scene.style]} of a {CLASSES[example.label]}"
        said = tail.split(", ")
        assert len(set(said)) == 3
        for fact in said:
            found = re.fullmatch(r"(\w+) (above|left of|near) (\w+)", fact)
            assert found is not None
            x, y = example.places[PARTS.index(found[3])] - example.places[PARTS.index(found[1])]
            true = {"above": y > max(6, abs(x)), "left of": x > max(6, abs(y)), "near": np.hypot(x, y) <= bp.NEAR}
            assert true[found[2]]


def _mismatch(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> float:
    """Root mean square distance of matching points under the best mirroring, rotation and shift."""
    a, b = a - a.mean(0), b - b.mean(0)
    best = np.inf
    for flip in (1.0, -1.0):
        c = b * [flip, 1.0]
        overlap = np.hypot(np.sum(a * c), np.sum(a[:, 1] * c[:, 0] - a[:, 0] * c[:, 1]))
        best = min(best, (np.sum(a**2) + np.sum(c**2) - 2 * overlap) / len(a))
    return float(np.sqrt(max(best, 0.0)))


def test_classes_differ_also_when_mirrored_or_turned() -> None:
    assert len(set(CLASSES)) == len(CLASSES) == len(set(LAYOUTS)) == 8
    assert all(sorted(layout) == list(range(len(PARTS))) for layout in LAYOUTS)
    slots = np.array(SKELETON)
    for a, b in itertools.combinations(LAYOUTS, 2):
        assert _mismatch(slots[list(a)], slots[list(b)]) > 0.3  # five times the jitter of a slot


def _nuisances(example: bp.Creature) -> list[float]:
    looks = [v for look in example.looks for v in (look.radius / example.scale, look.angle - example.turn)]
    return [example.scale, example.turn, float(example.mirrored), *example.middle, *looks, *example.order]


def test_nuisances_do_not_depend_on_the_class(examples: list[bp.Creature]) -> None:
    values = np.array([_nuisances(e) for e in examples])
    labels = np.array([e.label for e in examples])
    for power in (1, 2):  # means, then spreads
        v = (values - values.mean(0)) ** power
        z = [(v[labels == c].mean(0) - v.mean(0)) / (v.std(0) / np.sqrt(np.sum(labels == c))) for c in range(8)]
        assert np.abs(z).max() < 4.3  # of 368 comparisons


def _accuracy(features: npt.NDArray[Any], labels: npt.NDArray[np.int64]) -> tuple[float, int]:
    """Test accuracy and test size of a classifier; every fourth example is for testing.

    Ridge regression of the classes on the features and on 400 random rectified mixtures of them.
    """
    x = features.reshape(len(features), -1).astype(np.float64)
    testing = np.arange(len(labels)) % 4 == 0
    x = (x - x[~testing].mean(0)) / (x[~testing].std(0) + 1e-3)
    weights = np.random.default_rng(0).normal(0, x.shape[1] ** -0.5, (x.shape[1], 400))
    x = np.concatenate([x, np.maximum(x @ weights, 0), np.ones((len(x), 1))], axis=1)
    seen, wanted = x[~testing], np.eye(labels.max() + 1)[labels[~testing]]
    fitted = np.linalg.solve(seen.T @ seen + 10 * np.eye(x.shape[1]), seen.T @ wanted)
    guesses = np.argmax(x[testing] @ fitted, axis=1)
    return float(np.mean(guesses == labels[testing])), int(testing.sum())


def _is_chance(accuracy: float, count: int, chance: float = 1 / 8) -> bool:
    """Whether the accuracy lies in the central 99.9% of a binomial distribution with the rate of chance."""
    draws = np.random.default_rng(0).binomial(count, chance, 200_000) / count
    low, high = np.quantile(draws, [0.0005, 0.9995])
    return bool(low <= accuracy <= high)


@pytest.mark.slow
def test_neither_looks_of_the_parts_nor_colours_of_the_image_tell_the_class(examples: list[bp.Creature]) -> None:
    with unchecked():
        alone = np.stack([parts_alone(e) for e in examples])
        images = np.stack([bp.draw(e) for e in examples])
    tiles = alone.reshape(-1, len(PARTS), 7, TILE // 7, 7, TILE // 7, 3).mean(axis=(3, 5))  # N, parts, 7, 7, 3
    bins = [(images // 32 == k).mean(axis=(1, 2)) for k in range(8)]
    colours = np.concatenate([images.mean(axis=(1, 2)), images.std(axis=(1, 2)), *bins], axis=1)
    labels = np.array([e.label for e in examples])
    for features in (tiles, colours):
        accuracy, count = _accuracy(features, labels)
        assert _is_chance(accuracy, count), accuracy
    # the same classifier learns what they do tell
    assert _accuracy(tiles, np.array([DOMAINS.index(e.scene.style) for e in examples]))[0] > 0.9
    assert _accuracy(tiles, np.array([int(e.mirrored) for e in examples]))[0] > 0.7


def test_the_same_classifier_learns_the_layout(examples: list[bp.Creature]) -> None:
    places = np.stack([e.places - e.places.mean(0) for e in examples])
    accuracy, count = _accuracy(places, np.array([e.label for e in examples]))
    assert accuracy > 0.9
    assert not _is_chance(accuracy, count)
