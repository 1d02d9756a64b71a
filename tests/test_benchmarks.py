"""The speed benchmark: its measuring tools on known cases, and all of it once at tiny sizes."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import benchmarks.__main__ as command
from benchmarks import domainbed, step
from benchmarks.report import Skipped
from benchmarks.setting import QUICK, Setting, Sizes, make_trained, trained_lambda
from benchmarks.structural_layer import build_layer, descriptors
from parse_dg.algorithms import BuildContext
from parse_dg.algorithms.parse import Parse
from parse_dg.model.sparsemax import sparsemax

CPU = torch.device("cpu")
TINY = Setting(device=CPU, sizes=QUICK)


@pytest.mark.parametrize(("classes", "union"), Sizes().union.items())
def test_trained_lambda_is_as_sparse_as_the_paper_says(classes: int, union: int) -> None:
    weight = trained_lambda(classes, 3000, union, 42, torch.Generator().manual_seed(0))
    support = weight > 0
    assert support.any(0).sum() == union
    assert set(support.sum(1).tolist()) == ({43} if classes == 7 else {42})  # 7 × 42 is one short of 295
    assert weight[~support].max() <= -0.02
    torch.testing.assert_close(sparsemax(weight), weight.clamp_min(0))
    assert torch.equal(sparsemax(weight) > 0, support)


def test_the_support_stays_while_steps_are_timed() -> None:
    """At ordinary rates Λ would be another after a few repeats."""
    backbone = step.FixedFeatures(torch.rand(QUICK.images, 8, 3, 3))
    parse = step.parse_config(QUICK.primitives).build(BuildContext(backbone, 4))
    assert isinstance(parse, Parse)
    make_trained(parse.network.structure, QUICK)
    weight = parse.network.structure.composition.weight
    before = weight.detach().clone()
    update = step.update(TINY, parse, step.example(TINY, 4))
    for _ in range(30):
        update()
    torch.testing.assert_close(weight.detach(), before, rtol=0, atol=1e-7)


def test_dense_and_restricted_give_the_same_scores() -> None:
    layer, z = build_layer(TINY, QUICK.primitives, 4), descriptors(TINY, QUICK.primitives)
    make_trained(layer, QUICK)
    everything = torch.arange(layer.vocabulary.size)
    dense = layer.evaluate(z, everything) @ sparsemax(layer.composition.weight).T
    torch.testing.assert_close(layer(z).scores, dense)


@pytest.mark.slow
def test_every_section_is_answered(tmp_path: Path) -> None:
    assert command.main(["--quick", "--device", "cpu", str(tmp_path / "bench.json")]) == 0
    report = json.loads((tmp_path / "bench.json").read_text())
    assert list(report["sections"]) == list(command.QUESTIONS)
    assert all(section["rows"] and section["error"] is None for section in report["sections"].values())
    assert report["hardware"]["precision"] == "float32"
    assert len(report["sections"]["step"]["rows"]) == 2 * len(QUICK.classes) * 2 + 1  # and where classes select
    assert_quotients(report)


@pytest.mark.slow
def test_what_ours_took_is_said_where_the_other_loop_is_not_done_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domainbed, "PATIENCE", 0.0)
    (row,) = domainbed.rows(TINY)
    assert isinstance(row, Skipped)
    assert "theirs is not done after 0 seconds; ours took " in row.reason


def assert_quotients(report: dict[str, Any]) -> None:
    """Every ratio is that of the medians it names."""
    rows = (row for section in report["sections"].values() for row in section["rows"])
    for row in (row for row in rows if "skipped" not in row):
        first, second = row["first"]["median"], row["second"]["median"]
        assert all(0 < value < math.inf for value in (first, second, row["ratio"], *row["ratio_quartiles"]))
        assert row["ratio"] == pytest.approx(first / second)
        assert row["first"]["name"] != row["second"]["name"]
        assert row["goal"] is None  # goals are for the paper's sizes
        assert row["reached"] is None


def test_a_failing_section_keeps_what_it_has_and_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(setting: Setting) -> Iterator[Skipped]:
        yield Skipped("first", "no need")
        raise RuntimeError("out of [memory]")

    monkeypatch.setitem(command.QUESTIONS, "step", command.Question("fails", failing))
    path = tmp_path / "bench.json"
    assert command.main(["--quick", "--device", "cpu", "--only", "step,growth", str(path)]) == 1
    found = json.loads(path.read_text())
    assert_quotients(found)
    sections = found["sections"]
    assert sections["step"]["error"] == "RuntimeError: out of [memory]"
    assert sections["step"]["rows"] == [{"what": "first", "skipped": "no need"}]
    assert sections["growth"]["error"] is None
    assert sections["growth"]["rows"]
    assert "out of [memory]" in capsys.readouterr().out.rpartition("fails")[2]  # the table says it too


def test_unknown_sections_and_devices_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for wrong, said in ((["--only", "step,speed"], "unknown: speed"), (["--device", "tpu"], "found tpu")):
        with pytest.raises(SystemExit):
            command.main(wrong)
        assert said in capsys.readouterr().err
