"""`parse-dg evaluate --data`: a labelled folder that the run never had, scored in full."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from parse_dg.deploy.predictor import load
from parse_dg.runs.afterwards.opened import open_run
from parse_dg.training.accuracy import predict
from parse_dg.training.measures import join, threshold_for
from tests.cli.conftest import Run, assert_refused, run, table
from tests.data.intake.test_library import plant
from tests.integration.test_own_data import SMALL, kept, trained

__all__ = ["kept", "run"]


@pytest.fixture
def trained_run(run: Run, tmp_path: Path) -> Path:
    """ERM, trained for two steps on three classes of two domains."""
    own = plant(tmp_path / "own", classes=("cat", "dog", "owl"), images=10, side=(12, 9))
    trained(
        run(
            "train",
            "--algorithm",
            "erm",
            "--data",
            own,
            "--target",
            "fog",
            *SMALL,
            "--out",
            "erm",
            "--set",
            "data.fit=crop",
        )
    )
    return tmp_path / "erm"


def test_a_new_folder_is_scored_in_full(run: Run, trained_run: Path, tmp_path: Path) -> None:
    new = plant(tmp_path / "new", ("march", "may"), ("Cat", "owl", "yak"), images=6, first=500, side=(12, 9))
    shutil.rmtree(new / "march" / "yak")
    said = run("evaluate", trained_run, "--data", "new", "--abstain", "0.4")
    assert said.code == 0, said.err
    (folder,) = (trained_run / "evaluated").iterdir()
    assert f"written to {folder}: evaluation.json, confusion.png, reliability.png" in said.out
    found = json.loads((folder / "evaluation.json").read_text())

    files = sorted(path for path in new.rglob("*.png") if path.parent.name != "yak")
    answers = load(trained_run, "cpu").predict(files)
    right = [a.predicted == path.parent.name.lower() for a, path in zip(answers, files, strict=True)]
    assert found["scores"]["of"] == "24 labelled images of new"
    assert (found["scores"]["accuracy"]["correct"], found["scores"]["accuracy"]["images"]) == (sum(right), 24)
    assert [each["accuracy"]["correct"] for each in found["domains"]] == [sum(right[:12]), sum(right[12:])]
    assert [sum(row) for row in found["scores"]["confusion"]] == [12, 12]
    assert table(said.out)[1][:2] == ["march", f"{sum(right[:12])}/12"]
    for line in (
        "none of the images is a file that the run trained on or validated by",
        "6 images of a class that the model does not know, not scored: yak",
        "there is no image of dog: balanced accuracy and F1 are means over the 2 classes that have some",
        "scored by another spelling: Cat as the model's cat",
    ):
        assert line in said.out
        assert line in found["notes"]

    opened = open_run(trained_run, device="cpu")
    held_out = join([predict(opened.model.algorithm, s, torch.device("cpu")) for s in opened.split.validation])
    abstention = found["abstention"]
    assert abstention["threshold"] == threshold_for(0.4, held_out)  # of source validation alone
    answered = (
        [] if abstention["threshold"] is None else [a for a in answers if a.probability >= abstention["threshold"]]
    )
    assert abstention["new"][0]["kept"] == pytest.approx(len(answered), abs=1)  # of float32
    assert "the source validation images of day, night, never trained on" in abstention["validation"]["of"]


def test_classes_without_domains_a_model_file_and_images_that_trained(run: Run, trained_run: Path) -> None:
    model = shutil.copy(trained_run / "model.safetensors", "alone.safetensors")
    said = run("evaluate", model, "--data", "own/day", "--out", "here", "--format", "json")
    found = json.loads(said.out)
    assert found == json.loads(Path("here/evaluation.json").read_text())
    assert [each["name"] for each in found["domains"]] == ["day"]
    assert "whether the run trained on some of these images is not known" in found["notes"][0]
    known = json.loads(run("evaluate", trained_run, "--data", "own/day", "--format", "json").out)
    assert known["scores"] == found["scores"]
    assert known["notes"][0].startswith("30 of the images are files that the run trained on or validated by")


def test_what_cannot_be_scored_is_one_line(run: Run, trained_run: Path, tmp_path: Path) -> None:
    plant(tmp_path / "birds", classes=("tit", "jay"), first=900)
    assert_refused(run("evaluate", trained_run, "--data", "birds"), "has no image of a class that the model knows")
    assert_refused(
        run("evaluate", trained_run, "--data", "own", "--domain", "dawn"), "unknown domain of own 'dawn'"
    )
    for wrong in (95, 0, -1, "nan"):
        said = run("evaluate", trained_run, "--data", "own", "--abstain", wrong)
        assert_refused(said, "--abstain must be a precision between 0 and 1")
    assert_refused(run("evaluate", trained_run, "--abstain", 0.9), "--abstain must be with --data FOLDER")
    model = shutil.copy(trained_run / "model.safetensors", "alone.safetensors")
    said = run("evaluate", model, "--data", "own", "--abstain", 0.9)
    assert_refused(said, "--abstain needs the run's own validation images")
