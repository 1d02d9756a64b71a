"""parse-dg table: runs that were trained, every number worked out again; DomainBed's sweep, the papers' figures."""

import csv
import io
import math
from itertools import product
from pathlib import Path

import pytest

from parse_dg.config import change
from parse_dg.runs.protocols import apply_protocol
from parse_dg.runs.recipes import build_config
from parse_dg.runs.run import execute
from parse_dg.tables.selection import SELECTIONS
from tests.cli.conftest import Run, Said, assert_refused, result_of, table
from tests.conftest import TINY
from tests.tables.test_domainbed import EXPECTED, write_golden

DOMAINS = ("photo", "cartoon", "sketch", "paint")
SEEDS = (0, 1)
SMALL = TINY | {"data.blueprints.images_per_class": 3, "training.steps": 3, "training.check_every": 1}
"""24 images a domain: 4 are held out."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Every target under DomainBed's rules, two seeds each, in folders TARGET/SEED."""
    folder = tmp_path_factory.mktemp("table")
    for target, seed in product(DOMAINS, SEEDS):
        config = change(build_config("blueprints", "erm"), {"data.target": target, "seed": seed})
        config = change(apply_protocol("domainbed", config), SMALL)
        execute(config, folder / target / str(seed), lambda step, check: None)
    return sorted(folder.glob("*/*"))


def cell(values: list[float]) -> str:
    """Mean ± standard error in per cent, from the formula: the population's deviation over √n."""
    mean = sum(values) / len(values)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))
    return f"{100 * mean:.1f} ± {100 * deviation / math.sqrt(len(values)):.1f}"


def row_by_hand(runs: list[Path]) -> list[str]:
    """What the runs found themselves, as they chose among their checks by the same rule."""
    found = {run.parts[-2:]: result_of(run)["target"]["accuracy"] for run in runs}
    by_target = [[found[target, str(seed)] for seed in SEEDS] for target in DOMAINS]
    averages = [sum(values) / len(DOMAINS) for values in zip(*by_target, strict=True)]
    return ["erm", *map(cell, by_target), cell(averages)]


def test_every_number_is_that_worked_out_by_hand(run: Run, runs: list[Path]) -> None:
    said = run("table", *runs)
    assert (said.code, said.err) == (0, "")
    header, row = table(said.out)
    assert header == ["algorithm", *DOMAINS, "Avg"]
    assert row == row_by_hand(runs)
    assert "80% of its images: mean ± standard error over 2 trials" in said.out
    assert SELECTIONS["training-domain"].summary in said.out
    assert "Missing" not in said.out


def test_mistakes_in_what_is_asked(run: Run, runs: list[Path], tmp_path: Path) -> None:
    assert_refused(run("table"), "give run folders, or --domainbed FOLDER")
    assert_refused(run("table", *runs, "--domainbed", tmp_path), "not both")
    assert_refused(run("table", *runs, "--selection", "best"), "unknown selection 'best': valid are training-")
    assert_refused(run("table", tmp_path / "nowhere"), "nowhere is not a run")
    assert_refused(run("table", "--domainbed", tmp_path / "nowhere"), "nowhere must be a folder of DomainBed's")
    assert_refused(run("table", "--domainbed", tmp_path), "has no results of DomainBed")


def test_every_form_has_the_same_numbers(run: Run, runs: list[Path]) -> None:
    cells = row_by_hand(runs)
    markdown = run("table", *runs, "--format", "markdown").out
    assert f"| {' | '.join(cells)} |" in markdown
    assert "Model selection: training-domain validation" in markdown
    latex = run("table", *runs, "--format", "latex").out
    assert " & ".join(["ERM", *cells[1:]]).replace("±", r"$\pm$") + r" \\" in latex
    assert r"\begin{tabular}{lccccc}" in latex
    rows = list(csv.DictReader(io.StringIO(run("table", *runs, "--format", "csv").out)))
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


def test_mistakes_in_what_is_to_be_compared(run: Run, runs: list[Path], sweep: Path) -> None:
    assert_refused(run("table", *runs, "--compare", "papers"), "unknown source of published figures 'papers'")
    assert_refused(run("table", "--compare", *runs), f"give it after the run {runs[0]}")
    assert_refused(run("table", "--compare", runs[0]), f"give it after the run {runs[0]}")
    assert_refused(
        run("table", "--published", "cub-dg", "--compare", "miro"), "nothing is known of cub-dg from miro"
    )
    assert_refused(run("table", "--published", "mnist"), "unknown data set with published figures 'mnist'")
    assert_refused(run("table", "--published", "pacs", "--domainbed", sweep), "goes with neither")
    assert_refused(run("table", "--compare"), "give run folders")
