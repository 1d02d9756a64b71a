"""The images where a primitive is strongest: with evidence that is known, and of a trained model."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from parse_dg.data.domain import ImageFiles
from parse_dg.data.splits import Subset, whole
from parse_dg.deploy.model_file import Model, load_model
from parse_dg.errors import InputError
from parse_dg.explain.primitive_images import strongest_images
from parse_dg.model.backbones.backbone import Backbone
from tests.conftest import Numbered
from tests.explain.test_explanation import CELLS, at, peaks, placed_model

PHOTOS, SKETCHES = 200, 50
"""The first is more than one batch holds."""


class Listed(Backbone):
    """A backbone that has already decided: a map for each primitive, image after image."""

    def __init__(self, maps: Tensor):
        super().__init__(channels=maps.shape[1], freeze_batchnorm=False)
        self.maps, self.seen = maps, 0

    def forward(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        self.seen += len(images)
        return self.maps[self.seen - len(images) : self.seen]


def model_with(evidence: np.ndarray) -> Model:
    """Four primitives, all in row 2 of the map and, of image n, in column n modulo 9."""
    maps = torch.full((*evidence.shape, CELLS, CELLS), -60.0)
    for n, values in enumerate(torch.from_numpy(evidence)):
        maps[n, :, 2, n % CELLS] = values
    model = placed_model(peaks(dict.fromkeys(range(4), (0, 0))))
    model.parse_network().backbone = Listed(maps)
    return model


@pytest.fixture
def evidence() -> np.ndarray:
    """For four primitives in the photos, then in the sketches; the presence of p1 is 1 in all that matter."""
    drawn = np.random.default_rng(3).uniform(-2, 2, (PHOTOS + SKETCHES, 4)).astype(np.float32)
    drawn[:, 1] += 40
    drawn[[150, 7], 1] = 43, 44
    drawn[:, 2] = 0.5
    return drawn


def test_the_strongest_images_of_every_domain(numbered: Numbered, evidence: np.ndarray) -> None:
    subsets = [whole(numbered("photo", PHOTOS)), whole(numbered("sketch", SKETCHES))]
    told: list[tuple[str, int, int]] = []
    found = strongest_images(model_with(evidence), subsets, top=3, progress=lambda *said: told.append(said))
    assert [(what, done) for what, done, total in told if done == total] == [
        (f"reading {subset.domain.name}", len(subset.indices)) for subset in subsets
    ]
    assert [(f.primitive, f.domain) for f in found] == [(k, d) for k in range(4) for d in ("photo", "sketch")]
    for strongest in found:
        first, count = (0, PHOTOS) if strongest.domain == "photo" else (PHOTOS, SKETCHES)
        own = evidence[first:][:count, strongest.primitive]
        indices = [image.index for image in strongest.images]
        assert indices == np.argsort(-own, kind="stable")[:3].tolist()
        assert [image.evidence for image in strongest.images] == pytest.approx(own[indices].tolist(), abs=1e-5)
        presence = 1 / (1 + np.exp(-own.astype(np.float64)))
        assert [i.presence for i in strongest.images] == pytest.approx(presence[indices].tolist(), abs=1e-6)
        places = [at((2, (first + index) % CELLS)) for index in indices]
        assert [(i.x, i.y) for i in strongest.images] == [pytest.approx(place, abs=1e-6) for place in places]
        assert strongest.mean_evidence == pytest.approx(float(own.mean()), abs=1e-4)
        assert strongest.mean_presence == pytest.approx(float(presence.mean()), abs=1e-5)
        assert strongest.looked_at == count
    assert [image.index for image in found[2].images[:2]] == [7, 150]
    assert [image.presence for image in found[2].images] == [1.0, 1.0, 1.0]  # which tells nothing apart


def test_an_image_with_a_file_is_known_by_it(numbered: Numbered, evidence: np.ndarray) -> None:
    files = ImageFiles(Path("/data/set"), tuple(f"sketch/{n}.png" for n in range(SKETCHES)))
    domain = replace(numbered("sketch", SKETCHES), files=files)
    (found, *_) = strongest_images(model_with(evidence[:SKETCHES]), [whole(domain)], top=3)
    assert [image.file for image in found.images] == [f"/data/set/sketch/{i.index}.png" for i in found.images]


def test_what_cannot_be_searched(numbered: Numbered, evidence: np.ndarray, erm_run: Path) -> None:
    photo = numbered("photo", 5)
    model = model_with(evidence[:5])
    with pytest.raises(InputError, match="top must be at least 1, found 0"):
        strongest_images(model, [whole(photo)], top=0)
    with pytest.raises(InputError, match="no image of domain 'photo' was given"):
        strongest_images(model, [Subset(photo, np.array([], dtype=np.int64))])
    with pytest.raises(InputError, match="needs a model of parse, found one of erm"):
        strongest_images(load_model(erm_run), [whole(photo)])
