"""Sweeps as TOML files: everything that can be said, and every mistake in one line."""

import re
import tomllib
from pathlib import Path

import pytest

from parse_dg.sweeps.config import SweepConfig, SweptData, Variant
from parse_dg.sweeps.file import parse_sweep, read_sweep_file
from parse_dg.sweeps.plan import plan_jobs
from parse_dg.sweeps.search import DomainBedSearch, RandomSearch, Range
from tests.parts import refusal

EXAMPLE = Path(__file__).parent.parent.parent / "docs" / "sweep_example.toml"
OUT = Path("runs/here")


def parse(text: str) -> SweepConfig:
    return parse_sweep(tomllib.loads(text), OUT)


def test_a_sweep_needs_methods_only() -> None:
    assert parse('methods = "erm"') == SweepConfig(out=OUT, methods=("erm",))
    sweep = parse('methods = ["erm", "parse+ema"]')
    assert sweep.methods == ("erm", "parse+ema")
    assert sweep.data == (SweptData(name="blueprints"),)
    assert (sweep.seeds, sweep.recipe, sweep.protocol) == ((0,), None, "parse")
    assert not sweep.leave_one_domain_out


def test_everything_that_can_be_said() -> None:
    sweep = parse(
        """
        methods = ["erm", "parse"]
        data = ["pacs", "vlcs"]
        targets = ["sketch"]
        seeds = [3, 1]
        recipe = "paper"
        protocol = "swad"
        out = "there"
        leave_one_domain_out = true
        [set]
        training.steps = 7
        "training.check_every" = 2
        [set.optimizer]
        clip_norm = 1.0
        [grid]
        optimizer.head_rate = [1e-3, 1e-2]
        mixstyle.stages = [[], [1, 2]]
        [random]
        draws = 4
        optimizer.weight_decay = {log = [1e-6, 1e-2]}
        training.batch_per_domain = {uniform = [8, 32], whole = true}
        [[variants]]
        name = "a b"
        methods = ["erm"]
        set = {algorithm.dropout = 0.5}
        [[variants]]
        name = "c"
        """
    )
    assert sweep == SweepConfig(
        out=Path("there"),
        methods=("erm", "parse"),
        data=(SweptData(name="pacs", targets=("sketch",)), SweptData(name="vlcs", targets=("sketch",))),
        seeds=(3, 1),
        recipe="paper",
        protocol="swad",
        leave_one_domain_out=True,
        settings={"training.steps": 7, "training.check_every": 2, "optimizer.clip_norm": 1.0},
        grid={"optimizer.head_rate": (1e-3, 1e-2), "mixstyle.stages": ([], [1, 2])},
        random=RandomSearch(
            draws=4,
            ranges={
                "optimizer.weight_decay": Range(kind="log", values=(1e-6, 1e-2)),
                "training.batch_per_domain": Range(kind="uniform", values=(8, 32), whole=True),
            },
        ),
        variants=(Variant(name="a b", methods=("erm",), settings={"algorithm.dropout": 0.5}), Variant(name="c")),
    )


def test_each_data_set_may_have_targets_and_settings_of_its_own() -> None:
    sweep = parse(
        """
        methods = "erm"
        targets = ["photo"]
        [data.pacs]
        [data.vlcs]
        targets = "all"
        [data."/my/own set"]
        targets = ["a", "b"]
        set = {training.steps = 9}
        """
    )
    assert sweep.data == (
        SweptData(name="pacs", targets=("photo",)),
        SweptData(name="vlcs", targets=None),
        SweptData(name="/my/own set", targets=("a", "b"), settings={"training.steps": 9}),
    )


def test_the_draws_of_domainbed() -> None:
    sweep = parse('methods = "dann"\n[domainbed]\ndraws = 20\nignore = ["mlp_dropout"]')
    assert sweep.domainbed == DomainBedSearch(draws=20, ignore=("mlp_dropout",))


def test_the_example_is_a_sweep_that_can_be_planned() -> None:
    sweep = read_sweep_file(EXAMPLE)
    assert sweep.out == Path("runs/example")
    jobs = plan_jobs(sweep)
    assert len(jobs) == 4 * 3 * 4 * 2 * 2  # rows, seeds, targets, grid, draws
    assert Path("runs/example/blueprints/parse,pairs,backbone_rate=0.005,draw2/paint/seed2") in {
        j.folder for j in jobs
    }


def test_what_the_example_has_commented_out_is_right_too(tmp_path: Path) -> None:
    text = EXAMPLE.read_text()
    known = ("# recipe", "# protocol", "# draws", "# ignore")
    lines = [line for line in text.splitlines() if line.startswith(known)]
    recipe, protocol, *domainbed = (line.removeprefix("# ") for line in lines)
    assert len(domainbed) == 2
    path = tmp_path / "other.toml"
    path.write_text("\n".join(['methods = ["dann"]', recipe, protocol, "[domainbed]", *domainbed]))
    sweep = read_sweep_file(path)
    assert (sweep.recipe, sweep.protocol, sweep.out) == ("pretrained", "domainbed", Path("runs/other"))
    assert len(plan_jobs(sweep)) == 20 * 4


MISTAKES: dict[str, tuple[str, str]] = {
    "an unknown key": ("method = 1", "unknown key 'method': valid are methods, data, targets,"),
    "a negative seed": ("seeds = [-1]", r"seeds must be 0 or more, found \(-1,\)"),
    "a seed twice": ("seeds = [1, 1]", "seeds must be different from each other, found 1 twice"),
    "an unknown key of data": ('[data.pacs]\ntarget = "a"', "'target': valid are targets, set"),
    "an unknown protocol": ('protocol = "x"', "unknown protocol 'x': valid are parse, domainbed"),
    "the seed as a setting": ("set = {seed = 1}", r"seed cannot be in \[set\]: it is given by seeds"),
    "the average as a grid": (
        '[grid]\naveraging.kind = ["ema", "swad"]',
        r'averaging.kind cannot be in \[grid\]: it is given by methods, as in "erm\+swad"',
    ),
    "a setting twice": ('[set]\ntraining.steps = 1\n"training.steps" = 2', r"training.steps is twice in \[set\]"),
    "a field in the grid and in the settings": (
        "[set]\ntraining.steps = 1\n[grid]\ntraining.steps = [3, 4]",
        r"training.steps is in \[grid\] and in \[set\]: give it once",
    ),
    "a field drawn and in a variant": (
        '[random]\ndraws = 1\ntraining.steps = {choice = [1]}\n[[variants]]\nname = "v"\nset = {training.steps=3}',
        r"training.steps is in \[random\] and in set of the variant v",
    ),
    "a value instead of a range": (
        "[random]\ndraws = 3\ntraining.steps = 5",
        r"\[random\] training.steps: expected {log = \[low, high\]}.*found 5",
    ),
    "two ways to draw": (
        "[domainbed]\ndraws = 1\n[random]\ndraws = 1\ntraining.steps = {choice = [1]}",
        r"\[random\] and \[domainbed\] are two ways to draw",
    ),
    "a variant that is a path": ('[[variants]]\nname = "../a"', "name of a variant must be one word"),
    "a variant twice": (
        '[[variants]]\nname = "a"\n[[variants]]\nname = "a"',
        "names of variants must be different from each other, found 'a' twice",
    ),
    "a variant of no method": ('[[variants]]\nname = "a"\nmethods = ["parse"]', "variant a 'parse': valid are erm"),
}
"""Beside a method."""
OF_METHODS = {
    "seeds = [0]": 'methods is missing: give some of erm, dann, .*as in methods = \\["erm", "parse"\\]',
    'methods = ["emr"]': r"unknown method 'emr': valid are erm, dann, .*METHOD\+swad",
    'methods = "erm+mean"': r"unknown method 'erm\+mean': valid are erm, erm\+ema, erm\+sma",
}


@pytest.mark.parametrize(
    ("text", "message"),
    [*((f'methods = "erm"\n{text}', said) for text, said in MISTAKES.values()), *OF_METHODS.items()],
    ids=[*MISTAKES, *OF_METHODS],
)
def test_a_mistake_is_said_in_one_line(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "sweep.toml"
    path.write_text(text)
    assert re.match(f"{path}: .*{message}", refusal(read_sweep_file, path))


@pytest.mark.parametrize("content", [b"methods = [", b"a = 1\na = 2", b"\xff"])
def test_a_file_that_is_no_toml(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "sweep.toml"
    path.write_bytes(content)
    assert "is not valid TOML" in refusal(read_sweep_file, path)
