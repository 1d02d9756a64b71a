"""MIRO's regulariser: features stay close to those of the pretrained network (Cha et al. 2022, arXiv:2203.10789).

A frozen copy of the network at the start, the teacher, sees the same images. At every tapped map the teacher's
features are taken as drawn from a Gaussian around the student's, with a variance for each channel that is learned:
the likelier they are, the larger a lower bound of the mutual information of the two. A channel that has to change
gives itself a large variance, and pays for it with the logarithm.
"""

import copy
import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from parse_dg.model.backbones.backbone import Backbone

START = 0.1
"""The variance of every channel at the start."""
FLOOR = 1e-5
"""What a variance stays above."""


def divergence(
    student: Float[Tensor, "B C h w"], teacher: Float[Tensor, "B C h w"], raw: Float[Tensor, "1 C 1 1"]
) -> Float[Tensor, ""]:
    """The mean of [(f - f0)² / σ² + log σ²] / 2 over a map, in float32 or wider; σ² = softplus(raw) + FLOOR."""
    wide = torch.promote_types(student.dtype, torch.float32)
    squares = (student.to(wide) - teacher.to(wide)).square().mean((0, 2, 3), keepdim=True)  # (1, C, 1, 1)
    variance = F.softplus(raw) + FLOOR  # the same all over a map, so that squares can be averaged first
    return (squares / variance + variance.log()).mean() / 2


class MutualInformation(nn.Module):
    """The teacher, and a variance for each channel of each tap.

    The teacher is the backbone as it is now. `parameters`, `modules` and `state_dict` do not find it, so that it is
    neither trained nor recorded nor saved: a run that goes on has it from where the student started.
    """

    def __init__(self, backbone: Backbone):
        super().__init__()
        start = math.log(math.expm1(START - FLOOR))  # at which the variance is START
        shapes = ((1, channels, 1, 1) for channels in backbone.feature_channels)
        self.raw_variances = nn.ParameterList(torch.full(shape, start) for shape in shapes)
        teacher = copy.deepcopy(backbone).eval().requires_grad_(False)
        self._hidden = (teacher,)  # PyTorch registers modules, not tuples of them

    @property
    def teacher(self) -> Backbone:
        """The frozen copy, in evaluation mode: BatchNorm uses its statistics, MixStyle is off."""
        return self._hidden[0]

    def forward(self, images: Float[Tensor, "B 3 H W"], maps: Sequence[Tensor]) -> Float[Tensor, ""]:
        """The sum of the divergences over the taps; `maps` are what the student made of the images."""
        with torch.no_grad():
            held_to = self.teacher.features(images)
        taps = zip(maps, held_to, self.raw_variances, strict=True)
        return torch.stack([divergence(*tap) for tap in taps]).sum()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "MutualInformation":
        """What `to`, `cuda`, `double`, ... do to every tensor, for the teacher too."""
        self.teacher._apply(fn, recurse)  # type: ignore[no-untyped-call]
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self
