"""Edges, unit vectors and angles: the textbook formulas, and finite numbers where those have none."""

import math

import pytest
import torch
from torch import Tensor

from parse_dg.model.geometry import MIN_LENGTH, Vector, angle_between, damped, grid_axis, length

CPU = torch.device("cpu")


def vector(x: float, y: float, dtype: torch.dtype = torch.float64) -> Vector:
    return torch.tensor(x, dtype=dtype), torch.tensor(y, dtype=dtype)


def random_vectors(count: int, seed: int) -> Vector:
    draw = torch.Generator().manual_seed(seed)
    x, y = 2 * torch.rand(2, count, generator=draw, dtype=torch.float64) - 1
    return x, y


@pytest.mark.parametrize("cells", [2, 3, 5, 7, 14])
def test_grid_axis_is_the_papers_formula(cells: int) -> None:
    expected = [2 * i / (cells - 1) - 1 for i in range(cells)]
    torch.testing.assert_close(
        grid_axis(cells, CPU, torch.float64), torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-15
    )


def test_length_has_a_floor_with_zero_gradient_below() -> None:
    x, y = (component.requires_grad_() for component in vector(MIN_LENGTH / 10, 0))
    measured = length((x, y))
    assert measured.item() == pytest.approx(MIN_LENGTH, rel=1e-12)
    assert [g.item() for g in torch.autograd.grad(measured, (x, y))] == [0, 0]


def test_angle_is_the_arccosine_of_the_cosine() -> None:
    u, v = random_vectors(200, seed=1), random_vectors(200, seed=2)
    expected = [
        math.acos((ux * vx + uy * vy) / (math.hypot(ux, uy) * math.hypot(vx, vy)))
        for ux, uy, vx, vy in zip(*(component.tolist() for component in (*u, *v)), strict=True)
    ]
    torch.testing.assert_close(angle_between(u, v), torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-7)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("angle", [0.0, 1e-5, 0.3, math.pi / 2, 3.0, math.pi - 1e-5, math.pi])
def test_angle_is_accurate_in_single_precision_up_to_both_ends(angle: float, scale: float) -> None:
    u = vector(scale, 0, torch.float32)
    v = vector(scale * math.cos(angle), scale * math.sin(angle), torch.float32)
    assert angle_between(u, v).item() == pytest.approx(angle, abs=5e-7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("u", "v"),
    [
        *(((0, 0), (0, 0)), ((1, 1), (0, 0)), ((1, 1), (2, 2)), ((1, 1), (-2, -2)), ((1e-6, 0), (1, 0.5))),
        *(((1e-6, 1e-6), (-1e-6, 1e-6)), ((1e-20, 0), (0, 1e-20)), ((0, 1e-9), (1, 0)), ((1e-30, 1e-30), (1, 0))),
    ],
)
def test_angle_and_its_gradient_are_finite_everywhere(
    u: tuple[float, float], v: tuple[float, float], dtype: torch.dtype
) -> None:
    inputs: list[Tensor] = [torch.tensor(float(n), dtype=dtype, requires_grad=True) for n in (*u, *v)]
    angle = angle_between((inputs[0], inputs[1]), (inputs[2], inputs[3]))
    gradients = torch.autograd.grad(angle, inputs)
    assert 0 <= angle.item() <= math.pi + 1e-6
    assert all(gradient.isfinite() and gradient.abs() < 2e8 for gradient in gradients)


@pytest.mark.parametrize("u", [(0.0, 0.0), (-1e-12, 0.0), (0.0, 1e-12)])
def test_angle_with_a_vanishing_vector_is_zero_with_zero_gradient(u: tuple[float, float]) -> None:
    inputs = [torch.tensor(n, requires_grad=True) for n in (*u, 0.3, 0.4)]
    angle = angle_between((inputs[0], inputs[1]), (inputs[2], inputs[3]))
    assert angle.item() == 0
    assert [g.item() for g in torch.autograd.grad(angle, inputs)] == [0, 0, 0, 0]


def test_damped_is_the_identity_whose_gradient_is_scaled_by_the_squared_length() -> None:
    x = torch.tensor([0.3, 0.0, 3.0], dtype=torch.float64, requires_grad=True)
    y = torch.tensor([0.4, 0.0, 4.0], dtype=torch.float64, requires_grad=True)
    out = damped((x, y), 0.5)
    assert torch.equal(out[0], x)
    assert torch.equal(out[1], y)
    gradients = torch.autograd.grad(out[0].sum() + 2 * out[1].sum(), (x, y))
    share = torch.tensor([0.5, 0.0, 25 / 25.25], dtype=torch.float64)  # 0.25/(0.25 + 0.25), 0, 25/(25 + 0.25)
    torch.testing.assert_close(gradients, (share, 2 * share))
    assert damped((x, y), 0.0) == (x, y)
