"""Sparsemax, the Euclidean projection onto the simplex (Martins & Astudillo 2016, arXiv:1602.02068).

    sparsemax(z) = argmin_p ‖p - z‖²   subject to   p ≥ 0, Σp = 1   =   max(z - τ(z), 0)

No row is sorted. τ is the root of f(t) = Σ max(z - t, 0) - 1, which is convex, falls, and is straight between two
entries: Newton's method from the left never passes τ and ends on it, exactly, after a few steps. Two facts make
the row short first:

- f of a part of a row is at most f of the row, so τ of any part is a lower bound of τ of the row;
- a block of columns whose largest entry is not above a lower bound has nothing inside the support.

The part is the largest entry of every block, one read of the row. What is left is the few blocks above its τ.

A row that holds NaN or +∞, or nothing but -∞, has no projection: its weights and its gradient are NaN. An entry of
-∞ in any other row is never inside.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from parse_dg.devices import widest
from parse_dg.model import fused

Lambda = Float[Tensor, "C M"]

WIDTH = 64
"""Columns of a block."""
AT_ONCE = 2**22
"""About how many entries are worked on at a time."""


class Threshold(NamedTuple):
    """Where the support of each row ends, relative to its largest entry, so that no precision is lost."""

    highest: Float[Tensor, "R 1"]
    depth: Float[Tensor, "R 1"]
    """τ - highest, in [-1, 0); NaN for a row without a projection."""

    def weights(self, z: Float[Tensor, "R n"]) -> Float[Tensor, "R n"]:
        """max(z - τ, 0) for all or some of the columns."""
        if fused.usable(z):
            from parse_dg.model.fused import sparsemax as on_cuda

            return on_cuda.weights(z, self.highest, self.depth)
        return (z - self.highest).sub_(self.depth).clamp_min_(0)


class Support(NamedTuple):
    """What sparsemax keeps of the rows of a matrix, or of some of its columns that have a share of every row."""

    threshold: Threshold
    used: Bool[Tensor, "M"]
    """Which columns are inside the support of some row; a row without a projection claims the first."""
    kept: Int[Tensor, "R k"] | None = None
    """Where there is a limit, the columns of the k largest entries of each row: it may use no others."""
    share: float = 1.0
    """What the weights of a row sum to."""

    def weights(self, z: Float[Tensor, "R n"]) -> Float[Tensor, "R n"]:
        """The projection on some of the columns, given the entries of those; with a limit, on those `used`."""
        if self.share != 1:
            return self._replace(share=1.0).weights(z / self.share).mul_(self.share)
        if self.kept is None:
            return self.threshold.weights(z)
        place = self.used.cumsum(0).sub_(1).clamp_min_(0)[self.kept]  # (R, k) among the columns that are used
        own = torch.zeros_like(z).scatter_reduce_(1, place, self.used[self.kept].to(z.dtype), "amax")
        return self.threshold.weights(z) * own


def find_support(z: Float[Tensor, "R M"], limit: int | None = None, share: float = 1.0) -> Support:
    """τ of every row, exact, and the columns that lie above it in some row.

    With a `limit`, of the nearest vector of the simplex with at most so many entries: the row's largest ones,
    projected by themselves (Kyrillidis et al. 2013, arXiv:1206.1529). With a `share`, of the simplex whose vectors
    sum to it: share · sparsemax(z / share).
    """
    if share != 1:
        return find_support(z / share, limit)._replace(share=share)
    if z.shape[1] == 0:
        raise ValueError(f"sparsemax needs at least one column, found the shape {tuple(z.shape)}")
    if limit is not None:
        largest, kept = z.topk(min(limit, z.shape[1]), dim=1)
        threshold = find_support(largest).threshold
        inside = (threshold.weights(largest) != 0).to(z.dtype)  # NaN too
        used = z.new_zeros(z.shape[1]).scatter_reduce_(0, kept.flatten(), inside.flatten(), "amax") > 0
        return Support(threshold, used, kept)
    if fused.usable(z):
        from parse_dg.model.fused import sparsemax as on_cuda

        highest, depth, used = on_cuda.find_support(z)
        return Support(Threshold(highest, depth), used)
    return _find_support(z)


def _find_support(z: Float[Tensor, "R M"]) -> Support:
    """`find_support` in plain PyTorch."""
    count = z.shape[1] // WIDTH
    blocks, rest = z[:, : count * WIDTH].view(len(z), count, WIDTH), z[:, count * WIDTH :]
    some = torch.cat((blocks.amax(2), rest), 1)  # a part of every row, its largest entry among it
    highest = some.amax(1, keepdim=True)
    some -= highest
    bound = _newton(some) - 4 * torch.finfo(z.dtype).eps  # surely not above τ, however the sums were rounded
    projected = highest.isfinite()
    near = (some[:, :count] > bound) & projected  # the blocks that may hold something inside

    depth = torch.full_like(highest, torch.nan)
    used = torch.zeros(z.shape[1], dtype=torch.bool, device=z.device)
    used[0] = ~projected.all()
    for rows in _portions(projected.squeeze(1), near.sum(1) * WIDTH):
        owner, block = near[rows].nonzero().unbind(1)
        read = blocks[rows[owner], block] - highest[rows[owner]]  # (pairs, WIDTH)
        above = read > bound[rows[owner]]
        if 4 * int(above.count_nonzero()) > len(rows) * z.shape[1]:  # most of the row: as it lies
            entries = z[rows] - highest[rows]
            depth[rows] = _newton(entries)
            used |= (entries > depth[rows]).any(0)
            continue
        pair, lane = above.nonzero().unbind(1)
        owner, block, entries, last = owner[pair], block[pair], read[pair, lane], rest[rows] - highest[rows]
        depth[rows] = _newton(torch.cat((_side_by_side(owner, entries, len(rows)), last), 1))
        inside = entries > depth[rows].squeeze(1)[owner]
        used[(block * WIDTH + lane)[inside]] = True
        used[count * WIDTH :] |= (last > depth[rows]).any(0)
    return Support(Threshold(highest, depth), used)


def _portions(chosen: Bool[Tensor, "R"], cost: Int[Tensor, "R"]) -> Iterator[Int[Tensor, "r"]]:
    """The chosen rows, as many at a time as cost about AT_ONCE."""
    rows = chosen.nonzero().squeeze(1)
    if len(rows):
        _, sizes = torch.unique_consecutive(cost[rows].cumsum(0) // AT_ONCE, return_counts=True)
        yield from torch.split(rows, sizes.tolist())


def _side_by_side(owner: Int[Tensor, "n"], entries: Float[Tensor, "n"], rows: int) -> Float[Tensor, "rows width"]:
    """Entries, ordered by the row that owns them, as a matrix filled up with -∞."""
    size = owner.bincount(minlength=rows)
    place = torch.arange(len(owner), device=owner.device) - (size.cumsum(0) - size)[owner]
    matrix = entries.new_full((rows, int(size.max())), -torch.inf)
    matrix[owner, place] = entries
    return matrix


def _newton(d: Float[Tensor, "r n"]) -> Float[Tensor, "r 1"]:
    """The root of Σ max(d - t, 0) = 1 in every row; the largest entry of a row is 0."""
    t = d.new_full((len(d), 1), -1.0)
    size = torch.zeros_like(t, dtype=torch.long)
    while True:
        inside = d > t
        before, size = size, inside.sum(1, keepdim=True)
        # The wide sum makes τ independent of where in the row the entries lie.
        total = torch.where(inside, d, 0.0).sum(1, keepdim=True, dtype=widest(d.device))
        t = torch.maximum(t, ((total - 1) / size).to(d.dtype))
        if torch.equal(before, size):
            return t


def sparsemax(z: Float[Tensor, "*rows M"]) -> Float[Tensor, "*rows M"]:
    """Sparsemax along the last dimension, differentiable; entries outside the support are exactly zero."""
    wide = z if z.dtype == torch.float64 else z.float()
    result: Tensor = _Sparsemax.apply(wide.reshape(-1, z.shape[-1]))  # type: ignore[no-untyped-call]
    return result.view(z.shape).to(z.dtype)


def sparsemax_of_few(z: Float[Tensor, "*rows n"]) -> Float[Tensor, "*rows n"]:
    """Sparsemax along a short last dimension, by sorting: in plain operations, so that it can be exported too."""
    z = z - z.detach().amax(-1, keepdim=True)  # adds the same to every entry, and loses no digits
    largest = z.sort(dim=-1, descending=True).values
    sums = largest.cumsum(-1) - 1
    ranks = torch.arange(1, z.shape[-1] + 1, device=z.device, dtype=z.dtype)
    size = (ranks * largest > sums).sum(-1, keepdim=True).clamp_min(1)  # of NaN nothing is above anything
    return (z - sums.gather(-1, size - 1) / size).clamp_min(0)


def backward_on_support(gradient: Float[Tensor, "R n"], weights: Float[Tensor, "R n"]) -> Float[Tensor, "R n"]:
    """The Jacobian-vector product: g - mean of g over the support, on the support; zero elsewhere."""
    if fused.usable(weights):
        from parse_dg.model.fused import sparsemax as on_cuda

        return on_cuda.backward_on_support(gradient, weights)
    support = weights > 0
    inside = gradient * support
    mean = inside.sum(-1, keepdim=True) / support.sum(-1, keepdim=True)
    return inside.sub_(mean).mul_(support)


class _Sparsemax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        weights = find_support(z).threshold.weights(z)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (weights,) = ctx.saved_tensors
        if weights.is_cuda or 8 * int(weights.count_nonzero()) > weights.numel():
            return backward_on_support(gradient, weights)
        return _backward_on_few(gradient, weights)


def _backward_on_few(gradient: Float[Tensor, "R n"], weights: Float[Tensor, "R n"]) -> Float[Tensor, "R n"]:
    """`backward_on_support`, touching nothing but the support."""
    row, column = (weights != 0).nonzero().unbind(1)  # NaN too
    inside = gradient[row, column] + 0 * weights[row, column]
    total = inside.new_zeros(len(gradient)).index_add_(0, row, inside)
    mean = total / row.bincount(minlength=len(gradient))
    result = torch.zeros_like(gradient)
    result[row, column] = inside - mean[row]
    return result


class RestrictedSparsemax(torch.autograd.Function):
    """Columns of sparsemax(Λ) that hold the whole support, and, if `penalised`, the mean of |Λ|. Exact in both
    directions: outside the support both value and Jacobian are zero. The gradient of Λ is written once, for both.

    Where parts of Λ have a share of the weights each, `supports` has that of every part, and `counts` how many of
    the columns are its own.
    """

    @staticmethod
    def forward(
        ctx: Any,
        weight: Tensor,
        columns: Tensor,
        supports: Sequence[Support],
        counts: Sequence[int],
        penalised: bool,
    ) -> tuple[Tensor, Tensor | None]:
        parts = torch.split(weight.index_select(1, columns), list(counts), 1)
        restricted = _abreast([each.weights(part) for each, part in zip(supports, parts, strict=True)])
        ctx.save_for_backward(weight, columns, restricted)
        ctx.counts = list(counts)
        ctx.set_materialize_grads(False)
        return restricted, _mean_l1(weight) if penalised else None

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_weights: Tensor | None, of_l1: Tensor | None) -> tuple[Tensor | None, ...]:
        weight, columns, restricted = ctx.saved_tensors
        full = torch.zeros_like(weight) if of_l1 is None else _sign_times(weight, of_l1 / weight.numel())
        if of_weights is not None:
            pairs = zip(*(torch.split(each, ctx.counts, 1) for each in (of_weights, restricted)), strict=True)
            full.index_add_(1, columns, _abreast([backward_on_support(*pair) for pair in pairs]))
        return full, None, None, None, None


def _abreast(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), 1)


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
