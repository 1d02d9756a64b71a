"""The published results: what docs/results.md says is what the runs in results/ found, with the recipe there is."""

import json
import statistics
from pathlib import Path

import pytest

from parse_dg.cli import main
from parse_dg.config import change, from_dict
from parse_dg.runs.config import RunConfig
from parse_dg.runs.recipes import build_config
from parse_dg.tables.records import flatten

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "results.md").read_text()
PUBLISHED = {
    "training.steps": 1500,
    "training.check_every": 500,
    "backbone.weights": "weights/resnet50_imagenet_v1.safetensors",
    "backbone.stride_at": "first_1x1",
}
"""Where the runs differ from the recipe."""
PACS = {**PUBLISHED, "averaging.kind": "ema", "averaging.also_plain": True, "data.benchmark": "pacs"}
BIRDS = {**PUBLISHED, "split.scheme": "gvrt-split", "data.benchmark": "cub-dg"}
DRAWN = {
    "algorithm.composition.relations_per_class": None,
    "optimizer.composition_rate": 2e-4,
    "optimizer.composition_until": None,
}
"""Where those differ in which nothing is chosen."""
ON_PRESENCE = {
    "algorithm.predicates.gate": True,
    "algorithm.composition.start_entries": 8,
    "algorithm.composition.presence_share": None,
    "optimizer.composition_rate": 2e-4,
}
"""Where those of birds differ in which no share of a class's weight is kept for relations."""
AT_MOST_12 = {
    **ON_PRESENCE,
    "algorithm.composition.relations_per_class": 12,
    "optimizer.composition_rate": 2e-3,
    "optimizer.composition_until": 0.5,
}
"""Those in which, besides, a class has twelve relations."""
VARIANTS = {"pacs_drawn/parse": DRAWN, "parse,on_presence": ON_PRESENCE, "parse,at_most_12": AT_MOST_12}
RUNS = sorted(run for name in ("pacs", "pacs_drawn") for run in (ROOT / "results" / name).glob("*/*/seed?"))
TARGETS = ("art_painting", "cartoon", "photo", "sketch")
BIRD_RUNS = sorted((ROOT / "results" / "cub_dg_made_again").glob("*/*/seed?"))


def test_there_are_three_seeds_of_every_method_on_every_target() -> None:
    rows = ("pacs/erm", "pacs/no_relations", "pacs/parse", "pacs_drawn/parse")
    expected = {f"{row}/{target}/seed{seed}" for row in rows for target in TARGETS for seed in range(3)}
    assert {str(run.relative_to(ROOT / "results")) for run in RUNS} == expected


def test_there_are_three_seeds_of_every_row_on_every_domain_of_birds() -> None:
    domains = ("Photo", "Cartoon", "Art", "Paint")
    rows = ("erm", "no_relations", "parse", "parse,on_presence", "parse,at_most_12")
    expected = {f"{row}/{target}/seed{seed}" for row in rows for target in domains for seed in range(3)}
    assert {"/".join(run.parts[-3:]) for run in BIRD_RUNS} == expected


@pytest.mark.parametrize("run", [*RUNS, *BIRD_RUNS], ids=lambda run: "-".join(run.parts[-4:]))
def test_the_runs_are_of_the_recipe_that_users_get(run: Path) -> None:
    made = from_dict(RunConfig, json.loads((run / "config.json").read_text()))
    settings, recipe = (BIRDS, "fine_grained") if run in BIRD_RUNS else (PACS, "pretrained")
    variant = next((VARIANTS[row] for row in VARIANTS if f"/{row}/" in run.as_posix()), {})
    expected = change(build_config(recipe, made.algorithm.name, made.data.benchmark), {**settings, **variant})
    free = {"seed", "data.target"}
    if made.algorithm.name != "parse":
        free.add("optimizer.composition_rate")  # of Λ, which they do not have
    assert {name for name, _ in flatten(expected).items() ^ flatten(made).items()} <= free
    assert run.parts[-3].split(",")[0] == made.algorithm.name
    assert run.parts[-2:] == (made.data.target, f"seed{made.seed}")


@pytest.mark.parametrize(
    ("folder", "count", "by"),
    [
        ("pacs", 7, []),
        ("pacs_drawn", 3, []),
        (
            "cub_dg_made_again",
            6,
            [
                *("--by", "algorithm.composition.relations_per_class"),
                *("--by", "algorithm.composition.presence_share"),
            ],
        ),
        (
            "blueprints_2000_steps",
            6,
            [
                *("--by", "algorithm.composition.relations_per_class"),
                *("--by", "algorithm.composition.select_every"),
                *("--by", "algorithm.primitives.heatmap"),
            ],
        ),
        ("pacs_authors_regime", 4, ["--by", "algorithm.vocabulary.enumeration"]),
    ],
)
def test_the_tables_in_the_docs_are_those_of_the_runs(
    folder: str, count: int, by: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    main(["table", str(ROOT / "results" / folder), *by, "--spread", "std", "--format", "markdown"])
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert len(rows) == count
    columns = rows[0].count("|") - 2
    assert "\n".join([rows[0], "|---|" + "---:|" * columns, *rows[1:]]) in TEXT


def measured(folder: str, target: str) -> dict[str, float]:
    """What was measured of PARSE on a target, each the mean of three seeds."""
    found: dict[str, list[float]] = {}
    for run in (ROOT / "results" / folder / "parse" / target).glob("seed?"):
        measures = json.loads((run / "measures.json").read_text())
        on = next(domain for domain in measures["domains"] if domain["role"] == "target")
        values = {
            "whole": 100 * on["structure"]["whole"],
            "another image's geometry": 100 * on["structure"]["swapped"],
            "presence alone": 100 * on["structure"]["presence"],
            "relations alone": 100 * on["structure"]["relations"],
            "of the score": 100 * on["structure"].get("on_evidence", float("nan")),  # the runs of PACS are older
            "guide": 100 * on["guide"]["accuracy"],
            "on evidence": 100 * on["evidence"]["on_evidence"],
            "relations": measures["selected"]["relations"],
            "selected": 100 * measures["selected"]["after_start"],
            "places": on["collapse"]["all"]["places"],
            "present": on["collapse"]["all"]["present"],
        }
        for name, value in values.items():
            found.setdefault(name, []).append(value)
    assert {len(values) for values in found.values()} == {3}
    return {name: statistics.mean(values) for name, values in found.items()}


@pytest.mark.parametrize("folder", ["pacs", "pacs_drawn"])
@pytest.mark.parametrize("target", TARGETS)
def test_what_parse_rests_on_is_what_was_measured(folder: str, target: str) -> None:
    m = measured(folder, target)
    accuracies = [f"{m[name]:.1f}" for name in ("whole", "another image's geometry", "guide")]
    cells = [*accuracies, f"{m['relations']:.0f}", f"{m['selected']:.0f}%", f"{m['on evidence']:.0f}%"]
    cells += [f"{m['present']:.0f} in {m['places']:.1f}"]
    name = {"pacs": "chosen", "pacs_drawn": "drawn"}[folder]
    assert f"| {target} | {name} | {' | '.join(cells)} |" in TEXT


@pytest.mark.parametrize("target", ["Photo", "Cartoon", "Art", "Paint"])
def test_what_parse_rests_on_is_what_was_measured_of_birds(target: str) -> None:
    m = measured("cub_dg_made_again", target)
    accuracies = ("whole", "another image's geometry", "presence alone", "relations alone", "guide")
    cells = [*(f"{m[name]:.1f}" for name in accuracies), f"{m['relations']:.0f}"]
    cells += [f"{m[name]:.0f}%" for name in ("selected", "on evidence", "of the score")]
    cells += [f"{m['present']:.0f} in {m['places']:.1f}"]
    assert f"| {target} | {' | '.join(cells)} |" in TEXT
