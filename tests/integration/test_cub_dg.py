"""CUB-DG end to end, on a tiny stand-in: the same photos in four styles, GVRT's lists, sentences about them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from parse_dg.data.benchmarks import DataConfig, open_benchmark
from parse_dg.data.intake.library import add
from parse_dg.data.public.catalogue import DATA_SETS
from tests.integration.conftest import Call, own_machine

DOMAINS = ("Photo", "Cartoon", "Art", "Paint")
CLASSES = DATA_SETS["cub-dg"].classes[:3]
PHOTOS = [f"{name}/{name[4:]}_{n:04d}" for name in CLASSES for n in range(8)]
"""24 birds, by the ids that every domain shares."""
NUMBERS = {photo: 101 + 3 * n for n, photo in enumerate(reversed(PHOTOS))}
"""Neither from 1 nor in the order of the files: a number means what images.txt says."""
LISTS = ("train0", "valid0", "train1", "valid1", "train2", "valid2", "test")
LISTED = {"train0": 5, "valid0": 2, "train1": 4, "valid1": 1, "train2": 3, "valid2": 2, "test": 7}


def numbers() -> dict[str, list[int]]:
    """The lists of split.json: disjoint, all 24 photographs, of every class some in each of the longer ones."""
    spread = [PHOTOS[start + 8 * row] for start in range(8) for row in range(3)]
    lists, start = {}, 0
    for name in LISTS:
        lists[name] = [NUMBERS[photo] for photo in spread[start : start + LISTED[name]]]
        start += LISTED[name]
    assert start == 24
    return lists


def photos(name: str) -> set[str]:
    """The photographs of a list."""
    return {photo for photo, number in NUMBERS.items() if number in numbers()[name]}


def make(root: Path, captions: str) -> Path:
    """The archive, unpacked; the sentences in descriptions.json or as text files."""
    draw = np.random.default_rng(0)
    for domain in DOMAINS:
        for photo in PHOTOS:
            path = root / domain / f"{photo}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(draw.integers(0, 256, (40, 48, 3)).astype(np.uint8)).save(path)
    (root / "images.txt").write_text("".join(f"{number} {photo}.jpg\n" for photo, number in NUMBERS.items()))
    (root / "split.json").write_text(json.dumps(numbers()))
    if captions == "descriptions.json":
        images = [{"id": number, "file_name": f"{photo}.jpg"} for photo, number in NUMBERS.items()]
        sentences = [{"image_id": number, "caption": f"bird {number}"} for number in NUMBERS.values()]
        (root / captions).write_text(json.dumps({"images": images, "annotations": sentences}))
    else:
        for photo, number in NUMBERS.items():
            path = root / captions / f"{photo}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"bird {number}\n")
    return root


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data folder and a cache of their own, in which the stand-in has been added."""
    folder = tmp_path_factory.mktemp("cub_dg")
    with own_machine(folder):
        manifest = add("cub-dg", [make(folder / "archive", "descriptions.json")])
        assert manifest.counts == dict.fromkeys(DOMAINS, 24)
        yield folder


SMALL = {
    "data.image_size": 32,
    "backbone.name": "small",
    "backbone.weights": "none",
    "backbone.freeze_batchnorm": "false",
    "training.steps": 2,
    "training.check_every": 1,
    "training.batch_per_domain": 3,
    "training.device": "cpu",
}


def train(call: Call, target: str, out: str, *settings: str, seed: int = 0) -> tuple[str, dict[str, Any]]:
    """What was printed, and the result."""
    asked = ["train", "--data", "cub-dg", "--algorithm", "erm", "--target", target, "--out", out, "--seed", seed]
    changed = [*(f"{name}={value}" for name, value in SMALL.items()), *settings]
    said = call(*asked, *(word for setting in changed for word in ("--set", setting)))
    return said, json.loads(Path(out, "result.json").read_text())


def test_every_domain_has_the_photographs_the_lists_and_the_sentences(home: Path) -> None:
    benchmark = open_benchmark(DataConfig(benchmark="cub-dg", image_size=32))
    assert tuple(domain.name for domain in benchmark.domains) == DOMAINS
    assert benchmark.classes == DATA_SETS["cub-dg"].classes
    for domain in benchmark.domains:
        assert domain.ids == tuple(PHOTOS)
        assert domain.captions == tuple((f"bird {NUMBERS[photo]}",) for photo in PHOTOS)
        assert domain.lists is not None
        for name in LISTS:
            assert {domain.ids[n] for n in domain.lists[name]} == photos(name)


def test_a_run_by_the_lists(call: Call, home: Path) -> None:
    said, result = train(call, "Paint", "listed", "split.scheme=gvrt-split")
    assert result["target"]["part"] == "its test list"
    assert (result["target"]["images"], result["target"]["share"]) == (7, 7 / 24)
    images = {name: value["images"] for name, value in result["validation"].items()}
    assert images == {"Photo": 2, "Cartoon": 1, "Art": 2}
    assert (result["leakage"]["images"], result["leakage"]["of"]) == (0, 7)
    assert "leakage" not in said
    assert "Paint, its test list (target: the result)" in said
    split = json.loads(Path("listed", "split.json").read_text())
    assert split["training_images"] == {"Photo": 5, "Cartoon": 4, "Art": 3}
    assert {PHOTOS[n] for n in split["training"]["Cartoon"]} == photos("train1")
    evaluated = call("evaluate", "listed")
    assert "target: its test list, never seen in training" in evaluated
    assert f"{result['target']['correct']}/7" in evaluated
    assert "source: all images, some of them trained on" in call("evaluate", "listed", "--domain", "Photo")
    whole = call("evaluate", "listed", "--domain", "Paint")
    assert "target: all images, 12 show a picture that is also trained on" in whole
    shown = call("table", "listed")
    assert "29% of its images" in shown


def test_a_hold_out_leaks_and_says_so(call: Call, home: Path) -> None:
    said, result = train(call, "Paint", "held", seed=1)
    count = result["leakage"]["images"]
    split = json.loads(Path("held", "split.json").read_text())
    never = set.intersection(*(set(held) for held in split["validation"].values()))
    assert count == 24 - len(never) > 20
    words = f"leakage: {count} of the 24 images of Paint that are scored show a picture that is also trained on"
    assert result["leakage"]["words"] == words
    assert words in said
    assert f"target: all images, {count} show a picture that is also trained on" in call("evaluate", "held")
