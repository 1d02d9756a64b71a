"""The commands for what is missing: typed, each gives the very configuration that the table lacks."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from parse_dg.cli import build_parser
from parse_dg.cli.show.views import view_tables
from parse_dg.cli.train import configure
from parse_dg.config import change
from parse_dg.runs.config import RunConfig
from parse_dg.runs.protocols import PROTOCOLS, apply_protocol
from parse_dg.runs.recipes import RECIPES, build_config
from parse_dg.tables.missing import find_origin, train_command
from tests.tables.test_records import DOMAINS, configured, scored, write

SLOWER = [("erm_plus_plus", "blueprints"), *(("parse", name) for name in RECIPES if name != "blueprints")]


def typed(command: str) -> tuple[RunConfig, Path]:
    """What `parse-dg train` makes of a command."""
    program, *words = shlex.split(command)
    assert program == "parse-dg"
    options = build_parser().parse_args(words)
    return configure(options), options.out


@pytest.mark.parametrize(
    ("algorithm", "recipe"),
    [("parse", "blueprints"), *(pytest.param(*each, marks=pytest.mark.slow) for each in SLOWER)],
)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_recipe_under_every_protocol_is_found_again(algorithm: str, recipe: str, protocol: str) -> None:
    for data in ("blueprints", "pacs"):
        base = change(
            build_config(recipe, algorithm, data), {"data.benchmark": data, "data.target": "photo", "seed": 3}
        )
        config = apply_protocol(protocol, base)
        assert find_origin(config).settings == {}
        changed = change(config, {"optimizer.head_rate": 1.23e-5, "mixstyle.stages": "1,3", "seed": 7})
        for each in (config, changed):
            assert typed(train_command(each, Path("a folder/x"))) == (each, Path("a folder/x"))


@pytest.mark.parametrize(
    "settings",
    [
        {"mixstyle__stages": ()},
        {"split__seed": 3, "seed": 9},
        {"averaging__kind": "swad"},
        {"validation_domain": "photo"},
    ],
)
def test_whatever_was_set_is_set_again(settings: dict[str, Any]) -> None:
    config = configured("erm", "swad" if "averaging__kind" in settings else "domainbed", **settings)
    assert typed(train_command(config, Path("x")))[0] == config


def holes(folders: list[Path], selection: str = "training-domain", by: tuple[str, ...] = ()) -> dict[Any, Any]:
    fill = view_tables(folders, "main", by, selection, "se").tables.fill
    return {place: [typed(command) for command in commands] for place, commands in fill.items()}


def at(config: RunConfig, target: str, seed: int) -> RunConfig:
    return replace(config, data=replace(config.data, target=target), seed=seed)


def put(folder: Path, config: RunConfig, **changes: Any) -> Path:
    return write(folder, config, [scored(config)], **changes)


def test_a_missing_trial_is_like_its_kin_and_beside_them(tmp_path: Path) -> None:
    base = configured("erm", "parse", optimizer__head_rate=0.25)
    for target in DOMAINS:
        for seed in (0, 1):
            if (target, seed) != ("photo", 1):
                put(tmp_path / "blueprints" / "erm" / target / f"seed{seed}", at(base, target, seed))
    expected = (at(base, "photo", 1), tmp_path / "blueprints" / "erm" / "photo" / "seed1")
    assert holes([tmp_path]) == {("blueprints", "erm", "photo"): [expected]}


def test_every_draw_of_the_trial_is_asked_for(tmp_path: Path) -> None:
    bases = [configured("erm", "parse", optimizer__head_rate=rate) for rate in (0.25, 0.5)]
    for n, base in enumerate(bases):
        for target in DOMAINS[1:]:
            put(tmp_path / f"{target}{n}", at(base, target, 0))
    found = holes([tmp_path])[("blueprints", "erm", "photo")]
    assert [config for config, _ in found] == [at(base, "photo", 0) for base in bases]
    assert len({folder for _, folder in found}) == 2
    assert all(folder.parent == tmp_path for _, folder in found)


def test_a_run_that_was_begun_goes_on_where_it_is(tmp_path: Path) -> None:
    base = configured("erm", "parse")
    for target in DOMAINS:
        put(tmp_path / f"of_{target}", at(base, target, 0))
    (tmp_path / "of_sketch" / "result.json").unlink()
    assert holes([tmp_path]) == {("blueprints", "erm", "sketch"): [(at(base, "sketch", 0), tmp_path / "of_sketch")]}


def test_rows_keep_what_tells_them_apart(tmp_path: Path) -> None:
    bases = [configured("erm", "parse", optimizer__head_rate=rate) for rate in (0.25, 0.5)]
    for n, base in enumerate(bases):
        for target in DOMAINS[n:]:
            put(tmp_path / str(n) / target / "seed0", at(base, target, 0))
    (found,) = holes([tmp_path], by=("optimizer.head_rate",)).items()
    assert found == (
        ("blueprints", "erm, head_rate=0.5", "photo"),
        [(at(bases[1], "photo", 0), tmp_path / "1" / "photo" / "seed0")],
    )


def test_a_split_of_its_own_seed_stays_so(tmp_path: Path) -> None:
    base = configured("erm", "swad", seed=1)
    assert (base.seed, base.split.seed) == (0, 1)
    for target in DOMAINS:
        for trial in (1, 2) if target != "paint" else (1,):
            config = replace(at(base, target, 0), split=replace(base.split, seed=trial))
            put(tmp_path / target / str(trial), config)
    ((config, _),) = holes([tmp_path])[("blueprints", "erm", "paint")]
    assert (config.seed, config.trial, config.data.target) == (0, 2, "paint")
    assert config.protocol == base.protocol


def test_a_method_without_a_data_set_is_trained_there(tmp_path: Path) -> None:
    """With the recipe of that data set, and what was set by hand on the other."""
    erm, dann = (configured(name, "parse", training__steps=7) for name in ("erm", "dann"))
    for target in DOMAINS:
        put(tmp_path / "blueprints" / "erm" / target / "seed0", at(erm, target, 0))
        put(tmp_path / "blueprints" / "dann" / target / "seed0", at(dann, target, 0))
        there = replace(erm, data=replace(erm.data, benchmark="pacs", image_size=32))
        pacs = {"name": "pacs", "fingerprint": "p"}
        put(tmp_path / "pacs" / "erm" / target / "seed0", at(there, target, 0), benchmark=pacs)
    found = holes([tmp_path])
    assert list(found) == [("pacs", "dann", target) for target in DOMAINS]
    ((config, folder),) = found["pacs", "dann", "sketch"]
    assert folder == tmp_path / "pacs" / "dann" / "sketch" / "seed0"
    assert (config.data.benchmark, config.data.target, config.data.image_size) == ("pacs", "sketch", 32)
    assert (config.method, config.training.steps) == ("dann", 7)


def test_leave_one_domain_out_asks_for_the_pairs_that_are_missing(tmp_path: Path) -> None:
    base = configured("erm", "domainbed")
    for target in DOMAINS:
        put(tmp_path / target / "seed0", at(base, target, 0))
    pair = configured("erm", "domainbed", validation_domain="photo")
    put(tmp_path / "sketch+photo" / "seed0", pair)
    found = holes([tmp_path], "leave-one-domain-out")
    sketch = found["blueprints", "erm", "sketch"]
    pairs = [("cartoon", "sketch"), ("sketch", "paint")]  # each pair once, in the order of the domains
    assert [(config.data.target, config.split.validation_domain) for config, _ in sketch] == pairs
    assert [folder for _, folder in sketch] == [tmp_path / "+".join(pair) / "seed0" for pair in pairs]
    assert {config.protocol.selection for config, _ in sketch} == {"leave-one-domain-out"}
    assert len({config for configs in found.values() for config, _ in configs}) == 5
