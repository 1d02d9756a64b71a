"""parse-dg demo: two methods compared, one compacted, two pictures; made small here."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from parse_dg.algorithms.no_relations import NoRelations
from parse_dg.cli import demo
from parse_dg.config import change
from parse_dg.deploy.model_file import load_model
from parse_dg.runs.config import RunConfig
from parse_dg.runs.recipes import build_config
from tests.cli.conftest import Run, Said, assert_refused, fail_at, interrupt, result_of, snapshot, table
from tests.conftest import TINY


def small_recipe(recipe: str, algorithm: str) -> RunConfig:
    """The recipe of the demonstration, made small."""
    return change(build_config(recipe, algorithm), {**TINY, "algorithm.primitives.count": 6})


@pytest.fixture
def small_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "build_config", small_recipe)
    monkeypatch.setattr(demo, "IMAGES_PER_DOMAIN", 1)


@pytest.fixture(scope="module")
def demo_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where one demonstration is made and others find it finished."""
    return tmp_path_factory.mktemp("demo") / "demo"


@pytest.fixture
def finished_demo(small_demo: None, run: Run, demo_folder: Path) -> tuple[Path, Said]:
    said = run("demo", "--steps", "3", "--target", "cartoon", "--out", demo_folder)
    return demo_folder, said


def test_the_demonstration_compares_compacts_and_draws(finished_demo: tuple[Path, Said]) -> None:
    folder, said = finished_demo
    assert said.code == 0
    assert said.err == ""
    results = {name: result_of(folder / name) for name in demo.METHODS}
    assert all(result["steps"] == 3 and result["target"]["domain"] == "cartoon" for result in results.values())
    rows = {row[0]: row[1:] for row in table(said.out)}
    assert rows["method"] == ["source validation accuracy", "accuracy on cartoon (never seen)"]
    for name, result in results.items():
        means = (result["validation_mean_accuracy"], result["target"]["accuracy"])
        assert rows[name] == [f"{100 * value:.1f}%" for value in means]
    assert "all 40 images" in said.out
    assert "the same on 160 of all 160 images" in said.out
    assert load_model(folder / "parse" / "compact.safetensors").compact
    for picture in ("primitives.png", "explanation.png", "image.png"):
        assert (folder / picture).read_bytes().startswith(b"\x89PNG")
    assert len(re.findall(r"= weight \d\.\d+ × satisfaction \d\.\d+", said.out)) == 6


def test_the_demonstration_ends_with_commands_to_copy(finished_demo: tuple[Path, Said], run: Run) -> None:
    folder, said = finished_demo
    report, image, serve = (shlex.split(line)[1:] for line in said.out.splitlines()[-3:])
    assert (report, serve) == (["report", str(folder / "parse")], ["serve", str(folder / "parse")])
    assert "relations" in run(*image).out
    assert run(*report, "--images", "1").code == 0


def test_a_second_demonstration_trains_nothing(finished_demo: tuple[Path, Said], run: Run) -> None:
    folder, _ = finished_demo
    models = {name: (folder / name / "model.safetensors").read_bytes() for name in demo.METHODS}
    said = run("demo", "--steps", "3", "--target", "cartoon", "--out", folder)
    assert said.code == 0
    assert said.out.count("finished: nothing to do") == 2
    assert models == {name: (folder / name / "model.safetensors").read_bytes() for name in demo.METHODS}


def test_mistakes_in_the_demonstration(small_demo: None, run: Run, tmp_path: Path) -> None:
    assert_refused(run("demo", "--steps", "0"), "training.steps must be at least 1, found 0")
    assert_refused(run("demo", "--target", "sketchy"), "'sketchy': valid are photo, cartoon, sketch, paint")
    assert_refused(run("demo", "--seed", "-2"), "seed must be 0 or more")
    assert snapshot(tmp_path) == {}


def test_a_demonstration_without_matplotlib_says_so_before_it_trains(
    small_demo: None, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert_refused(run("demo", "--steps", "1"), "install parse-dg[pictures]")
    assert snapshot(tmp_path) == {}


def test_a_demonstration_can_be_interrupted(
    small_demo: None, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NoRelations, "losses", fail_at(3, interrupt, NoRelations))
    said = run("demo", "--steps", "4")
    assert said.code == 130
    assert said.err.count("\n") == 1
    assert sorted(path.name for path in (tmp_path / "demo").iterdir()) == ["no_relations"]
