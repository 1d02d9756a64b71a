"""What every test shares: a cache of its own, tiny configurations, and runs that are made once."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from filelock import FileLock

from parse_dg.algorithms import ALGORITHMS
from parse_dg.config import change
from parse_dg.data.domain import Domain
from parse_dg.runs.config import RunConfig
from parse_dg.runs.recipes import build_config
from parse_dg.runs.run import execute

KERNELS = ("parse_dg.model.fused.", "parse_dg.data.augment.fused")


class Unwrapped(MetaPathFinder):
    """Finds the fused kernels before jaxtyping does, which wraps functions: Triton compiles what it is given."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, path, target) if name.startswith(KERNELS) else None


sys.meta_path.insert(0, Unwrapped())
torch.set_num_threads(1)  # tests are small: two threads wait for each other more than they help

TINY = {
    "data.blueprints.images_per_class": 5,
    "training.steps": 4,
    "training.check_every": 2,
    "training.batch_per_domain": 4,
    "training.device": "cpu",
}
"""Seconds instead of minutes: 40 images a domain, 8 of them held out."""


def slow_but(*quick: str) -> list[Any]:
    """Every method as a parameter; all but the named ones are slow."""
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in ALGORITHMS]


Tiny = Callable[..., RunConfig]
FinishedRun = Callable[[str], Path]
Numbered = Callable[..., Domain]


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of all processes that run these tests."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture(scope="session", autouse=True)
def cache(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The cache folder of all tests, and a data folder: the user's own are never read or written."""
    folder = shared / "cache"
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PARSE_DG_CACHE", str(folder))
        patch.setenv("PARSE_DG_DATA", str(tmp_path_factory.mktemp("data")))
        yield folder


@pytest.fixture(scope="session")
def tiny() -> Tiny:
    """tiny("erm", training__steps=8, seed=1): the Blueprints recipe, made small; `__` stands for a dot.

    PARSE has presence beside relations, so that every family is there.
    """

    def build(algorithm: str = "parse", **settings: Any) -> RunConfig:
        dotted = {name.replace("__", "."): value for name, value in settings.items()}
        every = {"algorithm.vocabulary.families": "all"} if algorithm == "parse" else {}
        return change(build_config("blueprints", algorithm), TINY | every | dotted)

    return build


@pytest.fixture(scope="session")
def finished_run(shared: Path, tmp_path_factory: pytest.TempPathFactory, tiny: Tiny) -> FinishedRun:
    """finished_run("erm"): the folder of a finished tiny run, made on first use. Read it, do not change it.

    It is trained once; every process that runs tests has a copy of its own.
    """
    made: dict[str, Path] = {}

    def run(algorithm: str) -> Path:
        if algorithm not in made:
            trained = shared / "finished" / algorithm
            with FileLock(shared / f"{algorithm}.lock"):
                execute(tiny(algorithm), trained, lambda step, check: None)
                folder = tmp_path_factory.mktemp("runs") / algorithm
                made[algorithm] = Path(shutil.copytree(trained, folder))
        return made[algorithm]

    return run


@pytest.fixture(scope="session")
def parse_run(finished_run: FinishedRun) -> Path:
    """The folder of a finished tiny run of PARSE. Read it, do not change it."""
    return finished_run("parse")


@pytest.fixture
def parse_copy(parse_run: Path, tmp_path: Path) -> Path:
    """A finished run of PARSE that may be changed."""
    return Path(shutil.copytree(parse_run, tmp_path / "parse_copy"))


@pytest.fixture(scope="session")
def erm_run(finished_run: FinishedRun) -> Path:
    """The folder of a finished tiny run of ERM. Read it, do not change it."""
    return finished_run("erm")


@pytest.fixture(scope="session")
def numbered() -> Numbered:
    """numbered("photo", 5): a domain whose image n is 4 pixels a side, all of value n, and of class n."""

    def build(name: str, count: int) -> Domain:
        numbers = np.arange(count)
        images = np.broadcast_to(numbers.astype(np.uint8)[:, None, None, None], (count, 4, 4, 3)).copy()
        return Domain(name, images, numbers)

    return build
