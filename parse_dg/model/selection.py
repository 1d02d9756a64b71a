"""Selection: how a class takes up applications that it does not use yet.

Sparsemax has no gradient outside its support: by itself, what starts at weight zero stays there. But sparsemax is a
projection onto the simplex, and gradient descent on w with that projection moves every entry of Λ by the gradient
of its weight, used or not; the best a class lacks then rises until it is inside. So every few steps all M
applications are evaluated, without a gradient of their own, and Λ is given for every weight that is zero

    ∂L/∂w - (mean of ∂L/∂w over the weights in use),

which is negative just where taking the application up would lower the loss (at an optimum on the simplex it is so
nowhere: the condition of Karush, Kuhn and Tucker). Where presence and relations have a share of the weight each,
the mean is that of the same part. On the weights in use the same difference is the gradient
through sparsemax, which is there at every step. In between nothing of weight zero is evaluated.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

AT_ONCE = {"cpu": 2**18, "cuda": 2**24}
"""About how many activations (images × applications) are evaluated together on a look at all of them: on a CPU as
many as stay in its cache, on a GPU all there usually are."""


def reach_all_weights(
    scores: Float[Tensor, "B C"],
    weight: Float[Tensor, "C M"],
    used: Bool[Tensor, "C M"],
    evaluate: Callable[[int, int], Float[Tensor, "B m"]],
    steps: int,
    parts: Sequence[tuple[int, int]],
) -> Float[Tensor, "B C"]:
    """The scores themselves; their gradient also reaches the entries of Λ (`weight`) that are not `used`.

    `evaluate(first, last)` gives activations of columns of Λ; `steps` is how many steps this look stands for;
    `parts` are the columns, from first to last, that have a share of the weights each.
    """
    result: Tensor = _ReachAllWeights.apply(scores, weight, used, evaluate, steps, parts)  # type: ignore[no-untyped-call]
    return result


class _ReachAllWeights(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        scores: Tensor,
        weight: Tensor,
        used: Tensor,
        evaluate: Callable[[int, int], Tensor],
        steps: int,
        parts: Sequence[tuple[int, int]],
    ) -> Tensor:
        ctx.save_for_backward(used)
        ctx.evaluate, ctx.steps, ctx.parts = evaluate, steps, parts
        return scores.view_as(scores)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_scores: Tensor) -> tuple[Tensor | None, ...]:
        (used,) = ctx.saved_tensors
        M = used.shape[1]
        size = max(1, AT_ONCE[of_scores.device.type] // max(1, len(of_scores)))
        of_weights = torch.cat(
            [of_scores.T @ ctx.evaluate(first, min(first + size, M)) for first in range(0, M, size)], 1
        )
        for first, last in ctx.parts:
            part, inside = of_weights[:, first:last], used[:, first:last]
            part -= (part * inside).sum(1, keepdim=True) / inside.sum(1, keepdim=True)
        return of_scores, of_weights.masked_fill_(used, 0).mul_(ctx.steps), None, None, None, None
