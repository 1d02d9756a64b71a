"""Adam with a learning rate for each parameter group, SGD for those that ask for it, and the schedule."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from parse_dg.algorithms.base import Algorithm, GroupSettings
from parse_dg.config import Config, NotNegative, Positive, Whole
from parse_dg.training.checkpoint import Checkpoint


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig(Config):
    """Learning rates, weight decay and schedule."""

    backbone_rate: NotNegative = 5e-5
    """Learning rate of the backbone: right for a pretrained one; a random one wants more."""
    head_rate: NotNegative = 1e-3
    """Learning rate of everything behind the backbone, except Λ."""
    composition_rate: NotNegative = 1e-3
    """Learning rate of Λ. Where classes select (algorithm.composition.select_every) Λ descends by SGD: a weight
    moves by this times the gradient of the mean over the images of its class, in scores."""
    weight_decay: NotNegative = 0.0
    """ℓ2, on backbone and head; Λ has its own penalty."""
    composition_decay: NotNegative = 0.0
    """ℓ2 on Λ, beside its own penalty."""
    schedule: Literal["constant", "cosine"] = "constant"
    """`cosine` falls towards zero, which it would reach one step after the last."""
    warmup_steps: Whole = 0
    """Rates grow linearly over this many first steps."""
    composition_warmup_steps: Whole = 0
    """The same for Λ alone: which relations a class keeps is decided once primitives have begun to form."""
    composition_until: Positive | None = None
    """The share of training over which Λ's rate also falls linearly to zero: primitives then learn to fit classes
    that hold still. None: to the end."""
    clip_norm: Positive | None = None
    """The gradient's norm is cut to this."""


STATE = ("step", "exp_avg", "exp_avg_sq", "mean")
"""What is gathered about a parameter."""


class Descent(torch.optim.Adam):
    """Adam; a group with a `momentum` descends by SGD instead, along the running mean of its gradients."""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            if group["momentum"] is not None:
                for parameter in group["params"]:
                    self._descend(parameter, group["lr"], group["momentum"])
        super().step(closure)

    def _descend(self, parameter: Tensor, rate: float, momentum: float) -> None:
        gradient, parameter.grad = parameter.grad, None  # so that Adam passes over it
        if gradient is None:
            return
        state = self.state[parameter]
        if "mean" not in state:
            state["mean"] = torch.zeros_like(parameter)
        parameter.sub_(state["mean"].lerp_(gradient, 1 - momentum), alpha=rate)


def build_optimizer(algorithm: Algorithm, config: OptimizerConfig) -> Descent:
    """The optimiser of the algorithm's groups; `initial_lr` of each is the rate before the schedule."""
    rates = {
        "backbone": config.backbone_rate,
        "head": config.head_rate,
        "composition": config.composition_rate,
        "adversary": config.head_rate,
        "encoders": config.backbone_rate,
    }
    asked = algorithm.settings()
    groups = []
    for name, parameters in algorithm.groups().items():
        if parameters:
            settings = asked.get(name, GroupSettings())
            rate = rates[name] * settings.rate_factor
            decay = config.composition_decay if name == "composition" else config.weight_decay
            decay = decay if settings.weight_decay is None else settings.weight_decay
            group = {"params": parameters, "name": name, "lr": rate, "initial_lr": rate, "weight_decay": decay}
            groups.append({**group, "betas": settings.betas, "momentum": settings.momentum})
    return Descent(groups, fused=True)  # one pass: Λ has tens of millions of entries


def set_rates(optimizer: torch.optim.Optimizer, config: OptimizerConfig, step: int, steps: int) -> None:
    """Set every group's rate for the step after `step` completed ones, of `steps` in all."""
    factor = 0.5 * (1 + math.cos(math.pi * step / steps)) if config.schedule == "cosine" else 1.0
    for group in optimizer.param_groups:
        warmup = config.warmup_steps
        if group["name"] == "composition":
            warmup = max(warmup, config.composition_warmup_steps)
        group["lr"] = group["initial_lr"] * factor * min(1.0, (step + 1) / (warmup + 1))
        if group["name"] == "composition" and config.composition_until is not None:
            group["lr"] *= max(0.0, 1 - step / steps / config.composition_until)


def save_optimizer(optimizer: torch.optim.Optimizer) -> Checkpoint:
    """What Adam has gathered about every parameter it has moved, and the rates before the schedule."""
    tensors = {
        f"{number}.{name}": value
        for number, parameter in enumerate(_parameters(optimizer))
        for name, value in optimizer.state.get(parameter, {}).items()
    }
    return Checkpoint(tensors, {"rates": [group["initial_lr"] for group in optimizer.param_groups]})


def restore_optimizer(optimizer: torch.optim.Optimizer, saved: Checkpoint) -> None:
    """Go on from what `save_optimizer` found."""
    for group, rate in zip(optimizer.param_groups, saved.data["rates"], strict=True):
        group["initial_lr"] = rate
    parameters = _parameters(optimizer)
    optimizer.state.clear()
    for key, value in saved.tensors.items():
        number, name = key.split(".")
        parameter = parameters[int(number)]
        if value.shape == parameter.shape:  # laid out in memory like the parameter: Adam takes both in one pass
            value = torch.empty_like(parameter, requires_grad=False).copy_(value)
        optimizer.state[parameter][name] = value.to(parameter.device)


def like_optimizer(optimizer: torch.optim.Optimizer, saved: Checkpoint) -> dict[str, Tensor]:
    """What the tensors of a state are like, in shape and type."""
    parameters, like = _parameters(optimizer), {}
    for key in saved.tensors:
        number, name = key.split(".")
        if not number.isdecimal() or name not in STATE:
            expected = f"expected NUMBER.NAME with {', '.join(STATE)}"
            raise ValueError(f"{key} is not gathered about a parameter, {expected}")
        like[key] = torch.tensor(0.0) if name == "step" else parameters[int(number)]
        if name in STATE[:3]:  # Adam's three come together
            like |= {f"{number}.{other}": parameters[int(number)] for other in STATE[1:3]}
            like[f"{number}.step"] = torch.tensor(0.0)
    for group, rate in zip(optimizer.param_groups, saved.data["rates"], strict=True):
        if type(rate) is not float or not 0 <= rate <= group["initial_lr"]:  # rates only fall
            raise ValueError(f"the rate {rate!r} of {group['name']} is above {group['initial_lr']} or no number")
    return like


def _parameters(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
