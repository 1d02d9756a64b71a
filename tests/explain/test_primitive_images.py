"""The images where a primitive is strongest: with presences that are known, and of a trained model."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from parse_dg.data.augment import normalise, to_unit
from parse_dg.data.benchmarks import open_benchmark
from parse_dg.data.loader import load_images
from parse_dg.data.splits import Subset, whole
from parse_dg.deploy.model_file import load_model
from parse_dg.errors import InputError
from parse_dg.explain.primitive_images import strongest_images
from tests.conftest import Numbered, Tiny
from tests.explain.test_localisation import model_at

PHOTOS, SKETCHES = 200, 50
"""The first is more than one batch holds."""


@pytest.fixture
def presence() -> np.ndarray:
    """Of four primitives in the photos, then in the sketches."""
    drawn = np.random.default_rng(3).uniform(0.1, 0.9, (PHOTOS + SKETCHES, 4)).astype(np.float32)
    drawn[[150, 7], 1] = 0.95, 0.97
    drawn[:, 2] = 0.5
    return drawn


def test_the_strongest_images_of_every_domain(numbered: Numbered, presence: np.ndarray) -> None:
    centres = np.zeros((PHOTOS + SKETCHES, 4, 2))
    centres[:, :, 0] = np.arange(PHOTOS + SKETCHES)[:, None] / 250
    centres[:, :, 1] = -0.5
    subsets = [whole(numbered("photo", PHOTOS)), whole(numbered("sketch", SKETCHES))]
    found = strongest_images(model_at(centres, presence), subsets, top=3)
    assert [(f.primitive, f.domain) for f in found] == [(k, d) for k in range(4) for d in ("photo", "sketch")]
    for strongest in found:
        first = 0 if strongest.domain == "photo" else PHOTOS
        own = presence[first:][: PHOTOS if first == 0 else SKETCHES, strongest.primitive]
        indices = [image.index for image in strongest.images]
        assert indices == np.argsort(-own, kind="stable")[:3].tolist()
        assert [image.presence for image in strongest.images] == own[indices].tolist()
        places = [((first + index) / 250, -0.5) for index in indices]
        assert [(image.x, image.y) for image in strongest.images] == [pytest.approx(place) for place in places]
        assert strongest.mean_presence == pytest.approx(float(own.mean()), abs=1e-6)
    assert [image.index for image in found[2].images[:2]] == [7, 150]


def test_equal_ones_come_in_the_order_of_their_numbers(numbered: Numbered, presence: np.ndarray) -> None:
    shuffled = Subset(numbered("photo", PHOTOS), np.random.default_rng(0).permutation(PHOTOS))
    found = strongest_images(model_at(np.zeros((PHOTOS, 4, 2)), presence[:PHOTOS]), [shuffled], top=5)
    assert [image.index for image in found[2].images] == [0, 1, 2, 3, 4]


def test_numbers_are_those_of_the_domain(numbered: Numbered, presence: np.ndarray) -> None:
    """Of a part of a domain, an image keeps its number in the whole."""
    some = Subset(numbered("photo", PHOTOS), np.array([190, 20, 33]))
    found = strongest_images(model_at(np.zeros((3, 4, 2)), presence[:3]), [some], top=8)
    for strongest in found:
        assert sorted(image.index for image in strongest.images) == [20, 33, 190]  # there are no more
    best = int(presence[:3, 0].argmax())
    assert found[0].images[0].index == [190, 20, 33][best]


def test_the_strongest_of_a_trained_model(parse_run: Path, tiny: Tiny) -> None:
    model = load_model(parse_run)
    domains = open_benchmark(tiny().data).domains
    found = {(f.primitive, f.domain): f for f in strongest_images(model, map(whole, domains), top=4)}
    assert len(found) == 16 * len(domains)
    for domain in domains:
        images = load_images(whole(domain), np.arange(len(domain.labels)))[0]
        with torch.no_grad():
            z = model.parse().network(normalise(to_unit(images))).descriptors
        for k in range(16):
            strongest = found[k, domain.name].images
            best = z.presence[:, k].sort(descending=True).values[:4]
            assert [image.presence for image in strongest] == pytest.approx(best.tolist(), abs=1e-6)
            for image in strongest:
                assert float(z.presence[image.index, k]) == pytest.approx(image.presence, abs=1e-6)
                assert (image.x, image.y) == pytest.approx(tuple(z.centre[image.index, k].tolist()), abs=1e-5)


def test_the_strongest_are_json(numbered: Numbered, presence: np.ndarray) -> None:
    model = model_at(np.zeros((SKETCHES, 4, 2)), presence[:SKETCHES])
    found = strongest_images(model, [whole(numbered("sketch", SKETCHES))], top=2)[1]
    told = found.to_dict()
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert (told["primitive"], told["domain"], len(told["images"])) == (1, "sketch", 2)
    assert told["images"][0] == {"index": 7, "presence": pytest.approx(0.97), "x": 0.0, "y": 0.0}


def test_what_cannot_be_searched(numbered: Numbered, presence: np.ndarray, erm_run: Path) -> None:
    photo = numbered("photo", 5)
    model = model_at(np.zeros((5, 4, 2)), presence[:5])
    with pytest.raises(InputError, match="top must be at least 1, found 0"):
        strongest_images(model, [whole(photo)], top=0)
    with pytest.raises(InputError, match="no image of domain 'photo' was given"):
        strongest_images(model, [Subset(photo, np.array([], dtype=np.int64))])
    with pytest.raises(InputError, match="needs a model of parse, found one of erm"):
        strongest_images(load_model(erm_run), [whole(photo)])
