"""The structural layer: evaluating only what some class uses equals evaluating everything, both ways."""

import pytest
import torch
from torch import Tensor

from parse_dg.model import structure
from parse_dg.model.composition import CompositionConfig
from parse_dg.model.predicates import PredicatesConfig
from parse_dg.model.primitives import PrimitiveDescriptors
from parse_dg.model.structure import StructuralLayer, StructureConfig
from parse_dg.model.vocabulary import VocabularyConfig
from tests.model import reference
from tests.model.reference import random_descriptors, read_name, scatter, shake, shape_of, sparsemax_by_sorting
from tests.parts import seeded

STARTS = {
    "simplex": CompositionConfig(),
    "simplex, few": CompositionConfig(start_entries=3),
    "zeros": CompositionConfig(start="zeros"),
    "scattered": CompositionConfig(logit_scale="fixed"),
    "scattered, narrow": CompositionConfig(logit_scale="none"),
}
SCATTERED = {"scattered": 0.1, "scattered, narrow": 1e-3}
"""Where Λ is not what a start makes of it: its standard deviation."""


def build(
    K: int = 6,
    classes: int = 3,
    *,
    start: str = "simplex",
    gate: bool = True,
    softness: float | None = None,
    **vocabulary: object,
) -> StructuralLayer:
    config = StructureConfig(
        vocabulary=VocabularyConfig(**vocabulary),  # type: ignore[arg-type]
        predicates=PredicatesConfig(
            gate=gate, edge_softness=(0.2 if gate else 0.0) if softness is None else softness, edge_fade=0.0
        ),
        composition=STARTS[start],
    )
    layer = StructuralLayer(K, classes, config, seeded(0)).double()
    layer.composition.penalised = True
    if start in SCATTERED:
        scatter(layer.composition, SCATTERED[start])
    shake(layer.predicates, seed=31)
    return layer


def with_gradients(z: PrimitiveDescriptors) -> PrimitiveDescriptors:
    centre, presence, extent = (part.clone().requires_grad_() for part in z[:3])
    return PrimitiveDescriptors(centre, presence, extent, z.heatmap)


def dense_logits(layer: StructuralLayer, z: PrimitiveDescriptors) -> tuple[Tensor, Tensor]:
    """s = w·a with every one of the M activations and the whole of sparsemax(Λ), and the logits."""
    activations = layer.evaluate(z, torch.arange(layer.vocabulary.size))
    scores = activations @ sparsemax_by_sorting(layer.composition.weight).T
    match layer.composition.config.logit_scale:
        case "learnable":
            return scores, scores * layer.composition.log_scale.exp()
        case "fixed":
            return scores, scores * layer.composition.config.scale_start
        case _:
            return scores, scores


def gradients(loss: Tensor, layer: StructuralLayer, z: PrimitiveDescriptors) -> dict[str, Tensor]:
    named = {"centre": z.centre, "presence": z.presence, "extent": z.extent, **dict(layer.named_parameters())}
    found = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
    return {n: torch.zeros_like(named[n]) if g is None else g for n, g in zip(named, found, strict=True)}


@pytest.mark.parametrize("enumeration", ["distinct", "paper"])
@pytest.mark.parametrize("gate", [False, True], ids=["paper's text", "with additions"])
@pytest.mark.parametrize("start", STARTS)
def test_the_restricted_path_equals_the_dense_path(start: str, gate: bool, enumeration: str) -> None:
    layer = build(5, start=start, gate=gate, enumeration=enumeration)
    z = with_gradients(random_descriptors(4, 5, seed=0))
    upstream = torch.randn(4, 3, generator=seeded(1), dtype=torch.float64)
    output = layer(z)
    scores, logits = dense_logits(layer, z)
    torch.testing.assert_close(output.scores, scores, rtol=0, atol=1e-12)
    torch.testing.assert_close(output.logits, logits, rtol=0, atol=1e-11)
    found = gradients((upstream * output.logits).sum(), layer, z)
    expected = gradients((upstream * logits).sum(), layer, z)
    for name in expected:
        torch.testing.assert_close(found[name], expected[name], rtol=0, atol=1e-10, msg=name)
    for name in ("composition.weight", "centre", "predicates.target_angle.orient"):
        assert found[name].abs().max() > 1e-6, name


@pytest.mark.parametrize("gate", [False, True], ids=["paper's text", "with additions"])
def test_scores_equal_the_papers_sum_in_slow_loops(gate: bool) -> None:
    layer = build(4, gate=gate, start="scattered")
    z = random_descriptors(2, 4, seed=1)
    found = [read_name(name) for name in layer.vocabulary.names(torch.arange(layer.vocabulary.size))]
    shape, output = shape_of(layer.predicates), layer(z)
    for b, image in enumerate(reference.images(z)):
        activations = [reference.satisfaction(application, image, shape, gate) for application in found]
        for c, row in enumerate(layer.composition.weight.tolist()):
            weights = reference.sparsemax_exact(row)
            score = sum(w * a for w, a in zip(weights, activations, strict=True))
            assert output.scores[b, c].item() == pytest.approx(score, abs=1e-9)


def test_the_output_explains_its_scores() -> None:
    layer = build(start="scattered")
    z = random_descriptors(3, 6, seed=2)
    output = layer(z)
    activations = layer.evaluate(z, output.columns)
    torch.testing.assert_close(activations @ output.weights.T, output.scores, rtol=0, atol=1e-15)
    assert (output.columns.diff() > 0).all()
    assert 0 < len(output.columns) < layer.vocabulary.size
    everything = layer.evaluate(z, torch.arange(layer.vocabulary.size))
    torch.testing.assert_close(everything[:, output.columns], activations, rtol=0, atol=1e-15)
    assert ((output.scores >= 0) & (output.scores <= 1)).all()


@pytest.mark.parametrize("gate", [False, True], ids=["paper's text", "with additions"])
def test_gradient_of_the_whole_head_is_right(gate: bool) -> None:
    angles = {"triangle_angles": 1, "orientation_angles": 1}
    # a damped gradient is not the derivative
    layer = build(3, 2, start="simplex, few", gate=gate, softness=0.0, **angles)
    z = random_descriptors(2, 3, seed=4)
    with torch.no_grad():
        layer.composition.weight.add_(0.003 * torch.randn(2, layer.vocabulary.size, generator=seeded(2)))
        rows = layer.composition.weight
        tau = (rows - sparsemax_by_sorting(rows)).amax(1, keepdim=True)
        assert (rows - tau).abs().min() > 1e-5  # sparsemax has no derivative where an entry lies on the threshold
    layer(with_gradients(z)).logits.square().sum().backward()
    names, parameters = zip(*layer.named_parameters(), strict=True)
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in parameters)

    def run(centre: Tensor, presence: Tensor, extent: Tensor, *parameters: Tensor) -> Tensor:
        given = dict(zip(names, parameters, strict=True))
        descriptors = PrimitiveDescriptors(centre, presence, extent, z.heatmap)
        logits: Tensor = torch.func.functional_call(layer, given, (descriptors,)).logits
        return logits

    assert {"composition.weight", "composition.log_scale"} < set(names)
    assert torch.autograd.gradcheck(run, (*with_gradients(z)[:3], *parameters), fast_mode=True)


IMAGES = 4


def in_parts(patch: pytest.MonkeyPatch, columns: int) -> list[int]:
    """Evaluate so many columns at a time on IMAGES images; how many each time, in a list that grows."""
    evaluated: list[int] = []
    whole = StructuralLayer.evaluate

    def evaluate(layer: StructuralLayer, z: PrimitiveDescriptors, some: Tensor) -> Tensor:
        evaluated.append(len(some))
        return whole(layer, z, some)

    patch.setattr(structure, "AT_ONCE", IMAGES * columns)
    patch.setattr(structure, "PART", IMAGES * columns)
    patch.setattr(StructuralLayer, "evaluate", evaluate)
    return evaluated


@pytest.mark.parametrize("columns", [7, 100])
@pytest.mark.parametrize("start", STARTS)
def test_part_by_part_gives_what_all_at_once_gives(
    start: str, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = build(4, start=start)
    z = with_gradients(random_descriptors(IMAGES, 4, seed=9))
    upstream = torch.randn(IMAGES, 3, generator=seeded(4), dtype=torch.float64)
    expected = layer(z)
    expected_gradients = gradients((upstream * expected.logits).sum() + expected.l1, layer, z)
    evaluated = in_parts(monkeypatch, columns)
    found = layer(z)
    union, at_once = len(expected.columns), max(1, columns)
    assert evaluated == [min(at_once, union - first) for first in range(0, union, at_once)]
    found_gradients = gradients((upstream * found.logits).sum() + found.l1, layer, z)
    if union > at_once:  # anew for the gradient, once
        assert sorted(evaluated) == sorted(2 * evaluated[: len(evaluated) // 2])
    assert torch.equal(found.columns, expected.columns)
    assert torch.equal(found.weights, expected.weights)
    torch.testing.assert_close(found.scores, expected.scores, rtol=0, atol=1e-12)
    torch.testing.assert_close(found.logits, expected.logits, rtol=0, atol=1e-12)
    assert {"centre", "extent", "presence", "composition.weight"} < set(expected_gradients)
    for name, gradient in expected_gradients.items():
        torch.testing.assert_close(found_gradients[name], gradient, rtol=0, atol=1e-12, msg=name)


def test_autocast_does_not_reach_the_structural_layer() -> None:
    layer = build().float()
    z = with_gradients(random_descriptors(4, 6, seed=7, dtype=torch.float32))
    plain = layer(z)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
        cast = layer(z)
    for name in ("logits", "scores", "weights", "l1"):
        assert getattr(cast, name).dtype == torch.float32
        assert torch.equal(getattr(cast, name), getattr(plain, name)), name
    gradient = torch.autograd.grad(cast.logits.sum(), layer.composition.weight)[0]
    assert gradient.dtype == torch.float32
    assert torch.equal(gradient, torch.autograd.grad(plain.logits.sum(), layer.composition.weight)[0])
