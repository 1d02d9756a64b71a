"""Cases: what the viewer is given says what the model said, adds up, and is small."""

import base64
import io
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from parse_dg.data.benchmarks import open_benchmark
from parse_dg.data.framing import Picture
from parse_dg.data.loader import load_images
from parse_dg.data.splits import whole
from parse_dg.deploy.model_file import load_model
from parse_dg.deploy.predictor import load
from parse_dg.errors import InputError
from parse_dg.explain.explanation import Reading, read_image
from parse_dg.explain.logits import read_logits
from parse_dg.explain.viewer_data import CLASSES, RELATIONS, case_of, data_uri
from tests.conftest import FinishedRun, Tiny

HOSTILE = "</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def pixels(tiny: Tiny) -> np.ndarray:
    domain = open_benchmark(tiny().data).domain("photo")
    return load_images(whole(domain), np.array([3]))[0][0].permute(1, 2, 0).numpy()


@pytest.fixture(scope="module")
def reading(parse_run: Path, pixels: np.ndarray) -> Reading:
    return read_image(load_model(parse_run), pixels)


def opened(uri: str) -> np.ndarray:
    data = base64.b64decode(uri.partition(",")[2])
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def heat(case: dict[str, Any]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(case["heatmaps"]["values"]), np.uint8).reshape(case["heatmaps"]["shape"])


def test_contributions_shown_and_the_rest_are_the_score(reading: Reading, pixels: np.ndarray) -> None:
    case = case_of(reading, Picture(pixels), title="one")
    scores = dict(zip(reading.classes, reading.scores.tolist(), strict=True))
    for name, explanation in case["explanations"].items():
        assert 0 < len(explanation["relations"]) <= RELATIONS
        shown = [each["contribution"] for each in explanation["relations"]]
        assert shown == sorted(shown, reverse=True)
        assert math.fsum(shown) + explanation["rest"]["contribution"] == pytest.approx(scores[name], abs=1e-6)
        assert explanation["score"] == pytest.approx(scores[name], abs=1e-6)
        whole = reading.explain(name)
        assert [each["name"] for each in explanation["relations"]] == [r.name for r in whole.relations[:RELATIONS]]
        assert len(shown) + explanation["rest"]["count"] == len(whole.relations)
        for each in explanation["relations"]:
            assert each["weight"] * each["satisfaction"] == pytest.approx(each["contribution"], abs=1e-6)


def test_a_case_says_what_the_model_said(reading: Reading, pixels: np.ndarray) -> None:
    case = case_of(reading, Picture(pixels), title="one")
    probabilities = reading.logits.softmax(0).tolist()
    assert case["predicted"] == reading.predicted == case["top"][0]["name"]
    found = {each["name"]: each["probability"] for each in case["top"]}
    assert list(found.values()) == sorted(found.values(), reverse=True)
    for name, probability in found.items():
        assert probability == pytest.approx(probabilities[reading.number(name)], abs=1e-6)
    centre = reading.descriptors.centre[0].tolist()
    assert [[p["x"], p["y"]] for p in case["places"]] == pytest.approx(np.array(centre), abs=1e-4)
    assert [p["primitive"] for p in case["places"]] == list(range(16))


def test_the_second_class_is_the_asked_one_the_true_one_or_the_runner_up(
    reading: Reading, pixels: np.ndarray
) -> None:
    order = [reading.classes[c] for c in reading.logits.argsort(descending=True).tolist()]
    first, second, *_, last = order
    assert list(case_of(reading, Picture(pixels), title="")["explanations"]) == [first, second]
    assert list(case_of(reading, Picture(pixels), title="", truth=first)["explanations"]) == [first, second]
    assert list(case_of(reading, Picture(pixels), title="", truth=last)["explanations"]) == [first, last]
    asked = case_of(reading, Picture(pixels), title="", truth=second, other=last)
    assert list(asked["explanations"]) == [first, last]
    assert asked["truth"] == second
    with pytest.raises(InputError, match="unknown class 'cow'"):
        case_of(reading, Picture(pixels), title="", other="cow")


def test_heat_maps_are_the_models_each_scaled_to_its_largest(reading: Reading, pixels: np.ndarray) -> None:
    maps = reading.descriptors.heatmap[0]
    found = heat(case_of(reading, Picture(pixels), title=""))
    assert found.shape == tuple(maps.shape)
    expected = 255 * (maps / maps.amax((1, 2), keepdim=True)).numpy()
    assert np.abs(found - expected).max() <= 0.51
    assert (found.max(axis=(1, 2)) == 255).all()


@pytest.mark.parametrize("most", [1, 14, 16, 100])
def test_of_many_primitives_those_of_relations_are_shown_and_the_most_present(
    reading: Reading, pixels: np.ndarray, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    whole = case_of(reading, Picture(pixels), title="")
    monkeypatch.setattr(sys.modules[case_of.__module__], "PRIMITIVES", most)
    case = case_of(reading, Picture(pixels), title="")
    shown = [place["primitive"] for place in case["places"]]
    needed = {k for each in case["explanations"].values() for one in each["relations"] for k in one["primitives"]}
    assert needed <= set(shown)
    assert len(shown) == min(16, max(most, len(needed)))
    presence = reading.descriptors.presence[0]
    left_out = [float(presence[k]) for k in range(16) if k not in shown]
    assert max(left_out, default=0.0) <= min((float(presence[k]) for k in shown if k not in needed), default=1.0)
    assert case["primitives_in_all"] == 16
    assert case["places"] == [whole["places"][k] for k in shown]
    assert np.array_equal(heat(case), heat(whole)[shown])


def test_many_classes_are_cut_to_the_most_probable_and_the_explained(reading: Reading, pixels: np.ndarray) -> None:
    count = 40
    names = tuple(f"class {n}" for n in range(count))
    many = Reading(
        classes=names,
        applications=reading.applications,
        weights=reading.weights[:1].expand(count, -1),
        satisfaction=reading.satisfaction,
        logits=torch.arange(count, dtype=torch.float64).flip(0),
        scale=reading.scale,
        descriptors=reading.descriptors,
    )
    case = case_of(many, Picture(pixels), title="", truth="class 33")
    assert [each["name"] for each in case["top"]] == [*names[:CLASSES], "class 33"]


@pytest.mark.parametrize(("method", "which"), [("erm", "cells"), ("no_relations", "primitives")])
def test_a_case_of_another_method_says_where_its_logits_come_from(
    method: str, which: str, finished_run: FinishedRun, pixels: np.ndarray
) -> None:
    reading = read_logits(load_model(finished_run(method)), pixels)
    last = reading.classes[int(reading.logits.argmin())]
    case = case_of(reading, Picture(pixels), title="", truth=last)
    assert last in case["explanations"]
    assert len(case["explanations"]) == 6  # the most probable, and the true one
    for name, each in case["explanations"].items():
        assert each["logit"] == pytest.approx(float(reading.logits[reading.number(name)]), abs=1e-6)
        assert each["bias"] + np.sum(each[which]) == pytest.approx(each["logit"], abs=2e-3)
    assert (case["heatmaps"] is None) == (which == "cells")


def test_a_case_without_reasons(erm_run: Path, pixels: np.ndarray) -> None:
    (prediction,) = load(erm_run, "cpu").predict(pixels, top=4)
    case = case_of(prediction, Picture(pixels), title=HOSTILE, truth="glider")
    assert case["predicted"] == prediction.predicted
    assert [each["name"] for each in case["top"]] == [name for name, _ in prediction.top]
    assert all(each["score"] is None for each in case["top"])
    assert (case["explanations"], case["places"], case["heatmaps"]) == ({}, [], None)
    assert case["title"] == HOSTILE


def test_small_images_keep_every_pixel_and_photographs_become_jpeg(pixels: np.ndarray) -> None:
    assert data_uri(pixels).startswith("data:image/png;base64,")
    assert (opened(data_uri(pixels)) == pixels).all()
    generator = torch.Generator().manual_seed(0)
    noise: Tensor = torch.randint(0, 256, (28, 28, 3), dtype=torch.uint8, generator=generator)
    photograph = np.asarray(Image.fromarray(noise.numpy()).resize((224, 224), Image.Resampling.BICUBIC))
    uri = data_uri(photograph)
    assert uri.startswith("data:image/jpeg;base64,")
    assert len(uri) < 60_000
    assert np.abs(opened(uri).astype(int) - photograph).mean() < 3
