"""The regularisers of appendix B and three additions, as pure functions; their weights belong to the algorithm.

The mean ℓ1 norm of Λ is found in `composition`, where Λ is read anyway.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from parse_dg.model import fused
from parse_dg.model.primitives import Heatmap

EPSILON = 0.01
"""ε of the concentration and of the angle term."""


def diversity(heatmap: Heatmap) -> Float[Tensor, ""]:
    """L_div: the mean cosine between the heat maps of different primitives; 0 for a single primitive."""
    K = heatmap.shape[1]
    if K == 1:
        return heatmap.new_zeros(())
    with torch.autocast(heatmap.device.type, enabled=False):
        maps = F.normalize(heatmap.flatten(2), dim=-1)
        cosines = maps @ maps.transpose(1, 2)  # (B, K, K)
    return (cosines.sum((1, 2)) - cosines.diagonal(dim1=1, dim2=2).sum(-1)).mean() / (K * (K - 1))


def concentration(heatmap: Heatmap) -> Float[Tensor, ""]:
    """L_conc: the mean entropy of the heat maps, with ε inside the logarithm."""
    return -(heatmap * (heatmap + EPSILON).log()).sum((2, 3)).mean()


def diversity_and_concentration(heatmap: Heatmap) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Both, in one launch where that can be had."""
    if fused.usable(heatmap):
        from parse_dg.model.fused import primitives as on_cuda

        if on_cuda.fits(heatmap):
            return on_cuda.diversity_and_concentration(heatmap, EPSILON)
    return diversity(heatmap), concentration(heatmap)


def spread(extent: Float[Tensor, "B K 2"]) -> Float[Tensor, ""]:
    """The mean variance under the heat maps. Two narrow peaks far apart have little entropy, but much of this."""
    return (extent / 2).square().sum(-1).mean()


def ownership(evidence: Heatmap, centre: Float[Tensor, "B K 2"]) -> Float[Tensor, ""]:
    """The mean cross-entropy of telling a primitive from the evidence of all K at its centre, bilinear between
    cells: there its own is to be the strongest, so that a centre between two peaks costs.
    """
    with torch.autocast(evidence.device.type, enabled=False):
        places = centre.to(evidence.dtype)[:, :, None]  # (B, K, 1, 2)
        found = F.grid_sample(evidence, places, padding_mode="border", align_corners=True).squeeze(3)
        return -found.log_softmax(1).diagonal(dim1=1, dim2=2).mean()  # (B, K of the evidence, K of the centre)


def divergence(
    logits: Float[Tensor, "B C"], teacher: Float[Tensor, "B C"], temperature: float = 2.0
) -> Float[Tensor, ""]:
    """T² times the mean Kullback-Leibler divergence of the probabilities from the teacher's, both at temperature T;
    with that factor its gradient does not shrink as T grows (Hinton et al. 2015).
    """
    with torch.autocast(logits.device.type, enabled=False):
        log_p, log_q = ((x.float() / temperature).log_softmax(-1) for x in (teacher, logits))
        return temperature**2 * (log_p.exp() * (log_p - log_q)).sum(-1).mean()


def angle_repulsion(angles: Float[Tensor, "N"]) -> Float[Tensor, ""]:
    """L_ang: the mean over pairs of 1/((cos φ - cos φ')² + ε); 0 for a single angle."""
    if len(angles) == 1:
        return angles.new_zeros(())
    cosines = angles.cos()
    each = ((cosines.unsqueeze(1) - cosines).square() + EPSILON).reciprocal()
    return each.triu(1).sum() / (len(angles) * (len(angles) - 1) / 2)
