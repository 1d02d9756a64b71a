"""parse-dg train --dry-run: what would be done is what is done then, and nothing is written."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import SMALL, Run, assert_refused, snapshot, table
from tests.data.intake.test_library import DOMAINS, plant

ERM = ["train", "--algorithm", "erm", *SMALL]


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Data folder and cache are there to be looked for."""
    monkeypatch.setenv("PARSE_DG_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("PARSE_DG_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_the_images_steps_and_settings_are_those_of_the_run(run: Run, places: Path) -> None:
    said = run(*ERM, "--dry-run", "--set", "seed=3")
    assert (said.code, said.err) == (0, "")
    assert snapshot(places) == {}
    assert "* training.steps = 4 (default 600)\n" in said.out
    assert "\n  split.holdout = 0.2\n" in said.out
    assert (
        "8 classes; 4 steps with batches of 12 images (0.5 epochs), 2 checks; images squashed to 64 × 64"
        in said.out
    )
    assert "expected cost: nothing is known yet" in said.out
    rows = {(domain, purpose): int(images) for domain, purpose, images in table(said.out)[1:]}

    assert run(*ERM, "--set", "seed=3").code == 0
    folder = Path("runs/blueprints/erm/sketch/seed3")
    split, config = (json.loads((folder / name).read_text()) for name in ("split.json", "config.json"))
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == 2
    for domain, images in split["training_images"].items():
        assert rows[domain, "source: trains"] == images
        assert rows[domain, "source: validates, held-out images"] == len(split["validation"][domain])
    assert rows["sketch", "target: the result, all images"] == 40
    assert len(rows) == 7
    printed = dict(re.findall(r"^[* ] ([a-z_.]+) = (\S*)", said.out, re.MULTILINE))
    assert float(printed["optimizer.head_rate"]) == config["optimizer"]["head_rate"]

    before = snapshot(places)
    again = run(*ERM, "--set", "seed=3", "--dry-run")
    assert f"the run is there already, and finished: {folder}" in again.out
    other = run(*ERM, "--set", "seed=4", "--dry-run")
    assert re.search(r"expected cost: .* on one CPU, from 1 finished run of the same kind", other.out)
    assert snapshot(places) == before


def test_a_protocol_shows_in_the_parts(run: Run) -> None:
    said = run(*ERM, "--protocol", "domainbed", "--dry-run")
    rows = {(domain, purpose): images for domain, purpose, images in table(said.out)[1:]}
    assert rows["sketch", "target: the result, 80% of the images"] == "32"
    assert rows["sketch", "target: held out, for the oracle"] == "8"
    assert rows["photo", "source: validates, held-out images, augmented"] == "8"
    assert "Checks score the target too, for the record" in said.out


def test_own_images_are_counted_as_listed_until_they_were_opened(
    run: Run, places: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = plant(places / "own", images=10, side=(12, 9))
    before = snapshot(places)
    said = run("train", "--data", own, "--target", DOMAINS[0], "--dry-run")
    assert said.code == 0
    assert [row[2] for row in table(said.out)[1:]] == ["16", "16", "4", "4", "20"]
    assert "counted as listed" in caplog.text
    assert snapshot(places) == before


def test_what_training_refuses_is_refused(run: Run, tmp_path: Path) -> None:
    assert_refused(run(*ERM, "--dry-run", "--target", "sketchy"), "'sketchy': valid are photo, cartoon, sketch")
    assert_refused(run(*ERM, "--dry-run", "--set", "training.step=3"), "did you mean training.steps?")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "cat.txt").write_text("a cat")
    assert_refused(run(*ERM, "--dry-run", "--out", "notes"), "exists and is not a run")
