"""Growth with K, the number of primitives: columns, and time and memory of the structural layer; on a GPU the step.

The layer is the library's own, forward and backward, over the `distinct` vocabulary. Each K is divided by the
default, K = 16.
"""

from collections.abc import Iterator, Sequence

from benchmarks.report import Row, Side, Unit
from benchmarks.setting import INITIAL, TRAINED, Setting, make_trained
from benchmarks.step import Comparison
from benchmarks.structural_layer import active_columns, build_layer, descriptors, restricted_call
from benchmarks.timing import in_turns, peak_memory
from parse_dg.model.structure import StructuralLayer

TITLE = "growth with K, structural layer forward + backward: K ÷ default K"


def rows(setting: Setting) -> Iterator[Row]:
    sizes = setting.sizes
    layers = [build_layer(setting, K, sizes.layer_classes) for K in sizes.growth]
    yield from _against_default(setting, "M", [[layer.vocabulary.size] for layer in layers], unit="columns")
    yield from _layer_rows(setting, layers, INITIAL)
    for layer in layers:
        make_trained(layer, sizes)
    yield from _layer_rows(setting, layers, TRAINED)
    layers.clear()
    if setting.on_gpu:
        yield from _step_rows(setting)


def _layer_rows(setting: Setting, layers: Sequence[StructuralLayer], state: str) -> Iterator[Row]:
    what = f"C = {setting.sizes.layer_classes}, {state}"
    inputs = [descriptors(setting, layer.vocabulary.primitives) for layer in layers]
    calls = [restricted_call(layer, z) for layer, z in zip(layers, inputs, strict=True)]
    notes = [f"{active_columns(layer, z):,} in use" for layer, z in zip(layers, inputs, strict=True)]
    laps = in_turns(setting.device, setting.budget(), *calls)
    yield from _against_default(setting, f"time, {what}", [lap.host for lap in laps], notes, unit="ms")
    peaks = [[peak_memory(call, setting.device)] for call in calls]
    yield from _against_default(setting, f"peak memory, {what}", peaks, unit="MiB")


def _against_default(
    setting: Setting, what: str, values: Sequence[Sequence[float]], notes: Sequence[str] = (), *, unit: Unit
) -> Iterator[Row]:
    """A row for each K but the default; `values` and `notes` have an entry for every K."""
    growth, default = setting.sizes.growth, setting.sizes.primitives
    sides = {K: Side(name=f"K = {K}", values=found) for K, found in zip(growth, values, strict=True)}
    said = dict(zip(growth, notes, strict=True)) if notes else {}
    for K in growth:
        if default != K:
            name = f"K = {K} ÷ {default}: {what}"
            yield Row(what=name, first=sides[K], second=sides[default], unit=unit, note=said.get(K, ""))


def _step_rows(setting: Setting) -> Iterator[Row]:
    comparison = Comparison(setting)
    for K in setting.sizes.growth:
        goal = setting.goal("at most", 1.30) if K == 32 else None
        for row in comparison.rows(setting.sizes.layer_classes, K, "distinct", goal):
            yield row.renamed(f"PARSE step ÷ ERM step: {row.what}")
