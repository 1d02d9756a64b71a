"""parse-dg figure: every figure of a run, what it shows and why, and one line for what cannot be drawn."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from parse_dg.config import change
from parse_dg.explain.faces import faces_of
from parse_dg.explain.figures import examples as figures
from parse_dg.explain.figures.examples import SHOWN, FigureRequest, draw_errors, draw_primitives
from parse_dg.explain.measures.collapse import find_coinciding
from parse_dg.explain.measures.images import locate
from parse_dg.runs.afterwards.opened import open_run
from parse_dg.runs.recipes import build_config
from parse_dg.runs.run import execute
from tests.cli.conftest import Run, assert_refused, snapshot
from tests.conftest import TINY, Tiny
from tests.explain.figures.test_page import words_of


@pytest.fixture(scope="module")
def parse_run(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """PARSE with the paper's maps: right and wrong after a few steps. Read it, do not change it."""
    folder = tmp_path_factory.mktemp("runs") / "parse"
    maps = {"heatmap": "softmax", "temperature": 2.0}
    config = tiny("parse", **{f"algorithm__primitives__{name}": value for name, value in maps.items()})
    execute(config, folder, lambda step, check: None)
    return folder


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """PARSE with four and five primitives. Read them, do not change them."""
    folder = tmp_path_factory.mktemp("k")
    for count in (4, 5):
        settings = TINY | {"training.steps": 1, "training.check_every": 1, "algorithm.primitives.count": count}
        execute(
            change(build_config("blueprints", "parse"), settings), folder / str(count), lambda step, check: None
        )
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("figure", ["primitives", "errors", "pipeline", "faces", "cards"])
def test_each_figure(figure: str, run: Run, parse_run: Path, tmp_path: Path) -> None:
    faces_of(open_run(parse_run, device="cpu"))  # are kept in the run's folder
    before = snapshot(parse_run)
    said = run("figure", figure, parse_run, "--out", "a figure.svg", "--device", "cpu", "--width", "column")
    assert (said.code, said.err) == (0, "")
    assert said.out.endswith("\nwritten to a figure.svg\n")
    assert len(words_of(tmp_path / "a figure.svg")) > 10
    again = run("figure", figure, parse_run, "--out", "again.svg", "--device", "cpu", "--width", "column")
    assert again.code == 0
    assert (tmp_path / "again.svg").read_bytes() == (tmp_path / "a figure.svg").read_bytes()
    assert snapshot(parse_run) == before


def test_accuracy_against_k_is_that_of_the_table(run: Run, two_runs: Path, tmp_path: Path) -> None:
    said = run("figure", "k", two_runs, "--out", "k.svg", "--spread", "std")
    assert (said.code, said.err) == (0, "")
    run("table", two_runs, "--view", "k", "--plot", "table.svg", "--spread", "std")
    assert (tmp_path / "k.svg").read_bytes() == (tmp_path / "table.svg").read_bytes()


def test_classes_primitives_and_domains_that_are_asked_for(run: Run, parse_run: Path, tmp_path: Path) -> None:
    asked = ("--classes", "wader", "hopper", "--primitives", "7", "2", "--domains", "sketch", "photo")
    said = run("figure", "primitives", parse_run, "--out", "one.svg", *asked)
    assert said.out.startswith("classes wader, hopper; primitives p7, p2; ")
    words = words_of(tmp_path / "one.svg")
    assert [word for word in words if word in ("wader", "hopper")] == ["wader", "hopper"]
    assert {"photo", "sketch", "never seen"} <= set(words)
    assert "cartoon" not in words
    primitives = [word.split()[0] for word in words if word[:1] == "p" and word[1:2].isdigit()]
    assert primitives == ["p7", "p2"] * 2


def test_the_image_that_stands_for_its_class(
    parse_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[figures.ClassBlock] = []
    monkeypatch.setattr(figures, "primitives_figure", lambda path, blocks, *rest, **more: drawn.extend(blocks))
    run = open_run(parse_run, device="cpu")
    draw_primitives(FigureRequest(run=run, path=tmp_path / "one.svg", classes=("diver",), domains=("sketch",)))
    subset = run.split.target
    label = run.classes.index("diver")
    mine = [n for n, index in enumerate(subset.indices) if subset.domain.labels[index] == label]
    presence = locate(run.model, subset).presence[mine]
    nearest = mine[int((presence - presence.mean(0)).norm(dim=1).argmin())]
    (shown,) = drawn[0].images
    assert shown is not None
    expected = np.asarray(subset.domain.images[subset.indices[nearest]])
    assert np.array_equal(shown.image.permute(1, 2, 0).numpy(), expected)


def test_right_and_wrong_images_of_the_class_with_most_errors(
    parse_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[figures.ErrorBlock] = []
    monkeypatch.setattr(figures, "errors_figure", lambda path, blocks, **more: drawn.extend(blocks))
    run = open_run(parse_run, device="cpu")
    said = draw_errors(FigureRequest(run=run, path=tmp_path / "one.svg", width="column"))
    located = locate(run.model, run.split.target)
    right, wrong = (
        torch.bincount(located.labels[chosen], minlength=8) for chosen in (located.right, ~located.right)
    )
    fitting = [c for c in range(8) if right[c] >= SHOWN and wrong[c] >= SHOWN]
    label = max(fitting, key=lambda c: (int(wrong[c]), -c))
    (block,) = drawn
    assert block.name == run.classes[label]
    assert (block.right.count, block.wrong.count) == (int(right[label]), int(wrong[label]))
    assert all(judged.predicted == block.name for judged in block.right.images)
    assert all(judged.predicted != block.name for judged in block.wrong.images)
    collapse = find_coinciding(located).collapse
    mean = float(collapse[(located.labels == label) & ~located.right].mean())
    assert block.wrong.collapse == pytest.approx(mean)
    assert f"{mean:.2f} over the {block.wrong.count} that are wrong" in said


def test_the_pipeline_of_a_file(run: Run, parse_run: Path, tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (90, 120, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "my photo.png")
    said = run("figure", "pipeline", parse_run, "my photo.png", "--out", "one.svg", "--steps", "steps/new")
    assert said.out.startswith("my photo.png: predicted ")
    words = words_of(tmp_path / "one.svg")
    assert "my photo.png" in words
    assert not any("(right)" in word or "(wrong)" in word for word in words)  # the truth is not known
    steps = sorted((tmp_path / "steps" / "new").iterdir())
    assert [path.stem[2:] for path in steps] == [
        *("image", "features", "heatmaps", "primitives", "relations", "composition", "scores")
    ]
    for path in steps:
        with Image.open(path) as picture:
            assert len(picture.convert("RGB").getcolors(1 << 24) or []) > 50  # not blank


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        (("primitives", "RUN", "--classes", "griffin"), ("unknown class 'griffin'", "strider")),
        (("primitives", "RUN", "--primitives", "16"), ("--primitives 16: valid are numbers from 0 to 15",)),
        (
            ("primitives", "RUN", "--domains", "art"),
            ("unknown domain of the run 'art'", "photo, cartoon, paint, sketch"),
        ),
        (("errors", "RUN", "--classes", "griffin"), ("unknown class 'griffin'",)),
        (("primitives", "RUN", "--out", "one.gif"), ("ends in .png or .svg or .pdf",)),
        (("pipeline", "RUN", "--out", "missing/one.png"), ("in a folder that is there",)),
        (("pipeline", "RUN", "no.png", "--out", "one.png"), ("no.png",)),
        (("pipeline", "ERM"), ("needs a model of parse, found one of erm",)),
        (("errors", "nowhere"), ("nowhere is not a run: expected a folder with config.json",)),
        (("k", "nowhere"), ("nowhere",)),
        (("k", "RUN", "--out", "k.bmp"), ("ends in .png or .svg or .pdf",)),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else str(value),
)
def test_mistakes_are_one_line(
    arguments: tuple[str, ...], fragments: tuple[str, ...], run: Run, parse_run: Path, erm_run: Path, tmp_path: Path
) -> None:
    places = {"RUN": str(parse_run), "ERM": str(erm_run)}
    before = snapshot(tmp_path)
    assert_refused(run("figure", *(places.get(word, word) for word in arguments)), *fragments)
    assert snapshot(tmp_path) == before
