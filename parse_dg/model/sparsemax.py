"""Sparsemax, the Euclidean projection onto the simplex (Martins & Astudillo 2016, arXiv:1602.02068).

    sparsemax(z) = argmin_p ‖p - z‖²   subject to   p ≥ 0, Σp = 1   =   max(z - τ(z), 0)

The threshold τ is read from the largest entries of a row. That is exact whenever the smallest of the entries read
lies outside the support; the rows where it does not are read further, until they are exact too.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

FIRST_READ = 256
"""How many of the largest entries of each row are read first."""


class Threshold(NamedTuple):
    """Where the support of each row ends, relative to its largest entry, so that no precision is lost."""

    highest: Float[Tensor, "R 1"]
    depth: Float[Tensor, "R 1"]
    """τ - highest, in [-1, 0)."""

    def weights(self, z: Float[Tensor, "R n"]) -> Float[Tensor, "R n"]:
        """max(z - τ, 0) for all or some of the columns."""
        return (z - self.highest - self.depth).clamp_min(0)

    def inside(self, z: Float[Tensor, "R n"]) -> Bool[Tensor, "R n"]:
        """Where `weights` is positive."""
        return z - self.highest > self.depth


def threshold(z: Float[Tensor, "R M"]) -> Threshold:
    """τ of every row, exact: the support of sparsemax is {m: z_m > τ}."""
    read = min(FIRST_READ, z.shape[-1])
    top = z.topk(read).values  # descending
    highest = top[:, :1]
    depth = torch.empty_like(highest)
    rows = torch.arange(len(z), device=z.device)
    while len(rows):
        top = top - highest[rows]
        rank = torch.arange(1, read + 1, device=z.device, dtype=z.dtype)
        excess = top.cumsum(-1) - 1  # (rows, read)
        size = (rank * top > excess).sum(-1, keepdim=True).clamp_min(1)  # of the support, as far as read
        depth[rows] = excess.gather(-1, size - 1) / size
        if read == z.shape[-1]:
            break
        rows = rows[(size == read).squeeze(-1)]
        read = min(4 * read, z.shape[-1])
        top = z[rows].topk(read).values
    return Threshold(highest, depth)


def sparsemax(z: Float[Tensor, "*rows M"]) -> Float[Tensor, "*rows M"]:
    """Sparsemax along the last dimension, differentiable; entries outside the support are exactly zero."""
    flat = z.reshape(-1, z.shape[-1])
    result: Tensor = _Sparsemax.apply(flat)  # type: ignore[no-untyped-call]
    return result.view(z.shape)


def backward_on_support(gradient: Tensor, weights: Tensor) -> Tensor:
    """The Jacobian-vector product: g - mean of g over the support, on the support; zero elsewhere."""
    support = weights > 0
    inside = gradient * support
    mean = inside.sum(-1, keepdim=True) / support.sum(-1, keepdim=True)
    return (inside - mean) * support


class _Sparsemax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        weights = threshold(z).weights(z)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (weights,) = ctx.saved_tensors
        return backward_on_support(gradient, weights)
