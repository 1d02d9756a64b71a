"""The structural layer, forward and backward: all applications evaluated ÷ those in use.

Dense is `evaluate` on the whole vocabulary times `sparsemax(Λ)`, with the library's own fast sparsemax: with an
ordinary one it would be slower still. Both give the same scores, and gradients to Λ, to the predicates' parameters
and to the descriptors.
"""

from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor

from benchmarks.report import Goal, Row, Side
from benchmarks.setting import ENUMERATIONS, INITIAL, TRAINED, Enumeration, Setting, make_trained
from benchmarks.timing import Call, in_turns, peak_memory
from parse_dg.model.composition import CompositionConfig
from parse_dg.model.primitives import PrimitiveDescriptors, to_descriptors
from parse_dg.model.sparsemax import sparsemax
from parse_dg.model.structure import StructuralLayer, StructureConfig
from parse_dg.model.vocabulary import VocabularyConfig

TITLE = "structural layer, forward + backward: dense ÷ support-restricted"


def rows(setting: Setting) -> Iterator[Row]:
    sizes = setting.sizes
    z = descriptors(setting, sizes.primitives)
    for enumeration in ENUMERATIONS:
        layer = build_layer(setting, sizes.primitives, sizes.layer_classes, enumeration)
        yield from _compared(setting, layer, z, f"{enumeration}, {INITIAL}", time_goal=3, memory_goal=3)
        make_trained(layer, sizes)
        yield from _compared(setting, layer, z, f"{enumeration}, {TRAINED}", time_goal=20, memory_goal=10)
    yield from _everything_in_use(setting, z)


def _everything_in_use(setting: Setting, z: PrimitiveDescriptors) -> Iterator[Row]:
    """Λ starting at zero, where restriction has nothing to leave out: evaluated at once ÷ part by part."""
    layer = build_layer(setting, setting.sizes.primitives, setting.sizes.classes[0], start="zeros")
    what = f"C = {setting.sizes.classes[0]}, {len(z.centre)} images, distinct, all in use: at once ÷ part by part"
    calls = at_once_call(layer, z), restricted_call(layer, z)
    laps = in_turns(setting.device, setting.budget(), *calls)
    names = "at once", "part by part"
    first, second = (Side.timed(name, lap) for name, lap in zip(names, laps, strict=True))
    yield Row(what=f"time: {what}", first=first, second=second)
    first, second = (
        Side(name=name, values=[peak_memory(call, setting.device)]) for name, call in zip(names, calls, strict=True)
    )
    yield Row(what=f"peak memory: {what}", first=first, second=second, unit="MiB")


def _compared(
    setting: Setting,
    layer: StructuralLayer,
    z: PrimitiveDescriptors,
    state: str,
    *,
    time_goal: float,
    memory_goal: float,
) -> Iterator[Row]:
    what = f"C = {len(layer.composition.weight)}, {len(z.centre)} images, {state}"
    calls = dense_call(layer, z), restricted_call(layer, z)
    dense, restricted = in_turns(setting.device, setting.budget(), *calls)
    yield Row(
        what=f"time: {what}",
        first=Side.timed("dense", dense),
        second=Side.timed("restricted", restricted),
        goal=_goal(setting, time_goal),
        note=f"{active_columns(layer, z):,} of {layer.vocabulary.size:,} in use",
    )
    first, second = (
        Side(name=name, values=[peak_memory(call, setting.device)])
        for name, call in zip(("dense", "restricted"), calls, strict=True)
    )
    goal = _goal(setting, memory_goal)
    yield Row(what=f"peak memory: {what}", first=first, second=second, unit="MiB", goal=goal)


def _goal(setting: Setting, limit: float) -> Goal | None:
    return None if setting.on_gpu else setting.goal("at least", limit)


def build_layer(
    setting: Setting,
    primitives: int,
    classes: int,
    enumeration: Enumeration = "distinct",
    start: Literal["simplex", "zeros"] = "simplex",
) -> StructuralLayer:
    """The layer at initialisation."""
    generator = torch.Generator().manual_seed(0)
    config = StructureConfig(
        vocabulary=VocabularyConfig(enumeration=enumeration), composition=CompositionConfig(start=start)
    )
    return StructuralLayer(primitives, classes, config, generator).to(setting.device)


def descriptors(setting: Setting, primitives: int) -> PrimitiveDescriptors:
    """Descriptors of random heat maps, as leaves of the graph."""
    generator = torch.Generator().manual_seed(0)
    evidence = 3 * torch.randn(setting.sizes.images, primitives, 7, 7, generator=generator) - 3
    z = to_descriptors(evidence, torch.tensor(1.0))
    return PrimitiveDescriptors(*(part.to(setting.device).requires_grad_() for part in z))


def active_columns(layer: StructuralLayer, z: PrimitiveDescriptors) -> int:
    """How many applications some class uses."""
    with torch.no_grad():
        return len(layer(z).columns)


def dense_call(layer: StructuralLayer, z: PrimitiveDescriptors) -> Call:
    everything = torch.arange(layer.vocabulary.size, device=layer.composition.weight.device)

    def call() -> None:
        scores = layer.evaluate(z, everything) @ sparsemax(layer.composition.weight).T
        _differentiate(scores, layer, z)

    return call


def at_once_call(layer: StructuralLayer, z: PrimitiveDescriptors) -> Call:
    """What is in use, however much it is, evaluated together and kept for the gradient."""

    def call() -> None:
        active = layer.composition.active()
        _differentiate(layer.evaluate(z, active.applications) @ active.weights.T, layer, z)

    return call


def restricted_call(layer: StructuralLayer, z: PrimitiveDescriptors) -> Call:
    return lambda: _differentiate(layer(z).logits, layer, z)


def _differentiate(logits: Tensor, layer: StructuralLayer, z: PrimitiveDescriptors) -> None:
    """Gradients to everything, gone again before the next call."""
    logits.logsumexp(1).sum().backward()
    for leaf in (*layer.parameters(), *z):
        leaf.grad = None
