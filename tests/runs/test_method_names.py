"""What a run is called in tables and folders: averaged weights make a method another."""

from pathlib import Path

import pytest

from parse_dg.config import change
from parse_dg.runs.afterwards.opened import evaluate_run, open_run
from parse_dg.runs.recipes import build_config
from parse_dg.runs.train import default_folder
from tests.conftest import FinishedRun


@pytest.mark.parametrize(
    ("algorithm", "averaging", "name"),
    [
        ("erm", "none", "erm"),
        ("erm", "swad", "erm+swad"),
        ("parse", "ema", "parse+ema"),
        ("erm_plus_plus", "sma", "erm_plus_plus"),
        ("erm_plus_plus", "none", "erm_plus_plus+none"),
    ],
)
def test_the_name_of_a_method(algorithm: str, averaging: str, name: str) -> None:
    config = change(build_config("blueprints", algorithm), {"averaging.kind": averaging, "seed": 2})
    assert config.method == name
    assert default_folder(config) == Path("runs") / "blueprints" / name / "sketch" / "seed2"


def test_a_run_in_two_stages_has_no_held_out_images(finished_run: FinishedRun) -> None:
    rows = evaluate_run(open_run(finished_run("erm_plus_plus"), device="cpu"))
    assert [row.domain for row in rows] == ["sketch"]
    assert rows[0].images.endswith("never seen in training")
