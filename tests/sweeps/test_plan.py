"""From a sweep to jobs: which runs, in which order, in which folders, and what is refused before anything runs."""

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from parse_dg.cli import build_parser
from parse_dg.cli.train import configure
from parse_dg.errors import InputError
from parse_dg.runs.run import execute
from parse_dg.sweeps.config import SweepConfig, SweptData, Variant, override
from parse_dg.sweeps.jobs import Job
from parse_dg.sweeps.plan import plan_jobs
from parse_dg.sweeps.search import DomainBedSearch, RandomSearch, Range, job_seed, random_hparams
from parse_dg.tables.selection import select
from tests.algorithms import golden
from tests.conftest import TINY
from tests.parts import refusal
from tests.runs.helpers import quiet, read_runs

OUT = Path("runs/sweep")
DOMAINS = ("photo", "cartoon", "sketch", "paint")
RATE = "optimizer.head_rate"

Own = Callable[..., Path]


@pytest.fixture
def own(tmp_path: Path) -> Own:
    """own("a", "b"): a folder of these domains, whose files are no images: planning does not open them."""

    def build(*domains: str, name: str = "mine") -> Path:
        for domain in domains:
            for label in ("cat", "dog"):
                (tmp_path / name / domain / label).mkdir(parents=True)
                (tmp_path / name / domain / label / "1.png").write_bytes(b"no image")
        return tmp_path / name

    return build


def sweep(*methods: str, targets: tuple[str, ...] | None = ("sketch",), **more: Any) -> SweepConfig:
    data = more.pop("data", (SweptData(name="blueprints", targets=targets),))
    return SweepConfig(out=OUT, methods=methods, data=data, **more)


def places(jobs: tuple[Job, ...]) -> list[str]:
    return [str(job.folder.relative_to(OUT)) for job in jobs]


def by_place(jobs: tuple[Job, ...]) -> dict[str, Job]:
    return dict(zip(places(jobs), jobs, strict=True))


def test_every_method_target_and_seed_is_planned_in_its_folder() -> None:
    jobs = plan_jobs(sweep("erm", "parse+ema", targets=None, seeds=(0, 2)))
    assert places(jobs) == [
        f"blueprints/{method}/{target}/seed{seed}"
        for seed in (0, 2)
        for method in ("erm", "parse+ema")
        for target in DOMAINS
    ]
    for job, place in zip(jobs, places(jobs), strict=True):
        data, method, target, seed = place.split("/")
        assert (job.config.data.benchmark, job.config.method, job.config.data.target) == (data, method, target)
        assert f"seed{job.config.seed}" == seed


@pytest.mark.parametrize("algorithm", ["parse", "erm_plus_plus"])
@pytest.mark.parametrize("protocol", ["parse", "domainbed", "swad"])
@pytest.mark.parametrize("recipe", [None, "paper"])
def test_a_run_is_the_one_that_train_would_make(algorithm: str, protocol: str, recipe: str | None) -> None:
    settings = {"training.check_every": 7, "optimizer.clip_norm": 1.0}
    words = ["train", "--algorithm", algorithm, "--target", "paint", "--seed", "4", "--protocol", protocol]
    words += ["--recipe", recipe] if recipe else []
    words += [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    (job,) = plan_jobs(
        sweep(algorithm, targets=("paint",), seeds=(4,), protocol=protocol, recipe=recipe, settings=settings)
    )
    assert job.config == configure(build_parser().parse_args(words))
    assert job.folder.name == "seed4"


def test_a_grid_and_draws_are_tried_in_every_combination() -> None:
    ranges = {"optimizer.weight_decay": Range(kind="log", values=(1e-6, 1e-2))}
    search = RandomSearch(draws=2, ranges=ranges)
    jobs = by_place(plan_jobs(sweep("erm", "coral", seeds=(0, 1), grid={RATE: (1e-3, 1e-2)}, random=search)))
    assert len(jobs) == 2 * 2 * 2 * 2
    decays = Counter(job.config.optimizer.weight_decay for job in jobs.values())
    assert sorted(decays.values()) == [4, 4, 4, 4]  # a draw and seed have one value, for every rate and method
    for draw in (1, 2):
        job = jobs[f"blueprints/coral,head_rate=0.01,draw{draw}/sketch/seed1"]
        assert job.config.optimizer.head_rate == 1e-2
        assert (
            job.config.optimizer.weight_decay == list(search.points(1))[draw - 1].settings["optimizer.weight_decay"]
        )


def test_variants_are_rows_of_the_methods_they_name() -> None:
    variants = (
        Variant(name="few", methods=("parse",), settings={"algorithm.primitives.count": 4}),
        Variant(name="many", methods=("parse",), settings={"algorithm.primitives.count": 24}),
    )
    jobs = by_place(plan_jobs(sweep("erm", "parse", variants=variants)))
    assert list(jobs) == [
        "blueprints/erm/sketch/seed0",
        "blueprints/few/sketch/seed0",
        "blueprints/many/sketch/seed0",
    ]
    assert jobs["blueprints/few/sketch/seed0"].config.algorithm.primitives.count == 4  # type: ignore[union-attr]


def test_settings_of_a_data_set_and_of_a_variant_come_on_top(own: Own) -> None:
    mine = own("a", "b")
    own_settings = {"training.steps": 20, "training.check_every": 6}
    data = (
        SweptData(name="blueprints", targets=("sketch",)),
        SweptData(name=str(mine), targets=("a",), settings=own_settings),
    )
    variants = (Variant(name="plain"), Variant(name="checked", settings={"training.check_every": 7}))
    settings = {"training.steps": 10, "training.check_every": 5}
    jobs = by_place(plan_jobs(sweep("erm", data=data, settings=settings, variants=variants)))
    found = {place: (job.config.training.steps, job.config.training.check_every) for place, job in jobs.items()}
    assert found == {
        "blueprints/plain/sketch/seed0": (10, 5),
        "blueprints/checked/sketch/seed0": (10, 7),
        "mine/plain/a/seed0": (20, 6),
        "mine/checked/a/seed0": (20, 7),
    }


def test_what_is_set_from_outside_wins(own: Own) -> None:
    data = (SweptData(name=str(own("a", "b")), settings={"training.steps": 20, "training.check_every": 6}),)
    variants = (Variant(name="v", settings={"optimizer.clip_norm": 1.0}),)
    plan = sweep("erm", data=data, settings={"training.steps": 10}, variants=variants)
    changed = override(plan, {"training.steps": "30", "optimizer.weight_decay": "0.5"})
    for job in plan_jobs(changed):
        assert (job.config.training.steps, job.config.training.check_every) == (30, 6)
        assert (job.config.optimizer.weight_decay, job.config.optimizer.clip_norm) == (0.5, 1.0)
    with pytest.raises(
        InputError, match=r"optimizer\.clip_norm cannot be set for every run: the variant v has its own"
    ):
        override(plan, {"optimizer.clip_norm": 2.0})
    with pytest.raises(InputError, match=r"training\.steps is in \[grid\] and in \[set\]"):
        override(sweep("erm", grid={"training.steps": (1, 2)}), {"training.steps": 3})


def test_data_by_path_is_absolute_and_not_opened(own: Own, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = own("a", "b", "Real World")
    monkeypatch.chdir(mine.parent)
    jobs = plan_jobs(sweep("erm", data=(SweptData(name="mine"),)))
    assert [job.config.data.benchmark for job in jobs] == [str(mine)] * 3
    assert places(jobs) == [f"mine/erm/{domain}/seed0" for domain in ("Real World", "a", "b")]
    assert all(job.config.backbone.name == "resnet50" for job in jobs)


def test_a_path_that_is_tried_does_not_lead_elsewhere() -> None:
    jobs = by_place(plan_jobs(sweep("erm", grid={"backbone.weights": ("none", "../a/b.pth")})))
    assert list(jobs) == [
        "blueprints/erm,weights=none/sketch/seed0",
        "blueprints/erm,weights=.._a_b.pth/sketch/seed0",
    ]
    assert [job.config.backbone.weights for job in jobs.values()] == [None, "../a/b.pth"]
    with pytest.raises(InputError, match="its folder would have too long a name"):
        plan_jobs(sweep("erm", grid={"backbone.weights": ("x" * 250,)}))


def test_pairs_are_planned_only_when_asked_for() -> None:
    assert len(plan_jobs(sweep("erm", targets=None, protocol="domainbed"))) == 4
    jobs = by_place(plan_jobs(sweep("erm", targets=None, protocol="domainbed", leave_one_domain_out=True)))
    assert len(jobs) == 4 + 6
    pair = jobs["blueprints/erm/cartoon+paint/seed0"].config
    assert (pair.data.target, pair.split.validation_domain) == ("cartoon", "paint")
    assert pair.protocol.selection == "leave-one-domain-out"
    assert jobs["blueprints/erm/cartoon/seed0"].config.protocol.selection == "training-domain"


def test_leave_one_domain_out_selects_among_the_runs_that_are_planned(tmp_path: Path) -> None:
    settings = {**TINY, "protocol.checks": "target", "training.steps": 2, "training.check_every": 1}
    plan = sweep("erm", settings=settings, leave_one_domain_out=True)
    jobs = plan_jobs(replace(plan, out=tmp_path))
    for job in jobs:
        execute(job.config, job.folder, quiet)
    selected = select(read_runs([job.folder for job in jobs], "leave-one-domain-out"), "leave-one-domain-out")
    assert [case.target for case in selected] == ["sketch"]


@pytest.mark.parametrize(
    ("method", "protocol", "message"),
    [
        ("erm", "parse", r"leave_one_domain_out needs checks that score .*protocol.checks = \"target\""),
        ("erm+swad", "swad", "leave_one_domain_out selects among the checks"),
        ("erm_plus_plus", "swad", "protocol.selection must be"),
    ],
)
def test_what_leave_one_domain_out_cannot_select_among(method: str, protocol: str, message: str) -> None:
    plan = sweep(method, protocol=protocol, leave_one_domain_out=True)
    assert re.match(f"{re.escape(method)} on blueprints: {message}", refusal(plan_jobs, plan))


def test_draws_of_domainbed_have_its_values_and_seeds() -> None:
    plan = sweep("coral", targets=None, seeds=(0, 2), protocol="domainbed", domainbed=DomainBedSearch(draws=3))
    jobs = by_place(plan_jobs(replace(plan, leave_one_domain_out=True)))
    assert len(jobs) == 2 * 3 * (4 + 6)
    for draw in range(3):
        drawn = random_hparams("CORAL", "blueprints", draw, 2)
        for place, numbers in (("sketch", [2]), ("photo+paint", [0, 3])):
            config = jobs[f"blueprints/coral,draw{draw}/{place}/seed2"].config
            assert config.algorithm.gamma == drawn["mmd_gamma"]  # type: ignore[union-attr]
            assert config.training.batch_per_domain == drawn["batch_size"]
            assert (config.trial, config.split.seed) == (2, 2)
            assert config.seed == job_seed("blueprints", "CORAL", numbers, draw, 2)


@pytest.mark.golden
def test_a_sweep_of_domainbed_is_planned_as_it_was_run(monkeypatch: pytest.MonkeyPatch) -> None:
    known = [json.loads(line) for line in golden.find("domainbed_sweep.jsonl").read_text().splitlines()]
    args = next(
        run["args"] for run in known if run["args"]["algorithm"] == "ERM" and len(run["args"]["test_envs"]) == 1
    )
    name, domains = args["dataset"].lower(), tuple("abcd")
    monkeypatch.setattr("parse_dg.data.benchmarks.domain_names", lambda data: domains)
    (number,), draw, trial = args["test_envs"], args["hparams_seed"], args["trial_seed"]
    data = (SweptData(name=name, targets=(domains[number],)),)
    plan = sweep("erm", data=data, seeds=(trial,), protocol="domainbed", domainbed=DomainBedSearch(draws=draw + 1))
    config = plan_jobs(plan)[draw].config
    assert config.seed == args["seed"]
    assert config.trial == trial


def test_draws_of_domainbed_with_settings_of_its_fields_are_refused() -> None:
    search = DomainBedSearch(draws=1)
    for more in ({"settings": {RATE: 1.0}}, {"grid": {RATE: (1.0,)}}):
        with pytest.raises(InputError, match=rf"{RATE} is drawn by \[domainbed\], and given elsewhere too"):
            plan_jobs(sweep("erm", domainbed=search, **more))
    with pytest.raises(InputError, match="DomainBed's draws for parse are not known"):
        plan_jobs(sweep("erm", "parse", domainbed=search))


def steps(kind: Any, *values: int) -> RandomSearch:
    return RandomSearch(draws=1, ranges={"training.steps": Range(kind=kind, values=values)})


SPARSITY = r"algorithm.sparsity in {} is a field of parse, parse\+ema and not of erm"
SPARSE = Variant(name="v", settings={"algorithm.sparsity": 1.0})
NOWHERE = SweptData(name="blueprints", targets=("x",))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"grid": {"algorithm.sparsity": (0.0, 1.0)}}, SPARSITY.format(r"\[grid\]") + ": give it in a variant"),
        ({"variants": (SPARSE,)}, SPARSITY.format("set of the variant v")),
        ({"settings": {"algorithm.dropout": 0.1}}, r"dropout in \[set\] is a field of erm and not of parse,"),
        ({"settings": {"training.step": 1}}, "configuration field 'training.step': did you mean training.steps"),
        ({"grid": {"trainer.steps": (1,)}}, "'trainer.steps': did you mean training.steps"),
        ({"settings": {"training": 1}}, "erm on blueprints: training is a section, not a field"),
        ({"grid": {"training.steps": (5, 0)}}, "erm,steps=0 on blueprints: training.steps must be at least 1"),
        ({"random": steps("uniform", 1, 9)}, "erm,draw1 on blueprints: training.steps must be a whole number"),
        ({"data": (NOWHERE,)}, "unknown target of blueprints 'x': valid are photo, cartoon, sketch, paint"),
        ({"data": (SweptData(name="pacs"),)}, "pacs is not on this machine yet: `parse-dg data add pacs PATH`"),
        ({"data": (SweptData(name="nothing"),)}, "no data set 'nothing': here are blueprints"),
    ],
)
def test_a_mistake_is_found_before_anything_runs(more: dict[str, Any], message: str) -> None:
    assert re.search(message, refusal(plan_jobs, sweep("erm", "parse", "parse+ema", **more)))
