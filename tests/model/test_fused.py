"""The fused kernels against the plain code, function by function and as a whole layer.

They run on CUDA, and without it in Triton's interpreter, where everything is small: TRITON_INTERPRET=1 pytest.
"""

import os
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from parse_dg.model import fused, structure
from parse_dg.model.composition import CompositionConfig
from parse_dg.model.predicate import Primitives
from parse_dg.model.predicates import Predicates, PredicatesConfig
from parse_dg.model.primitives import PrimitiveDescriptors, to_descriptors
from parse_dg.model.regularisers import EPSILON, concentration, diversity, diversity_and_concentration
from parse_dg.model.sparsemax import Threshold, backward_on_support, sparsemax, sparsemax_of_few
from parse_dg.model.structure import StructuralLayer, StructureConfig
from parse_dg.model.vocabulary import Vocabulary, VocabularyConfig
from tests.model.reference import random_descriptors, scatter, shake
from tests.model.test_sparsemax import INF, KINDS, NAN, TOLERANCE, definition, rows_of
from tests.parts import seeded

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = torch.device("cpu" if INTERPRETED else "cuda")
RUNS = find_spec("triton") is not None and (INTERPRETED or torch.cuda.is_available())

pytestmark = [
    pytest.mark.skipif(not RUNS, reason="needs CUDA and Triton, or Triton and TRITON_INTERPRET=1"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # the interpreter computes in NumPy, which warns of 1/0
]

K = 4 if INTERPRETED else 7
APPLICATIONS = 90 if INTERPRETED else 10**6
"""Up to how many applications are evaluated at once."""


class Kernels(NamedTuple):
    sparsemax: ModuleType
    predicates: ModuleType
    primitives: ModuleType


def atan2_of_numpy(y: Any, x: Any) -> Any:
    """The interpreter has no device library."""
    interpreter, language = import_module("triton.runtime.interpreter"), import_module("triton.language")
    handle = interpreter.TensorHandle(np.arctan2(y.handle.data, x.handle.data), y.handle.dtype)
    return language.core.tensor(handle, y.type)


@pytest.fixture(scope="module")
def kernels() -> Iterator[Kernels]:
    names = ("sparsemax", "predicates", "primitives")
    modules = Kernels(*(import_module(f"parse_dg.model.fused.{name}") for name in names))
    with pytest.MonkeyPatch.context() as patch:
        if INTERPRETED:
            patch.setattr(modules.predicates, "atan2", atan2_of_numpy)
        yield modules


@pytest.fixture
def switch(kernels: Kernels, monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """switch(True): whatever can be is fused; switch(False): nothing is."""

    def put(on: bool) -> None:
        monkeypatch.setattr(fused, "usable", lambda tensor: on and tensor.dtype == torch.float32)

    return put


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=seeded(seed)).to(DEVICE)


def close(found: Tensor, expected: Tensor, name: str = "", tolerance: float = 2e-5) -> None:
    """Equal to single precision, measured by the largest entry."""
    scale = max(1.0, expected.abs().max().item()) if expected.numel() else 1.0
    torch.testing.assert_close(
        found.double(), expected.double(), rtol=0, atol=tolerance * scale, msg=lambda text: f"{name}: {text}"
    )


# --- sparsemax ------------------------------------------------------------------------------------

LENGTHS = [1, 2, 127, 128, 129, 385] + ([] if INTERPRETED else [255, 256, 257, 8191, 8192, 8193, 131071, 131073])


def every_kind(length: int) -> Tensor:
    every = 8 if INTERPRETED or length > 1000 else 1
    return torch.cat([rows_of(kind, length, torch.float32)[::every] for kind in KINDS])


def check_support(kernels: Kernels, z: Tensor) -> Tensor:
    """The weights, after everything that must hold of them."""
    highest, depth, used = kernels.sparsemax.find_support(z.to(DEVICE))
    weights = kernels.sparsemax.weights(z.to(DEVICE), highest, depth).cpu()
    assert torch.equal(highest.cpu(), z.amax(1, keepdim=True))
    assert ((depth >= -1) & (depth < 0)).all()
    expected = definition(z)
    assert (weights >= 0).all()
    close(weights, expected, tolerance=5e-7)
    assert ((weights.double().sum(1) - 1).abs() <= TOLERANCE[torch.float32] * (4 + (expected > 0).sum(1))).all()
    assert torch.equal(used.cpu(), (weights > 0).any(0))
    return weights


@pytest.mark.parametrize("length", LENGTHS)
def test_find_support_of_every_kind_of_row(kernels: Kernels, length: int) -> None:
    check_support(kernels, every_kind(length))


@pytest.mark.skipif(INTERPRETED, reason="long rows are for CUDA")
@pytest.mark.parametrize("kind", ["normal", "constant", "one entry a block", "barely inside"])
def test_find_support_of_long_rows(kernels: Kernels, kind: str) -> None:
    n = 23 * 1024 * 128
    z = {
        "normal": lambda: 0.01 * torch.randn(n, generator=seeded(0)),
        "constant": lambda: torch.full((n,), 0.3),
        "one entry a block": lambda: (torch.arange(n) % 128 == 5) * 1e-4 - 0.02,
        # A sum of these in single precision is rounded to one side at every step.
        "barely inside": lambda: torch.where(torch.arange(n) % 128 == 5, -0.9211277961730957, -9.0),
    }[kind]()
    if kind == "barely inside":
        z[5] = 0
    check_support(kernels, torch.stack([z, z.flip(0)]))


@pytest.mark.parametrize("length", [1, 5, 128, 300])
@pytest.mark.parametrize("value", [NAN, INF, -INF], ids=str)
def test_rows_without_a_projection_are_nan_and_alone_in_it(kernels: Kernels, value: float, length: int) -> None:
    z = 0.1 * torch.randn(7, length, generator=seeded(1))
    z[2, length // 2] = z[6, 0] = value
    if value == -INF:
        z[2] = z[6] = value
    broken = torch.tensor([2, 6])
    good = torch.tensor([0, 1, 3, 4, 5])
    highest, depth, used = kernels.sparsemax.find_support(z.to(DEVICE))
    weights = kernels.sparsemax.weights(z.to(DEVICE), highest, depth).cpu()
    assert weights[broken].isnan().all()
    assert torch.equal(weights[good], check_support(kernels, z[good]))
    expected = (weights[good] > 0).any(0)
    expected[0] = True
    assert torch.equal(used.cpu(), expected)
    gradient = kernels.sparsemax.backward_on_support(randn(7, length), weights.to(DEVICE)).cpu()
    assert gradient[broken].isnan().all()
    assert gradient[good].isfinite().all()


@pytest.mark.parametrize("length", [1, 128, 2047, 2048, 2049, 5000])
@pytest.mark.parametrize("scale", [1e-3, 1.0])
def test_backward_on_support(kernels: Kernels, scale: float, length: int) -> None:
    weights = sparsemax(scale * randn(5, length, seed=3).cpu())
    gradient = randn(length, 5, seed=4).T  # not contiguous
    expected = backward_on_support(gradient.cpu().double(), weights.double())
    found = kernels.sparsemax.backward_on_support(gradient, weights.to(DEVICE)).cpu()
    close(found, expected)
    assert (found[weights == 0] == 0).all()


def test_backward_on_support_reads_nothing_outside_it(kernels: Kernels) -> None:
    weights = sparsemax(torch.randn(3, 200, generator=seeded(5)))
    gradient = torch.randn(3, 200, generator=seeded(6))
    expected = backward_on_support(gradient, weights)
    gradient[weights == 0] = NAN
    close(kernels.sparsemax.backward_on_support(gradient.to(DEVICE), weights.to(DEVICE)).cpu(), expected)


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (1, 4095), (2, 2048), (1, 4097), (3, 5000)])
def test_sign_times(kernels: Kernels, shape: tuple[int, int]) -> None:
    z = torch.randn(shape, generator=seeded(7))
    special = torch.tensor([0.0, -0.0, 1e-30, -1e-30, INF, -INF, 3e38, -3e38])[: z.numel()]
    z.view(-1)[: len(special)] = special
    for factor in (0.3, -2.0, 0.0):
        scale = torch.tensor(factor)
        assert torch.equal(kernels.sparsemax.sign_times(z.to(DEVICE), scale.to(DEVICE)).cpu(), z.sign() * scale)


# --- predicates -----------------------------------------------------------------------------------


def predicates_of(
    count: int = K,
    *,
    gate: bool = True,
    softness: float = 0.4,
    fade: float = 0.05,
    enumeration: str = "distinct",
    families: str = "all",
    budget: int | None = None,
) -> tuple[Vocabulary, Predicates]:
    config = VocabularyConfig(
        enumeration=enumeration,  # type: ignore[arg-type]
        families=families,  # type: ignore[arg-type]
        turning_angles=2,
        budget=budget,
    )
    vocabulary = Vocabulary(count, config)
    predicates = Predicates(vocabulary, PredicatesConfig(gate=gate, edge_softness=softness, edge_fade=fade))
    shake(predicates, seed=8)
    return vocabulary, predicates.to(DEVICE)


def some_columns(vocabulary: Vocabulary, most: int = APPLICATIONS) -> Tensor:
    """Up to `most` columns, the first and last of every predicate among them."""
    ends = [column for b in vocabulary.blocks if b.size for column in (b.start, b.start + b.size - 1)]
    step = max(1, vocabulary.size // most)
    return torch.tensor(sorted({*ends, *range(0, vocabulary.size, step)}), device=DEVICE)


Values = dict[str, Tensor]


def values_and_gradients(
    evaluate: Callable[[Predicates, PrimitiveDescriptors], Tensor], predicates: Predicates, z: PrimitiveDescriptors
) -> Values:
    """The activations, and the gradient of a random sum of them of everything they depend on."""
    centre, presence, extent = (part.detach().clone().requires_grad_() for part in z[:3])
    activations = evaluate(predicates, PrimitiveDescriptors(centre, presence, extent, z.heatmap))
    upstream = torch.randn(activations.shape, generator=seeded(9), dtype=torch.float64)
    inputs = {"centre": centre, "presence": presence, "extent": extent, **dict(predicates.named_parameters())}
    loss = (activations * upstream.to(activations)).sum()
    found = torch.autograd.grad(loss, list(inputs.values()), allow_unused=True)
    zeros = {name: torch.zeros_like(value) for name, value in inputs.items()}
    gradients = {name: zeros[name] if g is None else g for name, g in zip(inputs, found, strict=True)}
    return {"activations": activations.detach(), **gradients}


def compare(
    kernels: Kernels,
    vocabulary: Vocabulary,
    predicates: Predicates,
    z: PrimitiveDescriptors,
    columns: Tensor,
    *,
    dtype: torch.dtype = torch.float64,
) -> Values:
    """The fused path follows the plain one, computed in `dtype`; the plain one's."""
    z = PrimitiveDescriptors(*(part.to(DEVICE, torch.float32) for part in z))
    found = values_and_gradients(lambda p, z: kernels.predicates.evaluate(p, vocabulary, z, columns), predicates, z)

    def plain(p: Predicates, z: PrimitiveDescriptors) -> Tensor:
        activations: Tensor = p(Primitives.of(z), list(vocabulary.applications(columns)))
        return activations.T

    twin = Predicates(vocabulary, predicates.config).to(DEVICE)
    twin.load_state_dict(predicates.state_dict())
    expected = values_and_gradients(plain, twin.to(dtype), PrimitiveDescriptors(*(part.to(dtype) for part in z)))
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert found[name].dtype == torch.float32
        assert found[name].shape == value.shape
        close(found[name], value, name, tolerance=1e-5 if name == "activations" else 5e-5)
    return expected


@pytest.mark.parametrize("enumeration", ["distinct", "paper"])
@pytest.mark.parametrize("fade", [0.0, 0.5])
@pytest.mark.parametrize("softness", [0.0, 0.4])
@pytest.mark.parametrize("gate", [False, True], ids=["open", "gated"])
def test_evaluate_follows_the_plain_predicates(
    kernels: Kernels, gate: bool, softness: float, fade: float, enumeration: str
) -> None:
    vocabulary, predicates = predicates_of(gate=gate, softness=softness, fade=fade, enumeration=enumeration)
    expected = compare(kernels, vocabulary, predicates, random_descriptors(3, K, seed=0), some_columns(vocabulary))
    assert all(gradient.abs().max() > 1e-4 for gradient in expected.values())


def on_a_line(x: float, y: float) -> Tensor:
    """Points in a line of the axes, where no cross product rounds."""
    steps = torch.tensor([0.0, 0.25, 0.5, 1.0, -0.5, -1.0, 0.75])[:K]
    return (steps.unsqueeze(1) * torch.tensor([x, y])).expand(2, K, 2).clone()


GENERAL = random_descriptors(2, K, seed=6, dtype=torch.float32)
DEGENERATE = {
    "all coincide": GENERAL._replace(centre=torch.full((2, K, 2), 0.25)),
    "two coincide": GENERAL._replace(centre=GENERAL.centre.index_copy(1, torch.tensor([1]), GENERAL.centre[:, :1])),
    "in a row": GENERAL._replace(centre=on_a_line(1.0, 0.0)),
    "in a column": GENERAL._replace(centre=on_a_line(0.0, -1.0)),
    "under the floor": GENERAL._replace(centre=GENERAL.centre * 1e-6),
    "no extent": GENERAL._replace(extent=torch.zeros(2, K, 2)),
    "boxes alike": GENERAL._replace(centre=torch.zeros(2, K, 2), extent=torch.full((2, K, 2), 0.5)),
    "absent": GENERAL._replace(presence=torch.zeros(2, K)),
    "one absent": GENERAL._replace(presence=1 - torch.eye(K)[:2]),
    "hardly there": GENERAL._replace(presence=torch.full((2, K), 1e-20)),
    "at the gate's floor": GENERAL._replace(presence=torch.full((2, K), 1e-30)),
    "under the gate's floor": GENERAL._replace(presence=torch.full((2, K), 1e-35)),
    "certain": GENERAL._replace(presence=torch.ones(2, K)),
    "nothing at all": PrimitiveDescriptors(
        torch.zeros(2, K, 2), torch.zeros(2, K), torch.zeros(2, K, 2), GENERAL.heatmap
    ),
}


@pytest.mark.parametrize(("softness", "fade"), [(0.0, 0.0), (0.4, 0.0), (0.4, 0.05)])
@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_descriptors(kernels: Kernels, name: str, softness: float, fade: float) -> None:
    vocabulary, predicates = predicates_of(softness=softness, fade=fade)
    columns = some_columns(vocabulary, APPLICATIONS // 4)
    values = compare(kernels, vocabulary, predicates, DEGENERATE[name], columns, dtype=torch.float32)
    assert all(value.isfinite().all() for value in values.values())


# --- descriptors ----------------------------------------------------------------------------------

MAPS = {
    "7x7": (3, K, 7, 7),
    "a row": (2, K, 1, 6),
    "a column": (2, K, 4, 1),
    "one cell": (2, K, 1, 1),
    "one image, one primitive": (1, 1, 3, 5),
    "8x8": (2, K, 8, 8),
}
OUTPUTS = ("centre", "presence", "extent", "heatmap")


def check_describe(kernels: Kernels, evidence: Tensor, temperature: float, used: tuple[str, ...] = OUTPUTS) -> None:
    results = []
    for dtype, function in ((torch.float32, kernels.primitives.to_descriptors), (torch.float64, to_descriptors)):
        given = evidence.detach().to(DEVICE, dtype).requires_grad_()
        T = torch.tensor(temperature, dtype=torch.float32).to(DEVICE, dtype).requires_grad_()
        outputs = PrimitiveDescriptors(*function(given, T))
        terms = []
        for seed, name in enumerate(OUTPUTS):
            value = getattr(outputs, name)
            upstream = torch.randn(value.shape, generator=seeded(seed), dtype=torch.float64)
            if name in used:
                terms.append((value * upstream.to(value)).sum())
        gradients = torch.autograd.grad(torch.stack(terms).sum(), (given, T), materialize_grads=True)
        results.append({**outputs._asdict(), "of evidence": gradients[0], "of temperature": gradients[1]})
    found, expected = results
    for name, value in expected.items():
        assert found[name].dtype == torch.float32
        assert found[name].shape == value.shape
        close(found[name].detach(), value.detach(), name)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("name", MAPS)
def test_describe_follows_the_plain_one(kernels: Kernels, name: str, temperature: float) -> None:
    check_describe(kernels, 2 * randn(*MAPS[name], seed=11), temperature)


@pytest.mark.parametrize("name", MAPS)
def test_describe_where_the_maximum_is_tied(kernels: Kernels, name: str) -> None:
    check_describe(kernels, randn(*MAPS[name], seed=13).round().clamp_max(1), 1.0)
    check_describe(kernels, torch.full(MAPS[name], -0.5), 1.0)


def test_maps_that_do_not_fit_are_described_plainly(
    kernels: Kernels, switch: Callable[[bool], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    evidence, T = randn(1, 3, 9, 9, seed=16), torch.tensor(1.0, device=DEVICE)
    switch(False)
    expected = (*to_descriptors(evidence, T), *diversity_and_concentration(to_descriptors(evidence, T).heatmap))
    switch(True)
    monkeypatch.setattr(kernels.primitives, "LARGEST", 4 * 128 - 1)
    monkeypatch.setattr(kernels.primitives, "_Describe", None)
    monkeypatch.setattr(kernels.primitives, "_Regularise", None)
    found = (*to_descriptors(evidence, T), *diversity_and_concentration(to_descriptors(evidence, T).heatmap))
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    monkeypatch.setattr(kernels.primitives, "LARGEST", 4 * 128)
    assert kernels.primitives.fits(evidence)


# --- regularisers ---------------------------------------------------------------------------------


def check_regularisers(kernels: Kernels, heatmap: Tensor) -> None:
    def plain(maps: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
        assert epsilon == EPSILON
        return diversity(maps), concentration(maps)

    for weights in ((1.0, 0.3), (1.0, 0.0), (0.0, -2.0)):
        results = []
        for dtype, function in (
            (torch.float32, kernels.primitives.diversity_and_concentration),
            (torch.float64, plain),
        ):
            maps = heatmap.detach().to(DEVICE, dtype).requires_grad_()
            terms = function(maps, EPSILON)
            # Only those with a weight are used at all.
            loss = torch.stack([w * term for w, term in zip(weights, terms, strict=True) if w]).sum()
            gradient = torch.zeros_like(maps)
            if loss.requires_grad:
                (gradient,) = torch.autograd.grad(loss, maps, materialize_grads=True)
            results.append((*terms, gradient))
        for name, found, expected in zip(("diversity", "concentration", "gradient"), *results, strict=True):
            assert found.dtype == torch.float32
            assert found.shape == expected.shape
            close(found.detach(), expected.detach(), name)


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("scale", [0.0, 2.0, 30.0])
def test_regularisers_follow_the_plain_ones(kernels: Kernels, scale: float, name: str) -> None:
    cells = (scale * randn(*MAPS[name], seed=17)).flatten(2)
    for maps in (cells.softmax(-1), sparsemax_of_few(cells)):
        check_regularisers(kernels, maps.view(MAPS[name]))


# --- the whole layer ------------------------------------------------------------------------------

STARTS = {
    "simplex": CompositionConfig(start_entries=2),
    "zeros": CompositionConfig(start="zeros"),
    "a share for presence": CompositionConfig(presence_share=0.4, start_entries=2),
    "scattered": CompositionConfig(),
}


def layer_of(start: str, families: str = "all") -> StructuralLayer:
    vocabulary = VocabularyConfig(families=families)  # type: ignore[arg-type]
    config = StructureConfig(vocabulary=vocabulary, composition=STARTS[start])
    layer = StructuralLayer(K, 3, config, seeded(20))
    layer.composition.penalised = True
    if start == "scattered":
        scatter(layer.composition, 0.1, seed=20)
    shake(layer.predicates, seed=21)
    return layer.to(DEVICE)


def run_layer(layer: StructuralLayer, images: int = 5) -> Values:
    z = random_descriptors(images, K, seed=22, dtype=torch.float32)
    centre, presence, extent = (part.to(DEVICE).requires_grad_() for part in z[:3])
    support = layer.composition.find_support()
    output = layer(PrimitiveDescriptors(centre, presence, extent, z.heatmap.to(DEVICE)), support)
    inputs = {"centre": centre, "presence": presence, "extent": extent, **dict(layer.named_parameters())}
    loss = (output.logits * randn(images, 3, seed=23)).sum() + 5 * output.l1
    found = torch.autograd.grad(loss, list(inputs.values()), materialize_grads=True, allow_unused=True)
    return {**output._asdict(), **{f"of {name}": g for name, g in zip(inputs, found, strict=True)}}


def same(found: Values, expected: Values) -> None:
    assert torch.equal(found["columns"], expected["columns"])
    for name, value in expected.items():
        assert found[name].dtype == value.dtype, name
        close(found[name].detach(), value.detach(), name, tolerance=1e-4)


@pytest.mark.parametrize("parts", [False, True], ids=["at once", "and the plain one part by part"])
@pytest.mark.parametrize("start", STARTS)
def test_a_fused_layer_follows_the_plain_one(
    start: str, parts: bool, switch: Callable[[bool], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = layer_of(start, "binary+ternary" if INTERPRETED else "all")
    if parts:
        monkeypatch.setattr(structure, "AT_ONCE", 5 * 30)
        monkeypatch.setattr(structure, "PART", 5 * 30)
    switch(False)
    expected = run_layer(layer)
    switch(True)
    same(run_layer(layer), expected)
    double = {name: value.double() for name, value in expected.items() if value.is_floating_point()}
    assert all(value.isfinite().all() for value in double.values())
    assert expected["of composition.weight"].abs().max() > 0


def test_thresholds_and_gradients_of_sparsemax_are_fused_too(switch: Callable[[bool], None]) -> None:
    z = 0.1 * randn(6, 300, seed=26)
    upstream = randn(6, 300, seed=27)
    results = []
    for on in (False, True):
        switch(on)
        given = z.clone().requires_grad_()
        weights = sparsemax(given)
        results.append((weights.detach(), torch.autograd.grad(weights, given, upstream)[0]))
    for found, expected in zip(results[1], results[0], strict=True):
        close(found, expected, tolerance=1e-6)
    tau = Threshold(z.amax(1, keepdim=True), torch.full((6, 1), -0.05, device=DEVICE))
    switch(False)
    expected = tau.weights(z)
    switch(True)
    close(tau.weights(z), expected, tolerance=1e-7)
