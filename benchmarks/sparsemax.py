"""Sparsemax of the largest Λ, 345 classes over the paper's vocabulary: entmax's, and a plain sort, ÷ ours.

`entmax.sparsemax` is called as it comes: it sorts every row. The plain sort is `torch.sort` of the rows and nothing
else, the least that a sparsemax by sorting has to do.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from benchmarks.report import Row, Side, Skipped
from benchmarks.setting import INITIAL, TRAINED, Setting, make_trained
from benchmarks.structural_layer import build_layer
from benchmarks.timing import Call, in_turns
from parse_dg.model.sparsemax import sparsemax

try:
    from entmax import sparsemax as entmax_sparsemax
except ImportError:
    entmax_sparsemax = None

TITLE = "sparsemax of Λ: torch.sort alone, and entmax.sparsemax, ÷ ours"


def rows(setting: Setting) -> Iterator[Row | Skipped]:
    sizes = setting.sizes
    layer = build_layer(setting, sizes.primitives, sizes.classes[-1], "paper")
    yield from _compared(setting, layer.composition.weight, INITIAL)
    make_trained(layer, sizes)
    yield from _compared(setting, layer.composition.weight, TRAINED)


def _compared(setting: Setting, weight: Tensor, state: str) -> Iterator[Row | Skipped]:
    z = weight.detach().clone()
    what = f"{len(z)} × {z.shape[1]:,}, {state}"
    budget = setting.budget(rounds=7)
    ours, sort = in_turns(setting.device, budget, lambda: sparsemax(z), lambda: z.sort(-1, descending=True))
    yield Row(
        what=f"torch.sort ÷ ours: {what}, forward",
        first=Side.timed("torch.sort", sort),
        second=Side.timed("ours", ours),
    )
    if entmax_sparsemax is None:
        yield Skipped(f"entmax ÷ ours: {what}", "entmax is not installed")
        return
    for direction, call in (("forward", _forward), ("forward + backward", _forward_and_backward)):
        ours, theirs = in_turns(setting.device, budget, call(sparsemax, z), call(entmax_sparsemax, z))
        yield Row(
            what=f"entmax ÷ ours: {what}, {direction}",
            first=Side.timed("entmax", theirs),
            second=Side.timed("ours", ours),
            goal=setting.goal("at least", 5),
        )


def _forward(function: Callable[[Tensor], Tensor], z: Tensor) -> Call:
    return lambda: function(z)


def _forward_and_backward(function: Callable[[Tensor], Tensor], z: Tensor) -> Call:
    leaf, gradient = z.clone().requires_grad_(), torch.randn_like(z)
    return lambda: torch.autograd.grad(function(leaf), leaf, gradient)
