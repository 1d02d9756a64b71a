"""`parse-dg predict`: the answers alone on standard output, in order; all else on standard error."""

import csv
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from parse_dg.cli import main
from parse_dg.cli.show.predictions import RELATIONS
from parse_dg.data.framing import Framing
from parse_dg.data.images import decode
from parse_dg.deploy.model_file import load_model
from parse_dg.deploy.predictor import load
from parse_dg.explain.explanation import explain
from tests.cli.conftest import Run, Said, assert_refused, snapshot, table


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A folder of six images, of sizes of their own, and two things that are none."""
    folder = tmp_path / "photos"
    draw = np.random.default_rng(1)
    for name in ("b.png", "a [bold] one.png", "deep/er/c.jpg", "deep/d.png", "e.bmp", "ü, \n.png"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw.integers(0, 256, (40 + len(name), 90, 3), np.uint8)).save(path)
    (folder / "notes.txt").write_text("no image")
    (folder / ".thumb.png").write_text("no image")
    return folder


def in_order(photos: Path) -> list[Path]:
    return [
        photos / name for name in ("a [bold] one.png", "b.png", "e.bmp", "ü, \n.png", "deep/d.png", "deep/er/c.jpg")
    ]


def fail(capsys: pytest.CaptureFixture[str], *arguments: object) -> Said:
    """A command that ends with a code of its own."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as left:
        main([str(argument) for argument in arguments])
    assert isinstance(left.value.code, int)
    return Said(left.value.code, *capsys.readouterr())


def feed(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), "utf-8"))


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("algorithm", ["erm", "parse"])
def test_json_lines_are_what_python_says(algorithm: str, run: Run, finished_run: Any, photos: Path) -> None:
    folder = finished_run(algorithm)
    before = snapshot(folder)
    said = run("predict", folder, photos, "--format", "jsonl", "--device", "cpu", "--top", 2)
    assert (said.code, said.err) == (0, "")
    expected = load(folder, "cpu").predict(in_order(photos), top=2)
    found = lines(said.out)
    assert [line["file"] for line in found] == [str(path) for path in in_order(photos)]
    for line, each in zip(found, expected, strict=True):
        assert line.keys() == {"file", "predicted", "probability", "top"}
        assert (line["predicted"], line["probability"]) == (
            each.predicted,
            pytest.approx(each.probability, rel=1e-5),
        )
        assert [entry["name"] for entry in line["top"]] == [name for name, _ in each.top]
        assert [entry["probability"] for entry in line["top"]] == pytest.approx([p for _, p in each.top], rel=1e-5)
    assert snapshot(folder) == before


def test_csv(run: Run, erm_run: Path, photos: Path) -> None:
    said = run("predict", erm_run, photos, "--format", "csv", "--top", 2)
    assert (said.code, said.err) == (0, "")
    header, *rows = list(csv.reader(io.StringIO(said.out, newline="")))
    assert header == ["file", "predicted", "probability", "name_2", "probability_2"]
    expected = load(erm_run).predict(in_order(photos), top=2)
    for row, each in zip(rows, expected, strict=True):
        assert row[0] == str(each.file)
        assert [row[1], row[3]] == [name for name, _ in each.top]
        assert [float(row[2]), float(row[4])] == pytest.approx([p for _, p in each.top], rel=1e-5)


def test_csv_has_no_formula_unless_it_is_raw(run: Run, erm_run: Path, photos: Path) -> None:
    names = ["=1+1.png", "+a.png", "-a.png", "@a.png", "\ta.png", "'a.png"]
    for name in names:
        shutil.copy(photos / "b.png", name)
    for style, mark in (("csv", "'"), ("csv-raw", "")):
        said = run("predict", erm_run, "--format", style, "--", *names)
        found = [row[0] for row in csv.reader(io.StringIO(said.out))]
        assert found == ["file", *(mark + name for name in names[:-1]), names[-1]]


def test_table(run: Run, erm_run: Path, photos: Path) -> None:
    said = run("predict", erm_run, photos)
    assert (said.code, said.err) == (0, "")
    header, *rows = table(said.out)
    assert header == ["file", "predicted class", "probability", "next classes"]
    for row, each in zip(rows, load(erm_run).predict(in_order(photos)), strict=True):
        shown = ascii(str(each.file)) if "\n" in str(each.file) else str(each.file)
        others = ", ".join(f"{name} {100 * p:.1f}%" for name, p in each.top[1:])
        assert row == [shown, each.predicted, f"{100 * each.probability:.1f}%", others]
    assert "probability: softmax of the model's logits (erm, 8 classes; images squashed to 64 × 64)" in said.out


def test_words_and_paths_are_whole_at_80_columns(
    run: Run, parse_run: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    paths = ("photos/b.png", "photos/deep/er/c.jpg")
    for more in ((), ("--explain", "--pictures", "why")):
        said = run("predict", parse_run, *paths, *more, "--device", "cpu")
        assert all(path in said.out for path in paths)
    assert "picture: why/000001-b.png" in said.out


def test_files_folders_and_a_list_in_the_order_given(
    run: Run, erm_run: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed(monkeypatch, b"photos/e.bmp\r\n\nphotos/b.png")
    said = run("predict", erm_run, "photos/b.png", "-", "photos/deep", "--format", "jsonl", "--batch", 2)
    assert said.code == 0
    expected = ["photos/b.png", "photos/e.bmp", "photos/b.png", "photos/deep/d.png", "photos/deep/er/c.jpg"]
    assert [line["file"] for line in lines(said.out)] == expected


def test_relations_are_those_of_explain(run: Run, parse_run: Path, photos: Path) -> None:
    file = photos / "b.png"
    model = load_model(parse_run)
    explanation = explain(model, decode(file, Framing(size=64)))
    strongest = [each for each in explanation.relations[:RELATIONS] if each.contribution > 0]
    assert strongest
    (line,) = lines(run("predict", parse_run, file, "--explain", "--format", "jsonl", "--device", "cpu").out)
    assert line["predicted"] == explanation.predicted
    assert [each["words"] for each in line["relations"]] == [each.words for each in strongest]
    for said, each in zip(line["relations"], strongest, strict=True):
        assert said["contribution"] == pytest.approx(each.contribution, rel=1e-4)
        assert said["weight"] * said["satisfaction"] == pytest.approx(said["contribution"], rel=1e-4)
    _, row = csv.reader(io.StringIO(run("predict", parse_run, file, "--explain", "--format", "csv").out))
    assert row[-1].split("; ")[0].startswith(f"{strongest[0].words} (")
    text = run("predict", parse_run, file, "--explain").out
    for each in strongest:
        assert f"{each.contribution:.3f} {each.words}" in text
    assert "contribution, weight × satisfaction, to the score of the predicted class" in text


def test_pictures(run: Run, parse_run: Path, photos: Path, tmp_path: Path) -> None:
    chosen = [photos / "b.png", photos / "ü, \n.png", photos / "b.png"]
    said = run("predict", parse_run, *chosen, "--pictures", "new/drawn", "--format", "jsonl")
    assert (said.code, said.err) == (0, "")
    names = ["000001-b.png", "000002-_.png", "000003-b.png"]
    assert [line["picture"] for line in lines(said.out)] == [f"new/drawn/{name}" for name in names]
    assert sorted(path.name for path in (tmp_path / "new/drawn").iterdir()) == names
    for name in names:
        with Image.open(tmp_path / "new/drawn" / name) as picture:
            assert min(picture.size) > 300
            assert len(picture.convert("RGB").getcolors(1 << 24) or []) > 100  # not blank
    assert "relations" not in lines(said.out)[0]


@pytest.mark.parametrize("style", ["table", "jsonl", "csv"])
def test_unreadable_images_are_named_and_the_others_predicted(
    style: str, capsys: pytest.CaptureFixture[str], erm_run: Path, photos: Path, tmp_path: Path, run: Run
) -> None:
    (photos / "broken.png").write_text("no image")
    (tmp_path / "empty").mkdir()
    good = run("predict", erm_run, *in_order(photos), "--format", style, "--device", "cpu")
    said = fail(capsys, "predict", erm_run, "missing.png", photos, "empty", "--format", style, "--device", "cpu")
    assert (said.code, said.out) == (1, good.out)
    told = said.err.splitlines()
    assert len(told) == 4
    assert sum("missing.png: no such file or directory" in line for line in told) == 1
    assert sum("broken.png: it is no JPEG" in line for line in told) == 1
    assert sum("empty: the folder has no image" in line for line in told) == 1
    assert told[-1] == "parse-dg: 6 images predicted, 3 could not be read"


def test_refusals_are_one_line(
    run: Run, erm_run: Path, parse_run: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = photos / "b.png"
    assert_refused(run("predict", photos, picture), "no model at")
    assert_refused(run("predict", erm_run, picture, "--top", 0), "--top must be at least 1, found 0")
    assert_refused(run("predict", erm_run, picture, "--batch", 0), "--batch must be at least 1, found 0")
    assert_refused(run("predict", erm_run, picture, "--device", "tpu"), "device 'tpu' cannot be used")
    assert_refused(run("predict", erm_run, picture, "--explain"), "needs a model of parse, found one of erm")
    assert_refused(run("predict", erm_run, picture, "--pictures", "drawn"), "needs a model of parse")
    assert not Path("drawn").exists()
    assert_refused(run("predict", parse_run, picture, "--pictures", picture), "cannot make the folder")
    inside = photos / "drawn"
    assert_refused(run("predict", parse_run, photos, "--pictures", inside), "where images are looked for")
    model = erm_run / "model.safetensors"
    assert_refused(run("predict", picture, picture, "--model", model), "is not a run")
    feed(monkeypatch, b"\n")
    assert_refused(run("predict", erm_run, "-"), "no image was given")


@pytest.mark.slow
def test_a_reader_that_has_seen_enough(erm_run: Path, photos: Path, tmp_path: Path) -> None:
    """Its end of the pipe is closed after a line: the command ends without a word."""
    (tmp_path / "list").write_text(f"{photos / 'b.png'}\n" * 3000)
    command = [sys.executable, "-m", "parse_dg", "predict", str(erm_run), "-", "--format", "jsonl", "--batch", "4"]
    with (
        (tmp_path / "list").open("rb") as given,
        (tmp_path / "messages").open("wb") as messages,
        subprocess.Popen(command, stdin=given, stdout=subprocess.PIPE, stderr=messages) as process,
    ):
        assert process.stdout
        assert json.loads(process.stdout.readline())["file"] == str(photos / "b.png")
        process.stdout.close()
        assert process.wait(timeout=120) == 0
    assert (tmp_path / "messages").read_bytes() == b""
