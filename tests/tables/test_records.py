"""Runs as records: read right, told apart by what was tuned alone, and refused where they do not belong together.

The runs here are written by hand, so that every accuracy in them is known.
"""

import json
import logging
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parse_dg.config import change, to_dict
from parse_dg.errors import InputError
from parse_dg.jsonable import to_plain
from parse_dg.runs.config import RunConfig
from parse_dg.runs.metrics import CheckLine
from parse_dg.runs.protocols import apply_protocol
from parse_dg.runs.recipes import build_config
from parse_dg.runs.result import TargetAccuracy
from parse_dg.tables.records import find_runs, read_run
from parse_dg.tables.selection import Case, select
from parse_dg.tables.selection_tables import selection_tables
from parse_dg.training.accuracy import Accuracy
from parse_dg.training.check import Check
from tests.parts import refusal
from tests.runs.helpers import accuracy_of, check_of, read_runs, result_of

DOMAINS = ("photo", "cartoon", "sketch", "paint")


def configured(algorithm: str = "erm", protocol: str = "domainbed", **settings: Any) -> RunConfig:
    """Like `tiny`; `validation_domain` brings its selection with it."""
    unseen = settings.pop("validation_domain", None)
    config = apply_protocol(
        protocol, change(build_config("blueprints", algorithm), {"seed": settings.pop("seed", 0)})
    )
    config = change(config, {name.replace("__", "."): value for name, value in settings.items()})
    if unseen is None:
        return config
    rules = replace(config.protocol, selection="leave-one-domain-out")
    return replace(config, split=replace(config.split, validation_domain=unseen), protocol=rules)


def write(folder: Path, config: RunConfig, checks: Sequence[CheckLine], **changes: Any) -> Path:
    """A finished run; `changes` replace fields of its result."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(to_dict(config)))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line.to_dict()) + "\n" for line in checks))
    target = TargetAccuracy(domain=config.data.target, part="some", share=0.42345, **vars(accuracy_of(0.5)))
    found: dict[str, Any] = {
        "target": target,
        "trial": config.trial,
        "validation": checks[-1].validation if checks else {},
        "selected_step": checks[-1].step if checks else 1,
    }
    result = result_of(config.algorithm.name, config.data.target, config.seed, **found)
    (folder / "result.json").write_text(json.dumps(result.to_dict() | to_plain(changes)))
    return folder


def sources(config: RunConfig) -> list[str]:
    return [name for name in DOMAINS if name not in (config.data.target, config.split.validation_domain)]


def scored(config: RunConfig, step: int = 1, target: float = 0.5, source: float = 0.5, out: float = 0.5) -> Any:
    """A check that scored the target's two parts: `source` is of every validation domain."""
    name, unseen = config.data.target, config.split.validation_domain
    validation = {unseen: source} if unseen else dict.fromkeys(sources(config), source)
    return check_of(step, validation, {f"{name}/in": target, f"{name}/out": out})


# a run becomes records


def test_a_run_that_looked_at_its_target_once_is_one_record(tmp_path: Path) -> None:
    config = configured(protocol="parse")
    lines = [check_of(step, {"photo": step / 200, "cartoon": 0.2, "paint": 0.3}) for step in (80, 160)]
    write(tmp_path / "run", config, lines, selected_step=80, validation=lines[0].validation)
    (record,) = read_runs([tmp_path / "run"], "training-domain")
    assert (record.data_set, record.algorithm, record.trial, record.step) == ("blueprints", "erm", 0, 80)
    assert record.domains == DOMAINS
    assert record.held_out == ("sketch",)
    assert record.in_part == {"sketch": 0.5}
    assert record.out_part == {"photo": 0.4, "cartoon": 0.2, "paint": 0.3}
    assert record.share == 1.0


def test_every_check_that_scored_the_target_is_a_record(tmp_path: Path) -> None:
    config = configured(seed=4, data__target="paint")
    parts = {
        f"{name}/{part}": n / 10 for n, (name, part) in enumerate((d, p) for d in DOMAINS for p in ("in", "out"))
    }
    lines = [check_of(step, {name: parts[f"{name}/out"] for name in sources(config)}, parts) for step in (1, 101)]
    write(tmp_path / "run", config, lines)
    records = read_runs([tmp_path / "run"], "oracle")
    assert [record.step for record in records] == [1, 101]
    for record in records:
        assert record.held_out == ("paint",)
        assert record.trial == 4
        assert record.in_part == {"photo": 0.0, "cartoon": 0.2, "sketch": 0.4, "paint": 0.6}
        assert record.out_part == {"photo": 0.1, "cartoon": 0.3, "sketch": 0.5, "paint": 0.7}
        assert record.share == 0.8


def test_a_table_chooses_the_check_that_the_run_itself_keeps(tmp_path: Path) -> None:
    """Few images and rounded losses: many checks are alike in one or both."""
    random = np.random.default_rng(0)
    config = configured()
    for number in range(12):
        lines, kept = [], None
        for step in range(1, 9):
            right, losses = random.integers(2, 4, 3), random.integers(1, 4, 3) / 4
            found = {
                name: Accuracy(int(correct), 4, float(loss))
                for name, correct, loss in zip(sources(config), right, losses, strict=True)
            }
            check = Check(step, {}, found, {})
            kept = check if check.better_than(kept) else kept
            lines.append(replace(scored(config, step), validation=found))
        records = read_runs([write(tmp_path / str(number), config, lines)], "training-domain")
        (chosen,) = select(records, "training-domain").values()
        assert kept is not None
        assert (chosen.step, chosen.score) == (kept.step, pytest.approx(kept.mean_accuracy))


def test_of_a_run_with_two_domains_held_out_the_second_is_in_part(tmp_path: Path) -> None:
    config = configured(validation_domain="photo")
    scores = {"sketch/in": 0.1, "sketch/out": 0.2, "cartoon/in": 0.3, "cartoon/out": 0.4, "photo/in": 0.9}
    (record,) = read_runs(
        [write(tmp_path / "run", config, [check_of(1, {"photo": 0.9}, scores)])], "training-domain"
    )
    assert record.held_out == ("sketch", "photo")
    assert record.in_part == {"sketch": 0.1, "cartoon": 0.3, "photo": 0.9}
    assert record.out_part == {"sketch": 0.2, "cartoon": 0.4}


@pytest.mark.parametrize(
    ("protocol", "settings", "share"),
    [
        ("parse", {}, 1.0),
        ("parse", {"split__holdout": 0.3}, 1.0),
        ("domainbed", {}, 0.8),
        ("swad", {"split__holdout": 0.3}, 0.7),
        ("parse", {"split__scheme": "gvrt-split"}, 0.42),
    ],
)
def test_the_share_of_the_target_that_is_scored(
    protocol: str, settings: dict[str, Any], share: float, tmp_path: Path
) -> None:
    config = configured(protocol=protocol, **settings)
    (run,) = read_run(write(tmp_path / "run", config, [scored(config)]))
    assert run.records[0].share == pytest.approx(share)


def test_the_trial_is_the_seed_of_the_split(tmp_path: Path) -> None:
    config = configured(protocol="swad", seed=2)
    assert config.seed == 0
    (record,) = read_runs([write(tmp_path / "run", config, [scored(config)])], "oracle")
    assert record.trial == 2


# where runs are


def test_runs_are_found_below_a_folder_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    config = configured()
    for name in ("b/seed10", "b/seed2", "a/seed0"):
        write(tmp_path / name, config, [scored(config)])
    (tmp_path / "a" / "seed0" / "result.json").unlink()  # not finished: to be named
    (tmp_path / "b" / "seed2" / "inside").mkdir()
    (tmp_path / "b" / "seed2" / "inside" / "config.json").write_text("{}")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.json").write_text("not of a run")
    expected = [tmp_path / name for name in ("a/seed0", "b/seed2", "b/seed10")]
    assert list(find_runs([tmp_path])) == expected
    assert list(find_runs([tmp_path / "b" / "seed2", tmp_path / "a"])) == [expected[1], expected[0]]


@pytest.mark.parametrize("name", ["nowhere", "empty", "file"])
def test_a_folder_without_runs_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=f"{name} is not a run: expected a folder with config.json, or one w"):
        find_runs([tmp_path / name])


# what tells hyper-parameters apart


def draws(tmp_path: Path, *configs: RunConfig) -> list[str]:
    """The hyper-parameters of runs that are read one by one."""
    found = []
    for n, config in enumerate(configs):
        (run,) = read_run(write(tmp_path / str(n), config, [scored(config)]))
        found.append(run.records[0].hyperparameters)
    return found


def test_repetitions_and_machines_are_not_told_apart(tmp_path: Path) -> None:
    settings: list[dict[str, Any]] = [
        *({}, {"seed": 5}, {"split__seed": 3}, {"data__target": "photo"}, {"validation_domain": "photo"}),
        *({"training__device": "cpu"}, {"training__cuda_graph": False}, {"data__store": "never"}),
        *({"data__benchmark": "/elsewhere/blueprints"}, {"protocol__checks": "target"}),
    ]
    assert len(set(draws(tmp_path, *(configured(**each) for each in settings)))) == 1


@pytest.mark.parametrize(
    "settings", [{"optimizer__head_rate": 0.01}, {"algorithm__dropout": 0.5}, {"training__steps": 9}]
)
def test_what_could_have_been_tuned_is_told_apart(settings: dict[str, Any], tmp_path: Path) -> None:
    one, other = draws(tmp_path, configured(), configured(**settings))
    assert one != other


# what is chosen


def test_the_better_rate_is_chosen_by_validation_not_by_the_target(tmp_path: Path) -> None:
    folders = []
    for rate, source, target in ((0.25, 0.6, 0.3), (0.5, 0.5, 0.9)):
        config = configured(optimizer__head_rate=rate)
        folders.append(write(tmp_path / str(rate), config, [scored(config, 1, target, source, out=target)]))
    case = Case("blueprints", "erm", "sketch", 0)
    by_validation = select(read_runs(folders, "training-domain"), "training-domain")[case]
    assert (by_validation.accuracy, by_validation.settings) == (0.3, {"optimizer.head_rate": 0.25})
    by_target = select(read_runs(folders, "oracle"), "oracle")[case]
    assert (by_target.accuracy, by_target.settings) == (0.9, {"optimizer.head_rate": 0.5})


def test_a_table_says_out_of_how_many_configurations_its_cells_are_the_best(tmp_path: Path) -> None:
    rates = [configured(optimizer__head_rate=rate) for rate in (0.25, 0.5)]
    configs = [*rates, configured("dann", data__target="photo")]
    folders = [write(tmp_path / str(n), config, [scored(config)]) for n, config in enumerate(configs)]
    (text,) = selection_tables(read_runs(folders, "training-domain"), "training-domain").text()
    assert [note for note in text.notes if "in each cell" in note] == [
        "erm: in each cell the best of 2 configurations, which differ in optimizer.head_rate."
    ]


def test_leave_one_domain_out_from_runs_with_pairs_held_out(tmp_path: Path) -> None:
    """Every pair once; the other domain of each pair is scored as the target or as the second one."""
    alone = configured()
    lines = [scored(alone, step, target=0.1 * step, source=0.5) for step in (1, 2, 3)]
    folders = [write(tmp_path / "alone", alone, lines)]
    worth = {"photo": (0.1, 0.5, 0.2), "cartoon": (0.3, 0.4, 0.2), "paint": (0.9, 0.3, 0.2)}
    for other, values in worth.items():
        first = other != "photo"  # as if photo were the target, and sketch the second
        target, second = ("sketch", other) if first else (other, "sketch")
        config = configured(data__target=target, validation_domain=second)
        parts = [(0.0, value) if first else (value, 0.0) for value in values]
        lines = [scored(config, step, *part) for step, part in enumerate(parts, 1)]
        folders.append(write(tmp_path / other, config, lines))
    means = [sum(values[n] for values in worth.values()) / 3 for n in range(3)]
    name = "leave-one-domain-out"
    (case,) = select(read_runs(folders, name), name).items()
    assert case[0] == Case("blueprints", "erm", "sketch", 0)
    assert case[1].score == pytest.approx(max(means))
    assert case[1].step == 1 + means.index(max(means)) == 1
    assert case[1].accuracy == pytest.approx(0.1)


# runs that are not finished, or damaged


def test_unfinished_runs_are_left_out_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = configured()
    folders = [write(tmp_path / name, config, [scored(config)]) for name in ("done", "broken_off")]
    (tmp_path / "broken_off" / "result.json").unlink()
    with caplog.at_level(logging.WARNING):
        assert len(read_runs(folders, "oracle")) == 1
    assert caplog.messages == [f"{tmp_path / 'broken_off'} is not finished: left out"]
    with pytest.raises(
        InputError, match="none of the 1 runs is finished with a target: nothing to put into a table"
    ):
        read_runs(folders[1:], "oracle")


Damage = Callable[[Path], object]


def lines(*texts: str) -> Damage:
    return lambda folder: (folder / "metrics.jsonl").write_text("".join(text + "\n" for text in texts))


def result(*without: str, **changes: Any) -> Damage:
    def damage(folder: Path) -> None:
        data = json.loads((folder / "result.json").read_text()) | changes
        kept = {name: value for name, value in data.items() if name not in without}
        (folder / "result.json").write_text(json.dumps(kept))

    return damage


GOOD = json.dumps(check_of(1, {"photo": 0.25}, {"sketch/in": 0.5}).to_dict())
DAMAGED: dict[str, Damage] = {
    "no metrics": lambda folder: (folder / "metrics.jsonl").unlink(),
    "a line cut short": lines(GOOD, GOOD[:30]),
    "a line that is no check": lines("3"),
    "a deep line": lines("[" * 100_000),
    "validation without images": lines(GOOD.replace('"images": 1000, ', "")),
    "an accuracy that is none": lines(GOOD.replace('"accuracy": 0.5', '"accuracy": NaN')),
    "more right than there are": lines(GOOD.replace('"correct": 500', '"correct": 1500')),
    "a domain that is none": lines(GOOD.replace("photo", "x")),
    "a result cut short": lambda folder: (folder / "result.json").write_text('{"algorithm": '),
    "no target": result("target"),
    "no fingerprint": result(benchmark={"name": "blueprints"}),
    "other domains": result(domains=["photo", "art"]),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_run_is_refused_in_one_line(case: str, tmp_path: Path) -> None:
    config = configured()
    good = write(tmp_path / "good", config, [scored(config)])
    bad = write(tmp_path / "bad", configured(seed=1), [scored(config)])
    DAMAGED[case](bad)
    assert str(bad) in refusal(read_runs, [good, bad], "training-domain")


# what does not belong into one table


@pytest.mark.parametrize(
    ("protocol", "name", "one", "other"),
    [
        ("parse", "split.scheme", "holdout20", "gvrt-split"),
        ("parse", "split.target_images", "all", "in"),
        ("parse", "split.holdout", 0.2, 0.5),
        ("domainbed", "protocol.augment_validation", True, False),
    ],
)
def test_figures_of_two_kinds_are_refused(protocol: str, name: str, one: Any, other: Any, tmp_path: Path) -> None:
    both = (configured(protocol=protocol), configured(protocol=protocol, data__target="photo", **{name: other}))
    first, second = (write(tmp_path / str(n), config, [scored(config)]) for n, config in enumerate(both))
    expected = f"{first} has {name}={one}, {second} {name}={other}: their figures do not belong into one table"
    assert refusal(read_runs, [first, second], "training-domain") == expected


def test_two_versions_of_a_data_set_are_refused(tmp_path: Path) -> None:
    one, other = configured(), configured(seed=1)
    first = write(tmp_path / "a", one, [scored(one)])
    newer = {"name": "blueprints", "fingerprint": "0" * 64}
    second = write(tmp_path / "b", other, [scored(other)], benchmark=newer)
    expected = f"{first} and {second} are of two versions of blueprints: their images differ"
    assert refusal(read_runs, [first, second], "training-domain") == expected


@pytest.mark.parametrize("again", ["twice", "copied", "another seed, the same split"])
def test_a_run_counts_once(again: str, tmp_path: Path) -> None:
    """Two seeds on one split are one trial to a table: it would pick the better and call it a trial."""
    config = configured(split__seed=3)
    first = write(tmp_path / "a", config, [scored(config)])
    second = first
    if again == "copied":
        second = Path(shutil.copytree(first, tmp_path / "b"))
    elif again != "twice":
        second = write(tmp_path / "b", configured(split__seed=3, seed=1), [scored(config)])
    with pytest.raises(InputError, match=f"{first} and {second} are the same to a table"):
        read_runs([first, second], "training-domain")


# what a selection needs


@pytest.mark.parametrize(
    ("selection", "settings", "message"),
    [
        ("oracle", {}, "at the step that training-domain chose: to choose by oracle its checks must score it too"),
        ("leave-one-domain-out", {}, "to choose by leave-one-domain-out its checks must score it too"),
        (
            "training-domain",
            {"split__target_images": "in", "protocol__selection": "oracle"},
            "at the step that oracle chose: to choose by training-domain",
        ),
    ],
)
def test_a_run_that_chose_one_way_is_not_shown_as_another(
    selection: str, settings: dict[str, Any], message: str, tmp_path: Path
) -> None:
    config = configured(protocol="parse", **settings)
    folder = write(
        tmp_path / "run", config, [check_of(1, dict.fromkeys(sources(config), 0.5))], oracle=accuracy_of(1)
    )
    said = refusal(read_runs, [folder], selection)
    assert said.startswith(f"{folder} scored its target once, ")
    assert message in said


def test_an_oracle_needs_images_of_the_target_that_are_held_out(tmp_path: Path) -> None:
    config = configured(protocol="parse", protocol__checks="target")
    lines = [check_of(1, dict.fromkeys(sources(config), 0.5), {"sketch/all": 0.5})]
    folder = write(tmp_path / "run", config, lines)
    with pytest.raises(InputError, match=r"did not hold out images of its target: .*split\.target_images=in"):
        read_runs([folder], "oracle")
