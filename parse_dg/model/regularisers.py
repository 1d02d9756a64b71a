"""The regularisers of appendix B, as pure functions; their weights belong to the algorithm.

The mean ℓ1 norm of Λ is found in `composition`, where Λ is read anyway.
"""

import torch
from jaxtyping import Float
from torch import Tensor

EPSILON = 0.01
"""ε of the concentration and of the angle term."""


def diversity(heatmap: Float[Tensor, "B K H W"]) -> Float[Tensor, ""]:
    """L_div: the mean cosine between the heat maps of different primitives; 0 for a single primitive."""
    K = heatmap.shape[1]
    if K == 1:
        return heatmap.new_zeros(())
    with torch.autocast(heatmap.device.type, enabled=False):
        maps = torch.nn.functional.normalize(heatmap.flatten(2), dim=-1)
        cosines = maps @ maps.transpose(1, 2)  # (B, K, K)
    return (cosines.sum((1, 2)) - cosines.diagonal(dim1=1, dim2=2).sum(-1)).mean() / (K * (K - 1))


def concentration(heatmap: Float[Tensor, "B K H W"]) -> Float[Tensor, ""]:
    """L_conc: the mean entropy of the heat maps, with ε inside the logarithm."""
    return -(heatmap * (heatmap + EPSILON).log()).sum((2, 3)).mean()


def angle_repulsion(angles: Float[Tensor, "N"]) -> Float[Tensor, ""]:
    """L_ang: the mean over pairs of 1/((cos φ - cos φ')² + ε); 0 for a single angle."""
    if len(angles) == 1:
        return angles.new_zeros(())
    first, second = torch.combinations(angles.cos()).unbind(1)
    return (1.0 / ((first - second).square() + EPSILON)).mean()
