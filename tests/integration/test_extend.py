"""docs/extend.md: its examples, as they are printed, from training to every use of what was trained."""

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import parse_dg
from parse_dg.errors import InputError
from parse_dg.plugins import handed_on, load_plugins
from parse_dg.registry import Registry
from parse_dg.runs.folder import read_config
from parse_dg.sweeps.jobs import Job
from parse_dg.sweeps.launchers.cluster import perform
from parse_dg.sweeps.launchers.slurm import write_slurm
from tests.cli.conftest import SMALL, Run, run, snapshot
from tests.parts import refusal

__all__ = ["run"]
PAGE = (Path(__file__).parents[2] / "docs" / "extend.md").read_text()
EXAMPLES = {
    name.removesuffix(".py"): source
    for name, source in re.findall(r"`(my_\w+\.py)`:\n\n```python\n(.*?)```", PAGE, flags=re.DOTALL)
}
Forget = Callable[[], None]


@pytest.fixture(autouse=True)
def forget(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Forget]:
    """The examples are files in the current folder; what is called forgets all plug-ins, as a new process would."""
    for name, source in EXAMPLES.items():
        (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.setattr("parse_dg.plugins._loaded", {})
    before = list(sys.path)

    def forget() -> None:
        sys.path[:] = before
        for name in EXAMPLES:
            sys.modules.pop(name, None)
        for registry in Registry.kinds.values():
            for name in [name for name in registry if registry.origin(name) in EXAMPLES]:
                del registry._things[name], registry._origins[name]

    yield forget
    forget()


def plugged(*names: str) -> list[str]:
    return [word for name in names for word in ("--plugin", name)]


def photo(folder: Path) -> Path:
    Image.new("RGB", (40, 30), "orange").save(folder / "photo.png")
    return folder / "photo.png"


def test_the_page_has_an_example_of_each() -> None:
    assert set(EXAMPLES) == {"my_methods", "my_predicates", "my_backbones", "my_augmentations", "my_data"}
    assert EXAMPLES["my_methods"].count("\n") < 40


def test_a_method(run: Run, forget: Forget, tmp_path: Path) -> None:
    mine, image = plugged("my_methods"), photo(tmp_path)
    train = ["train", "--algorithm", "vrex", *SMALL, "--set", "algorithm.weight=2", "--checkpoint-every", "0"]
    assert run(*train, *mine, "--out", "whole").code == 0
    with pytest.MonkeyPatch.context() as patch:  # broken off, and resumed in another process
        method = sys.modules["my_methods"].VRex
        calls, losses = [0], method.losses

        def broken_off(self: Any, *given: Any) -> Any:
            calls[0] += 1
            if calls[0] == 3:
                raise KeyboardInterrupt
            return losses(self, *given)

        patch.setattr(method, "losses", broken_off)
        assert run(*train, *mine, "--out", "run").code == 130
    forget()
    said = run("train", "--config", "run/config.json", "--out", "run")
    assert (said.code, said.err.partition(" (")[0]) == (
        2,
        "parse-dg: run/config.json needs the plug-in my_methods: pass --plugin my_methods",
    )
    assert "my_methods" not in sys.modules
    assert run("train", "--config", "run/config.json", "--out", "run", *mine).code == 0
    same = ("config.json", "metrics.jsonl", "model.safetensors", "result.json")
    one, other = (snapshot(tmp_path / name) for name in ("whole", "run"))
    assert [one[name] for name in same] == [other[name] for name in same]

    assert "vrex" in run("table", "run", *mine).out
    assert "sketch" in run("evaluate", "run", *plugged("./my_methods.py")).out
    assert run("predict", "run", image, *mine).code == 0
    assert run("report", "run", *mine).code == 0
    assert run("export", "run", "--format", "torch", *mine).code == 0
    forget()
    for command in (["evaluate", "run"], ["predict", "run", image], ["serve", "run"], ["table", "run"]):
        assert "needs the plug-in my_methods: pass --plugin my_methods" in run(*command).err
    assert "needs the plug-in my_methods" in refusal(parse_dg.load, "run")
    assert parse_dg.load("run", plugins=["my_methods"]).predict(image)[0].probability > 0


def test_a_sweep_hands_the_plug_in_to_its_processes(run: Run, forget: Forget, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('methods = ["vrex"]\ntargets = ["sketch"]\nout = "swept"\n')
    said = run("sweep", "own.toml", "--jobs", "1", *SMALL, *plugged("my_methods"))
    assert (said.code, said.err) == (0, "")
    assert "vrex" in said.out
    (folder,) = (path.parent for path in (tmp_path / "swept").rglob("result.json"))
    job = Job(read_config(folder), tmp_path / "on a cluster" / "run")
    script = (write_slurm([job], tmp_path).parent / "array-1.sh").read_text()
    (given,) = handed_on()
    assert given == str(tmp_path / "my_methods")
    assert f"parse_dg train --plugin {given})" in script
    forget()
    job.folder.parent.mkdir()
    config = json.loads((folder / "config.json").read_text())
    config.pop("plugins")
    assert perform(config, str(job.folder), parse_dg.__version__, (), [given]) == ("done", "")  # a worker of Ray's


def test_a_backbone_an_augmentation_and_a_generated_data_set(run: Run, forget: Forget, tmp_path: Path) -> None:
    mine = plugged("my_backbones", "my_augmentations", "my_data")
    chosen = ["--set", "backbone.name=three-layers", "--set", "augment.extra=cutout"]
    train = ["train", "--data", "shapes", "--recipe", "blueprints", *SMALL, *chosen, *mine]
    assert "one of dark, dim, light" in run(*train).err
    for name in ("one", "other"):
        assert run(*train, "--target", "light", "--out", name).code == 0
    one, other = (snapshot(tmp_path / name) for name in ("one", "other"))
    assert one["model.safetensors"] == other["model.safetensors"]
    assert run(*train, "--target", "light", "--out", "plain", "--set", "augment.extra=()").code == 0
    assert snapshot(tmp_path / "plain")["metrics.jsonl"] != one["metrics.jsonl"]  # cutout was at work
    forget()
    image = photo(tmp_path)
    missing = "needs the plug-ins my_augmentations, my_backbones, my_data: pass --plugin my_augmentations --plugin"
    assert missing in run("evaluate", "one").err
    for command in (
        ["evaluate", "one"],
        ["measure", "one"],
        ["compact", "one"],
        ["explain", "image", "one", image],
    ):
        assert run(*command, *mine).code == 0


def test_a_predicate(run: Run, forget: Forget, tmp_path: Path) -> None:
    chosen = ["--set", "algorithm.vocabulary.predicates=between", "--set", "algorithm.primitives.count=4"]
    assert run("train", *SMALL, *chosen, *plugged("my_predicates"), "--out", "run").code == 0
    forget()
    assert "needs the plug-in my_predicates" in run("explain", "classes", "run").err
    assert run("explain", "classes", "run", *plugged("my_predicates")).code == 0


def test_an_augmentation_that_changes_the_shape_is_one_line() -> None:
    from parse_dg.data.augment.batches import AUGMENTATIONS, AugmentConfig, augment, draw_augment

    load_plugins(["my_augmentations"])
    AUGMENTATIONS._things["cutout"] = lambda images, generator: images[:1]
    config = AugmentConfig(extra=("cutout",))
    draws = draw_augment(config, 2, torch.Generator().manual_seed(0))
    with pytest.raises(InputError, match=r"augmentation cutout must return images \(2, 3, 8, 8\), found \(1, 3"):
        augment(torch.zeros(2, 3, 8, 8, dtype=torch.uint8), config, draws)
