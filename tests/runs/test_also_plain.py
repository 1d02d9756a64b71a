"""One run, two results: with averaging, and as if it had been trained without, to the bit."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from parse_dg.cli import main
from parse_dg.cli.show.views import view_tables
from parse_dg.cli.sweep import row_fields
from parse_dg.config import change
from parse_dg.errors import InputError
from parse_dg.runs.config import RunConfig
from parse_dg.runs.run import execute
from parse_dg.sweeps.config import SweepConfig, SweptData, Variant
from parse_dg.sweeps.plan import plan_jobs
from parse_dg.tables.selection import Case, select
from parse_dg.tables.selection_tables import selection_tables
from parse_dg.training.averaging import AveragingConfig
from tests.conftest import Tiny
from tests.runs.helpers import PLAIN, checks, hashes, quiet, read, read_runs, result_of
from tests.tables.test_missing import typed
from tests.tables.test_records import configured, scored, write

RUNS: dict[str, dict[str, Any]] = {
    "parse": {"averaging__kind": "ema", "averaging__decay": 0.5},
    "erm": {
        **{"averaging__kind": "sma", "averaging__start": 2},
        **{"backbone__name": "small", "backbone__freeze_batchnorm": False},
        **{"mixstyle__stages": "1,2", "training__check_every": 1},
        **{"protocol__checks": "everything", "split__target_images": "in", "protocol__selection": "oracle"},
    },
}
"""What could leave a trace in training: statistics that move, style mixing that draws, checks of the target."""
BLOCK = ("validation", "validation_mean_accuracy", "best_so_far", "scores")
NEW = ("target", "validation", "validation_mean_accuracy", "selection", "selected_step")


def without(config: RunConfig) -> RunConfig:
    return replace(config, averaging=AveragingConfig())


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", RUNS)
def test_the_plain_weights_are_those_of_a_run_without_averaging(
    algorithm: str, tiny: Tiny, tmp_path: Path, parse_run: Path
) -> None:
    config = tiny(algorithm, averaging__also_plain=True, **RUNS[algorithm])
    configs = {
        "both": config,
        "averaged": change(config, {"averaging.also_plain": False}),
        "plain": without(config),
    }
    if algorithm == "parse":
        assert configs.pop("plain") == tiny("parse")
        shutil.copytree(parse_run, tmp_path / "plain")
    for name, each in configs.items():
        execute(each, tmp_path / name, quiet)
    both, plain, averaged = (hashes(tmp_path / name) for name in ("both", "plain", "averaged"))
    assert both[PLAIN] == plain["model.safetensors"]
    assert both["model.safetensors"] == averaged["model.safetensors"] != plain["model.safetensors"]
    assert PLAIN not in plain | averaged
    lines = checks(tmp_path / "both")
    for line, expected in zip(lines, checks(tmp_path / "plain"), strict=True):
        assert line["plain"] == {name: expected[name] for name in BLOCK if name in expected}
        assert line["training_loss"] == expected["training_loss"]
    assert [{k: v for k, v in line.items() if k != "plain"} for line in lines] == checks(tmp_path / "averaged")
    result, expected = read(tmp_path / "both" / "result.json"), read(tmp_path / "plain" / "result.json")
    found = result.pop("without_averaging")
    assert found == {name: expected[name] for name in found}
    assert found.keys() >= {*NEW}
    assert ("active_applications_per_class" in found) == (algorithm == "parse")
    assert ("oracle" in found) == ("oracle" in expected)
    averaged_result = read(tmp_path / "averaged" / "result.json")
    assert [each.pop("files")["model.safetensors"] for each in (result, averaged_result)] == 2 * [
        both["model.safetensors"]
    ]
    assert result == averaged_result


def test_the_command_line_says_what_the_plain_weights_gave(
    tiny: Tiny, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny("erm", averaging__kind="ema", averaging__also_plain=True, training__steps=2)
    plain = execute(config, tmp_path / "run", quiet).without_averaging
    assert plain is not None
    monkeypatch.setenv("COLUMNS", "240")
    command = ["train", "--config", str(tmp_path / "run" / "config.json"), "--out", str(tmp_path / "run")]
    assert main(command) == 0
    target = plain.target
    expected = (
        f"without averaging: {100 * target.accuracy:.1f}% on sketch, all images (target), "
        f"{target.correct}/{target.images}; weights of step 2 of 2, by {plain.selection}"
    )
    assert expected in capsys.readouterr().out
    (table,) = selection_tables(read_runs([tmp_path / "run"], "training-domain"), "training-domain").tables
    assert table.cells["erm"]["sketch"].mean == target.accuracy


def averaged(**settings: Any) -> RunConfig:
    return configured("parse", **{"averaging__kind": "ema", "averaging__also_plain": True, **settings})


def write_both(folder: Path, config: RunConfig, steps: dict[int, tuple[float, float, float, float]]) -> Path:
    """A run of checks: step → accuracy on sources and target of the average, then of the plain weights."""
    lines = []
    for step, (source, target, plain_source, plain_target) in steps.items():
        plain = scored(config, step, plain_target, plain_source, out=plain_target)
        lines.append(replace(scored(config, step, target, source, out=target), plain=plain))
    found = result_of("parse", config.data.target, accuracy=0.25, selected_step=min(steps))
    return write(folder, config, lines, without_averaging=replace(found, validation=plain.validation))


def test_a_run_is_two_rows_and_each_selects_among_its_own_checks(tmp_path: Path) -> None:
    steps = {1: (0.3, 0.1, 0.9, 0.2), 2: (0.5, 0.6, 0.4, 0.7)}
    folder = write_both(tmp_path / "run", averaged(), steps)
    for selection, expected in (("training-domain", (2, 0.6, 1, 0.2)), ("oracle", (2, 0.6, 2, 0.7))):
        found = select(read_runs([folder], selection), selection)
        rows = [found[Case("blueprints", name, "sketch", 0)] for name in ("parse+ema", "parse")]
        assert tuple(value for row in rows for value in (row.step, row.accuracy)) == expected


def test_the_plain_run_beside_it_is_refused_as_the_same(tmp_path: Path) -> None:
    both = write_both(tmp_path / "both", averaged(), {1: (0.3, 0.1, 0.9, 0.2)})
    plain = write(tmp_path / "plain", without(averaged()), [scored(averaged())])
    with pytest.raises(InputError, match=f"{both} without its averaging and {plain} are the same to a table"):
        read_runs([both, plain], "training-domain")
    other = without(averaged(seed=1))
    assert len(read_runs([both, write(tmp_path / "other", other, [scored(other)])], "training-domain")) == 3


def test_what_is_missing_is_filled_by_one_run_for_both_rows(tmp_path: Path) -> None:
    for seed, targets in ((0, ("sketch", "photo")), (1, ("sketch",))):
        for target in targets:
            config = averaged(data__target=target, seed=seed)
            write_both(tmp_path / "parse+ema" / target / f"seed{seed}", config, {1: (0.3, 0.1, 0.9, 0.2)})
    seen = view_tables([tmp_path], "main", (), "training-domain", "se")
    (one,) = seen.tables.fill["blueprints", "parse+ema", "photo"]
    (other,) = seen.tables.fill["blueprints", "parse", "photo"]
    assert one == other
    assert typed(one) == (averaged(data__target="photo", seed=1), tmp_path / "parse+ema" / "photo" / "seed1")


def test_a_run_that_lost_its_plain_checks_is_refused(tmp_path: Path) -> None:
    folder = write_both(tmp_path / "run", averaged(), {1: (0.3, 0.1, 0.9, 0.2)})
    shutil.copytree(folder, tmp_path / "other")
    (line,) = checks(folder)
    del line["plain"]
    (folder / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    result = read(tmp_path / "other" / "result.json") | {"without_averaging": 3}
    (tmp_path / "other" / "result.json").write_text(json.dumps(result))
    for broken in (folder, tmp_path / "other"):
        with pytest.raises(InputError, match=r"nothing on the weights without|without_averaging must be an object"):
            read_runs([broken], "training-domain")


def sweep(*methods: str, **more: Any) -> SweepConfig:
    data = (SweptData(name="blueprints", targets=("sketch",)),)
    return SweepConfig(out=Path("x"), methods=methods, data=data, **more)


ALSO_PLAIN = {"averaging.also_plain": True}


def test_a_sweep_asks_for_both() -> None:
    jobs = plan_jobs(sweep("parse+ema", "erm+sma", settings=ALSO_PLAIN))
    assert [(job.config.method, job.config.averaging.also_plain) for job in jobs] == [
        ("parse+ema", True),
        ("erm+sma", True),
    ]
    variant = Variant(name="parse+ema", methods=("parse+ema",), settings=ALSO_PLAIN)
    chosen = sweep("erm", "parse+ema", "erm+swad", variants=(variant,))
    assert row_fields(chosen) == []
    jobs = plan_jobs(chosen)
    assert [(job.config.method, job.config.averaging.also_plain) for job in jobs] == [
        ("erm", False),
        ("parse+ema", True),
        ("erm+swad", False),
    ]


def test_two_stages_cannot(tiny: Tiny) -> None:
    with pytest.raises(InputError, match=r"averaging\.also_plain must be false, as algorithm\.stages=2 trains on"):
        tiny("erm_plus_plus", averaging__also_plain=True)
    once = tiny("erm_plus_plus", averaging__also_plain=True, algorithm__stages=1)
    assert without(once).method == "erm_plus_plus+none"
