"""The paper's tables as sweeps: their rows, seeds and data sets."""

from pathlib import Path

import pytest

from parse_dg.algorithms.no_relations import NoRelationsConfig
from parse_dg.algorithms.parse import ParseConfig
from parse_dg.data.public.catalogue import DATA_SETS
from parse_dg.errors import InputError
from parse_dg.model.vocabulary import SWITCHES
from parse_dg.sweeps.jobs import Job
from parse_dg.sweeps.plan import plan_jobs
from parse_dg.sweeps.presets import METHODS, PRESETS, find_preset, preset_sweep
from parse_dg.tables.published import published
from parse_dg.tables.views import VIEW_NAMES


@pytest.fixture
def everything_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every public data set had been added."""
    for module in ("sweeps.presets", "data.benchmarks"):
        monkeypatch.setattr(f"parse_dg.{module}.added", lambda: sorted(DATA_SETS))
    monkeypatch.setattr("parse_dg.data.benchmarks.domain_names", lambda name: DATA_SETS[name].domains)


def rows(jobs: tuple[Job, ...]) -> list[str]:
    return list(dict.fromkeys(job.folder.parts[-3] for job in jobs))


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_can_be_planned_on_blueprints(name: str) -> None:
    sweep = preset_sweep(name, "blueprints")
    jobs = plan_jobs(sweep)
    assert sweep.out == Path("runs") / name
    assert {job.config.seed for job in jobs} == {0}
    assert {job.config.data.target for job in jobs} == {"photo", "cartoon", "sketch", "paint"}
    assert {job.config.backbone.name for job in jobs} == {"local"}
    assert find_preset(name).view in VIEW_NAMES
    assert "\n" not in find_preset(name).summary


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.usefixtures("everything_added")
def test_every_preset_can_be_planned_on_the_data_sets_of_the_paper(name: str) -> None:
    preset = find_preset(name)
    sweep = preset_sweep(name)
    jobs = plan_jobs(sweep)
    assert {job.config.data.benchmark for job in jobs} == set(preset.data)
    assert {job.config.backbone.name for job in jobs} == {"resnet50"}
    assert sweep.recipe == "paper"
    for job in jobs:
        lists = job.config.data.benchmark == "cub-dg"
        papers = isinstance(job.config.algorithm, ParseConfig | NoRelationsConfig)
        assert job.config.backbone.weights == ("imagenet-v2" if papers else "imagenet")
        if isinstance(job.config.algorithm, ParseConfig):
            assert job.config.algorithm.vocabulary.enumeration == "paper"
        assert job.config.split.scheme == ("gvrt-split" if lists else "holdout20")


@pytest.mark.usefixtures("everything_added")
def test_the_main_tables_have_the_methods_of_the_paper() -> None:
    printed = [row.method for row in published().rows if row.table == "table 1 (a)"]
    ours = ["DANN", "CDANN", "GroupDRO", "MixUp", "SagNet", "CORAL", "GVRT", "ERM++", "MIRO", "SWAD", "PARSE"]
    assert printed == ours
    assert len(METHODS) == len(ours)
    first, second = (plan_jobs(preset_sweep(name)) for name in ("paper-main-a", "paper-main-b"))
    assert rows(first) == list(METHODS)
    assert len(first) == len(METHODS) * 4 * 3
    assert rows(second) == [method for method in METHODS if method != "gvrt"]
    assert len(second) == (len(METHODS) - 1) * 22
    assert rows(plan_jobs(preset_sweep("paper-main-b", defined=True))) == list(METHODS)


def test_on_blueprints_images_have_captions_and_gvrt_is_trained() -> None:
    for name in ("paper-main-a", "paper-main-b"):
        assert rows(plan_jobs(preset_sweep(name, "blueprints"))) == list(METHODS)


def test_the_ablation_has_a_row_for_every_switch_of_the_paper() -> None:
    jobs = plan_jobs(preset_sweep("paper-ablation", "blueprints"))
    assert rows(jobs) == [
        "no_relations",
        *(f"parse,{families}" for families in SWITCHES if families != "relations"),
    ]
    assert len(jobs) == 6 * 4
    for job in jobs:
        if isinstance(job.config.algorithm, ParseConfig):
            assert job.folder.parts[-3] == f"parse,{job.config.algorithm.vocabulary.families}"


def test_only_data_sets_that_were_added_are_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parse_dg.sweeps.presets.added", lambda: ["pacs", "vlcs", "mine"])
    assert [data.name for data in preset_sweep("paper-main-b").data] == ["pacs", "vlcs"]
    with pytest.raises(
        InputError, match=r"paper-ablation is for cub-dg, and none of them has been added.*blueprints"
    ):
        preset_sweep("paper-ablation")
