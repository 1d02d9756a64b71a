"""parse-dg table: views, folders of runs, pages and plots; and commands for what is missing that are really run."""

import csv
import io
import json
import shlex
import shutil
from pathlib import Path

import pytest

from parse_dg.config import change
from parse_dg.runs.recipes import build_config
from parse_dg.runs.run import execute
from tests.cli.conftest import Run, assert_refused, table
from tests.conftest import TINY

DOMAINS = ("photo", "cartoon", "sketch", "paint")
SMALL = TINY | {"data.blueprints.images_per_class": 3, "training.steps": 2, "training.check_every": 1}
ROWS = {
    "parse,K=5": ("parse", {"algorithm.primitives.count": 5, "algorithm.vocabulary.families": "all"}),
    "parse,K=6,binary": ("parse", {"algorithm.primitives.count": 6, "algorithm.vocabulary.families": "binary"}),
    "no_relations": ("no_relations", {"algorithm.primitives.count": 5}),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three rows on every target but paint: runs/blueprints/ROW/TARGET/seed0. Read them, do not change them."""
    folder = tmp_path_factory.mktemp("views")
    for row, (algorithm, settings) in ROWS.items():
        for target in DOMAINS[:3]:
            config = change(build_config("blueprints", algorithm), SMALL | settings | {"data.target": target})
            execute(config, folder / "runs" / "blueprints" / row / target / "seed0", lambda step, check: None)
    return folder


@pytest.fixture
def runs(made: Path, tmp_path: Path) -> Path:
    """Copies, which may be changed; `run` stands in the folder above."""
    return Path(shutil.copytree(made / "runs", tmp_path / "runs"))


def commands(text: str) -> list[list[str]]:
    return [shlex.split(line) for line in text.splitlines() if line.strip().startswith("parse-dg ")]


def test_a_folder_of_runs_is_as_good_as_all_of_them(run: Run, runs: Path) -> None:
    every = sorted(runs.glob("*/*/*/seed0"))
    assert len(every) == 9
    whole = run("table", "runs", "--format", "csv")
    assert (whole.code, whole.err) == (0, "")
    one_by_one = run("table", *(path.relative_to(runs.parent) for path in every), "--format", "csv")
    assert whole.out == one_by_one.out
    assert_refused(run("table", runs.parent / "nothing"), "is not a run")


def test_the_commands_fill_the_cells(run: Run, runs: Path) -> None:
    said = run("table", "runs", "--view", "ablation")
    rows = table(said.out)[1:]
    assert [row[0] for row in rows] == ["No Relations", "PARSE (binary)", "PARSE (all families)"]
    assert all(len(row) == 4 for row in rows)
    assert "no run has paint as its target" in said.out
    asked = commands(said.out)
    assert [words[-1] for words in asked] == [
        f"runs/blueprints/{row}/paint/seed0" for row in ("no_relations", "parse,K=6,binary", "parse,K=5")
    ]
    for words in asked:
        assert run(*words[1:]).code == 0
    full = run("table", "runs", "--view", "ablation")
    assert "issing" not in full.out
    assert commands(full.out) == []
    for before, after in zip(rows, table(full.out)[1:], strict=True):
        assert after[:4] == before[:4]
        assert "±" not in after[4]  # of one trial


def test_rows_by_any_field(run: Run, runs: Path) -> None:
    said = run("table", "runs", "--by", "algorithm.vocabulary.families", "--by", "algorithm.primitives.count")
    assert [row[0] for row in table(said.out)][1:] == [
        *("no_relations, count=5", "parse, families=all, count=5", "parse, families=binary, count=6")
    ]
    assert_refused(
        run("table", "runs", "--by", "algorithm.familes"), "'algorithm.familes'", "algorithm.vocabulary.f"
    )
    assert_refused(run("table", "runs", "--by", "data.target"), "--by data.target would tell nothing")


def test_the_spread_that_is_asked_for(run: Run, runs: Path) -> None:
    said = run("table", "runs", "--spread", "std")
    assert "one trial, so that there is no ±" in said.out
    assert "±" not in "".join(table(said.out)[1])
    assert_refused(run("table", "runs", "--spread", "var"), "unknown spread 'var': valid are se, std")


def test_the_curve(run: Run, runs: Path) -> None:
    name = "k.svg"
    said = run("table", "runs", "--view", "k", "--plot", name)
    assert said.code == 0
    assert said.out.endswith(f"plot written to {name}\n")
    assert (runs.parent / name).stat().st_size > 5000
    alone = run("table", "runs", "--view", "k", "--plot", name, "--format", "csv").out
    assert len(list(csv.DictReader(io.StringIO(alone)))) == 9  # three rows, three targets and nothing else


def test_compaction_is_read_from_beside_the_runs(run: Run, runs: Path, caplog: pytest.LogCaptureFixture) -> None:
    nothing = run("table", "runs", "--view", "compaction")
    assert_refused(
        nothing, "none of these runs has a compact.json: make it with parse-dg compact runs/blueprints/p"
    )
    assert run("compact", *sorted(runs.glob("*/parse,K=5/*/seed0"))).code == 0
    caplog.clear()
    said = run("table", "runs", "--view", "compaction")
    assert said.code == 0
    assert "3 runs. Threshold 0 (lossless)." in said.out
    assert [message.split(":")[0] for message in caplog.messages] == [
        "only runs of parse can be compacted, left out"
    ]
    ((program, verb, *folders),) = commands(said.out)
    assert (program, verb, len(folders)) == ("parse-dg", "compact", 3)
    assert run(verb, *folders).code == 0
    full = run("table", "runs", "--view", "compaction")
    assert commands(full.out) == []
    data, target = full.out.split("compaction by target")
    assert [(row[0], row[-1]) for row in table(data)[1:]] == [("blueprints", "3")] * 2  # two vocabularies
    rows = table(target)
    report = json.loads((runs / "blueprints" / "parse,K=5" / "photo" / "seed0" / "compact.json").read_text())
    counts = report["applications"]
    shown = dict(zip(rows[0], next(row for row in rows[1:] if row[1] == "photo"), strict=True))
    assert shown["applications"] == f"{counts['before']:,} → {counts['after']:,}"
    lines = list(csv.DictReader(io.StringIO(run("table", "runs", "--view", "compaction", "--format", "csv").out)))
    assert len(lines) == 6
    place = runs / "blueprints" / "parse,K=5" / "photo" / "seed0"
    line = next(line for line in lines if line["target"] == "photo")
    step = json.loads((place / "environment.json").read_text())["seconds"] / 2
    images = sum(json.loads((place / "split.json").read_text())["training_images"].values())
    assert float(line["seconds_a_step"]) == pytest.approx(step)
    assert float(line["seconds_an_epoch"]) == pytest.approx(
        step * images / (3 * SMALL["training.batch_per_domain"])
    )


def test_a_page(run: Run, runs: Path) -> None:
    said = run("table", "runs", "--view", "ablation", "--format", "html")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("<!DOCTYPE html>")
    assert said.out.endswith("</html>\n")
    for cell in table(run("table", "runs", "--view", "ablation").out)[2]:
        assert f">{cell}<".replace(" ± ", "\u00a0±\u00a0") in said.out
    assert "<strong>" in said.out
    assert "<script" not in said.out


def test_mistakes_in_views(run: Run, runs: Path) -> None:
    assert_refused(run("table", "runs", "--view", "best"), "unknown view 'best': valid are main, ablation, k, comp")
    assert_refused(run("table", "runs", "--plot", "k.png"), "it goes with --view k, found --view main")
    assert_refused(run("table", "runs", "--view", "k", "--plot", "k.gif"), "ends in .png or .svg or .pdf")
    for command in (("table", "runs", "--view", "k", "--plot"), ("figure", "k", "runs", "--out")):
        assert_refused(run(*command, "/sys/k.png"), "cannot write ", "/sys/k.png")  # nobody can write there
    assert_refused(run("table", "runs", "--view", "compaction", "--by", "seed"), "goes without --by and --plot")
    assert_refused(run("table", "--published", "--view", "k"), "ways to look at runs")
