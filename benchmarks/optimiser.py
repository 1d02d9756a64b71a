"""Λ, by far the largest parameter: what finding its support, its ℓ1 norm, its gradient and Adam cost in a step.

All of it is moving bytes, so the floor is a copy of as many bytes. Adam reads Λ, its gradient and two moments and
writes three of them back: 7 passes over the size of Λ. The support and the norm read Λ: 2. The gradient, which the
norm gives everywhere, reads Λ and is written: 2.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from benchmarks.report import Row, Side
from benchmarks.setting import TRAINED, Setting, make_trained
from benchmarks.structural_layer import build_layer
from benchmarks.timing import Call, Laps, in_turns
from parse_dg.model.composition import Composition

TITLE = "Λ in a step: Adam, ℓ1 and gradient"
RATE, SPARSITY = 1e-12, 0.01
"""A rate at which nothing moves, and the usual weight of ℓ1."""
ADAM, EVERYTHING = 7, 11
"""Passes over the size of Λ that must be made; a copy makes two."""


def rows(setting: Setting) -> Iterator[Row]:
    layer = build_layer(setting, setting.sizes.primitives, setting.sizes.classes[-1], "paper")
    make_trained(layer, setting.sizes)
    composition = layer.composition
    classes, columns = composition.weight.shape
    what = f"{classes} × {columns:,}, {TRAINED}"
    budget = setting.budget(rounds=7)
    target = torch.empty_like(composition.weight)
    copy = lambda: target.copy_(composition.weight.detach())  # noqa: E731
    fused, plain = (_adam(composition.weight, fused=fused) for fused in (True, None))
    together, apart = (_gradient(composition, together=together) for together in (True, False))

    copies, fused_laps, plain_laps = in_turns(setting.device, budget, copy, fused, plain)
    yield _row(f"Adam as PyTorch has it by default ÷ fused: {what}", "default", plain_laps, "fused", fused_laps)
    yield _against_floor(f"fused Adam ÷ floor: {what}", "fused", fused_laps, copies, ADAM)

    laps = in_turns(setting.device, budget, together, apart)
    yield _row(f"gradient with ℓ1 as a term of its own ÷ together: {what}", "apart", laps[1], "together", laps[0])

    def step() -> None:
        together()
        fused()

    copies, laps_of_all = in_turns(setting.device, budget, copy, step)
    yield _against_floor(f"support, ℓ1, gradient and Adam ÷ floor: {what}", "all", laps_of_all, copies, EVERYTHING)


def _adam(weight: nn.Parameter, *, fused: bool | None) -> Call:
    optimizer = torch.optim.Adam([weight], lr=RATE, fused=fused)
    gradient = torch.full_like(weight, 1e-9)

    def call() -> None:
        weight.grad = gradient
        optimizer.step()

    return call


def _gradient(composition: Composition, *, together: bool) -> Call:
    """Active weights and ℓ1, and the gradient of both to Λ."""

    def call() -> None:
        composition.weight.grad = None
        composition.penalised = together
        active = composition.active()
        l1: Tensor = composition.weight.abs().mean() if active.l1 is None else active.l1
        (active.weights.square().sum() + SPARSITY * l1).backward()

    return call


def _row(what: str, first: str, first_laps: Laps, second: str, second_laps: Laps) -> Row:
    return Row(what=what, first=Side.timed(first, first_laps), second=Side.timed(second, second_laps))


def _against_floor(what: str, name: str, laps: Laps, copies: Laps, passes: int) -> Row:
    floor = [lap * passes / 2 for lap in copies.host]
    note = f"floor: {passes} passes over Λ at the speed of a copy"
    return Row(what=what, first=Side.timed(name, laps), second=Side(name="floor", values=floor), note=note)
