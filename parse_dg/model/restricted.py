"""The class weights w = sparsemax(Λ) on the columns that some class uses, with the gradient of Λ.

Letters: C classes, M columns of Λ, n of them that some class uses.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from parse_dg.model import fused
from parse_dg.model.sparsemax import LimitedSupport, Support, backward_on_support

Lambda = Float[Tensor, "C M"]


def restricted_sparsemax(
    weight: Lambda, columns: Int[Tensor, "n"], support: Support | LimitedSupport, penalised: bool
) -> tuple[Float[Tensor, "C n"], Float[Tensor, ""] | None]:
    """The class weights on `columns`, which hold the whole support, and the mean of |Λ| if it is `penalised`."""
    weights, l1 = _RestrictedSparsemax.apply(weight, columns, support, penalised)  # type: ignore[no-untyped-call]
    return weights, l1


class _RestrictedSparsemax(torch.autograd.Function):
    """Columns of sparsemax(Λ) that hold the whole support, and the mean of |Λ|. Exact in both directions: outside
    the support both the value and the Jacobian are zero. The gradient of Λ is written once, for both.
    """

    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, columns: Tensor, support: Support | LimitedSupport, penalised: bool
    ) -> tuple[Tensor, Tensor | None]:
        restricted = support.weights(weight.index_select(1, columns))
        ctx.save_for_backward(weight, columns, restricted)
        ctx.set_materialize_grads(False)
        return restricted, _mean_l1(weight) if penalised else None

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_weights: Tensor | None, of_l1: Tensor | None) -> tuple[Tensor | None, ...]:
        weight, columns, restricted = ctx.saved_tensors
        full = torch.zeros_like(weight) if of_l1 is None else _sign_times(weight, of_l1 / weight.numel())
        if of_weights is not None:
            full.index_add_(1, columns, backward_on_support(of_weights, restricted))
        return full, None, None, None


def _mean_l1(weight: Lambda) -> Float[Tensor, ""]:
    """The mean of |Λ|, without a copy of Λ."""
    if weight.is_cuda:
        total: Tensor = torch.linalg.vector_norm(weight, 1)
        return total / weight.numel()
    # On the CPU vector_norm sums in a row and loses digits.
    rows_at_once = max(1, 2**19 // weight.shape[1])
    return torch.stack([rows.abs().sum() for rows in torch.split(weight, rows_at_once)]).sum() / weight.numel()


def _sign_times(weight: Lambda, factor: Float[Tensor, ""]) -> Lambda:
    """sign(Λ) · factor, the gradient of factor · Σ|Λ|."""
    if fused.usable(weight):
        from parse_dg.model.fused.sparsemax import sign_times

        return sign_times(weight, factor)
    return weight.sign().mul_(factor)
