"""The backbone as CUDA graphs, recorded once and replayed: a step no longer waits for Python to launch it.

Hundreds of small kernels take the CPU about as long to launch as the GPU to run. A recording (a CUDA graph) is
launched at once, which leaves the CPU the time to launch the rest of the step while the backbone runs.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn

from parse_dg.model.backbones.backbone import Backbone
from parse_dg.model.backbones.mixstyle import Draw, MixStyle
from parse_dg.model.fused import recorded

logger = logging.getLogger(__name__)

Pattern = tuple[bool, ...]
"""At which of its places MixStyle mixes a batch. Each pattern is other work, so each is recorded by itself."""


def find_backbone(algorithm: nn.Module) -> Backbone | None:
    """The one backbone of an algorithm; None if there are several."""
    found = [module for module in algorithm.modules() if isinstance(module, Backbone)]
    return found[0] if len(found) == 1 else None


class Recording:
    """The forward and backward work of one backbone in training, on batches of one shape."""

    def __init__(self, backbone: Backbone, shape: torch.Size, *, bf16: bool):
        self.backbone, self.shape, self.bf16 = backbone, shape, bf16
        self.mixstyle = next((module for module in backbone.modules() if isinstance(module, MixStyle)), None)
        self.places = len(self.mixstyle.config.stages) if self.mixstyle else 0
        self.recorded: dict[Pattern, Callable[..., Tensor]] = {}
        self.possible = True
        self.memory: Any = None
        """One for all patterns: a step replays one, forward and backward, before another has a turn."""

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Within, the first training pass of the backbone is replayed; it may be asked for its gradient once.

        A second pass would overwrite what the first one keeps for its gradient, so it is made in the plain way.
        """
        plain, fresh = self.backbone.forward, True

        def forward(images: Tensor, generator: torch.Generator | None = None) -> Any:
            nonlocal fresh
            fits = images.shape == self.shape and self.backbone.training and torch.is_grad_enabled()
            if not (fresh and fits and self.possible):
                return plain(images, generator)
            fresh = False
            return self._replay(plain, images, generator)

        self.backbone.forward = forward  # type: ignore[method-assign]
        try:
            yield
        finally:
            del self.backbone.forward

    def _replay(self, plain: Callable[..., Tensor], images: Tensor, generator: torch.Generator | None) -> Tensor:
        drawn: list[Draw] = []
        if self.mixstyle:
            drawn = [self.mixstyle.draw(len(images), generator) for _ in range(self.places)]
        pattern = tuple(each is not None for each in drawn)
        given = (images, *(_on_its_way(part, images.device) for each in drawn if each for part in each))
        if pattern not in self.recorded and not self._record(plain, pattern, given):
            return plain(images, iter(drawn)) if drawn else plain(images)
        return self.recorded[pattern](*given)

    def _record(self, plain: Callable[..., Tensor], pattern: Pattern, given: tuple[Tensor, ...]) -> bool:
        """Whether it could be done; if not, it is said once and not tried again."""
        _expect_two_streams()
        before = [buffer.clone() for buffer in self.backbone.buffers()]
        alone = _Alone(self.backbone, plain, pattern, self.bf16)
        self.memory = self.memory or torch.cuda.graph_pool_handle()
        examples = tuple(part.clone() for part in given)
        try:
            here = torch.cuda.device_of(given[0])  # type: ignore[no-untyped-call]
            with here, torch.autocast("cuda", enabled=False):  # `alone` switches it on for itself
                replay = torch.cuda.make_graphed_callables(alone, examples, pool=self.memory)
            self.recorded[pattern] = cast(_Alone, replay)
        except RuntimeError as error:
            self.possible = False
            reason = str(error).splitlines()[0]
            logger.warning("the backbone's work cannot be recorded and is launched anew each time: %s", reason)
        for buffer, value in zip(self.backbone.buffers(), before, strict=True):  # rehearsals moved the statistics
            buffer.copy_(value)
        return self.possible


class _Alone(nn.Module):
    """A backbone as a function of tensors alone: images, then λ and partners of every place that mixes."""

    def __init__(self, backbone: Backbone, plain: Callable[..., Tensor], pattern: Pattern, bf16: bool):
        super().__init__()
        self.backbone, self.plain, self.pattern, self.bf16 = backbone, plain, pattern, bf16

    def forward(self, images: Tensor, *drawn: Tensor) -> Tensor:
        # A cast that autocast keeps from outside would not be part of the recording.
        autocast = torch.autocast("cuda", dtype=torch.bfloat16, enabled=self.bf16, cache_enabled=False)
        with autocast, recorded():
            return self.plain(images, self._draws(drawn)) if self.pattern else self.plain(images)

    def _draws(self, drawn: Sequence[Tensor]) -> Iterator[Draw]:
        pairs = iter(zip(drawn[0::2], drawn[1::2], strict=True))
        return (next(pairs) if mixes else None for mixes in self.pattern)


def _expect_two_streams() -> None:
    """Recording leaves gradients to be accumulated on the stream it was made on, and PyTorch warns that the streams
    then wait for each other. They wait once a step, for nothing that matters.
    """
    switch = getattr(torch.autograd.graph, "set_warn_on_accumulate_grad_stream_mismatch", None)
    if switch is not None:
        switch(False)


def _on_its_way(part: Tensor, device: torch.device) -> Tensor:
    """The tensor on the device, without waiting for what is queued there."""
    return part.pin_memory().to(device, non_blocking=True)
