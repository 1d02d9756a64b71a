"""Runs under every protocol: what they write down, what they look at, and what they choose by."""

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from parse_dg.config import change
from parse_dg.data.benchmarks import open_benchmark
from parse_dg.data.splits import leave_one_out
from parse_dg.errors import InputError
from parse_dg.runs.afterwards.compact import compact_run
from parse_dg.runs.afterwards.opened import evaluate_run, open_run
from parse_dg.runs.config import RunConfig
from parse_dg.runs.folder import read_config, require_same_images
from parse_dg.runs.protocols import PROTOCOLS, apply_protocol
from parse_dg.runs.recipes import build_config
from parse_dg.runs.run import execute
from parse_dg.training.protocol import protocol_sentences
from parse_dg.training.trainer import Trainer
from tests.conftest import TINY
from tests.parts import refusal
from tests.runs.helpers import REPEATED, checks, noisy_target, quiet, read, repeated

DOMAINS = ("photo", "cartoon", "sketch", "paint")
SMALL = TINY | {"data.blueprints.images_per_class": 3, "training.steps": 3}
"""24 images a domain: 4 are held out, 20 are not."""

Made = Callable[[str], Path]


def under(protocol: str, algorithm: str = "erm", **settings: Any) -> RunConfig:
    config = apply_protocol(
        protocol, change(build_config("blueprints", algorithm), {"seed": settings.pop("seed", 0)})
    )
    return change(config, SMALL | {name.replace("__", "."): value for name, value in settings.items()})


def beside(config: RunConfig, domain: str = "cartoon") -> RunConfig:
    """With a second domain that is not trained on, to choose by."""
    return replace(
        config,
        split=replace(config.split, validation_domain=domain),
        protocol=replace(config.protocol, selection="leave-one-domain-out"),
    )


ORACLE = {"split__target_images": "in", "protocol__selection": "oracle"}
RUNS: dict[str, Callable[[], RunConfig]] = {
    **{name: lambda name=name: under(name) for name in PROTOCOLS},  # type: ignore[misc]
    "oracle": lambda: under("parse", **ORACLE),
    "beside": lambda: beside(under("domainbed")),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """made("swad"): the folder of a finished run, made on first use. Read it, do not change it."""
    found: dict[str, Path] = {}

    def make(name: str) -> Path:
        if name not in found:
            found[name] = tmp_path_factory.mktemp("runs") / name
            execute(RUNS[name](), found[name], quiet)
        return found[name]

    return make


# what is written down


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_a_repeated_run_is_the_same_to_the_byte(name: str, made: Made, tmp_path: Path) -> None:
    torch.manual_seed(123)
    np.random.seed(123)
    execute(RUNS[name](), tmp_path / "again", quiet)
    assert set(repeated(made(name))) == set(REPEATED)
    assert repeated(tmp_path / "again") == repeated(made(name))


@pytest.mark.parametrize("name", RUNS)
def test_the_rules_are_in_the_run(name: str, made: Made) -> None:
    config, result = RUNS[name](), read(made(name) / "result.json")
    written = read(made(name) / "config.json")
    assert {"split", "sampling", "protocol"} <= set(written)
    assert read_config(made(name)) == config
    rules = protocol_sentences(config.protocol, config.split)
    assert result["protocol"] == {"name": config.protocol.name, "rules": rules}
    assert result["leakage"]["images"] == 0
    assert "leakage: 0 of the" in result["leakage"]["words"]
    assert (result["seed"], result["trial"]) == (0, 0)
    assert result["domains"] == list(DOMAINS)


PARTS = {f"{domain}/{part}" for domain in DOMAINS for part in ("in", "out")}
SCORED: dict[str, set[str]] = {
    **{"parse": set(), "oracle": set(), "swad": {"sketch/in", "sketch/out"}},
    **{"domainbed": PARTS, "beside": PARTS - {"cartoon/out"}},
}
"""What checks look at, besides validation images."""


@pytest.mark.parametrize("name", SCORED)
def test_every_number_says_which_images_it_is_of(name: str, made: Made) -> None:
    part, images = ("all images", 24) if name == "parse" else ("80% of the images", 20)
    target = read(made(name) / "result.json")["target"]
    assert (target["domain"], target["part"], target["images"]) == ("sketch", part, images)
    assert target["share"] == images / 24
    for check in checks(made(name)):
        assert set(check.get("scores", {})) == SCORED[name]
        for scored, value in check.get("scores", {}).items():
            assert value["images"] == (20 if scored.endswith("/in") else 4)
    rows = evaluate_run(open_run(made(name), device="cpu"))
    held_out = "held-out images, not augmented" if name in ("domainbed", "beside") else "held-out images"
    others = [("sketch", "target: the others, never seen in training", 4)] if name != "parse" else []
    whole = [("cartoon", "source: 80% of the images, none trained on", 20)] if name == "beside" else []
    sources = ("photo", "paint") if whole else ("photo", "cartoon", "paint")
    assert [(row.domain, row.images, row.accuracy.images) for row in rows] == [
        ("sketch", f"target: {part}, never seen in training", images),
        *others,
        *whole,
        *((source, f"source: {held_out}", 4) for source in sources),
    ]
    assert rows[0].accuracy.correct == target["correct"]


@pytest.mark.parametrize("name", ["domainbed", "swad"])
def test_the_result_is_the_score_of_the_check_it_chose(name: str, made: Made) -> None:
    result = read(made(name) / "result.json")
    (chosen,) = (check for check in checks(made(name)) if check["step"] == result["selected_step"])
    counted = ("correct", "images", "accuracy")
    assert [result["target"][key] for key in counted] == [chosen["scores"]["sketch/in"][key] for key in counted]


# the target is looked at, and not used


def test_what_is_scored_has_no_part_in_what_is_chosen(made: Made, tmp_path: Path) -> None:
    execute(under("parse", protocol__checks="everything"), tmp_path / "run", quiet)
    one, other = repeated(tmp_path / "run"), repeated(made("parse"))
    assert one["model.safetensors"] == other["model.safetensors"]
    assert one["split.json"] == other["split.json"]
    for check, plain in zip(checks(tmp_path / "run"), checks(made("parse")), strict=True):
        assert check.pop("scores")
        assert check == plain


@pytest.mark.parametrize("name", ["domainbed", "beside"])
def test_another_target_gives_the_same_weights(name: str, made: Made, tmp_path: Path) -> None:
    config = RUNS[name]()
    execute(config, tmp_path / "run", quiet, noisy_target(open_benchmark(config.data)))
    assert repeated(tmp_path / "run")["model.safetensors"] == repeated(made(name))["model.safetensors"]
    for check, plain in zip(checks(tmp_path / "run"), checks(made(name)), strict=True):
        assert check["validation"] == plain["validation"]
        if "scores" in check:
            assert check["scores"]["sketch/in"] != plain["scores"]["sketch/in"]


# augmented validation


def test_augmented_validation_does_not_disturb_training(made: Made, tmp_path: Path) -> None:
    """The same weights to the byte where the same step is chosen: with the oracle it always is the last."""
    states = []
    for augmented in (False, True):
        settings = {**ORACLE, "protocol__augment_validation": augmented, "protocol__checks": "everything"}
        folder = tmp_path / str(augmented)
        execute(under("parse", **settings), folder, quiet)
        states.append((repeated(folder)["model.safetensors"], checks(folder)))
    (plain, one), (augmented_too, other) = states
    assert plain == augmented_too == repeated(made("oracle"))["model.safetensors"]
    for check, changed in zip(one, other, strict=True):
        assert check["training_loss"] == changed["training_loss"]
        for domain in ("photo", "cartoon", "paint"):
            assert check["validation"][domain]["loss"] != changed["validation"][domain]["loss"]
            assert check["scores"][f"{domain}/in"]["loss"] != changed["scores"][f"{domain}/in"]["loss"]
        assert check["scores"]["sketch/in"] == changed["scores"]["sketch/in"]
        assert check["scores"]["sketch/out"] == changed["scores"]["sketch/out"]


# what is chosen by


def test_swads_seed_changes_the_split_alone(made: Made, tmp_path: Path) -> None:
    """With no step of any size the weights are the start's: the same for every seed."""
    still = {"optimizer__backbone_rate": 0, "optimizer__head_rate": 0, "training__steps": 1}
    states = []
    for seed in (0, 1):
        folder = tmp_path / str(seed)
        result = execute(under("swad", seed=seed, **still), folder, quiet)
        assert (result.seed, result.trial) == (0, seed)
        states.append(load_file(folder / "model.safetensors"))
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())
    assert read(tmp_path / "0" / "split.json")["validation"] != read(tmp_path / "1" / "split.json")["validation"]


def test_the_oracle_keeps_the_last_step_and_scores_the_targets_20_per_cent(made: Made) -> None:
    result = read(made("oracle") / "result.json")
    assert result["selected_step"] == 3
    assert result["selection"].startswith("oracle: the last step")
    assert result["oracle"]["images"] == 4
    assert "oracle" not in read(made("swad") / "result.json")
    config = read_config(made("oracle"))
    split = leave_one_out(open_benchmark(config.data), "sketch", 0, config.split)
    assert split.target_held_out is not None
    rows = evaluate_run(open_run(made("oracle"), device="cpu"))
    (row,) = (row for row in rows if row.images.startswith("target: the others"))
    assert (row.accuracy.correct, row.accuracy.images) == (result["oracle"]["correct"], 4)


def test_leave_one_domain_out_chooses_by_the_validation_domain_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Trainer] = []
    plain = Trainer.fit

    def fit(self: Trainer, *arguments: Any) -> Any:
        given.append(self)
        return plain(self, *arguments)

    monkeypatch.setattr(Trainer, "fit", fit)
    result = execute(beside(under("parse"), "paint"), tmp_path / "run", quiet)
    (trainer,) = given
    assert [subset.domain.name for subset in trainer.validation] == ["paint"]
    assert set(trainer.sources) == {"photo", "cartoon"}
    assert list(result.validation) == ["paint"]
    assert result.validation["paint"].images == 20
    assert result.validation_mean_accuracy == result.validation["paint"].accuracy
    assert result.selection.startswith("leave-one-domain-out")
    lines = checks(tmp_path / "run")
    best = max(lines, key=lambda line: (line["validation_mean_accuracy"], -line["validation"]["paint"]["loss"]))
    assert result.selected_step == best["step"]


# asked afterwards


@pytest.mark.parametrize(
    ("name", "domain", "images"),
    [
        ("beside", "cartoon", "source: all images, never seen in training"),
        ("beside", "photo", "source: all images, most of them trained on"),
        ("domainbed", "sketch", "target: all images, never seen in training"),
    ],
)
def test_evaluate_of_a_whole_domain_says_how_much_was_trained_on(
    name: str, domain: str, images: str, made: Made
) -> None:
    (row,) = evaluate_run(open_run(made(name), device="cpu"), domain)
    assert (row.domain, row.images, row.accuracy.images) == (domain, images, 24)


# other images than then


def test_a_run_is_not_evaluated_or_compacted_on_other_images(parse_run: Path) -> None:
    benchmark = open_benchmark(read_config(parse_run).data)
    run = open_run(parse_run, device="cpu", benchmark=replace(benchmark, fingerprint="0" * 64))
    before = sorted(path.name for path in parse_run.iterdir())
    for message in (refusal(evaluate_run, run), refusal(compact_run, run, None, 0.0)):
        assert message.startswith(f"{parse_run} is a run on other images: blueprints had the fingerprint ")
        assert benchmark.fingerprint[:16] in message
        assert "0" * 16 in message
    assert sorted(path.name for path in parse_run.iterdir()) == before


@pytest.mark.parametrize("content", ["[]", '{"benchmark": 3}'])
def test_a_damaged_split_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "split.json").write_text(content)
    with pytest.raises(InputError, match=r"split\.json is not what a run writes: "):
        require_same_images(tmp_path, open_benchmark(under("parse").data))


# a result that is none


@pytest.mark.parametrize("content", ["3", '{"target": {}}'])
def test_a_finished_run_with_a_result_that_is_none(content: str, made: Made, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(made("parse"), tmp_path / "run"))
    (folder / "result.json").write_text(content)
    assert re.search(r"result\.json is not what a run writes", refusal(execute, under("parse"), folder, quiet))
