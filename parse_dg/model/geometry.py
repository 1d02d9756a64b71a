"""Geometry of primitives: the grid, edges, unit vectors and angles of section 3.1, as pure functions.

Coordinates lie in [-1, 1]², x to the right, y downwards, corners aligned: the centre of the first cell is at -1,
that of the last at +1. A vector is a pair (x, y) of tensors of one shape. Every function has finite values and
gradients everywhere, coincident and collinear points included.
"""

import torch
from jaxtyping import Float
from torch import Tensor

Vector = tuple[Tensor, Tensor]

MIN_LENGTH = 1e-4
"""Edges are treated as at least this long where something is divided by their length."""
MIN_VARIANCE = 1e-6
"""The variance under a heat map is at least this before its root is taken, so that gradients stay finite."""


def grid_axis(cells: int, device: torch.device, dtype: torch.dtype) -> Float[Tensor, "cells"]:
    """Coordinates of the cells of one axis, g = 2i/(n-1) - 1; a single cell is at 0."""
    if cells == 1:
        return torch.zeros(1, device=device, dtype=dtype)
    return torch.linspace(-1.0, 1.0, cells, device=device, dtype=dtype)


def damped(v: Vector, softness: float) -> Vector:
    """The vector itself, its gradient multiplied by ‖v‖²/(‖v‖² + softness²); 0 leaves the gradient alone.

    Direction and relative length of an edge have a gradient of 1/‖v‖: of a very short edge it is huge, and noise.
    """
    if not softness or not torch.is_grad_enabled():
        return v
    squared = (v[0].square() + v[1].square()).detach()
    share = squared / (squared + softness * softness)
    x, y = (part.detach() + share * (part - part.detach()) for part in v)
    return x, y


def fading(v: Vector, size: float) -> Tensor:
    """‖v‖²/(‖v‖² + size²): near 1 for a vector longer than `size`, 0 for the zero vector; `size` is positive."""
    squared = torch.addcmul(v[0] * v[0], v[1], v[1])
    return squared / (squared + size * size)


def length(v: Vector, floor: float = MIN_LENGTH) -> Tensor:
    """‖v‖, at least `floor`; the gradient is zero below it."""
    return torch.addcmul(v[0] * v[0], v[1], v[1]).clamp_min(floor * floor).sqrt()


def unit(v: Vector) -> Vector:
    """v̂ = v/‖v‖; shorter than one where ‖v‖ is under the floor, and zero for the zero vector."""
    norm = length(v)
    return v[0] / norm, v[1] / norm


def dot(u: Vector, v: Vector) -> Tensor:
    """u·v."""
    return u[0] * v[0] + u[1] * v[1]


def cross(u: Vector, v: Vector) -> Tensor:
    """The signed area of the parallelogram of u and v."""
    return u[0] * v[1] - u[1] * v[0]


def angle_between(u: Vector, v: Vector) -> Tensor:
    """The angle arccos(û·v̂) in [0, π], as atan2(|û×v̂|, û·v̂).

    Unlike arccos it is accurate near 0 and π and has no infinite gradient there. Where u or v vanishes the angle
    is 0 with zero gradient.
    """
    u, v = unit(u), unit(v)
    sine, cosine = cross(u, v).abs(), dot(u, v)
    vanishes = sine.square() + cosine.square() < MIN_LENGTH**2
    # Of half a turn, whose sine is 0, ONNX makes -π: the absolute value is for exported models alone.
    return torch.atan2(sine.masked_fill(vanishes, 0.0), cosine.masked_fill(vanishes, 1.0)).abs()
