"""parse-dg measure --parts: a run on a tiny stand-in for CUB-DG, and parts marked in its photographs."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from parse_dg.cli import main
from parse_dg.data.intake.library import add
from parse_dg.explain.measures.images import locate
from parse_dg.runs.afterwards.opened import open_run
from tests.cli.conftest import Run, assert_refused, run
from tests.data.public.cub_folder import Bird, write_cub
from tests.integration.conftest import own_machine
from tests.integration.test_cub_dg import NUMBERS, PHOTOS, SMALL, make

__all__ = ["run"]  # a fixture

PARTS = ("left eye", "tail", "nape")
FOLLOWING = 5
"""The primitive that the left eye is put where it is."""
SIZE = (120, 90)
"""Of the original photographs; the stand-in's are 48 × 40, and the network sees 32 × 32."""


def lists() -> dict[str, list[int]]:
    """Three photographs each, one of every class; the rest to test."""
    spread = [NUMBERS[PHOTOS[start + 8 * row]] for start in range(8) for row in range(3)]
    names = ("train0", "valid0", "train1", "valid1", "train2", "valid2")
    return {name: spread[3 * n : 3 * n + 3] for n, name in enumerate(names)} | {"test": spread[18:]}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A run of PARSE by GVRT's lists: every photograph is measured in one domain alone."""
    folder = tmp_path_factory.mktemp("cub_parts")
    with own_machine(folder):
        archive = make(folder / "archive", "text_c10")
        (archive / "split.json").write_text(json.dumps(lists()))
        add("cub-dg", [archive])
        settings = [*(f"{name}={value}" for name, value in SMALL.items()), "split.scheme=gvrt-split"]
        asked = ["train", "--data", "cub-dg", "--algorithm", "parse", "--target", "Paint", "--out", folder / "run"]
        words = [*map(str, asked), *(word for setting in settings for word in ("--set", setting))]
        assert main(words) == 0
        yield folder / "run"


@pytest.fixture(scope="module")
def cub(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The left eye where the primitive is, the tail out of its reach, the nape never visible."""
    opened = open_run(trained, device="cpu")
    eyes = {}
    for subset in opened.held_out:
        centres = locate(opened.model, subset).centre[:, FOLLOWING].numpy()
        pixels = (centres + 1) / 2 * (np.array(SIZE) - 1)
        eyes |= {
            subset.domain.ids[n]: tuple(place) for n, place in zip(subset.indices, pixels.tolist(), strict=True)
        }
    box = (10.0, 10.0, 30.0, 40.0)  # near is within 5 pixels
    birds = {
        photo: Bird(NUMBERS[photo], SIZE, box, (eyes.get(photo, (0.0, 0.0)), (-900.0, -900.0), None))
        for photo in PHOTOS
    }
    return write_cub(tmp_path_factory.mktemp("cub") / "CUB_200_2011", birds, PARTS)


def test_a_part_that_a_primitive_follows_is_proposed_as_its_name(run: Run, trained: Path, cub: Path) -> None:
    said = run("name", trained, "--propose", "--parts", cub)
    assert said.code == 0
    assert f"p{FOLLOWING} follows left eye in 100.0% of 9 images (by chance" in said.out
    assert f"nothing is named yet; to give these names: parse-dg name {trained} " in said.out
    assert said.out.count("=left eye") == 3  # of the hundreds that are near it, the best
    assert "=left eye 2'" in said.out
    assert not (trained / "names.json").exists()


def test_a_primitive_that_is_on_a_part_in_every_photograph(run: Run, trained: Path, cub: Path) -> None:
    said = run("measure", trained, "--device", "cpu", "--parts", cub, "--format", "json")
    assert (said.code, said.err) == (0, "")
    found = json.loads(said.out)["annotated_parts"]
    assert found["parts"] == list(PARTS)
    assert [(each["domain"], each["images"]) for each in found["domains"]] == [
        ("Photo", 3),
        ("Cartoon", 3),
        ("Art", 3),
        ("Paint", 6),
    ]
    for each in (found["sources"], *found["domains"]):
        follower = each["primitives"][FOLLOWING]
        assert (follower["primitive"], follower["part"], follower["share"]) == (FOLLOWING, "left eye", 1)
        assert follower["photographs"] == each["images"]
        assert each["followed"] == 1
        eye, tail, nape = each["parts"]
        assert eye["share"] == 1
        assert (tail["share"], tail["photographs"]) == (0, each["images"])
        assert (nape["share"], nape["photographs"]) == (None, 0)


def test_tables_and_csv(run: Run, trained: Path, cub: Path) -> None:
    said = run("measure", trained, "--device", "cpu", "--parts", cub)
    assert (said.code, said.err) == (0, "")
    assert "Primitives on annotated parts, Paint held out" in said.out
    assert "Annotated parts and the primitives that are near them, Paint held out" in said.out
    assert "Paint (target), 6 images" in said.out
    rows = [line for line in said.out.splitlines() if line.startswith(f"│ p{FOLLOWING} ")]
    assert len(rows) == 1
    assert "left eye" in rows[0]
    assert rows[0].count("100.0% (") == 5
    assert "1 of 3 (" in said.out
    listed = run("measure", trained, "--device", "cpu", "--parts", cub, "--format", "csv").out
    values = {
        (row["measure"], row["where"], row["what"]): row["value"] for row in csv.DictReader(io.StringIO(listed))
    }
    assert values["annotated_parts", "Paint", f"p{FOLLOWING}.part"] == "left eye"
    assert values["annotated_parts", "sources together", "left eye.share"] == "1.0"
    assert values["annotated_parts", "Paint", "followed"] == "1"


def test_what_cannot_be_used(run: Run, trained: Path, cub: Path, parse_run: Path, tmp_path: Path) -> None:
    assert_refused(run("measure", trained, "--parts", tmp_path / "no"), "is no folder like CUB_200_2011: expected")
    assert_refused(
        run("measure", parse_run, "--parts", cub),
        "--parts needs images that have files named as those of CUB-200-2011, as cub-dg has",
        "the images of blueprints have none",
    )
    other = write_cub(tmp_path / "other", {"001.Auk/one": Bird(1, SIZE, (0, 0, 3, 4), ((1, 1),))}, ("beak",))
    assert_refused(
        run("measure", trained, "--parts", other),
        "images.txt: expected all 15 photographs of the run, not named there: 0",
        "and 12 more",
    )
