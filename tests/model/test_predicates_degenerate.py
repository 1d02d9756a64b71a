"""Predicates of degenerate descriptors: coincident, in a row, without extent, absent. All stay finite."""

import pytest
import torch
from torch import Tensor

from parse_dg.model.primitives import PrimitiveDescriptors, to_descriptors
from tests.model.predicate_helpers import build, each_variant, parts, values
from tests.model.reference import random_descriptors


def line(direction: tuple[float, float]) -> Tensor:
    steps = torch.tensor([-0.75, -0.5, 0.0, 0.25, 1.0], dtype=torch.float64)
    return (steps.unsqueeze(1) * torch.tensor(direction, dtype=torch.float64)).expand(2, 5, 2).clone()


GENERAL = random_descriptors(2, 5, seed=7)
DEGENERATE: dict[str, PrimitiveDescriptors] = {
    "all coincide": GENERAL._replace(centre=torch.full((2, 5, 2), 0.3, dtype=torch.float64)),
    "two coincide": GENERAL._replace(centre=GENERAL.centre.index_copy(1, torch.tensor([1]), GENERAL.centre[:, :1])),
    "almost coincide": GENERAL._replace(centre=GENERAL.centre * 1e-6),
    "denormally close": GENERAL._replace(centre=GENERAL.centre * 1e-30),
    "in a row": GENERAL._replace(centre=line((1.0, 0.0))),
    "in a column": GENERAL._replace(centre=line((0.0, 1.0))),
    "on a diagonal": GENERAL._replace(centre=line((0.6, -0.8))),
    "no extent": GENERAL._replace(extent=torch.zeros(2, 5, 2, dtype=torch.float64)),
    "absent": GENERAL._replace(presence=torch.zeros(2, 5, dtype=torch.float64)),
    "one absent": GENERAL._replace(presence=torch.eye(5, dtype=torch.float64)[:2].sub(1).neg()),
    "hardly there": GENERAL._replace(presence=torch.full((2, 5), 1e-38, dtype=torch.float64)),
    "at the gate's floor": GENERAL._replace(presence=torch.full((2, 5), 1e-30, dtype=torch.float64)),
    "certain": GENERAL._replace(presence=torch.ones(2, 5, dtype=torch.float64)),
    "everything at once": PrimitiveDescriptors(
        torch.zeros(2, 5, 2, dtype=torch.float64),
        torch.zeros(2, 5, dtype=torch.float64),
        torch.zeros(2, 5, 2, dtype=torch.float64),
        GENERAL.heatmap,
    ),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@each_variant
@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_descriptors_give_finite_values_and_gradients(
    name: str, gate: bool, softness: float, dtype: torch.dtype
) -> None:
    vocabulary, predicates = build(5, gate=gate, softness=softness, enumeration="paper", shaken=False)
    predicates = predicates.to(dtype)
    inputs = [part.to(dtype, copy=True).requires_grad_() for part in DEGENERATE[name][:3]]
    z = PrimitiveDescriptors(*inputs, DEGENERATE[name].heatmap)
    for predicate, activations in values(vocabulary, predicates, z).items():
        assert activations.isfinite().all(), predicate
        assert (activations >= 0).all(), predicate
        assert (activations <= 1).all(), predicate
        gradients = torch.autograd.grad(activations.sum(), (*inputs, *predicates.parameters()), allow_unused=True)
        assert all(g.isfinite().all() for g in gradients if g is not None), predicate


@pytest.mark.parametrize("size", [(1, 1), (1, 6), (6, 1), (4, 4)])
@pytest.mark.parametrize("logit", [0.0, 90.0, -90.0, 1e30, -1e30])
def test_gradients_from_gated_relations_back_to_the_heat_maps_are_finite(
    size: tuple[int, int], logit: float
) -> None:
    vocabulary, predicates = build(4, gate=True, softness=0.2, shaken=False)
    predicates = predicates.float()
    evidence = torch.full((1, 4, *size), logit)
    evidence[:, :, -1, -1] += torch.tensor([0.0, 1.0, 2.0, 0.0])
    evidence.requires_grad_()
    z = to_descriptors(evidence, torch.tensor(1.0))
    total = sum(activation.sum() for activation in values(vocabulary, predicates, z).values())
    assert isinstance(total, Tensor)
    assert total.isfinite()
    assert torch.autograd.grad(total, evidence)[0].isfinite().all()


def test_a_relation_of_an_absent_primitive_is_gated_to_nothing() -> None:
    vocabulary, predicates = build(4, gate=True)
    z = random_descriptors(1, 4, seed=8)
    z.presence[0, 2] = 0
    for predicate, activations in values(vocabulary, predicates, z).items():
        involved = (parts(vocabulary)[predicate].primitives == 2).any(0)
        assert (activations[involved] < 1e-6).all(), predicate
        assert predicate == "has" or (activations[~involved] > 1e-3).any(), predicate
