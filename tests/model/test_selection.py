"""Selection: the gradient of the class weights that are zero, against a dense reference; and where it leads."""

from typing import Literal

import pytest
import torch
from torch import Tensor

from parse_dg.model.composition import CompositionConfig
from parse_dg.model.primitives import PrimitiveDescriptors
from parse_dg.model.sparsemax import sparsemax
from parse_dg.model.structure import StructuralLayer, StructureConfig
from parse_dg.model.vocabulary import VocabularyConfig

K, CLASSES, IMAGES = 5, 4, 12


def descriptors(seed: int = 0, dtype: torch.dtype = torch.float64) -> PrimitiveDescriptors:
    generator = torch.Generator().manual_seed(seed)
    centre = torch.rand(IMAGES, K, 2, generator=generator, dtype=dtype) * 2 - 1
    presence = torch.rand(IMAGES, K, generator=generator, dtype=dtype)
    extent = torch.rand(IMAGES, K, 2, generator=generator, dtype=dtype) + 0.1
    return PrimitiveDescriptors(centre, presence, extent, centre.new_empty(IMAGES, K, 0, 0))


def layer(
    limit: int | None = None, start: Literal["presence", "simplex"] = "presence", share: float | None = None
) -> StructuralLayer:
    config = StructureConfig(
        vocabulary=VocabularyConfig(families="binary"),
        composition=CompositionConfig(
            start=start, start_entries=2, relations_per_class=limit, presence_share=share
        ),
    )
    built = StructuralLayer(K, CLASSES, config, torch.Generator().manual_seed(0)).double()
    return built.train()


def dense_gradient(structure: StructuralLayer, z: PrimitiveDescriptors, of_scores: Tensor) -> Tensor:
    """∂L/∂w of every class weight, with every application evaluated; its mean over the weights in use taken off, of
    presence and relations apart where each has a share.
    """
    everything = structure.evaluate(z, torch.arange(structure.vocabulary.size)).detach()
    gradient = torch.zeros(CLASSES, structure.vocabulary.size, dtype=torch.float64)
    active = structure.composition.active()
    for c in range(CLASSES):
        in_use = active.columns[active.weights[c] > 0].tolist()
        for m in range(structure.vocabulary.size):
            gradient[c, m] = sum(of_scores[b, c] * everything[b, m] for b in range(IMAGES))
        parts = [range(structure.vocabulary.size)]
        if structure.composition.config.presence_share is not None:
            parts = [range(K), range(K, structure.vocabulary.size)]
        for part in parts:
            gradient[c, list(part)] -= gradient[c, [m for m in in_use if m in part]].mean()
    return gradient


@pytest.mark.parametrize("limit", [None, 3])
@pytest.mark.parametrize("steps", [1, 7])
@pytest.mark.parametrize("share", [None, 0.6])
def test_gradient_reaches_all_of_lambda(limit: int | None, steps: int, share: float | None) -> None:
    structure, z = layer(limit, share=share), descriptors()
    of_scores = torch.randn(IMAGES, CLASSES, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    expected = dense_gradient(structure, z, of_scores)
    active = structure.composition.active()
    in_use = torch.zeros_like(expected, dtype=torch.bool)
    in_use[:, active.columns] = active.weights > 0
    structure.zero_grad()
    (structure(z, look=steps).scores * of_scores).sum().backward()
    found = structure.composition.weight.grad
    assert found is not None
    torch.testing.assert_close(found[in_use], expected[in_use])  # as at every step
    torch.testing.assert_close(found[~in_use], steps * expected[~in_use])


def test_a_look_changes_no_score_and_no_other_gradient() -> None:
    structure = layer(start="simplex")
    found = []
    for look in (0, 5):
        z = PrimitiveDescriptors(*(part.clone().requires_grad_() for part in descriptors()))
        scores = structure(z, look=look).scores
        structure.zero_grad()
        (scores.square().sum()).backward()
        shapes = [p.grad.clone() for p in structure.predicates.parameters() if p.grad is not None]
        found.append((scores.detach(), z.centre.grad, z.presence.grad, *shapes))
    for without, with_look in zip(*found, strict=True):
        assert torch.equal(without, with_look)


def _learn(structure: StructuralLayer, z: PrimitiveDescriptors, labels: Tensor, steps: int = 150) -> float:
    """Descend along the running mean of the gradient; the cross-entropy at the end."""
    weight = structure.composition.weight
    mean = torch.zeros_like(weight)
    for step in range(steps):
        structure.composition.advance(step / steps)
        loss = torch.nn.functional.cross_entropy(structure(z, look=5 * (step % 5 == 0)).logits, labels)
        structure.zero_grad()
        loss.backward()
        assert weight.grad is not None
        with torch.no_grad():
            weight.sub_(mean.lerp_(weight.grad, 0.1), alpha=0.1)
    with torch.no_grad():
        return float(torch.nn.functional.cross_entropy(structure.eval()(z).logits, labels))


def planted(structure: StructuralLayer, z: PrimitiveDescriptors) -> Tensor:
    """Labels that a few relations explain and presence does not: which of four `above` is most satisfied."""
    names = structure.vocabulary.names(torch.arange(structure.vocabulary.size))
    columns = [names.index(name) for name in ("above(p0, p1)", "above(p1, p0)", "left(p2, p3)", "left(p3, p2)")]
    return structure.evaluate(z, torch.tensor(sorted(columns))).argmax(1)


@pytest.mark.parametrize("limit", [None, 2])
def test_the_relations_that_explain_are_taken_up(limit: int | None) -> None:
    z = descriptors()._replace(presence=torch.ones(IMAGES, K, dtype=torch.float64))
    structure = layer(limit)
    labels = planted(structure, z)
    start = torch.nn.functional.cross_entropy(structure(z).logits, labels).item()
    end = _learn(structure, z, labels)
    active = structure.composition.active()
    assert end < 0.6 * start
    assert bool((active.columns >= K).all())  # presence, which says nothing here, was left
    if limit is not None:
        assert int((active.weights > 0).sum(1).max()) <= limit


def test_a_share_holds_while_relations_are_chosen() -> None:
    z = descriptors()._replace(presence=torch.ones(IMAGES, K, dtype=torch.float64))
    structure = layer(share=0.3)
    labels = planted(structure, z)
    before = structure.composition.active()
    start = torch.nn.functional.cross_entropy(structure(z).logits, labels).item()
    end = _learn(structure, z, labels)
    active = structure.composition.active()
    assert end < 0.8 * start
    shares = active.weights[:, active.columns < K].sum(1)
    torch.testing.assert_close(shares, torch.full((CLASSES,), 0.3, dtype=torch.float64))
    assert not set(active.columns.tolist()) <= set(before.columns.tolist())  # some were in no class's start


@pytest.mark.slow
def test_other_starts_lead_to_the_same_loss() -> None:
    z = descriptors()._replace(presence=torch.ones(IMAGES, K, dtype=torch.float64))
    ends = []
    for seed in range(5):
        structure = layer()
        with torch.no_grad():
            noise = torch.rand(CLASSES, K, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
            structure.composition.weight[:, :K] = sparsemax(noise)
        ends.append(_learn(structure, z, planted(structure, z), steps=400))
    assert max(ends) - min(ends) < 0.05 * max(ends)
