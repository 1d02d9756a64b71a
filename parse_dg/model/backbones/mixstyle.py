"""MixStyle: the style of one sample, the content of another (Zhou et al., ICLR 2021).

The style of a feature map is the mean and the standard deviation of each channel over the positions. While
training, each sample is given a convex mixture of its own style and that of a partner from the same batch.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from parse_dg.config import Config, Positive, Probability, Rule
from parse_dg.errors import InputError

STAGES = Rule("different stages out of 1 to 4", lambda stages: len(stages) == len(set(stages) & {1, 2, 3, 4}))
Mode = Literal["random", "crossdomain"]
Draw = tuple[Tensor, Tensor] | None
"""λ and the partner of each sample of a batch; None leaves the batch alone."""
Everyone = Callable[[Tensor], Tensor]
"""Statistics of a part of a batch → of the whole, where several processes have a part each."""


@dataclass(frozen=True, kw_only=True)
class MixStyleConfig(Config):
    """Where and how strongly styles are mixed; the defaults are the authors' advice for one fixed setting."""

    stages: Annotated[tuple[int, ...], STAGES] = (1, 2)
    """After which residual stages, out of 1 to 4; () turns it off."""
    probability: Probability = 0.5
    """Chance that a batch is mixed at all, drawn anew at every stage; in [0, 1]."""
    alpha: Positive = 0.1
    """λ ~ Beta(alpha, alpha), one a sample; a small alpha keeps λ near 0 or 1."""
    mode: Mode = "random"
    """`random`: any partner. `crossdomain`: one from the other half, for batches [domain a | domain b]."""


class MixStyle(nn.Module):
    """Mixes styles within a batch while training; has no parameters and adds nothing to a state_dict."""

    def __init__(self, config: MixStyleConfig) -> None:
        super().__init__()
        self.config = config
        self.everyone: Everyone | None = None

    def forward(
        self, features: Float[Tensor, "B C H W"], source: torch.Generator | Iterator[Draw] | None
    ) -> Float[Tensor, "B C H W"]:
        """The mixed features; `source` is a CPU generator, or draws made before. Evaluation leaves them alone."""
        if not self.training:
            return features
        drawn = next(source) if isinstance(source, Iterator) else self.draw(len(features), source)
        if drawn is None:
            return features
        lam, partner = (part.to(features.device) for part in drawn)
        return mix_styles(features, partner, lam, everyone=self.everyone)

    def draw(self, size: int, generator: torch.Generator | None) -> Draw:
        """How to mix a batch of `size`. Draws from the CPU `generator`, in this order: one uniform number that
        decides whether the batch is mixed; if so λ of each sample; then the permutation(s).
        """
        if generator is None or generator.device.type != "cpu":
            found = "none" if generator is None else f"one on {generator.device}"
            raise ValueError(f"MixStyle needs a CPU torch.Generator while training, found {found}")
        if torch.rand((), generator=generator).item() >= self.config.probability:
            return None
        lam = draw_beta(self.config.alpha, size, generator)
        return lam, draw_partners(self.config.mode, size, generator)


def mix_styles(
    features: Float[Tensor, "B C H W"],
    partner_index: Int[Tensor, " B"],
    lam: Float[Tensor, " B"],
    eps: float = 1e-6,
    everyone: Everyone | None = None,
) -> Float[Tensor, "B C H W"]:
    """(x - μ) / σ · σ_mix + μ_mix, with μ_mix = λ μ + (1 - λ) μ[partner] and σ_mix likewise, in float32 at least.

    μ and σ = sqrt(unbiased variance + eps) are constants to the gradient. If `features` are a part of a batch,
    `everyone` makes of its statistics those of the whole, which partners are numbered in.
    """
    if features.shape[2] * features.shape[3] < 2:
        found = f"found {features.shape[2]}x{features.shape[3]}: use larger images or earlier mixstyle.stages"
        raise InputError(f"MixStyle needs maps of two positions or more, {found}")
    x = features.to(torch.promote_types(features.dtype, torch.float32))
    variance, mean = torch.var_mean(x.detach(), dim=(2, 3), correction=1, keepdim=True)  # (B, C, 1, 1)
    std = (variance + eps).sqrt()
    weight = lam.to(x.dtype)[:, None, None, None]
    means, stds = (everyone(mean), everyone(std)) if everyone else (mean, std)
    mixed_mean = weight * mean + (1 - weight) * means[partner_index]
    mixed_std = weight * std + (1 - weight) * stds[partner_index]
    return ((x - mean) / std * mixed_std + mixed_mean).to(features.dtype)


def draw_beta(alpha: float, size: int, generator: torch.Generator) -> Float[Tensor, " size"]:
    """`size` draws from Beta(alpha, alpha), exact and finite for every positive alpha.

    G1 / (G1 + G2) with Gamma(alpha) variables, kept as logarithms because they underflow for a small alpha:
    log Gamma(alpha) = log Gamma(alpha + 1) + log(U) / alpha in distribution, U uniform.
    """
    shape = torch.full((2, size), alpha + 1, dtype=torch.float64)
    gamma = torch._standard_gamma(shape, generator=generator)
    uniform = 1 - torch.rand((2, size), dtype=torch.float64, generator=generator)  # in (0, 1], never 0
    log_gamma = gamma.log() + uniform.log() / alpha
    return torch.sigmoid(log_gamma[0] - log_gamma[1]).float()


def draw_partners(mode: Mode, size: int, generator: torch.Generator) -> Int[Tensor, " size"]:
    """The index of each sample's partner. `crossdomain` reverses the batch, halves it and shuffles each half, so
    that the first meets the second; with an odd size the middle sample stays in the first half.
    """
    if mode == "random":
        return torch.randperm(size, generator=generator)
    halves = torch.arange(size - 1, -1, -1).chunk(2)
    return torch.cat([half[torch.randperm(len(half), generator=generator)] for half in halves])
