"""Data-parallel training: each process takes a share of every batch; the result is as if one had trained on it all.

All processes draw the same batches and the same random numbers. Process r of N reads images r, r + N, … of every
batch and passes them through the backbone; its features are then exchanged, so that head and loss are computed of
the whole batch by every process, exactly: losses that couple images across domains need no care, and the gradient
of Λ, which every process has, is never sent. What is sent is features, and once a step the backbone's gradient.
"""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from parse_dg.algorithms.base import Algorithm
from parse_dg.config import require
from parse_dg.data.parallel import require_room
from parse_dg.errors import InputError
from parse_dg.model.backbones.backbone import Backbone
from parse_dg.model.backbones.mixstyle import MixStyle
from parse_dg.model.mutual_information import MutualInformation
from parse_dg.training.accuracy import Accuracy

OF_A_SHARE = ("backbone", "encoders")
"""The groups of parameters whose gradient a process has of its own share alone."""
EXTRA = "pip install 'parse-dg[distributed]'"
PARENT = "PARSE_DG_PARENT"
"""The variable that tells the processes of a team the number of the one that started them."""


class Team:
    """One process's place among those that train a model; alone, all of this does nothing."""

    def __init__(self, rank: int = 0, size: int = 1, device: torch.device | None = None, *, speaks: bool = True):
        """`device`: where this process works, if that is not left to the run's configuration.
        `speaks`: whether it says what is wrong, as one on each machine does.
        """
        self.rank, self.size, self.device, self.speaks = rank, size, device, speaks

    @property
    def first(self) -> bool:
        """Whether it is this process that writes and shows things."""
        return self.rank == 0

    @property
    def share(self) -> slice:
        """Which of anything that is shared out is this process's."""
        return slice(self.rank, None, self.size)

    def require_divisible(self, images: int, field: str = "batch_per_domain") -> None:
        """Raise unless every process gets as many images, of every domain or in all."""
        would_do = images // self.size * self.size or self.size
        expected = f"a multiple of the {self.size} processes, such as {would_do}"
        require(images % self.size == 0, f"training.{field}", images, expected)

    def adopt(self, algorithm: Algorithm) -> None:
        """Let the BatchNorm layers of an algorithm take their statistics from the whole batch."""
        for module in algorithm.modules() if self.size > 1 else ():
            if isinstance(module, nn.BatchNorm2d):
                module.__class__ = WholeBatchNorm

    @contextmanager
    def sharing(self, algorithm: Algorithm) -> Iterator[None]:
        """Within, a training pass takes the share of a batch through the backbone and goes on with all features."""
        hooks = list(_hook(algorithm, self)) if self.size > 1 else []
        mixing = [module for module in algorithm.modules() if isinstance(module, MixStyle)] if hooks else []
        for module in mixing:
            module.everyone = self.gather
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
            for module in mixing:
                module.everyone = None

    def gather(self, share: Float[Tensor, "n *rest"]) -> Float[Tensor, "N *rest"]:
        """The whole of what is shared out, in its order.

        The loss is the same everywhere: each takes back its own part of the gradient, and none needs to be sent.
        """
        mine = share.contiguous()
        parts = [torch.empty_like(mine) for _ in range(self.size)]
        dist.all_gather(parts, mine.detach())
        parts[self.rank] = mine
        return torch.stack(parts, dim=1).flatten(0, 1)

    def add_up(self, parameters: Iterable[nn.Parameter]) -> None:
        """Every gradient becomes the sum of those of all processes."""
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        if self.size == 1 or not gradients:
            return
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        dist.all_reduce(flat)
        parts = torch.split(flat, [gradient.numel() for gradient in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))

    def align(self, algorithm: nn.Module) -> None:
        """Every process takes over the first one's weights, which roundings may have parted from the others'."""
        if self.size > 1:
            for value in algorithm.state_dict().values():
                dist.broadcast(value, 0)

    def add_scores(self, found: Accuracy, device: torch.device) -> Accuracy:
        """The accuracy on all images, of that on each process's share."""
        if self.size == 1:
            return found
        sums = [found.correct, found.images, found.loss * found.images]
        total = torch.tensor(sums, dtype=torch.float64, device=device)
        dist.all_reduce(total)
        correct, images, loss = total.tolist()
        return Accuracy(int(correct), int(images), loss / images)

    def __enter__(self) -> "Team":
        return self

    def __exit__(self, *_: object) -> None:
        if self.size > 1:
            dist.destroy_process_group()

    def wait(self) -> None:
        if self.size > 1:
            dist.barrier()


ALONE = Team()


class _Sum(torch.autograd.Function):
    """The sum of all processes' tensors; the gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx: Any, part: Tensor) -> Tensor:
        total = part.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return _Sum.forward(ctx, gradient)


class WholeBatchNorm(nn.BatchNorm2d):
    """BatchNorm whose statistics, in training, are those of the batch of all processes together."""

    def forward(self, input: Float[Tensor, "n C H W"]) -> Float[Tensor, "n C H W"]:
        if not self.training:
            return super().forward(input)
        x = input.to(torch.promote_types(input.dtype, torch.float32))
        count = x.numel() // x.shape[1] * dist.get_world_size()
        mean = _Sum.apply(x.sum((0, 2, 3))) / count  # type: ignore[no-untyped-call]
        centred = x - mean[None, :, None, None]
        variance = _Sum.apply(centred.square().sum((0, 2, 3))) / count  # type: ignore[no-untyped-call]
        self._follow(mean.detach(), variance.detach() * (count / (count - 1)))
        normalised = centred * torch.rsqrt(variance + self.eps)[None, :, None, None]
        scaled = normalised * self.weight[None, :, None, None] + self.bias[None, :, None, None]
        result: Tensor = scaled.to(input.dtype)
        return result

    @torch.no_grad()
    def _follow(self, mean: Tensor, variance: Tensor) -> None:
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked += 1
        share = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean, share)
        self.running_var.lerp_(variance, share)


def _hook(algorithm: Algorithm, team: Team) -> Iterator[RemovableHandle]:
    """Let backbones pass on the features of all processes, and MIRO's divergence be the mean of theirs."""
    for module in algorithm.modules():
        if isinstance(module, Backbone):
            mixstyle = next((part for part in module.modules() if isinstance(part, MixStyle)), None)
            if mixstyle is not None:
                yield module.register_forward_pre_hook(_draw_for_all(mixstyle, team))
            yield module.register_forward_hook(lambda _, given, share: team.gather(share))
        elif isinstance(module, MutualInformation):
            yield module.register_forward_hook(lambda _, given, mine: team.gather(mine[None]).mean(0))


def _draw_for_all(mixstyle: MixStyle, team: Team) -> Callable[[nn.Module, tuple[Any, ...]], tuple[Any, ...] | None]:
    """Styles are drawn for the whole batch, and each process takes what is for its share."""

    def draw(backbone: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...] | None:
        if not backbone.training:
            return None
        images, generator = given
        drawn = [mixstyle.draw(len(images) * team.size, generator) for _ in mixstyle.config.stages]
        return images, iter([each and (each[0][team.share], each[1][team.share]) for each in drawn])

    return draw


def started_by_torchrun() -> bool:
    """Whether torchrun has started this process as one of several."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def end_with(parent: int) -> None:
    """Let this process be killed soon after its parent is gone, whatever ended that one, and also if it is already.

    Without the first process the others would wait for it in a collective, and nothing of a run is theirs to save.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True, name="parent").start()


def form_team(processes: int = 1, nodes: int = 1, device: str = "auto", *, force: bool = False) -> Team:
    """The place of this process among `processes` a machine on `nodes` machines.

    On one machine the others are started here. With several, every machine runs the same command under torchrun or
    in a SLURM job, which say how many there are. On CUDA each process has a GPU of its own; on the CPU there may be
    more than cores only if that is forced.
    """
    parent = os.environ.pop(PARENT, None)
    if parent is not None or started_by_torchrun():
        end_with(int(parent or os.getppid()))
    require(processes >= 1, "--processes", processes, "at least 1")
    require(nodes >= 1, "--nodes", nodes, "at least 1")
    if started_by_torchrun():
        here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        processes, nodes = here, int(os.environ["WORLD_SIZE"]) // here
    if processes * nodes == 1:
        return ALONE
    on_cuda = torch.cuda.is_available() if device == "auto" else device.startswith("cuda")
    if on_cuda and processes > torch.cuda.device_count():
        found = torch.cuda.device_count()
        raise InputError(f"{processes} processes need a GPU each, found {found}: --processes {found} would do")
    if not started_by_torchrun() and "SLURM_PROCID" not in os.environ:  # srun has started all, with a core each
        require_room("--processes", processes, devices=torch.cuda.device_count() if on_cuda else 0, force=force)
    try:
        from lightning_fabric import Fabric
    except ImportError as error:
        raise InputError(f"several processes need Lightning Fabric: {EXTRA}") from error
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # it tells of every process that begins
    fabric = Fabric(accelerator="cuda" if on_cuda else "cpu", devices=processes, num_nodes=nodes, strategy="ddp")
    os.environ[PARENT] = str(os.getpid())
    fabric.launch()
    del os.environ[PARENT]
    return Team(fabric.global_rank, fabric.world_size, fabric.device, speaks=fabric.local_rank == 0)
