"""`parse_dg.train`: as the command line, in one call."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import parse_dg
from parse_dg.cli import main
from parse_dg.runs.folder import read_config
from parse_dg.training.check import Check
from tests.conftest import TINY
from tests.parts import refusal
from tests.runs.helpers import hashes, repeated


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_it_is_the_run_of_the_command_line(tmp_path: Path) -> None:
    seen: list[tuple[int, bool]] = []

    def observe(step: int, check: Check | None) -> None:
        seen.append((step, check is not None))

    run = parse_dg.train("blueprints", "photo", "erm", seed=3, settings=TINY, observe=observe)
    assert run.path == Path("runs/blueprints/erm/photo/seed3")
    assert seen == [(1, False), (2, True), (3, False), (4, True)]
    options = [word for path, value in TINY.items() for word in ("--set", f"{path}={value}")]
    typed = ["train", "--algorithm", "erm", "--target", "photo", "--seed", "3", "--out", "typed", *options]
    assert main(typed) == 0
    assert repeated(Path("typed")) == repeated(run.path)
    assert run.config == read_config(run.path)
    before = hashes(run.path)
    assert parse_dg.train("blueprints", "photo", "erm", seed=3, settings=TINY, observe=observe).result == run.result
    assert (len(seen), hashes(run.path)) == (4, before)


def test_a_run_has_its_result_its_model_and_its_images(capsys: pytest.CaptureFixture[str]) -> None:
    run = parse_dg.train(target="sketch", settings=TINY, out="mine", observe=parse_dg.print_checks)
    said = capsys.readouterr().out
    assert said.count("source validation") == 2
    assert repr(run).startswith("OpenedRun(parse on blueprints: ")
    assert repr(run).endswith("% on sketch; 'mine')")
    (found,) = run.predictor.predict(run.benchmark.domain("sketch").images[0])
    assert found.predicted in run.predictor.classes


def test_a_benchmark_in_memory() -> None:
    values = np.random.default_rng(0).integers(0, 256, (12, 32, 32, 3), np.uint8)
    labels = np.arange(12) % 2
    domains = dict.fromkeys(("day", "night", "dusk"), (values, labels))
    data = parse_dg.Benchmark.from_arrays("weather", ("sun", "rain"), domains)
    settings = {"training.steps": 1, "training.batch_per_domain": 2}
    assert "Give target, one of day, night, dusk" in refusal(parse_dg.train, data)
    run = parse_dg.train(data, "dusk", "erm", recipe="blueprints", settings=settings)
    assert run.path == Path("runs/weather/erm/dusk/seed0")
    assert run.benchmark is data
    assert (run.config.data.image_size, run.predictor.image_size) == (32, 32)
    assert run.predictor.classes == ("sun", "rain")


def test_a_folder_of_images_by_its_path() -> None:
    for number, name in enumerate(["day/sun", "day/rain", "night/sun", "night/rain", "dusk/sun", "dusk/rain"]):
        for image in range(5):
            values = np.random.default_rng(10 * number + image).integers(0, 256, (16, 16, 3), np.uint8)
            Path("own", name).mkdir(parents=True, exist_ok=True)
            Image.fromarray(values).save(Path("own", name, f"{image}.png"))
    settings = {"training.steps": 1, "training.batch_per_domain": 2, "data.image_size": 16}
    assert "one of day, dusk, night" in refusal(parse_dg.train, "own")
    run = parse_dg.train(Path("own"), "dusk", "erm", recipe="blueprints", settings=settings, out="mine")
    assert run.config.data.benchmark == str(Path("own").absolute())
    assert run.benchmark.fingerprint == parse_dg.open_benchmark("own").fingerprint
