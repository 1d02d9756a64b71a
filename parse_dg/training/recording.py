"""A backbone's work on CUDA, recorded once and replayed: a step no longer waits for Python to launch it.

Hundreds of small kernels take the CPU about as long to launch as the GPU to run. A recording (a CUDA graph) is
launched at once, which leaves the CPU the time to launch the rest of the step while the backbone runs.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from parse_dg.model.backbone import Backbone
from parse_dg.model.mixstyle import MixStyle

logger = logging.getLogger(__name__)


def record_backbone(algorithm: nn.Module, images: Tensor, *, bf16: bool) -> "Recording | None":
    """A recording of the algorithm's backbone on batches like `images`; None where it cannot be recorded.

    What draws random numbers on the CPU (MixStyle) cannot be, nor can more than one backbone.
    """
    backbones = [module for module in algorithm.modules() if isinstance(module, Backbone)]
    if len(backbones) != 1 or any(isinstance(module, MixStyle) for module in backbones[0].modules()):
        return None
    try:
        return Recording(backbones[0], images, bf16=bf16)
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        logger.warning("the backbone runs unrecorded, its work cannot be replayed: %s", reason)
        return None


class Recording:
    """The forward and backward work of one backbone in training, on batches of one shape."""

    def __init__(self, backbone: Backbone, images: Tensor, *, bf16: bool):
        self.backbone, self.shape = backbone, images.shape
        self.plain = backbone.forward
        before = [buffer.clone() for buffer in backbone.buffers()]
        self.replay = torch.cuda.make_graphed_callables(_Alone(backbone, bf16), (images.clone(),))
        for buffer, value in zip(backbone.buffers(), before, strict=True):  # rehearsals moved the statistics
            buffer.copy_(value)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Within, the first training pass of the backbone is replayed; it may be asked for its gradient once.

        A second pass would overwrite what the first one keeps for its gradient, so it is made in the plain way.
        """
        fresh = True

        def forward(images: Tensor, generator: torch.Generator | None = None) -> Any:
            nonlocal fresh
            fits = images.shape == self.shape and self.backbone.training and torch.is_grad_enabled()
            if not (fresh and fits):
                return self.plain(images, generator)
            fresh = False
            return self.replay(images)

        self.backbone.forward = forward  # type: ignore[method-assign]
        try:
            yield
        finally:
            del self.backbone.forward


class _Alone(nn.Module):
    """A backbone as a function of images alone. It is called plainly even while a recording stands in its place."""

    def __init__(self, backbone: Backbone, bf16: bool):
        super().__init__()
        self.backbone, self.bf16 = backbone, bf16
        self.plain = backbone.forward

    def forward(self, images: Tensor) -> Tensor:
        # A cast kept by autocast from outside would not be part of the recording.
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=self.bf16, cache_enabled=False):
            features: Tensor = self.plain(images)
            return features
