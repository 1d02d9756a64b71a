"""Recorded steps of the methods as their authors' code makes them, to hold ours against.

`NAME.npz` and `NAME.json` hold a few steps of a method on a small network: the start and the end of its parameters,
every batch, every random draw, and what was logged and predicted after each step. They are in the folder that the
environment variable PARSE_DG_GOLDEN names, those that it lacks in `tests/golden`. How many steps, domains, classes
and features there are is read from the files. All tests that read any have the mark `golden`.
"""

import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from parse_dg.algorithms.base import Algorithm, BuildContext, Minibatch
from parse_dg.model.backbones.backbone import Backbone
from parse_dg.training.optimizer import OptimizerConfig
from tests.parts import trainer_of

TOLERANCE = 1e-4
"""Relative; a tenth of it absolute, for what is near zero."""

State = dict[str, Tensor]


OURS = Path(__file__).parent.parent / "golden"
NAMED = Path(os.environ.get("PARSE_DG_GOLDEN") or OURS).absolute()  # wherever a test goes from here


def find(file: str) -> Path:
    """Where a recording is."""
    assert NAMED.is_dir(), f"PARSE_DG_GOLDEN must name a folder, found {NAMED}"
    return NAMED / file if (NAMED / file).exists() else OURS / file


def arrays(name: str) -> dict[str, np.ndarray]:
    """The arrays of `NAME.npz`."""
    with np.load(find(f"{name}.npz"), allow_pickle=False) as file:
        return {key: file[key] for key in file.files}


def records(name: str) -> Any:
    """What `NAME.json` holds."""
    return json.loads(find(f"{name}.json").read_text())


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Some steps of one method."""

    name: str
    hparams: dict[str, Any]
    losses: list[dict[str, float]]
    """What was logged at each step."""
    steps: int
    domains: int
    classes: int
    tensors: State

    @property
    def inputs(self) -> int:
        """How many numbers an input has."""
        return int(self.tensors["step0/x0"].shape[1])

    def initial(self) -> State:
        """The parameters before the first step, by their official names."""
        return self._under("init/")

    def final(self) -> State:
        """The parameters after the last step, by their official names."""
        return self._under("final/")

    def batch(self, step: int) -> Minibatch:
        """The batch of a step, counted from 0: one domain after another."""
        inputs = [self.tensors[f"step{step}/x{domain}"] for domain in range(self.domains)]
        labels = [self.tensors[f"step{step}/y{domain}"] for domain in range(self.domains)]
        numbers = [torch.full_like(each, domain) for domain, each in enumerate(labels)]
        return Minibatch(as_images(torch.cat(inputs)), torch.cat(labels), torch.cat(numbers))

    def draws(self, step: int) -> list[Tensor]:
        """Every random draw of a step, in the order in which they were made."""
        found = [re.fullmatch(rf"step{step}/draw(\d+)_\w+", name) for name in self.tensors]
        in_order = sorted((match for match in found if match), key=lambda match: int(match[1]))
        return [self.tensors[match[0]] for match in in_order]

    def prediction(self, step: int) -> Tensor:
        """The logits of `ones` after a step."""
        return self.tensors[f"step{step}/predict"]

    def ones(self) -> Tensor:
        """The input that predictions are of, as an image."""
        return as_images(torch.ones(1, self.inputs))

    def backbone(self) -> "FlatBackbone":
        """A backbone of the featurizer's size; its start does not matter."""
        state = self.initial()
        prefix = next(name for name in ("featurizer.", "network_f.") if f"{name}input.weight" in state)
        width, channels = len(state[f"{prefix}input.weight"]), len(state[f"{prefix}output.weight"])
        return FlatBackbone(self.inputs, width, int(self.hparams["mlp_depth"]), channels)

    def context(self) -> BuildContext:
        """What a method is built from."""
        return BuildContext(self.backbone(), self.classes, domains=self.domains)

    def _under(self, prefix: str) -> State:
        return {name.removeprefix(prefix): v for name, v in self.tensors.items() if name.startswith(prefix)}


def load(name: str) -> Trace:
    """The recorded steps of an official method: load("DANN")."""
    tensors = {key: torch.from_numpy(np.array(value)) for key, value in arrays(name).items()}
    said = records(name)
    sizes = {key: said[key] for key in ("steps", "domains", "classes")}
    return Trace(name=name, hparams=said["hparams"], losses=said["losses"], tensors=tensors, **sizes)


def as_images(inputs: Tensor) -> Tensor:
    """Vectors as square images of three channels, filled up with zeros: 8 numbers are 3x2x2."""
    side = math.isqrt(max(0, math.ceil(inputs.shape[1] / 3) - 1)) + 1
    return F.pad(inputs, (0, 3 * side * side - inputs.shape[1])).unflatten(1, (3, side, side))


class FlatBackbone(Backbone):
    """The official multi-layer perceptron as a backbone: the first numbers of an image → a map of one position."""

    def __init__(self, inputs: int = 8, width: int = 16, depth: int = 3, channels: int = 16):
        super().__init__(channels=channels, freeze_batchnorm=True)
        self.inputs = inputs
        self.input = nn.Linear(inputs, width)
        self.hiddens = nn.ModuleList(nn.Linear(width, width) for _ in range(depth - 2))
        self.output = nn.Linear(width, channels)

    def forward(
        self, images: Float[Tensor, "B 3 H W"], generator: torch.Generator | None = None
    ) -> Float[Tensor, "B C 1 1"]:
        x = F.relu(self.input(images.flatten(1)[:, : self.inputs]))
        for hidden in self.hiddens:
            x = F.relu(hidden(x))
        features: Tensor = self.output(x)[:, :, None, None]
        return features


def renamed(state: State, prefixes: Mapping[str, str]) -> State:
    """The tensors whose official names open with one of `prefixes`, under the names we give them."""
    return {
        ours + name.removeprefix(official): value
        for official, ours in prefixes.items()
        for name, value in state.items()
        if name.startswith(official)
    }


class Step(NamedTuple):
    """What one step of ours gave."""

    terms: dict[str, Tensor]
    prediction: Tensor


def replay(
    trace: Trace, algorithm: Algorithm, rates: OptimizerConfig, before: Callable[[int], None] = lambda step: None
) -> Iterator[Step]:
    """Every recorded step, made by the trainer; `before` is told the number of each, counted from 0."""
    trainer = trainer_of(algorithm, rates, steps=trace.steps)
    for step in range(trace.steps):
        before(step)
        algorithm.train()
        terms = trainer.update(step + 1, trace.batch(step))
        with torch.no_grad():
            yield Step(terms, algorithm.eval()(trace.ones()))


def constant(rate: float, weight_decay: float = 0.0) -> OptimizerConfig:
    """One rate for everything."""
    return OptimizerConfig(backbone_rate=rate, head_rate=rate, composition_rate=rate, weight_decay=weight_decay)


def assert_same(found: Tensor | State, expected: Tensor | State) -> None:
    """Equal up to rounding; of a state, the tensors that `expected` names."""
    if isinstance(expected, dict):
        assert expected
        found = {name: found[name] for name in expected}  # type: ignore[call-overload,index]
    torch.testing.assert_close(found, expected, rtol=TOLERANCE, atol=TOLERANCE / 10)
