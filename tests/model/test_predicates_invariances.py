"""Which predicates stay the same when an image is moved, scaled, rotated or mirrored."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.model.predicate_helpers import ANGULAR, NAMES, build, each_variant, names_of, values
from tests.model.reference import random_descriptors, read_name

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


@pytest.mark.parametrize(("predicate", "mirror"), [("left", MIRROR_X), ("above", MIRROR_Y)])
def test_mirroring_swaps_the_arguments_of_a_direction_without_margin(predicate: str, mirror: Tensor) -> None:
    vocabulary, predicates = build(5)
    with torch.no_grad():
        predicates.margin[predicate].zero_()
    z = random_descriptors(2, 5, seed=6)
    names = names_of(vocabulary)[predicate]
    before = values(vocabulary, predicates, z)[predicate]
    after = values(vocabulary, predicates, z._replace(centre=z.centre * mirror))[predicate]
    for row, name in enumerate(names):
        i, j = read_name(name).primitives
        torch.testing.assert_close(after[row], before[names.index(f"{predicate}(p{j}, p{i})")])
