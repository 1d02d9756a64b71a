"""The published results: what docs/results.md says is what the runs in results/ found, with the recipe there is."""

import json
from pathlib import Path

import pytest

from parse_dg.cli import main
from parse_dg.config import change, from_dict
from parse_dg.runs.config import RunConfig
from parse_dg.runs.recipes import build_config
from parse_dg.tables.records import flatten

ROOT = Path(__file__).parents[1]
PACS = ROOT / "results" / "pacs"
PUBLISHED = {
    "training.steps": 1500,
    "training.check_every": 500,
    "averaging.kind": "ema",
    "averaging.also_plain": True,
    "backbone.weights": "weights/resnet50_imagenet_v1.safetensors",
    "backbone.stride_at": "first_1x1",
    "data.benchmark": "pacs",
}
"""Where the runs differ from the recipe."""
RUNS = sorted(PACS.glob("*/*/seed*"))


def test_there_are_two_seeds_of_erm_and_parse_and_one_of_no_relations_on_every_target() -> None:
    found = {method: len(list(PACS.glob(f"{method}/*/seed*"))) for method in ("erm", "parse", "no_relations")}
    assert found == {"erm": 8, "parse": 8, "no_relations": 4}
    assert len(RUNS) == 20


@pytest.mark.parametrize("run", RUNS, ids=lambda run: "-".join(run.parts[-3:]))
def test_the_runs_are_of_the_recipe_that_users_get(run: Path) -> None:
    made = from_dict(RunConfig, json.loads((run / "config.json").read_text()))
    expected = change(build_config("pretrained", made.algorithm.name, "pacs"), PUBLISHED)
    told_apart = ("seed", "data.target")
    differing = {k for k, v in flatten(expected).items() if flatten(made)[k] != v} - set(told_apart)
    assert not differing
    assert run.parts[-3:] == (made.algorithm.name, made.data.target, f"seed{made.seed}")


def test_the_table_in_the_docs_is_that_of_the_runs(capsys: pytest.CaptureFixture[str]) -> None:
    main(["table", str(PACS), "--spread", "std", "--format", "markdown"])
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert len(rows) == 7
    text = (ROOT / "docs" / "results.md").read_text()
    assert "\n".join([rows[0], "|---|---:|---:|---:|---:|---:|", *rows[1:]]) in text


def test_what_parse_rests_on_is_what_was_measured() -> None:
    text = (ROOT / "docs" / "results.md").read_text()
    for target in ("art_painting", "cartoon", "photo", "sketch"):
        run = PACS / "parse" / target / "seed0"
        result, measured = (json.loads((run / name).read_text()) for name in ("result.json", "measures.json"))
        of_target = next(domain for domain in measured["domains"] if domain["role"] == "target")
        use, collapse = of_target["structure"], of_target["collapse"]
        per_class = result["active_applications_per_class"]
        cells = [f"{100 * use[name]:.1f}" for name in ("whole", "relations", "presence", "swapped")]
        cells += [f"{sum(per_class) / len(per_class):.0f}", str(result["active_applications"])]
        cells += [f"{collapse['right']['collapse']:.2f} / {collapse['wrong']['collapse']:.2f}"]
        assert f"| {target} | {' | '.join(cells)} |" in text
