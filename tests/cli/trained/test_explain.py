"""`parse-dg explain`: what Python says, as tables and as JSON."""

import json
import math
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from parse_dg.cli import build_parser
from parse_dg.data.benchmarks import open_benchmark
from parse_dg.data.loader import load_images
from parse_dg.data.splits import whole
from parse_dg.deploy.compaction import compact
from parse_dg.deploy.model_file import load_model, save_model
from parse_dg.explain.classes import describe_classes
from parse_dg.explain.contrast import contrast, counterfactual
from parse_dg.explain.explanation import explain, read_image
from parse_dg.explain.primitive_images import strongest_images
from parse_dg.runs.folder import read_config
from tests.cli.conftest import Run, assert_refused, snapshot, table

CPU = ("--device", "cpu")
JSON = (*CPU, "--format", "json")


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    """An image of a size of its own."""
    path = tmp_path / "a [bold] photo.png"
    Image.fromarray(np.random.default_rng(5).integers(0, 256, (50, 80, 3), np.uint8)).save(path)
    return path


@pytest.fixture
def said(run: Run) -> Any:
    """said("image", run, photo): the data that the command prints, and nothing else."""

    def call(*arguments: object) -> Any:
        found = run("explain", *arguments, *JSON)
        assert (found.code, found.err) == (0, "")
        assert found.out.isascii()
        return json.loads(found.out)

    return call


def as_json(data: Any) -> Any:
    return json.loads(json.dumps(data))


def test_classes_are_what_python_says(run: Run, said: Any, parse_run: Path) -> None:
    before = snapshot(parse_run)
    expected = describe_classes(load_model(parse_run))
    assert said("classes", parse_run) == {"classes": as_json([each.to_dict() for each in expected])}
    chosen = said("classes", parse_run, "--class", expected[5].name, "--class", expected[2].name, "--top", 3)
    assert chosen == {"classes": as_json([expected[n].to_dict(3) for n in (2, 5)])}
    text = run("explain", "classes", parse_run, *CPU).out
    rows = [row for row in table(text) if row[0] != "weight"]
    assert len(rows) == 8 * 11  # ten relations of each class, and the rest
    assert rows[0][1:] == [expected[0].terms[0].words, "presence"]
    for row, composition in zip(range(0, len(rows), 11), expected, strict=True):
        assert sum(float(cells[0]) for cells in rows[row : row + 11]) == pytest.approx(1, abs=1e-3)
        count = f"{len(composition.terms):,} relations, whose weights sum to 1: "
        assert f"“{composition.name}” is composed of {count}" in text
    assert snapshot(parse_run) == before


def test_another_model_file(run: Run, said: Any, parse_run: Path, photo: Path, tmp_path: Path) -> None:
    small, _ = compact(load_model(parse_run))
    file = tmp_path / "small.safetensors"
    save_model(file, small.spec, small.algorithm.state_dict())
    expected = said("image", parse_run, photo)
    assert said("image", parse_run, photo, "--model", file)["relations"] == expected["relations"]
    assert said("image", file, photo)["relations"] == expected["relations"]
    assert_refused(run("explain", "image", file, photo, "--model", file), "is not a run")
    assert_refused(run("explain", "image", file, "sketch:1"), "is not a run")


def test_an_image_is_what_python_says(said: Any, parse_run: Path, photo: Path) -> None:
    model = load_model(parse_run)
    expected = explain(model, photo)
    found = said("image", parse_run, photo)
    assert found == {"image": str(photo), "truth": None, **as_json(expected.to_dict())}
    total = math.fsum(relation["contribution"] for relation in found["relations"])
    assert total == pytest.approx(found["scores"][found["explained"]], abs=1e-6)
    other = next(name for name in model.spec.classes if name != expected.predicted)
    found = said("image", parse_run, photo, "--class", other, "--top", 2)
    assert (found["explained"], len(found["relations"])) == (other, 2)
    assert found["relations"] == as_json(explain(model, photo, other).to_dict(2)["relations"])


def test_an_image_in_a_table(run: Run, parse_run: Path, photo: Path) -> None:
    expected = explain(load_model(parse_run), photo)
    found = run("explain", "image", parse_run, photo, "--top", 4, *CPU)
    assert (found.code, found.err) == (0, "")
    assert found.out.startswith(f"{photo}: predicted “{expected.predicted}”, probability ")
    rows = table(found.out)
    start = rows.index(["contribution", "= weight", "× satisfaction", "relation"])
    assert [row[-1] for row in rows[start + 1 : start + 5]] == [each.words for each in expected.relations[:4]]
    score = f"{expected.scores[expected.predicted]:.4f}"
    assert rows[start + 6] == [score, "1.0000", "", f"the sum: the score of “{expected.predicted}”"]


def test_an_image_of_the_benchmark(run: Run, said: Any, parse_run: Path) -> None:
    domain = open_benchmark(read_config(parse_run).data).domain("sketch")
    pixels = load_images(whole(domain), np.array([12]))[0][0]
    found = said("image", parse_run, "sketch:12")
    expected = explain(load_model(parse_run), pixels)
    assert found["scores"] == as_json(expected.scores)
    assert (found["image"], found["truth"]) == ("sketch:12", load_model(parse_run).spec.classes[domain.labels[12]])
    Path("sketch:12").write_text("no image")  # a file is a file, whatever its name
    assert_refused(run("explain", "image", parse_run, "sketch:12"), "cannot read sketch:12: it is no JPEG")


def test_a_contrast(run: Run, said: Any, parse_run: Path, photo: Path) -> None:
    reading = read_image(load_model(parse_run), photo)
    expected = contrast(reading)
    assert said("contrast", parse_run, photo) == {"image": str(photo), "truth": None, **as_json(expected.to_dict())}
    this, that = reading.classes[3], reading.classes[6]
    found = said("contrast", parse_run, photo, "--this", this, "--that", that, "--top", 2)
    assert found["relations"] == as_json(contrast(reading, this, that).to_dict(2)["relations"])
    text = run("explain", "contrast", parse_run, photo, *CPU, "--top", 3).out
    assert f"why “{expected.this}” and not “{expected.that}”?" in text
    assert [row[-1] for row in table(text)[2:5]] == [each.words for each in expected.strongest(3).this]
    assert table(text)[-1][-1] == "the sum: the difference of the two scores"


def test_a_counterfactual(run: Run, said: Any, parse_run: Path, photo: Path) -> None:
    expected = counterfactual(read_image(load_model(parse_run), photo))
    assert expected.flips  # of a model that hardly trained
    found = said("counterfactual", parse_run, photo, "--top", 3)
    assert found == {"image": str(photo), "truth": None, **as_json(expected.to_dict(3))}
    text = run("explain", "counterfactual", parse_run, photo, *CPU).out
    assert [row[1] for row in table(text)[2:]] == [flip.words for flip in expected.flips[:10]]


def test_primitives(run: Run, said: Any, parse_run: Path, tmp_path: Path) -> None:
    benchmark = open_benchmark(read_config(parse_run).data)
    expected = strongest_images(load_model(parse_run), map(whole, benchmark.domains), top=3)
    assert said("primitive", parse_run) == {
        "classes": list(benchmark.classes),
        "primitives": as_json([each.to_dict() for each in expected]),
    }
    before = snapshot(parse_run)
    found = run(
        "explain", "primitive", parse_run, "--primitive", 3, "--primitive", 11, "--pictures", "new/drawn", *CPU
    )
    assert (found.code, found.err) == (0, "")
    rows = [row for row in table(found.out) if row[0] != "domain" and "mean" not in row]
    assert len(rows) == 2 * 4 * 3
    best = next(each for each in expected if each.primitive == 11).images[0]
    assert rows[12][-2:] == [f"photo:{best.index}", benchmark.classes[best.label]]
    assert sorted(path.name for path in (tmp_path / "new/drawn").iterdir()) == ["p11.png", "p3.png"]
    with Image.open(tmp_path / "new/drawn/p3.png") as picture:
        assert min(picture.size) > 500
        assert len(picture.convert("RGB").getcolors(1 << 24) or []) > 1000  # not blank
    assert snapshot(parse_run) == before


def test_other_methods_say_where_a_score_comes_from(run: Run, said: Any, erm_run: Path, finished_run: Any) -> None:
    found = said("image", erm_run, "sketch:12")
    rows = np.array(found["cells"])
    assert rows.shape == (16, 16)
    assert rows.sum() + found["bias"] == pytest.approx(found["logits"][found["explained"]], abs=1e-5)
    text = run("explain", "image", erm_run, "sketch:12", "--class", "wader", *CPU).out
    assert "where the score of “wader” comes from: its logit as a sum over a map of 16 × 16 cells" in text
    wader = np.array(said("image", erm_run, "sketch:12", "--class", "wader")["cells"])
    shown = [line.split() for line in text.splitlines() if line.startswith("  ")]
    tenths = np.array([[0 if cell == "·" else int(cell) for cell in line] for line in shown])
    assert (tenths == np.trunc(10 * wader / np.abs(wader).max())).all()
    bare = finished_run("no_relations")
    found = said("image", bare, "sketch:12")
    total = sum(each["part"] for each in found["primitives"]) + found["bias"]
    assert total == pytest.approx(found["logits"][found["explained"]], abs=1e-5)
    assert table(run("explain", "image", bare, "sketch:12", *CPU).out)[6][:2] == ["part", "primitive"]


def test_refusals_are_one_line(run: Run, parse_run: Path, erm_run: Path, photo: Path) -> None:
    def refused(*arguments: object) -> Any:
        return run("explain", *arguments)

    assert_refused(refused("classes", erm_run), "needs a model of parse, found one of erm")
    assert_refused(refused("contrast", erm_run, photo), "needs a model of parse, found one of erm")
    assert_refused(refused("primitive", erm_run), "needs a model of parse, found one of erm")
    assert_refused(refused("classes", photo.parent), "no model at")
    assert_refused(refused("classes", parse_run, "--class", "cat"), "unknown class 'cat': valid are strider, ")
    assert_refused(refused("classes", parse_run, "--top", 0), "--top must be at least 1, found 0")
    assert_refused(refused("classes", parse_run, "--device", "tpu"), "device 'tpu' cannot be used")
    assert_refused(refused("image", parse_run, "missing.png"), "missing.png: no such file or directory")
    assert_refused(refused("image", parse_run, photo, "--class", "cat"), "unknown class 'cat'")
    assert_refused(refused("image", parse_run, "sketch:40"), "sketch has no image 40: valid are 0 to 39")
    assert_refused(refused("image", parse_run, "clay:1"), "unknown domain of blueprints 'clay': valid are photo")
    assert_refused(refused("contrast", parse_run, photo, "--this", "diver", "--that", "diver"), "'diver' twice")
    assert_refused(refused("primitive", parse_run, "--primitive", 16), "unknown primitive 16: valid are 0 to 15")
    assert_refused(refused("primitive", parse_run, "--pictures", photo), "cannot make the folder")
    wide = refused("primitive", parse_run, "--pictures", "drawn", "--top", 25)
    assert_refused(wide, "--top must be at most 24 with --pictures, found 25")
    assert not Path("drawn").exists()
    assert_refused(refused("primitive", parse_run / "model.safetensors"), "is not a run")


@pytest.mark.parametrize(
    ("command", "resumes"),
    [("train", True), ("sweep", True), ("data download pacs", True), ("evaluate RUN", False), ("info", False)],
)
def test_what_goes_on_where_it_was_broken_off(command: str, resumes: bool) -> None:
    assert build_parser().parse_args(command.split()).resumes is resumes


# --- the document ---------------------------------------------------------------------------------

DOCUMENT = Path(__file__).parents[3] / "docs" / "explain.md"


@pytest.mark.skipif(not DOCUMENT.exists(), reason="there is no docs/explain.md here")
def test_every_command_of_the_document_is_understood() -> None:
    commands = re.findall(r"^\$ parse-dg (.*)$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    verbs = {command.split()[1] for command in commands if command.startswith("explain ")}
    assert verbs == {"classes", "image", "contrast", "counterfactual", "primitive"}
    for command in commands:
        build_parser().parse_args(shlex.split(command))


@pytest.mark.skipif(not DOCUMENT.exists(), reason="there is no docs/explain.md here")
def test_the_example_of_the_document_runs(
    parse_run: Path,
    photo: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    example = re.findall(r"^```python\n(.*?)^```", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)[
        0
    ]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "parse").symlink_to(parse_run)
    (tmp_path / "two.png").write_bytes(photo.read_bytes())
    photo.rename(tmp_path / "one.png")
    names: dict[str, Any] = {}
    exec(compile(example, str(DOCUMENT), "exec"), names)
    printed = capsys.readouterr().out.splitlines()
    model, explanation = load_model(parse_run), names["explanation"]
    for line, name in zip(printed, ("one.png", "two.png"), strict=False):
        assert line.startswith(f"{name} {explanation.predicted} 0.")
    assert printed[2] == f"{explanation.predicted} {explanation.scores[explanation.predicted]}"
    assert [line.split(": ")[0] for line in printed[3:8]] == [each.words for each in explanation.relations[:5]]
    assert printed[8].startswith(f"{explanation.predicted} and not ")
    assert printed[10] == str(describe_classes(model)[0].sentences(3))
    assert len(printed) == 11
