"""parse-dg table: runs that were trained, chosen by each rule, and every number in the table worked out again."""

import csv
import io
import json
import math
import shutil
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from parse_dg.config import change
from parse_dg.runs.config import RunConfig
from parse_dg.runs.protocols import apply_protocol
from parse_dg.runs.recipes import build_config
from parse_dg.runs.run import execute
from parse_dg.tables.selection import SELECTIONS
from tests.cli.conftest import Run, Said, assert_refused, table
from tests.conftest import TINY
from tests.runs.helpers import without_digests
from tests.tables.test_domainbed import EXPECTED, write_golden

DOMAINS = ("photo", "cartoon", "sketch", "paint")
SEEDS = (0, 1)
SMALL = TINY | {"data.blueprints.images_per_class": 3, "training.steps": 3, "training.check_every": 1}
"""24 images a domain: 4 are held out."""


def configured(protocol: str, target: str, seed: int, unseen: str | None = None, **settings: Any) -> RunConfig:
    config = change(build_config("blueprints", "erm"), {"data.target": target, "seed": seed})
    dotted = {name.replace("__", "."): value for name, value in settings.items()}
    config = change(apply_protocol(protocol, config), SMALL | dotted)
    if unseen is None:
        return config
    rules = replace(config.protocol, selection="leave-one-domain-out")
    return replace(config, split=replace(config.split, validation_domain=unseen), protocol=rules)


def train(folder: Path, config: RunConfig) -> Path:
    execute(config, folder, lambda step, check: None)
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every target under DomainBed's rules, two seeds: alone/TARGET/SEED. Read them, do not change them."""
    folder = tmp_path_factory.mktemp("table")
    for target in DOMAINS:
        for seed in SEEDS:
            train(folder / "alone" / target / str(seed), configured("domainbed", target, seed))
    return folder


@pytest.fixture(scope="module")
def pairs(runs: Path) -> Path:
    """Every pair of domains held out besides: pairs/TARGET-OTHER/SEED."""
    for target, other in combinations(DOMAINS, 2):
        for seed in SEEDS:
            train(runs / "pairs" / f"{target}-{other}" / str(seed), configured("domainbed", target, seed, other))
    return runs


def alone(folder: Path) -> list[Path]:
    return sorted((folder / "alone").glob("*/*"))


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def by_training_domain(folder: Path, target: str, seed: int) -> float:
    """The check with the highest mean over the sources, of several the one that loses least: as the run chose."""
    best, found = (-1, 0.0), 0.0
    for line in lines(folder / "alone" / target / str(seed)):
        validation = line["validation"].values()
        rank = (sum(part["correct"] for part in validation), -sum(part["loss"] for part in validation))
        if rank > best:
            best, found = rank, line["scores"][f"{target}/in"]["accuracy"]
    assert (
        found
        == json.loads((folder / "alone" / target / str(seed) / "result.json").read_text())["target"]["accuracy"]
    )
    return found


def by_oracle(folder: Path, target: str, seed: int) -> float:
    return float(lines(folder / "alone" / target / str(seed))[-1]["scores"][f"{target}/in"]["accuracy"])


def by_other_domains(folder: Path, target: str, seed: int) -> float:
    """The first step with the highest mean over the other domains, each where it was held out beside the target."""
    plain = lines(folder / "alone" / target / str(seed))
    best, found = -1, 0.0
    for n, line in enumerate(plain):
        correct = 0
        for other in DOMAINS:
            if other != target:
                (pair,) = [
                    *(folder / "pairs").glob(f"{target}-{other}"),
                    *(folder / "pairs").glob(f"{other}-{target}"),
                ]
                correct += lines(pair / str(seed))[n]["scores"][f"{other}/in"]["correct"]
        if correct > best:
            best, found = correct, line["scores"][f"{target}/in"]["accuracy"]
    return found


BY_HAND = {"training-domain": by_training_domain, "oracle": by_oracle, "leave-one-domain-out": by_other_domains}


def cell(values: list[float]) -> str:
    """Mean ± standard error in per cent, from the formula: the population's deviation over √n."""
    mean = sum(values) / len(values)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))
    return f"{100 * mean:.1f} ± {100 * deviation / math.sqrt(len(values)):.1f}"


def row_by_hand(folder: Path, selection: str) -> list[str]:
    by_seed = [[BY_HAND[selection](folder, target, seed) for target in DOMAINS] for seed in SEEDS]
    averages = [sum(values) / len(values) for values in by_seed]
    return ["erm", *(cell([values[n] for values in by_seed]) for n in range(len(DOMAINS))), cell(averages)]


@pytest.mark.parametrize("selection", ["training-domain", "oracle"])
def test_every_number_is_that_worked_out_by_hand(selection: str, run: Run, runs: Path) -> None:
    said = run("table", *alone(runs), "--selection", selection)
    assert (said.code, said.err) == (0, "")
    header, row = table(said.out)
    assert header == ["algorithm", *DOMAINS, "Avg"]
    assert row == row_by_hand(runs, selection)
    assert "80% of its images: mean ± standard error over 2 trials" in said.out
    assert SELECTIONS[selection].summary in said.out
    assert "Missing" not in said.out


@pytest.mark.slow
def test_leave_one_domain_out_is_worked_out_by_hand(run: Run, pairs: Path) -> None:
    folders = [*alone(pairs), *sorted((pairs / "pairs").glob("*/*"))]
    assert len(folders) == 20
    said = run("table", *folders, "--selection", "leave-one-domain-out")
    assert (said.code, said.err) == (0, "")
    assert table(said.out)[1] == row_by_hand(pairs, "leave-one-domain-out")
    for selection in ("training-domain", "oracle"):  # pairs do no harm there
        assert table(run("table", *folders, "--selection", selection).out)[1] == row_by_hand(pairs, selection)


def test_without_pairs_leave_one_domain_out_says_what_it_needs(run: Run, runs: Path) -> None:
    said = run("table", *alone(runs), "--selection", "leave-one-domain-out")
    assert said.code == 0
    assert table(said.out)[1] == ["erm", *["missing"] * 5]
    assert "runs with the target and each of the other domains held out" in " ".join(said.out.split())


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of our own protocol, which looks at its target once."""
    return train(tmp_path_factory.mktemp("plain") / "run", configured("parse", "sketch", 0))


def test_cells_that_are_missing_are_named(run: Run, runs: Path) -> None:
    some = [
        folder
        for folder in alone(runs)
        if folder.parts[-2:] not in (("photo", "1"), ("paint", "0"), ("paint", "1"))
    ]
    said = run("table", *some)
    row = table(said.out)[1]
    assert row[1].endswith("(1 of 2 trials)")
    assert len(row) == 4  # two or three targets have as many columns
    assert "Missing: erm: photo (trial 1)." in said.out
    assert "no run has paint as its target, so that there is no average" in said.out


@pytest.fixture
def copy(runs: Path, tmp_path: Path) -> Path:
    """A run of the first seed of sketch that may be changed."""
    return Path(shutil.copytree(runs / "alone" / "sketch" / "0", tmp_path / "copy"))


def test_a_run_that_was_broken_off_is_named(
    run: Run, runs: Path, copy: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (copy / "result.json").unlink()
    said = run("table", copy, runs / "alone" / "sketch" / "1")
    assert said.code == 0
    assert caplog.messages == [f"{copy} is not finished: left out"]
    assert "one trial, so that there is no ±" in said.out
    assert_refused(run("table", copy), "none of the 1 runs is finished")


@pytest.mark.parametrize(
    ("name", "content"), [("metrics.jsonl", '{"step": 1}\n'), ("result.json", "{}"), ("config.json", "{")]
)
def test_a_damaged_run_is_named_in_one_line(name: str, content: str, run: Run, runs: Path, copy: Path) -> None:
    (copy / name).write_text(content)
    said = run("table", runs / "alone" / "sketch" / "1", copy)
    assert_refused(said, str(copy))
    assert said.out == ""


def test_mixed_splits_are_refused_with_both_folders(run: Run, plain: Path, tmp_path: Path) -> None:
    listed = without_digests(Path(shutil.copytree(plain, tmp_path / "listed")))
    config = json.loads((listed / "config.json").read_text())
    config["split"]["scheme"], config["seed"] = "gvrt-split", 1
    (listed / "config.json").write_text(json.dumps(config))
    said = run("table", plain, listed)
    assert_refused(said, f"{plain} has split.scheme=holdout20", f"{listed} split.scheme=gvrt-split")


def test_mistakes_in_what_is_asked(run: Run, runs: Path, tmp_path: Path) -> None:
    assert_refused(run("table"), "give run folders, or --domainbed FOLDER")
    assert_refused(run("table", *alone(runs), "--domainbed", tmp_path), "not both")
    assert_refused(
        run("table", *alone(runs), "--selection", "best"), "unknown selection 'best': valid are training-"
    )
    assert_refused(run("table", tmp_path / "nowhere"), "nowhere is not a run")
    assert_refused(run("table", "--domainbed", tmp_path / "nowhere"), "nowhere must be a folder of DomainBed's")
    assert_refused(run("table", "--domainbed", tmp_path), "has no results of DomainBed")


def test_every_form_has_the_same_numbers(run: Run, runs: Path) -> None:
    cells = row_by_hand(runs, "training-domain")
    folders = alone(runs)
    markdown = run("table", *folders, "--format", "markdown").out
    assert f"| {' | '.join(cells)} |" in markdown
    assert "Model selection: training-domain validation" in markdown
    latex = run("table", *folders, "--format", "latex").out
    assert " & ".join(["ERM", *cells[1:]]).replace("±", r"$\pm$") + r" \\" in latex
    assert r"\begin{tabular}{lccccc}" in latex
    rows = list(csv.DictReader(io.StringIO(run("table", *folders, "--format", "csv").out)))
    assert [row["target"] for row in rows] == [*DOMAINS, "average"]
    for row, text in zip(rows, cells[1:], strict=True):
        assert f"{100 * float(row['accuracy']):.1f} ± {100 * float(row['standard_error']):.1f}" == text
        assert (row["selection"], row["data"], row["algorithm"]) == ("training-domain", "blueprints", "erm")
        assert (row["trials"], row["missing_trials"], row["share_of_target"]) == ("2", "0", "0.8")


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_golden(tmp_path_factory.mktemp("sweep"))


def domainbed_row(said: Said) -> list[str]:
    assert (said.code, said.err) == (0, "")
    header, row = table(said.out)
    assert header == ["algorithm", "C", "L", "S", "V", "Avg"]
    return [*row[:5], row[5].split(" ± ")[0]]


@pytest.mark.golden
@pytest.mark.parametrize("selection", EXPECTED)
def test_domainbeds_own_sweep_gives_its_own_table(selection: str, run: Run, sweep: Path) -> None:
    said = run("table", "--domainbed", sweep, "--selection", selection)
    assert domainbed_row(said) == ["ERM", *EXPECTED[selection]]
    latex = run("table", "--domainbed", sweep, "--selection", selection, "--format", "latex").out
    assert " & ".join(["ERM", *EXPECTED[selection][:4]]).replace("±", r"$\pm$") in latex


def test_a_comparison_says_the_same_in_every_form(run: Run, sweep: Path) -> None:
    cells = ["SagNet", "domainbed", "97.9 ± 0.4", "64.5 ± 0.5", "71.4 ± 1.3", "77.5 ± 0.5", "77.8 ± 0.5"]
    asked = ("table", "--domainbed", sweep, "--compare", "domainbed")
    assert cells in table(run(*asked).out)
    markdown = run(*asked, "--format", "markdown").out
    assert f"| {' | '.join(cells)} |" in markdown
    assert "|---|---|---:|" in markdown
    latex = run(*asked, "--format", "latex").out
    assert " & ".join(cells).replace("±", r"$\pm$") + r" \\" in latex
    assert r"\begin{tabular}{llccccc}" in latex
    assert r"Gulrajani \& Lopez-Paz" in latex
    rows = list(csv.DictReader(io.StringIO(run(*asked, "--format", "csv").out)))
    found = [row["printed"] for row in rows if (row["algorithm"], row["source"]) == ("SagNet", "domainbed")]
    assert found == cells[2:]
    assert [row["target"] for row in rows if row["source"] == "ours"] == ["C", "L", "S", "V", "average"]


def test_mistakes_in_what_is_to_be_compared(run: Run, runs: Path, sweep: Path) -> None:
    folders = alone(runs)
    assert_refused(run("table", *folders, "--compare", "papers"), "unknown source of published figures 'papers'")
    assert_refused(run("table", "--compare", *folders), f"give it after the run {folders[0]}")
    assert_refused(run("table", "--compare", folders[0]), f"give it after the run {folders[0]}")
    assert_refused(
        run("table", "--published", "cub-dg", "--compare", "miro"), "nothing is known of cub-dg from miro"
    )
    assert_refused(run("table", "--published", "mnist"), "unknown data set with published figures 'mnist'")
    assert_refused(run("table", "--published", "pacs", "--domainbed", sweep), "goes with neither")
    assert_refused(run("table", "--compare"), "give run folders")
