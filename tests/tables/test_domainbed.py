"""DomainBed's output: its own sweep gives its own tables, and what is malformed is named with file and line."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from parse_dg.errors import InputError
from parse_dg.tables.domainbed import domainbed_tables, read_sweep
from parse_dg.tables.selection import SELECTIONS
from tests.algorithms import golden
from tests.parts import refusal

EXPECTED = {
    "training-domain": ["98.0 ± 0.2", "64.2 ± 0.8", "74.1 ± 0.4", "77.1 ± 0.2", "78.3"],
    "leave-one-domain-out": ["96.9 ± 1.0", "64.4 ± 0.9", "70.5 ± 0.5", "76.7 ± 0.1", "77.1"],
    "oracle": ["96.9 ± 1.0", "65.9 ± 0.5", "71.6 ± 1.3", "76.9 ± 0.3", "77.8"],
}
"""What DomainBed's own collector prints of its own sweep."""

Line = dict[str, Any]


def write(path: Path, lines: list[Line]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def line(test_envs: list[int] | None = None, step: int = 0, **other: Any) -> Line:
    """One check of a run on three environments of a data set that DomainBed does not know."""
    args = {
        "dataset": "Mine",
        "algorithm": "ERM",
        "test_envs": test_envs or [0],
        "trial_seed": 0,
        "hparams_seed": 0,
    }
    accuracies = {f"env{number}_{part}_acc": 0.5 for number in range(3) for part in ("in", "out")}
    changed = {key: other.pop(key) for key in list(other) if key in args}
    return {"args": args | changed, "hparams": {"lr": 5e-05}, "step": step, "loss": 1.0, **accuracies, **other}


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_golden(tmp_path_factory.mktemp("sweep"))


def write_golden(folder: Path) -> Path:
    """The golden sweep as DomainBed leaves it, a folder for every run."""
    for text in golden.find("domainbed_sweep.jsonl").read_text().splitlines():
        run = json.loads(text)
        lines = [{"args": run["args"], "hparams": run["hparams"], **check} for check in run["checks"]]
        write(folder / run["run"] / "results.jsonl", lines)
        (folder / run["run"] / "done").write_text("done")
    return folder


@pytest.mark.golden
@pytest.mark.parametrize("name", SELECTIONS)
def test_the_sweep_of_domainbed_gives_its_own_table(sweep: Path, name: str) -> None:
    records = read_sweep(sweep)
    assert len(records) == 200
    (table,) = domainbed_tables(records, name).text()
    assert table.title == "VLCS"
    assert table.header == ("algorithm", "C", "L", "S", "V", "Avg")
    ((algorithm, *cells, average),) = table.rows
    assert algorithm == "ERM"
    assert [*cells, average.split(" ± ")[0]] == EXPECTED[name]
    assert "over 2 trials" in table.notes[0]
    assert "ERM: in each cell the best of 2 configurations, which differ in " in table.notes[1]
    assert len(table.notes) == 3  # nothing is missing


def test_runs_are_read_whether_finished_or_not_in_a_folder_or_a_file(tmp_path: Path) -> None:
    write(tmp_path / "a" / "results.jsonl", [line()])
    write(tmp_path / "b" / "results.jsonl", [line(trial_seed=1)])
    (tmp_path / "b" / "done").write_text("done")
    (tmp_path / "launched").mkdir()
    write(tmp_path / "c.jsonl", [line(trial_seed=2)])
    assert {record.trial for record in read_sweep(tmp_path)} == {0, 1, 2}


def test_a_line_becomes_a_record(tmp_path: Path) -> None:
    accuracies = {"env0_in_acc": 0, "env1_in_acc": 0.25, "env2_in_acc": 1, "env0_out_acc": 0.75}
    written = line([2, 0], step=300, trial_seed=4, hparams_seed=12, env0_uda_acc=0.1, **accuracies)
    write(tmp_path / "run.jsonl", [written])
    (record,) = read_sweep(tmp_path)
    assert (record.data_set, record.algorithm, record.trial, record.step) == ("Mine", "ERM", 4, 300)
    assert record.domains == ("env0", "env1", "env2")
    assert record.held_out == ("env0", "env2")
    assert record.hyperparameters == "12"
    assert record.settings == {"lr": 5e-05}
    assert record.in_part == {"env0": 0.0, "env1": 0.25, "env2": 1.0}
    assert record.out_part == {"env0": 0.75, "env1": 0.5, "env2": 0.5}
    assert record.share == 0.8


@pytest.mark.parametrize(
    ("args", "share"),
    [({"holdout_fraction": 0.5}, 0.5), ({"holdout_fraction": 0.2, "uda_holdout_fraction": 0.5}, 0.4), ({}, 0.8)],
)
def test_the_share_of_the_target_that_is_scored(args: Mapping[str, float], share: float, tmp_path: Path) -> None:
    written = line()
    written["args"] |= args
    write(tmp_path / "run.jsonl", [written])
    assert read_sweep(tmp_path)[0].share == pytest.approx(share)


def args(**changes: Any) -> Callable[[Line], None]:
    """Changes fields of args; None takes a field away."""
    return lambda written: top(**changes)(written["args"])


def top(**changes: Any) -> Callable[[Line], None]:
    """Changes fields of the line itself; None takes a field away."""

    def change(written: Line) -> None:
        for key, value in changes.items():
            written[key] = value
            if value is None:
                del written[key]

    return change


NUMBERS = "args.test_envs must list numbers from 0 to 2, some but not all, each once, found"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (top(args=None), "args is missing"),
        (args(dataset=3), "args.dataset must be text, found 3"),
        (args(dataset="PACS"), "PACS has 4 environments (A, C, P, S), found accuracies of 3"),
        (args(algorithm="\x1b[31m"), r"args.algorithm must be a name, found '\x1b[31m'"),
        (args(trial_seed=0.5), "args.trial_seed must be a whole number, found 0.5"),
        (args(test_envs=None), "args.test_envs is missing"),
        (args(test_envs=[0, 1, 2]), f"{NUMBERS} [0, 1, 2]"),
        (args(test_envs=[True]), "args.test_envs must be a whole number, found True"),
        (args(holdout_fraction=1), "args.holdout_fraction must be at least 0 and below 1, found 1.0"),
        (top(hparams="{}"), "hparams must be an object, found '{}'"),
        (top(step=-300), "step must be 0 or more, found -300"),
        (top(env1_in_acc=None), "env1_in_acc is missing: expected a number"),
        (top(env9999_in_acc=0.5), "env3_in_acc is missing, though there is env9999: expected a number"),
        (top(env0_in_acc=float("nan")), "env0_in_acc must be an accuracy from 0 to 1, found nan"),
        (top(env1_out_acc=98.3), "env1_out_acc must be an accuracy from 0 to 1, found 98.3"),
        (args(algorithm=["x" * 100]), "args.algorithm must be text, found ['xxxxx"),
    ],
)
def test_what_is_malformed_is_named_with_its_file_and_line(
    change: Callable[[Line], None], message: str, tmp_path: Path
) -> None:
    broken = line(step=300)
    change(broken)
    path = tmp_path / "run" / "results.jsonl"
    write(path, [line(), broken])
    said = refusal(read_sweep, tmp_path)
    assert said.startswith(f"{path}, line 2: {message}")
    assert len(said) < len(str(path)) + 200


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{"args": {', "it is not valid JSON: "),
        (b"\xff\xfe{}", "it is not valid JSON: "),
        (b"[" * 100_000, "it is not valid JSON: "),
        (b'{"step": ' + b"1" * 5000 + b"}", "it is not valid JSON: "),
        (b"[]", "the content must be an object, found []"),
    ],
    ids=["cut", "bytes", "deep", "long", "list"],
)
def test_a_line_that_is_no_record_is_named_with_its_file(text: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(json.dumps(line()).encode() + b"\n\n" + text)
    assert refusal(read_sweep, tmp_path).startswith(f"{path}, line 3: {message}")


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    assert "must be a folder of DomainBed's results, found nothing there" in refusal(read_sweep, tmp_path / "none")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "out.txt").write_text("hello")
    assert "no results of DomainBed: expected RUN/results.jsonl or RUN.jsonl in it" in refusal(read_sweep, tmp_path)
    with pytest.raises(InputError, match="must be a folder of DomainBed's results, found a file"):
        read_sweep(tmp_path / "run" / "out.txt")
    (tmp_path / "run" / "results.jsonl").write_text("\n")
    assert "every .jsonl file in it is empty" in refusal(read_sweep, tmp_path)
