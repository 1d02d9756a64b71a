"""Every predicate: the paper's formula, its gradient, its parameters and where they start."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from parse_dg.model.predicate import Primitives
from parse_dg.model.predicates import Predicates, PredicatesConfig
from parse_dg.model.primitives import PrimitiveDescriptors, to_descriptors
from parse_dg.model.vocabulary import Vocabulary, VocabularyConfig
from tests.model import reference
from tests.model.predicate_helpers import ANGULAR, NAMES, build, each_variant, names_of, parts, values
from tests.model.reference import random_descriptors, read_name, shape_of


@pytest.mark.parametrize("enumeration", ["distinct", "paper"])
@each_variant
@pytest.mark.parametrize("shaken", [False, True], ids=["as started", "other parameters"])
def test_every_application_equals_the_slow_loop(
    enumeration: str, gate: bool, softness: float, shaken: bool
) -> None:
    vocabulary, predicates = build(5, gate=gate, softness=softness, enumeration=enumeration, shaken=shaken)
    z = random_descriptors(2, 5, seed=0)
    shape, images, names = shape_of(predicates), reference.images(z), names_of(vocabulary)
    found = values(vocabulary, predicates, z)
    assert list(found) == NAMES
    for predicate, activations in found.items():
        expected = [
            [reference.satisfaction(read_name(name), image, shape, gate) for image in images]
            for name in names[predicate]
        ]
        torch.testing.assert_close(
            activations, torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=1e-12, msg=predicate
        )


@pytest.mark.parametrize("gate", [False, True], ids=["paper's text", "gated"])
@pytest.mark.parametrize("predicate", NAMES)
def test_gradient_is_right_in_descriptors_and_parameters(predicate: str, gate: bool) -> None:
    vocabulary, predicates = build(4, gate=gate, angles=(2, 2, 2))
    part = parts(vocabulary)[predicate]
    z = random_descriptors(1, 4, seed=2)
    names, parameters = zip(*predicates.named_parameters(), strict=True)

    def run(centre: Tensor, presence: Tensor, extent: Tensor, *parameters: Tensor) -> Tensor:
        primitives = Primitives.of(PrimitiveDescriptors(centre, presence, extent, z.heatmap))
        given = dict(zip(names, parameters, strict=True))
        result: Tensor = torch.func.functional_call(predicates, given, (primitives, [part]))
        return result

    inputs = [part.clone().requires_grad_() for part in z[:3]]
    assert torch.autograd.gradcheck(run, (*inputs, *parameters))


@pytest.mark.parametrize("predicate", NAMES[1:])
def test_every_predicate_learns_its_own_parameters_and_no_others(predicate: str) -> None:
    vocabulary, predicates = build(4)
    values(vocabulary, predicates, random_descriptors(2, 4, seed=3))[predicate].square().sum().backward()
    gradients = {name: parameter.grad for name, parameter in predicates.named_parameters()}
    moved = {name for name, gradient in gradients.items() if gradient is not None and gradient.abs().min() > 0}
    assert moved == {name for name in gradients if name.endswith(f".{predicate.replace('-', '_')}")}


Points = list[tuple[float, float]]


def one(name: str, points: Points, extents: Points | None = None) -> float:
    """One application by its name on given centres, with the parameters a model starts with, ungated."""
    vocabulary, predicates = build(4, shaken=False, enumeration="paper")
    centres = points + [(0.77, -0.91), (-0.83, 0.67), (0.1, 0.2)][: 4 - len(points)]
    z = random_descriptors(1, 4, seed=4)._replace(centre=torch.tensor([centres], dtype=torch.float64))
    if extents:
        extents = extents + [(0.1, 0.1)] * (4 - len(extents))
        z = z._replace(extent=torch.tensor([extents], dtype=torch.float64))
    predicate = read_name(name).predicate
    row = names_of(vocabulary)[predicate].index(name)
    return values(vocabulary, predicates, z)[predicate][row].item()


def test_every_predicate_means_what_its_name_says() -> None:
    """Of points whose value can be told by hand; y grows downwards."""
    assert one("above(p0, p1)", [(0, -0.5), (0, 0.5)]) == pytest.approx(reference.sigmoid(5.0))
    assert one("above(p1, p0)", [(0, -0.5), (0, 0.5)]) == pytest.approx(reference.sigmoid(-5.0))
    assert one("left(p0, p1)", [(-0.5, 0), (0.5, 0)]) == pytest.approx(reference.sigmoid(5.0))
    row, column = [(-0.9, 0.3), (0.9, 0.3)], [(0.3, -0.9), (0.3, 0.9)]
    assert one("h-align(p0, p1)", row) == one("v-align(p0, p1)", column) == pytest.approx(1)
    assert max(one("v-align(p0, p1)", row), one("h-align(p0, p1)", column)) < 1e-6
    inside = [(0.0, 0.0), (0.1, 0.0)]
    loose, tight = [(0.5, 0.5), (0.2, 0.1)], [(0.5, 0.2), (0.2, 0.3)]  # the tightest side decides
    assert one("contains(p0, p1)", inside, loose) == pytest.approx(reference.sigmoid(5 * 0.2))
    assert one("contains(p0, p1)", inside, tight) == pytest.approx(reference.sigmoid(-5 * 0.1))
    right_angle_at_p0 = [(0.0, 0.0), (0.5, 0.0), (0.0, 0.9)]
    assert one("tri[1](p0, p1, p2)", right_angle_at_p0) == pytest.approx(1)  # target π/2
    assert one("tri[1](p1, p0, p2)", right_angle_at_p0) < 0.9
    straight_on = [(-0.5, 0.0), (0.0, 0.0), (0.5, 0.0)]  # no turn: angle 0, target π/2, tolerance 0.4
    assert one("turn[0](p0, p1, p2)", straight_on) == pytest.approx(math.exp(-((math.pi / 2) ** 2) / 0.32))
    assert one("turn[0](p0, p1, p2)", [(-0.5, 0.0), (0.0, 0.0), (0.0, 0.3)]) == pytest.approx(1)
    square = [(0.0, 0.0), (0.5, 0.0), (0.0, 0.5), (0.5, 0.5)]
    nearly_parallel = math.exp(-((1 - math.cos(math.pi / 8)) ** 2) / (2 * 0.09))  # target π/8, tolerance 0.3
    assert one("orient[0](p0→p1, p2→p3)", square) == pytest.approx(nearly_parallel)
    assert one("orient[3](p0→p1, p3→p2)", square) == pytest.approx(nearly_parallel)
    assert one("orient[0](p0→p1, p3→p2)", square) < 1e-6
    assert one("eqdist(p0→p1, p1→p2)", [(0, 0), (0.2, 0), (0.2, 0.2)]) == pytest.approx(1)
    for longer in ([(0, 0), (0.2, 0), (0.2, 0.4)], [(0, 0), (0.4, 0), (0.4, 0.2)]):  # by the logarithm of the ratio
        twice = math.exp(-(math.log(2) ** 2) / (2 * 0.3**2))
        assert one("eqdist(p0→p1, p1→p2)", longer) == pytest.approx(twice)


def test_softness_scales_the_gradient_through_the_edges_of_angular_relations_alone() -> None:
    z = random_descriptors(1, 4, seed=10)
    far_apart = z.centre * 1e5  # edges much longer than ε: nothing is damped
    for centre, damped in ((z.centre, ANGULAR), (far_apart, set[str]())):
        gradients = []
        for softness in (0.0, 0.5):
            vocabulary, predicates = build(4, softness=softness)
            leaf = centre.clone().requires_grad_()
            found = values(vocabulary, predicates, z._replace(centre=leaf))
            found["has"] = found["has"] + 0 * leaf.sum()
            gradients.append(
                {n: torch.autograd.grad(v.sum(), leaf, retain_graph=True)[0] for n, v in found.items()}
            )
        plain, softened = gradients
        assert {n for n in NAMES if not torch.allclose(plain[n], softened[n], rtol=1e-4, atol=1e-12)} == damped
        assert all(softened[n].norm() < plain[n].norm() for n in damped)


def test_softened_relations_of_coincident_primitives_have_zero_gradient() -> None:
    vocabulary, predicates = build(4, softness=0.2)
    z = random_descriptors(1, 4, seed=10)
    centre = torch.full((1, 4, 2), 0.3, dtype=torch.float64, requires_grad=True)
    found = values(vocabulary, predicates, z._replace(centre=centre))
    for name in ANGULAR:
        assert (torch.autograd.grad(found[name].sum(), centre, retain_graph=True)[0] == 0).all(), name


def test_fading_multiplies_angular_relations_as_the_slow_loop_does() -> None:
    z = random_descriptors(2, 5, seed=12)
    z = z._replace(centre=z.centre * 0.2)  # edges about as long as ε
    for enumeration in ("distinct", "paper"):
        vocabulary, predicates = build(5, gate=True, fade=0.1, enumeration=enumeration)
        shape, images, names = shape_of(predicates), reference.images(z), names_of(vocabulary)
        plain = values(vocabulary, build(5, gate=True, enumeration=enumeration)[1], z)
        for predicate, activations in values(vocabulary, predicates, z).items():
            expected = [
                [reference.satisfaction(read_name(name), image, shape, True, fade=0.1) for image in images]
                for name in names[predicate]
            ]
            torch.testing.assert_close(
                activations, torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=1e-12, msg=predicate
            )
            assert torch.equal(activations, plain[predicate]) == (predicate not in ANGULAR)


@pytest.mark.parametrize("predicate", sorted(ANGULAR))
def test_gradient_of_faded_relations_is_right(predicate: str) -> None:
    vocabulary, predicates = build(4, fade=0.3)
    part = parts(vocabulary)[predicate]
    z = random_descriptors(1, 4, seed=13)

    def run(centre: Tensor) -> Tensor:
        result: Tensor = predicates(Primitives.of(z._replace(centre=centre)), [part])
        return result

    assert torch.autograd.gradcheck(run, z.centre.clone().requires_grad_())


def test_faded_relations_of_primitives_that_nearly_coincide_do_not_hang_on_rounding() -> None:
    z = random_descriptors(64, 4, seed=14)
    near = z._replace(centre=0.3 + 1e-5 * z.centre)
    moved = near._replace(centre=near.centre + 1e-7 * random_descriptors(64, 4, seed=15).centre)
    for fade, steady in ((0.0, False), (0.05, True)):
        vocabulary, predicates = build(4, fade=fade)
        here, there = values(vocabulary, predicates, near), values(vocabulary, predicates, moved)
        change = {name: (here[name] - there[name]).abs().max().item() for name in ("tri", "turn")}
        assert all((value < 1e-7) == steady for value in change.values()), change
    together = z._replace(centre=torch.zeros_like(z.centre))
    assert all((value == 0).all() for n, value in values(vocabulary, predicates, together).items() if n in ANGULAR)


def test_parameters_start_where_the_configuration_says() -> None:
    config = PredicatesConfig(
        steepness=7.0,
        alignment_tolerance=0.11,
        near_tolerance=0.22,
        distance_tolerance=0.33,
        angle_tolerance=0.44,
        orientation_tolerance=0.55,
    )
    shape = shape_of(Predicates(Vocabulary(4, VocabularyConfig()), config))
    assert list(shape.kappa.values()) == pytest.approx([7.0] * 3)
    assert list(shape.m.values()) == [0, 0]
    assert [shape.tau_h, shape.tau_v] == pytest.approx([0.11, 0.11])
    assert shape.rho == pytest.approx(0.22)
    assert shape.tau_d == pytest.approx(0.33)
    assert shape.beta + shape.eta == pytest.approx([0.44] * 4)
    assert shape.gamma == pytest.approx([0.55] * 4)


# Predicates of degenerate descriptors: coincident, in a row, without extent, absent. All stay finite


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


# Which predicates stay the same when an image is moved, scaled, rotated or mirrored


Transform = Callable[[Tensor], Tensor]


def rotation(angle: float) -> Transform:
    turned = [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
    matrix = torch.tensor(turned, dtype=torch.float64)
    return lambda centre: centre @ matrix.T


MIRROR_X = torch.tensor([-1.0, 1.0], dtype=torch.float64)
MIRROR_Y = torch.tensor([1.0, -1.0], dtype=torch.float64)

INVARIANCES: dict[str, tuple[Transform, set[str]]] = {
    "translation": (lambda c: c + torch.tensor([0.3, -0.7], dtype=torch.float64), set(NAMES)),
    "shrinking": (lambda c: 0.25 * c, ANGULAR | {"has"}),
    "growing": (lambda c: 3.0 * c, ANGULAR | {"has"}),
    "rotation by 0.4": (rotation(0.4), ANGULAR | {"has", "near"}),
    "rotation by 2.5": (rotation(2.5), ANGULAR | {"has", "near"}),
    "mirroring x": (lambda c: c * MIRROR_X, set(NAMES) - {"left"}),
    "mirroring y": (lambda c: c * MIRROR_Y, set(NAMES) - {"above"}),
}


@each_variant
@pytest.mark.parametrize("name", INVARIANCES)
def test_exactly_the_expected_predicates_are_invariant(name: str, gate: bool, softness: float) -> None:
    transform, expected = INVARIANCES[name]
    vocabulary, predicates = build(5, gate=gate, softness=softness)
    z = random_descriptors(2, 5, seed=5)
    before = values(vocabulary, predicates, z)
    after = values(vocabulary, predicates, z._replace(centre=transform(z.centre)))
    unchanged = {p for p in NAMES if torch.allclose(before[p], after[p], rtol=1e-9, atol=1e-11)}
    assert unchanged == expected
